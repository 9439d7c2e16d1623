//! Forms of ids, legal moves of accounts, and that names fold.

use std::collections::HashSet;

use aws_types::AccountId;

use super::{Account, AccountState, key_account, new_key_id, new_unique_id};

#[test]
fn key_ids_have_twenty_characters_and_name_their_account() {
    let largest = AccountId::from_number(999_999_999_999).expect("twelve digits");
    for account in [
        AccountId::SYSTEM,
        AccountId::OPERATOR,
        AccountId::FIRST_TENANT,
        largest,
    ] {
        let ids: HashSet<String> = (0..100).map(|_| new_key_id(account)).collect();
        assert_eq!(ids.len(), 100, "random");
        for id in ids {
            assert_eq!(id.len(), 20);
            assert!(id.starts_with("AKIA"));
            assert!(
                id[4..]
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || (b'2'..=b'7').contains(&b))
            );
            assert_eq!(key_account(&id), Some(account));
        }
    }
}

#[test]
fn malformed_key_ids_name_no_account() {
    for bad in [
        "",
        "AKIA",
        "AKIAIOSFODNN7EXAMPL",
        "AKIAIOSFODNN7EXAMPLEX",
        "AKIA1OSFODNN7EXAMPLE",
        "akiaiosfodnn7example",
        "XKIAIOSFODNN7EXAMPLE",
        "AKIA7777777777777777",
    ] {
        assert_eq!(key_account(bad), None, "{bad}");
    }
}

#[test]
fn unique_ids_are_a_prefix_and_seventeen() {
    let id = new_unique_id("AIDA");
    assert_eq!(id.len(), 21);
    assert_ne!(id, new_unique_id("AIDA"));
}

#[test]
fn names_fold_case_and_blanks() {
    assert_eq!(
        Account::folded_name(" The Team "),
        Account::folded_name("theteam")
    );
}

#[test]
fn legal_moves_of_accounts() {
    use AccountState::{Active, Suspended, Terminating};
    let legal: Vec<(AccountState, AccountState)> = [Active, Suspended, Terminating]
        .into_iter()
        .flat_map(|from| [Active, Suspended, Terminating].map(|to| (from, to)))
        .filter(|(from, to)| from.may_become(*to))
        .collect();
    assert_eq!(
        legal,
        [
            (Active, Suspended),
            (Active, Terminating),
            (Suspended, Active),
            (Suspended, Terminating)
        ]
    );
}

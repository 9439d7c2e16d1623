//! Long-term access keys. An id names its account without a read: 16 characters of `A-Z2-7` are 80 bits, of which the
//! first 40 are the account's number and the rest is random (identity.md 2.3).

use aws_types::AccountId;
use rand::RngCore;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};
use time::OffsetDateTime;

use crate::keys::Sealed;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const PREFIX: &str = "AKIA";
const DIGITS: usize = 16;
const ACCOUNT_BITS: u32 = 40;

/// Whether a key may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyStatus {
    /// Signs.
    Active,
    /// Refused like an unknown key.
    Inactive,
}

/// A long-term key of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// `AKIA…`.
    pub id: String,
    /// Owner of the user.
    pub account: AccountId,
    /// Unique id of the user.
    pub user_id: String,
    /// Whether it may be used.
    pub status: KeyStatus,
    /// The secret, sealed with the account's key.
    pub secret: Sealed,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}

impl Record for AccessKey {
    const TABLE: &'static str = "access-keys";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new(
            "user",
            [self.account.to_string(), self.user_id.clone()],
        )]
    }
}

/// A new key id for an account.
pub fn new_key_id(account: AccountId) -> String {
    let random = u128::from(rand::rng().next_u64() & ((1 << ACCOUNT_BITS) - 1));
    let bits = u128::from(account.number()) << ACCOUNT_BITS | random;
    let digits = (0..DIGITS)
        .rev()
        .map(|at| char::from(ALPHABET[usize::from((bits >> (5 * at)) as u8 & 31)]));
    PREFIX.chars().chain(digits).collect()
}

/// The account in a key id of either kind, if it is well formed.
pub fn key_account(id: &str) -> Option<AccountId> {
    let digits = id.strip_prefix(PREFIX).or_else(|| id.strip_prefix("ASIA"))?;
    if digits.len() != DIGITS {
        return None;
    }
    let bits = digits.bytes().try_fold(0_u128, |bits, byte| {
        let digit = ALPHABET.iter().position(|own| *own == byte)?;
        Some(bits << 5 | digit as u128)
    })?;
    AccountId::from_number(u64::try_from(bits >> ACCOUNT_BITS).ok()?)
}

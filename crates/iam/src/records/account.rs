//! Accounts and their status.

use aws_types::AccountId;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};
use time::OffsetDateTime;

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its number.
    pub id: AccountId,
    /// Its name as given.
    pub name: String,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Who made it: `bootstrap`, or what the admin API was told.
    pub source: String,
}

impl Account {
    /// Names are unique without case and blanks.
    pub fn folded_name(name: &str) -> String {
        name.chars()
            .filter(|c| !c.is_whitespace())
            .flat_map(char::to_lowercase)
            .collect()
    }
}

impl Record for Account {
    const TABLE: &'static str = "accounts";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("name", [Self::folded_name(&self.name)])]
    }
}

/// What may be done with an account.
///
/// ```text
/// Active ⇄ Suspended
///    └──┬──────┘
///   Terminating   (never back)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountState {
    /// In use.
    Active,
    /// Credentials are refused, resources untouched.
    Suspended,
    /// Being removed.
    Terminating,
}

impl AccountState {
    /// The legal moves.
    pub fn may_become(self, next: AccountState) -> bool {
        match (self, next) {
            (AccountState::Active, AccountState::Suspended | AccountState::Terminating)
            | (AccountState::Suspended, AccountState::Active | AccountState::Terminating) => true,
            (AccountState::Active | AccountState::Suspended | AccountState::Terminating, _) => false,
        }
    }
}

/// The status of an account, compared by every transaction that does something for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountStatus {
    /// The account.
    pub account: AccountId,
    /// Its state.
    pub state: AccountState,
}

impl AccountStatus {
    /// Id within the account's scope.
    pub const ID: &'static str = "status";
}

impl Record for AccountStatus {
    const TABLE: &'static str = "account-status";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, Self::ID)
    }
}

/// The next account number. Numbers are never given twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountCounter {
    /// The number that the next account gets.
    pub next: AccountId,
}

impl AccountCounter {
    /// The only record.
    pub const ID: &'static str = "next";
}

impl Record for AccountCounter {
    const TABLE: &'static str = "account-counter";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(Self::ID)
    }
}

/// The admin user and key that an account was made with, so that the start can find them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founding {
    /// The account.
    pub account: AccountId,
    /// Unique id of its first user.
    pub user_id: String,
    /// Id of that user's first key.
    pub access_key_id: String,
}

impl Founding {
    /// Id within the account's scope.
    pub const ID: &'static str = "admin";
}

impl Record for Founding {
    const TABLE: &'static str = "account-founding";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, Self::ID)
    }
}

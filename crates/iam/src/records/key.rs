//! Wrapped keys, and the value that tells the right master key.

use aws_types::AccountId;
use serde::{Deserialize, Serialize};
use state::{Record, RecordKey};

use crate::keys::{Place, Sealed};

/// Opens only with the master key of this store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCheck {
    /// A known text under the master key.
    pub sealed: Sealed,
}

impl KeyCheck {
    /// The only record.
    pub const ID: &'static str = "master";
    /// The known text.
    pub const TEXT: &'static [u8] = b"spinifex master key check";

    /// Where it is sealed.
    pub fn place() -> Place<'static> {
        Place {
            table: Self::TABLE,
            id: Self::ID,
            account: AccountId::SYSTEM,
        }
    }
}

impl Record for KeyCheck {
    const TABLE: &'static str = "key-check";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(Self::ID)
    }
}

/// An account's key, wrapped by the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountKeyRecord {
    /// Owner.
    pub account: AccountId,
    /// Its version.
    pub version: u32,
    /// The key under the master key.
    pub wrapped: Sealed,
}

impl AccountKeyRecord {
    /// Id of a version within the account's scope.
    pub fn id(version: u32) -> String {
        format!("v{version:08}")
    }

    /// Where the key with this id is sealed.
    pub fn place(account: AccountId, id: &str) -> Place<'_> {
        Place {
            table: Self::TABLE,
            id,
            account,
        }
    }
}

impl Record for AccountKeyRecord {
    const TABLE: &'static str = "account-keys";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, Self::id(self.version))
    }
}

/// A key of the cloud for one purpose, wrapped by the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingKeyRecord {
    /// What it is for: `page`.
    pub purpose: String,
    /// Its version.
    pub version: u32,
    /// The key under the master key.
    pub wrapped: Sealed,
}

impl RingKeyRecord {
    /// Where it is sealed.
    pub fn place(purpose: &str) -> Place<'_> {
        Place {
            table: Self::TABLE,
            id: purpose,
            account: AccountId::SYSTEM,
        }
    }
}

impl Record for RingKeyRecord {
    const TABLE: &'static str = "ring-keys";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.purpose)
    }
}

//! Users, and which policies are attached to them.

use aws_types::{AccountId, Arn, Tags};
use rand::RngCore;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};
use time::OffsetDateTime;

/// A user of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Owner.
    pub account: AccountId,
    /// `AIDA…`, never used again.
    pub id: String,
    /// Name, unique in the account without case.
    pub name: String,
    /// `/`, or `/…/`.
    pub path: String,
    /// Tags.
    pub tags: Tags,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}

impl User {
    /// `arn:aws:iam::<account>:user<path><name>`.
    pub fn arn(&self) -> Arn {
        Arn::global(
            "iam",
            self.account,
            format_args!("user{}{}", self.path, self.name),
        )
    }
}

impl Record for User {
    const TABLE: &'static str = "users";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new(
            "name",
            [self.account.to_string(), self.name.to_lowercase()],
        )]
    }
}

/// A managed policy attached to a user (later: to a group or role).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Owner of the entity.
    pub account: AccountId,
    /// Unique id of the entity.
    pub entity_id: String,
    /// ARN of the policy.
    pub policy: Arn,
}

impl Record for Attachment {
    const TABLE: &'static str = "policy-attachments";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, format_args!("{}+{}", self.entity_id, self.policy))
    }

    fn indexes(&self) -> Vec<Index> {
        vec![
            Index::new("entity", [self.account.to_string(), self.entity_id.clone()]),
            Index::new("policy", [self.account.to_string(), self.policy.to_string()]),
        ]
    }
}

/// A new unique id: `prefix` and 17 of `A-Z2-7`.
pub fn new_unique_id(prefix: &str) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut bytes = [0_u8; 17];
    rand::rng().fill_bytes(&mut bytes);
    prefix
        .chars()
        .chain(
            bytes
                .iter()
                .map(|byte| char::from(ALPHABET[usize::from(byte & 31)])),
        )
        .collect()
}

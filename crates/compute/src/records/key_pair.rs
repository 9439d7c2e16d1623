//! Key pairs: the public half and its fingerprint. The private half is never stored.

use aws_types::AccountId;
use aws_types::ids::KeyPairId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Algorithm of a key pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyType {
    /// RSA.
    Rsa,
    /// Ed25519.
    Ed25519,
}

impl KeyType {
    /// The API's word.
    pub fn name(self) -> &'static str {
        match self {
            KeyType::Rsa => "rsa",
            KeyType::Ed25519 => "ed25519",
        }
    }
}

/// A key pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPair {
    /// Owner.
    pub account: AccountId,
    /// Name, unique in the account.
    pub name: String,
    /// Id.
    pub id: KeyPairId,
    /// Algorithm.
    pub key_type: KeyType,
    /// Fingerprint as AWS computes it for this kind and origin (R86).
    pub fingerprint: String,
    /// OpenSSH line: algorithm, base64, name.
    pub public_key: String,
    /// Creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

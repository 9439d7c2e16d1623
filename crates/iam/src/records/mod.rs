//! The stored types of this room. Every one is versioned; secret fields are sealed.
//!
//! Keys: what belongs to an account is in its scope, so that an account can be listed and removed as a range. The status
//! of an account is a record of its own, so that every mutating transaction can compare it cheaply.

mod access_key;
mod account;
mod client_token;
mod key;
mod user;

#[cfg(test)]
mod tests;

pub use access_key::{AccessKey, KeyStatus, key_account, new_key_id};
pub use account::{Account, AccountCounter, AccountState, AccountStatus, Founding};
pub use client_token::ClientToken;
pub use key::{AccountKeyRecord, KeyCheck, RingKeyRecord};
pub use user::{Attachment, User, new_unique_id};

//! Service: accounts, credentials, STS.
//!
//! | Module | What is in it |
//! |---|---|
//! | [`records`] | stored types: accounts, users, access keys, attachments, wrapped keys, client tokens |
//! | [`keys`] | the key hierarchy: master key file, account keys, sealed secrets |
//! | [`account`] | how accounts come to be: bootstrap and the initialisers of other rooms |
//! | [`authenticate`] | from an access key id to a caller with its compiled policies; used by `gateway` |
//! | [`managed`] | AWS's managed policies |
//! | [`capability`] | the only door for other services: account status, client tokens |
//! | [`ops`] | the operations |
//!
//! Users, roles and sessions beyond the bootstrap's are the next issue; their places are here.

pub mod account;
pub mod authenticate;
pub mod capability;
pub mod error;
pub mod keys;
pub mod limits;
pub mod managed;
pub mod ops;
pub mod reconcile;
pub mod records;

use aws_wire::registry::Registry;

pub use account::{AccountInitializer, AdminCredential, Bootstrap, ensure_bootstrap};
pub use authenticate::{AuthFault, Authenticator, Credential};
pub use error::IamError;
pub use keys::{Keys, KeysError, SecretText};

/// Registers every operation of this room.
pub fn register(registry: &mut Registry) {
    registry.register_service(&aws_shapes::iam::SERVICE);
    registry.register(ops::get_caller_identity::GetCallerIdentity);
}

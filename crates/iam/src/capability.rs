//! The only door of this room for other services.
//!
//! Functions that take a [`Tx`] belong into the caller's transaction: what they read is compared at commit, what they
//! write is committed with the caller's intent or not at all.
//!
//! - [`account_active`]: every transaction that a caller starts, and every one in which a reconciler creates or grows
//!   something for an account, asks this (identity.md R98).
//! - [`client_token`]: idempotency by client token or SDK invocation id (R31).

use aws_types::{AccountId, AwsError};
use state::{Scope, StoreError, Tx};

use crate::records::{AccountState, AccountStatus};

pub mod client_token;

/// Why a capability did not go through.
#[derive(Debug, thiserror::Error)]
pub enum CapabilityError {
    /// The caller is refused; the error is for the client.
    #[error("the request was refused")]
    Refused(#[source] AwsError),
    /// The store could not be read, or refused a step.
    #[error("could not use the store")]
    Store(#[from] StoreError),
}

/// Makes the transaction depend on the account being `ACTIVE`.
///
/// # Errors
/// `Refused` with EC2's `Blocked` 403 if it is not, or does not exist; `Store`.
pub async fn account_active(tx: &Tx, account: AccountId) -> Result<(), CapabilityError> {
    let status: Option<AccountStatus> = tx.find(&Scope::account(account), AccountStatus::ID).await?;
    match status.map(|status| status.state) {
        Some(AccountState::Active) => Ok(()),
        Some(AccountState::Suspended | AccountState::Terminating) | None => Err(CapabilityError::Refused(
            aws_types::catalogue::BLOCKED
                .error("This account is currently blocked and not recognized as a valid account."),
        )),
    }
}

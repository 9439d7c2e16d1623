//! The errors of this room, and the one place where the store's become AWS errors.
//!
//! Inside a transaction everything answers [`IamError`]: the caller is refused with an AWS error, the store failed, or
//! the keys did. What could not be read is 503, since nothing was decided; what nobody mapped on purpose is internal and
//! logged with its causes.

use std::error::Error;

use aws_types::AwsError;
use state::{StoreError, UpdateError};

use crate::keys::KeysError;

/// Why something in this room failed.
#[derive(Debug, thiserror::Error)]
pub enum IamError {
    /// The caller is refused.
    #[error("the request was refused")]
    Refused(#[source] AwsError),
    /// The store could not be read, or refused a step.
    #[error("could not use the store")]
    Store(#[from] StoreError),
    /// A secret could not be sealed or opened.
    #[error("could not use the keys")]
    Keys(#[from] KeysError),
}

impl From<AwsError> for IamError {
    fn from(error: AwsError) -> Self {
        IamError::Refused(error)
    }
}

impl From<IamError> for AwsError {
    fn from(error: IamError) -> Self {
        match error {
            IamError::Refused(error) => error,
            IamError::Store(error) => store_error(&error),
            IamError::Keys(error) => {
                log("could not use the keys", &error);
                AwsError::internal()
            }
        }
    }
}

/// What a failed read or step is to the caller.
pub fn store_error(error: &StoreError) -> AwsError {
    log("could not use the store", error);
    match error {
        StoreError::Unreadable(_) => AwsError::unavailable(),
        _ => AwsError::internal(),
    }
}

/// What a transaction that did not commit, or of which nobody knows whether it did, is to the caller.
pub fn update_error<E: Into<AwsError>>(error: UpdateError<E>) -> AwsError {
    match error {
        UpdateError::Aborted(error) => error.into(),
        UpdateError::Store(error) => store_error(&error),
        UpdateError::Contended { attempts } => {
            tracing::warn!(attempts, "a transaction gave way to other writers too often");
            AwsError::unavailable()
        }
        UpdateError::Refused(refusal) => {
            log("the store refused a transaction", &refusal);
            AwsError::unavailable()
        }
        UpdateError::Unknown(id) => {
            tracing::error!(%id, "the outcome of a transaction is unknown");
            AwsError::internal()
        }
        UpdateError::UniqueTaken { table, index, .. } => {
            tracing::error!(table, index, "a unique value is taken and nobody mapped it");
            AwsError::internal()
        }
        UpdateError::AlreadyExists { table, key } => {
            tracing::error!(table, %key, "a new record exists already");
            AwsError::internal()
        }
    }
}

/// Logs an error with its causes.
pub(crate) fn log(what: &'static str, error: &dyn Error) {
    let mut causes = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        causes = format!("{causes}: {inner}");
        source = inner.source();
    }
    tracing::error!(causes, "{what}");
}

//! The errors of this room, and the one place where the store's become AWS errors.
//!
//! Inside a transaction everything answers [`NetworkError`]: either the caller is refused with an AWS error, or the
//! store failed. What could not be read is 503 (nothing was decided); an outcome nobody knows is said to be unknown,
//! with the internal error, and is never retried here. Everything else that nobody mapped on purpose is internal and
//! is logged with its cause.

use aws_types::{AwsError, ErrorCode};
use iam::capability::CapabilityError;
use state::{StoreError, UpdateError};
use std::error::Error;
use thiserror::Error as ThisError;

/// Why something inside a transaction of this room failed.
#[derive(Debug, ThisError)]
pub enum NetworkError {
    /// The caller is refused.
    #[error("the request was refused")]
    Refused(#[source] AwsError),
    /// The store could not be read, or refused a step.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl From<AwsError> for NetworkError {
    fn from(error: AwsError) -> NetworkError {
        NetworkError::Refused(error)
    }
}

impl From<CapabilityError> for NetworkError {
    fn from(error: CapabilityError) -> NetworkError {
        match error {
            CapabilityError::Refused(error) => NetworkError::Refused(error),
            CapabilityError::Store(error) => NetworkError::Store(error),
        }
    }
}

impl From<NetworkError> for AwsError {
    fn from(error: NetworkError) -> AwsError {
        match error {
            NetworkError::Refused(error) => error,
            NetworkError::Store(error) => store_error(&error),
        }
    }
}

/// What a failed read is to the caller.
pub fn store_error(error: &StoreError) -> AwsError {
    log(error);
    match error {
        StoreError::Unreadable(_) => AwsError::unavailable(),
        _ => AwsError::internal(),
    }
}

/// What a transaction that did not commit, or may not have, is to the caller.
pub fn update_error<E: Into<AwsError>>(error: UpdateError<E>) -> AwsError {
    match error {
        UpdateError::Aborted(error) => error.into(),
        UpdateError::Contended { attempts } => {
            tracing::warn!(attempts, "a transaction gave way to other writers too often");
            AwsError::unavailable()
        }
        UpdateError::Store(error) => store_error(&error),
        UpdateError::UniqueTaken { table, index, .. } => {
            tracing::error!(table, index, "a unique value was taken and nobody mapped it");
            AwsError::internal()
        }
        UpdateError::AlreadyExists { table, key } => {
            tracing::error!(table, %key, "a new record exists already");
            AwsError::internal()
        }
        UpdateError::Refused(refusal) => {
            log(&refusal);
            AwsError::unavailable()
        }
        UpdateError::Unknown(id) => {
            tracing::error!(%id, "the outcome of a transaction is unknown");
            AwsError::internal()
        }
    }
}

fn log(error: &dyn Error) {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    tracing::error!(error = text, "the store failed");
}

/// `<code>` in the words EC2 has for ids that do not exist, one or several.
pub(crate) fn not_found(code: ErrorCode, noun: &str, ids: &[String]) -> AwsError {
    match ids {
        [id] => code.error(format!("The {noun} ID '{id}' does not exist")),
        _ => code.error(format!("The {noun} IDs '{}' do not exist", ids.join(", "))),
    }
}

/// `<code>` in the words EC2 has for ids of the wrong shape.
pub(crate) fn malformed(code: ErrorCode, id: &str, expected: &str) -> AwsError {
    code.error(format!("Invalid id: \"{id}\" (expecting \"{expected}...\")"))
}

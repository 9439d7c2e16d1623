//! The errors of this room, and the one place where the store's become AWS errors.
//!
//! Inside a transaction everything answers [`ComputeError`]: the caller is refused with an AWS error, or the store failed.
//! What could not be read is 503; what nobody mapped on purpose is internal and is logged with its cause. The words EC2
//! has for absent and malformed ids are here too.

use aws_types::{AwsError, ErrorCode, catalogue};
use iam::capability::CapabilityError;
use network::NetworkError;
use state::{StoreError, UpdateError};
use thiserror::Error;

/// Why something inside a transaction of this room failed.
#[derive(Debug, Error)]
pub enum ComputeError {
    /// The caller is refused.
    #[error("the request was refused")]
    Refused(#[source] AwsError),
    /// The store could not be read, or refused a step.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl From<AwsError> for ComputeError {
    fn from(error: AwsError) -> ComputeError {
        ComputeError::Refused(error)
    }
}

impl From<NetworkError> for ComputeError {
    fn from(error: NetworkError) -> ComputeError {
        match error {
            NetworkError::Refused(error) => ComputeError::Refused(error),
            NetworkError::Store(error) => ComputeError::Store(error),
        }
    }
}

impl From<CapabilityError> for ComputeError {
    fn from(error: CapabilityError) -> ComputeError {
        match error {
            CapabilityError::Refused(error) => ComputeError::Refused(error),
            CapabilityError::Store(error) => ComputeError::Store(error),
        }
    }
}

impl From<ComputeError> for AwsError {
    fn from(error: ComputeError) -> AwsError {
        match error {
            ComputeError::Refused(error) => error,
            ComputeError::Store(error) => network::store_error(&error),
        }
    }
}

/// What a failed read outside of a transaction is to the caller.
pub fn store_error(error: StoreError) -> AwsError {
    network::store_error(&error)
}

/// What a transaction that did not commit, or may not have, is to the caller.
pub fn update_error(error: UpdateError<ComputeError>) -> AwsError {
    network::update_error(error)
}

/// `code` in the words EC2 has for ids that do not exist, one or several.
pub fn not_found(code: ErrorCode, noun: &str, ids: &[String]) -> AwsError {
    match ids {
        [id] => code.error(format!("The {noun} ID '{id}' does not exist")),
        _ => code.error(format!("The {noun} IDs '{}' do not exist", ids.join(", "))),
    }
}

/// `code` in the words EC2 has for ids of the wrong shape.
pub fn malformed(code: ErrorCode, id: &str) -> AwsError {
    code.error(format!("Invalid id: \"{id}\""))
}

/// `UnsupportedOperation` for a parameter that is modelled but not honoured with this value (R7).
pub fn unsupported(parameter: &str) -> AwsError {
    catalogue::UNSUPPORTED_OPERATION.error(format!(
        "The parameter {parameter} is not supported with the given value."
    ))
}

/// Two parameters that exclude each other.
pub fn combination(message: impl Into<String>) -> AwsError {
    catalogue::INVALID_PARAMETER_COMBINATION.error(message)
}

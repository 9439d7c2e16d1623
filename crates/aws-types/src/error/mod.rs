//! The AWS error: what an operation says when it does not succeed.
//!
//! An error carries code, message, HTTP status and any extra fields; the envelope around it (EC2 XML, query XML,
//! JSON, REST) is chosen by the service's protocol in `aws-wire`. Every code that we emit is a constant of
//! `catalogue`, so that code, class and status are decided once. Server faults never carry internals: the cause is
//! logged where it happened and the client sees the request id.

pub mod catalogue;

use std::borrow::Cow;
use std::fmt;

/// Who is to blame; decides `Sender`/`Receiver` in the query envelope and whether SDKs retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is wrong; repeating it unchanged will not help.
    Client,
    /// We could not do it; SDKs retry.
    Server,
}

/// A code of the catalogue: its text, and the status it travels with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The code as clients compare it.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
}

impl ErrorCode {
    pub(crate) const fn client(code: &'static str) -> ErrorCode {
        ErrorCode { code, status: 400 }
    }
    pub(crate) const fn with(code: &'static str, status: u16) -> ErrorCode {
        ErrorCode { code, status }
    }

    /// The error of this code with a message for the caller.
    pub fn error(self, message: impl Into<String>) -> AwsError {
        AwsError {
            code: Cow::Borrowed(self.code),
            message: message.into(),
            status: self.status,
            fields: Vec::new(),
        }
    }
}

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsError {
    /// Error code, such as `InvalidAMIID.NotFound`.
    pub code: Cow<'static, str>,
    /// Text for a person. Never contains internals of the cloud.
    pub message: String,
    /// HTTP status.
    pub status: u16,
    /// Modelled members beyond code and message, in order.
    pub fields: Vec<(Cow<'static, str>, String)>,
}

impl AwsError {
    /// Adds a modelled member.
    pub fn with_field(mut self, name: &'static str, value: impl Into<String>) -> AwsError {
        self.fields.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// The class of the status.
    pub fn fault(&self) -> Fault {
        if self.status >= 500 {
            Fault::Server
        } else {
            Fault::Client
        }
    }

    /// The internal error: what nobody mapped on purpose becomes.
    pub fn internal() -> AwsError {
        catalogue::INTERNAL_ERROR.error("An internal error has occurred")
    }

    /// The store or a part we depend on could not be read or reached; nothing was decided.
    pub fn unavailable() -> AwsError {
        catalogue::SERVICE_UNAVAILABLE.error("The service is unavailable. Please try again.")
    }

    /// `MissingParameter` in EC2's wording.
    pub fn missing_parameter(name: &str) -> AwsError {
        catalogue::MISSING_PARAMETER.error(format!("The request must contain the parameter {name}"))
    }

    /// `InvalidParameterValue` in EC2's commonest wording.
    pub fn invalid_value(value: &str, name: &str, hint: &str) -> AwsError {
        let gap = if hint.is_empty() { "" } else { " " };
        catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Value ({value}) for parameter {name} is invalid.{gap}{hint}"
        ))
    }
}

impl fmt::Display for AwsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.status, self.message)
    }
}
impl std::error::Error for AwsError {}

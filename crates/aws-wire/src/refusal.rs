//! The refusals of the front door in each service's own words (identity.md R20, R33).
//!
//! The same fault has another code and status in each protocol family, and SDKs act on both. This table is the
//! only place that knows; everything before an operation runs answers through it. Envelopes are the codecs'.

use std::borrow::Cow;

use aws_shapes::schema::Protocol;
use aws_shapes::validate::{Constraint, Violation};
use aws_shapes::{OperationSchema, ServiceSchema};
use aws_types::{AwsError, catalogue};

/// A request that is refused before its operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials at all.
    NoCredentials,
    /// Credentials that are not well formed.
    Malformed,
    /// The key is unknown or inactive.
    UnknownKey,
    /// A session token that does not belong, or is missing.
    InvalidToken,
    /// The signature is another one, or its scope names another region or service.
    SignatureDiffers,
    /// The clock of the client is off.
    TimeSkewed,
    /// A presigned request that has ended or not begun.
    PresignedEnded,
    /// The session has ended.
    SessionExpired,
    /// The account is not `ACTIVE`.
    AccountInactive,
    /// Denied by policy.
    Denied,
    /// Too many requests, or a source that failed too often.
    Throttled,
    /// No service or operation of this name.
    UnknownAction,
    /// No operation named.
    NoAction,
    /// Another version of the API.
    UnknownVersion,
    /// A body over its limit.
    BodyTooLarge,
    /// The body is not what the client said it would be.
    BodyDiffers,
    /// The operation exists at AWS but not here.
    NotImplemented,
}

/// The columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Ec2,
    Query,
    Json,
    RestJson,
    S3,
}

fn family(service: &ServiceSchema) -> Family {
    match service.protocol {
        Protocol::Ec2Query => Family::Ec2,
        Protocol::Json10 | Protocol::Json11 => Family::Json,
        Protocol::RestJson => Family::RestJson,
        Protocol::RestXml if service.name == "s3" => Family::S3,
        Protocol::Query | Protocol::RestXml => Family::Query,
    }
}

impl Refusal {
    /// The error of this refusal with its usual text. Without a service it is in the Query family's words.
    pub fn error(self, service: Option<&ServiceSchema>) -> AwsError {
        let column = service.map_or(Family::Query, family);
        self.in_words_of(column, self.usual_text(column).to_owned())
    }

    /// The error of this refusal with a text of its own.
    pub fn error_with(self, service: &ServiceSchema, message: impl Into<String>) -> AwsError {
        self.in_words_of(family(service), message.into())
    }

    /// As [`Refusal::error_with`], also where the service is not known.
    pub fn error_for(self, service: Option<&ServiceSchema>, message: impl Into<String>) -> AwsError {
        self.in_words_of(service.map_or(Family::Query, family), message.into())
    }

    fn in_words_of(self, column: Family, message: String) -> AwsError {
        let (code, status) = self.code(column);
        let message = match (self, column) {
            (Refusal::Denied, Family::Ec2) => {
                format!("You are not authorized to perform this operation. {message}")
            }
            _ => message,
        };
        AwsError {
            code: Cow::Borrowed(code),
            message,
            status,
            fields: Vec::new(),
        }
    }

    fn code(self, column: Family) -> (&'static str, u16) {
        use Family::{Ec2, Json, Query, RestJson, S3};
        match (self, column) {
            (Refusal::NoCredentials, Ec2 | Query) => ("MissingAuthenticationToken", 403),
            (Refusal::NoCredentials, Json) => ("MissingAuthenticationTokenException", 400),
            (Refusal::NoCredentials, RestJson) => ("MissingAuthenticationTokenException", 403),
            (Refusal::NoCredentials, S3) => ("AccessDenied", 403),
            (Refusal::Malformed, Ec2 | Query) => ("IncompleteSignature", 400),
            (Refusal::Malformed, Json) => ("IncompleteSignatureException", 400),
            (Refusal::Malformed, RestJson) => ("IncompleteSignatureException", 403),
            (Refusal::Malformed, S3) => ("AuthorizationHeaderMalformed", 400),
            (Refusal::UnknownKey | Refusal::InvalidToken | Refusal::SignatureDiffers, Ec2) => {
                ("AuthFailure", 401)
            }
            (Refusal::UnknownKey | Refusal::InvalidToken, Query) => ("InvalidClientTokenId", 403),
            (Refusal::UnknownKey | Refusal::InvalidToken, Json) => ("UnrecognizedClientException", 400),
            (Refusal::UnknownKey | Refusal::InvalidToken, RestJson) => ("UnrecognizedClientException", 403),
            (Refusal::UnknownKey, S3) => ("InvalidAccessKeyId", 403),
            (Refusal::InvalidToken, S3) => ("InvalidToken", 400),
            (Refusal::TimeSkewed, Ec2) => ("RequestExpired", 400),
            (Refusal::SignatureDiffers | Refusal::TimeSkewed, Query) => ("SignatureDoesNotMatch", 403),
            (Refusal::SignatureDiffers | Refusal::TimeSkewed, Json) => ("InvalidSignatureException", 400),
            (Refusal::SignatureDiffers | Refusal::TimeSkewed, RestJson) => ("InvalidSignatureException", 403),
            (Refusal::SignatureDiffers, S3) => ("SignatureDoesNotMatch", 403),
            (Refusal::TimeSkewed, S3) => ("RequestTimeTooSkewed", 403),
            (Refusal::PresignedEnded, S3) => ("AccessDenied", 403),
            (Refusal::PresignedEnded, _) => ("RequestExpired", 400),
            (Refusal::SessionExpired, Ec2) => ("RequestExpired", 400),
            (Refusal::SessionExpired, Query) => ("ExpiredToken", 403),
            (Refusal::SessionExpired, Json) => ("ExpiredTokenException", 400),
            (Refusal::SessionExpired, RestJson) => ("ExpiredTokenException", 403),
            (Refusal::SessionExpired, S3) => ("ExpiredToken", 400),
            (Refusal::AccountInactive, Ec2) => ("Blocked", 403),
            (Refusal::Denied, Ec2) => ("UnauthorizedOperation", 403),
            (Refusal::AccountInactive | Refusal::Denied, Query | S3) => ("AccessDenied", 403),
            (Refusal::AccountInactive | Refusal::Denied, Json) => ("AccessDeniedException", 400),
            (Refusal::AccountInactive | Refusal::Denied, RestJson) => ("AccessDeniedException", 403),
            (Refusal::Throttled, Ec2) => ("RequestLimitExceeded", 503),
            (Refusal::Throttled, Query) => ("Throttling", 400),
            (Refusal::Throttled, Json) => ("ThrottlingException", 400),
            (Refusal::Throttled, RestJson) => ("ThrottlingException", 429),
            (Refusal::Throttled, S3) => ("SlowDown", 503),
            (Refusal::UnknownAction | Refusal::NoAction, Json) => ("UnknownOperationException", 400),
            (Refusal::UnknownAction | Refusal::NoAction, RestJson) => ("UnknownOperationException", 404),
            (Refusal::UnknownAction | Refusal::NoAction, S3) => ("MethodNotAllowed", 405),
            (Refusal::UnknownAction, Ec2 | Query) => ("InvalidAction", 400),
            (Refusal::NoAction, Ec2 | Query) => ("MissingAction", 400),
            (Refusal::UnknownVersion, Ec2) => ("NoSuchVersion", 400),
            (Refusal::UnknownVersion, _) => ("InvalidAction", 400),
            (Refusal::BodyTooLarge, Ec2 | Query) => ("RequestEntityTooLarge", 413),
            (Refusal::BodyTooLarge, Json | RestJson) => ("RequestEntityTooLargeException", 413),
            (Refusal::BodyTooLarge, S3) => ("EntityTooLarge", 400),
            (Refusal::BodyDiffers, S3) => ("XAmzContentSHA256Mismatch", 400),
            (Refusal::BodyDiffers, column) => Refusal::SignatureDiffers.code(column),
            (Refusal::NotImplemented, Json | RestJson) => ("NotImplementedException", 501),
            (Refusal::NotImplemented, Ec2 | Query | S3) => ("NotImplemented", 501),
        }
    }

    fn usual_text(self, column: Family) -> &'static str {
        match self {
            Refusal::NoCredentials => "Request is missing Authentication Token",
            Refusal::Malformed => "The request signature is not well formed",
            Refusal::UnknownKey | Refusal::SignatureDiffers if column == Family::Ec2 => {
                "AWS was not able to validate the provided access credentials"
            }
            Refusal::UnknownKey if column == Family::S3 => {
                "The AWS Access Key Id you provided does not exist in our records."
            }
            Refusal::UnknownKey | Refusal::InvalidToken => {
                "The security token included in the request is invalid."
            }
            Refusal::SignatureDiffers => {
                "The request signature we calculated does not match the signature you provided. Check your AWS \
                 Secret Access Key and signing method. Consult the service documentation for details."
            }
            Refusal::TimeSkewed => "Signature expired or not yet current",
            Refusal::PresignedEnded => "Request has expired.",
            Refusal::SessionExpired => "The security token included in the request is expired",
            Refusal::AccountInactive if column == Family::Ec2 => {
                "This account is currently blocked and not recognized as a valid account."
            }
            Refusal::AccountInactive => "The account is not active",
            Refusal::Denied => "Access denied",
            Refusal::Throttled if column == Family::Ec2 => "Request limit exceeded.",
            Refusal::Throttled if column == Family::S3 => "Please reduce your request rate.",
            Refusal::Throttled => "Rate exceeded",
            Refusal::UnknownAction => "The action is not valid for this endpoint.",
            Refusal::NoAction => "The request must name an action.",
            Refusal::UnknownVersion => "The API version is not supported.",
            Refusal::BodyTooLarge => "The request body is too large.",
            Refusal::BodyDiffers => {
                "The provided 'x-amz-content-sha256' header does not match what was computed."
            }
            Refusal::NotImplemented => "The operation is not implemented.",
        }
    }
}

/// The error for the first broken constraint of the model, if any is broken. Unknown enumeration values are not
/// among them: AWS accepts values that its models do not list, so the operation decides.
pub fn constraint_error(operation: &OperationSchema, violations: &[Violation]) -> Option<AwsError> {
    let counted: Vec<&Violation> = violations
        .iter()
        .filter(|violation| !matches!(violation.constraint, Constraint::Enum(_)))
        .collect();
    let first = counted.first()?;
    let column = family(operation.service);
    if column == Family::Ec2 {
        return Some(match first.constraint {
            Constraint::Required => AwsError::missing_parameter(&first.path),
            _ => catalogue::INVALID_PARAMETER_VALUE.error(format!(
                "The value for parameter {} is invalid: it must {}.",
                first.path,
                wanted(&first.constraint)
            )),
        });
    }
    let details: Vec<String> = counted
        .iter()
        .map(|violation| {
            format!(
                "Value at '{}' failed to satisfy constraint: Member must {}",
                violation.path,
                wanted(&violation.constraint)
            )
        })
        .collect();
    let count = details.len();
    let noun = if count == 1 { "error" } else { "errors" };
    let code = if column == Family::Query {
        "ValidationError"
    } else {
        "ValidationException"
    };
    Some(AwsError {
        code: Cow::Borrowed(code),
        message: format!("{count} validation {noun} detected: {}", details.join("; ")),
        status: 400,
        fields: Vec::new(),
    })
}

fn wanted(constraint: &Constraint) -> String {
    match constraint {
        Constraint::Required => "not be null".to_owned(),
        Constraint::Min(bound) => format!("have length or value greater than or equal to {bound}"),
        Constraint::Max(bound) => format!("have length or value less than or equal to {bound}"),
        Constraint::Pattern(pattern) => format!("satisfy regular expression pattern: {pattern}"),
        Constraint::Enum(values) => format!("satisfy enum value set: [{}]", values.join(", ")),
        Constraint::Union => "set exactly one of its members".to_owned(),
    }
}

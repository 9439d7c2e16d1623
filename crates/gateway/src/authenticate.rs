//! Proving who signed: the order of checks between the lockout and the throttle (identity.md R1, R8–R15).
//!
//! Form, time, required headers and scope are checked before a key is looked up; the signature before anything about
//! the principal is answered; the account's status last. A key that does not exist costs the same work as a wrong
//! signature, and both read alike.

use std::sync::Arc;

use aws_shapes::ServiceSchema;
use aws_types::AwsError;
use aws_wire::refusal::Refusal;
use aws_wire::sigv4::canonical::hex_sha256;
use aws_wire::sigv4::{
    PathStyle, PresentFault, Presented, RequestView, SigningKey, VerifyFault, check_required_headers,
    check_time, verify,
};
use iam::records::AccountState;
use iam::{AuthFault, Authenticator, Credential};
use time::OffsetDateTime;

use crate::audit::Verdict;
use crate::route::{Route, serves_region};

/// A request that goes no further.
pub(crate) struct Stop {
    /// The answer.
    pub(crate) error: AwsError,
    /// For the audit.
    pub(crate) verdict: Verdict,
    /// Seconds for `Retry-After`.
    pub(crate) retry_after: Option<u64>,
    /// Whether the lockout counts it, and as what.
    pub(crate) failure: Option<Refusal>,
}

impl Stop {
    /// Refused for its form.
    pub(crate) fn refused(error: AwsError) -> Self {
        Self {
            error,
            verdict: Verdict::Refused,
            retry_after: None,
            failure: None,
        }
    }

    fn unauthenticated(error: AwsError, failure: Option<Refusal>) -> Self {
        Self {
            error,
            verdict: Verdict::Unauthenticated,
            retry_after: None,
            failure,
        }
    }

    fn counted(refusal: Refusal, service: &ServiceSchema) -> Self {
        Self::unauthenticated(refusal.error(Some(service)), Some(refusal))
    }
}

/// Why nothing was presented, in the service's words.
pub(crate) fn present_fault(fault: &PresentFault, service: &ServiceSchema) -> Stop {
    let refusal = match fault {
        PresentFault::Absent => Refusal::NoCredentials,
        _ => Refusal::Malformed,
    };
    Stop::unauthenticated(refusal.error_with(service, fault.to_string()), Some(refusal))
}

/// Checks everything that a request presents.
pub(crate) async fn authenticate(
    authenticator: &Authenticator,
    presented: &Presented,
    request: &RequestView<'_>,
    body: &[u8],
    route: &Route,
    own_region: &str,
    now: OffsetDateTime,
) -> Result<Arc<Credential>, Stop> {
    let service = route.service;
    check_time(presented, now).map_err(|fault| {
        let refusal = match fault {
            VerifyFault::PresignedEnded => Refusal::PresignedEnded,
            _ => Refusal::TimeSkewed,
        };
        Stop::unauthenticated(refusal.error_with(service, fault.to_string()), None)
    })?;
    let s3 = presented.scope.service == "s3";
    check_required_headers(presented, request, s3).map_err(|fault| {
        let refusal = match fault {
            VerifyFault::SignedButAbsent(_) => Refusal::Malformed,
            _ => Refusal::SignatureDiffers,
        };
        Stop::unauthenticated(refusal.error_with(service, fault.to_string()), Some(refusal))
    })?;
    let scope = &presented.scope;
    if route.known && !serves_region(service, own_region, &scope.region) {
        let message = format!(
            "Credential should be scoped to a valid region, not '{}': use '{own_region}'.",
            scope.region
        );
        return Err(Stop::unauthenticated(
            Refusal::SignatureDiffers.error_with(service, message),
            Some(Refusal::SignatureDiffers),
        ));
    }

    let payload_hash = hex_sha256(body);
    let path_style = if s3 {
        PathStyle::Verbatim
    } else {
        PathStyle::EncodedTwice
    };
    let check = |key: &SigningKey| verify(presented, request, &payload_hash, path_style, key);
    let credential = match authenticator.find(&presented.key_id).await {
        Ok(credential) => credential,
        Err(AuthFault::UnknownKey) => {
            // The same work as for a known key, so that time does not tell them apart.
            let stand_in = SigningKey::derive("", &scope.date, &scope.region, &scope.service);
            let _ = std::hint::black_box(check(&stand_in));
            return Err(Stop::counted(Refusal::UnknownKey, service));
        }
        Err(AuthFault::Unreadable) => return Err(Stop::unauthenticated(AwsError::unavailable(), None)),
    };
    check(&credential.signing_key(scope)).map_err(|_| Stop::counted(Refusal::SignatureDiffers, service))?;
    if presented.session_token.is_some() {
        return Err(Stop::counted(Refusal::InvalidToken, service));
    }
    check_claimed_hash(request, &payload_hash, service)?;
    match credential.account_state {
        AccountState::Active => Ok(credential),
        AccountState::Suspended | AccountState::Terminating => Err(Stop {
            error: Refusal::AccountInactive.error(Some(service)),
            verdict: Verdict::Denied,
            retry_after: None,
            failure: None,
        }),
    }
}

/// A digest in `x-amz-content-sha256` must be the body's. Other values claim nothing outside S3.
fn check_claimed_hash(request: &RequestView<'_>, actual: &str, service: &ServiceSchema) -> Result<(), Stop> {
    let differs = request.header_values("x-amz-content-sha256").any(|claimed| {
        let is_digest = claimed.len() == actual.len() && claimed.iter().all(u8::is_ascii_hexdigit);
        is_digest && !claimed.eq_ignore_ascii_case(actual.as_bytes())
    });
    if differs {
        return Err(Stop::counted(Refusal::BodyDiffers, service));
    }
    Ok(())
}

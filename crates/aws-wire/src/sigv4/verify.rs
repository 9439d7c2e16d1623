//! Time, required headers and the signature of a presented request.
//!
//! The checks are apart because the pipeline runs them at different moments: time and headers before any key is
//! looked up, the signature after. Comparison is in constant time; which check failed is told only in words that
//! the protocol family has for it ([`crate::refusal`]).

use hmac::Hmac;
use hmac::digest::CtOutput;
use hmac::digest::generic_array::GenericArray;
use sha2::Sha256;
use time::{Duration, OffsetDateTime};

use super::canonical::{PathStyle, QueryStyle, RequestView, canonical_request};
use super::present::{Carrier, Presented, show_timestamp};
use super::sign::SigningKey;

/// How far a client's clock may be off.
pub const SKEW_MAX: Duration = Duration::minutes(15);

/// Why a request is not what its credentials say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyFault {
    /// Signed too long ago. The text is the one from which SDKs learn that their clock is off.
    #[error("Signature expired: {signed} is now earlier than {earliest} ({now} - 15 min.)")]
    Expired {
        /// When it was signed.
        signed: String,
        /// The earliest accepted.
        earliest: String,
        /// Our clock.
        now: String,
    },
    /// Signed in the future.
    #[error("Signature not yet current: {signed} is still later than {latest} ({now} + 15 min.)")]
    NotYetCurrent {
        /// When it was signed.
        signed: String,
        /// The latest accepted.
        latest: String,
        /// Our clock.
        now: String,
    },
    /// A presigned request outside of its time.
    #[error("Request has expired.")]
    PresignedEnded,
    /// A header that must be signed is not.
    #[error("'{0}' must be a signed header in the request.")]
    NotSigned(String),
    /// A header is listed as signed but absent.
    #[error("'{0}' is named in SignedHeaders but is not in the request.")]
    SignedButAbsent(String),
    /// The signature is another one.
    #[error(
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
         Access Key and signing method. Consult the service documentation for details."
    )]
    Differs,
}

/// Checks the time of a request against our clock.
///
/// # Errors
/// [`VerifyFault::Expired`], [`VerifyFault::NotYetCurrent`], [`VerifyFault::PresignedEnded`].
pub fn check_time(presented: &Presented, now: OffsetDateTime) -> Result<(), VerifyFault> {
    let signed = presented.signed_at;
    if let Carrier::Query { expires_seconds } = presented.carrier {
        let end = signed + Duration::seconds(i64::from(expires_seconds));
        let live = signed - now <= SKEW_MAX && now <= end;
        return if live {
            Ok(())
        } else {
            Err(VerifyFault::PresignedEnded)
        };
    }
    let (signed_text, now_text) = (presented.timestamp.clone(), show_timestamp(now));
    if now - signed > SKEW_MAX {
        let earliest = show_timestamp(now - SKEW_MAX);
        return Err(VerifyFault::Expired {
            signed: signed_text,
            earliest,
            now: now_text,
        });
    }
    if signed - now > SKEW_MAX {
        let latest = show_timestamp(now + SKEW_MAX);
        return Err(VerifyFault::NotYetCurrent {
            signed: signed_text,
            latest,
            now: now_text,
        });
    }
    Ok(())
}

/// Checks that `host` and every `x-amz-*` header are signed (identity.md R9) and that signed headers are there.
/// `content_hash_too` demands it of `x-amz-content-sha256` as well: S3.
///
/// # Errors
/// [`VerifyFault::NotSigned`], [`VerifyFault::SignedButAbsent`].
pub fn check_required_headers(
    presented: &Presented,
    request: &RequestView<'_>,
    content_hash_too: bool,
) -> Result<(), VerifyFault> {
    let is_signed = |name: &str| presented.signed_headers.iter().any(|own| own == name);
    if !is_signed("host") {
        return Err(VerifyFault::NotSigned("Host".to_owned()));
    }
    for (name, _) in request.headers {
        let demanded = name.starts_with("x-amz-") && (content_hash_too || *name != "x-amz-content-sha256");
        if demanded && !is_signed(name) {
            return Err(VerifyFault::NotSigned((*name).to_owned()));
        }
    }
    match presented
        .signed_headers
        .iter()
        .find(|name| request.header_values(name).next().is_none())
    {
        Some(absent) => Err(VerifyFault::SignedButAbsent(absent.clone())),
        None => Ok(()),
    }
}

/// Checks the signature. `payload_hash` is the hex digest of the body received, or for S3 what its header says.
///
/// # Errors
/// [`VerifyFault::Differs`].
pub fn verify(
    presented: &Presented,
    request: &RequestView<'_>,
    payload_hash: &str,
    path_style: PathStyle,
    key: &SigningKey,
) -> Result<(), VerifyFault> {
    let names: Vec<&str> = presented.signed_headers.iter().map(String::as_str).collect();
    let scope = presented.scope.text();
    let given = comparable(presented.signature);
    // A client that leaves reserved characters of its query unencoded signs either their encoded form or what it
    // sends. Each form determines the request, so accepting both opens nothing.
    for query_style in [QueryStyle::Normalised, QueryStyle::Verbatim] {
        let canonical = canonical_request(request, &names, payload_hash, path_style, query_style);
        if comparable(key.signature(&presented.timestamp, &scope, &canonical)) == given {
            return Ok(());
        }
        if request.query.is_empty() {
            break;
        }
    }
    Err(VerifyFault::Differs)
}

/// Wraps a MAC so that `==` takes the same time wherever two differ.
fn comparable(mac: [u8; 32]) -> CtOutput<Hmac<Sha256>> {
    CtOutput::new(GenericArray::from(mac))
}

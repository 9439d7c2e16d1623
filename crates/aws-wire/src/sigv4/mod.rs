//! Signature Version 4: what is signed, how to sign it, and how a signed request is checked.
//!
//! - [`canonical`]: the canonical request. Both sides build it here, so they cannot differ.
//! - [`sign`]: signing keys, and a signer for clients of our own (tests, the guest agent).
//! - [`present`]: the credentials that a request presents, in its header or its query, parsed strictly.
//! - [`verify`]: time, required headers and the signature, over the bytes as received.
//!
//! `canonical` and `sign` need only `sha2`, `hmac` and `hex`, so that the guest agent can use them. Which key
//! belongs to whom is `iam`'s; the codes of refusals are [`crate::refusal`]'s. Facts: AWS General Reference,
//! "Signature Version 4 signing process"; identity.md R8–R18.

pub mod canonical;
pub mod present;
pub mod sign;
pub mod verify;

#[cfg(test)]
mod tests;

pub use canonical::{PathStyle, RequestView};
pub use present::{Carrier, PresentFault, Presented, Scope};
pub use sign::{Signer, SigningKey};
pub use verify::{VerifyFault, check_required_headers, check_time, verify};

/// The one algorithm.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What stands for the hash of a body that is not signed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Last part of every credential scope.
pub const SCOPE_END: &str = "aws4_request";

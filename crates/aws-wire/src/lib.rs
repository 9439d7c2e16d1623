//! AWS protocols, SigV4, the `Operation` trait and the registry of operations.
//!
//! - [`protocol`]: the door to the codecs: find a request's operation, decode its input, encode the answer or an
//!   error, for any service of `aws-shapes` in any protocol. Behind it: `query` (EC2 and query forms), `json` and
//!   `rest` read and write messages; `xml` and `codec` hold what they share; `error_envelope` wraps errors. All are
//!   driven by schemas, there is no code per operation.
//! - [`call`]: who asks, when, from where. [`operation`]: what an operation is, and the one access layer.
//! - [`registry`]: every service and operation, built or known by name.
//! - [`refusal`]: the front door's refusals in each protocol family's words.
//! - [`sigv4`]: signing and verifying.
//! - [`parameters`]: digests of what was asked, for client tokens and page tokens.

pub mod call;
mod codec;
mod error_envelope;
mod json;
mod limits;
pub mod operation;
pub mod parameters;
pub mod protocol;
mod query;
pub mod refusal;
pub mod registry;
mod rest;
pub mod sigv4;
mod xml;

pub use protocol::{Detected, decode_input, decode_into, detect_operation, encode_error, encode_output};

//! AWS protocols, SigV4, the `Operation` trait and the registry of operations.
//!
//! - [`call`]: who asks, when, from where. [`operation`]: what an operation is, and the one access layer.
//! - [`registry`]: every service and operation, built or known by name.
//! - [`refusal`]: the front door's refusals in each protocol family's words.
//! - [`sigv4`]: signing and verifying.
//! - [`parameters`]: digests of what was asked, for client tokens and page tokens.

pub mod call;
pub mod operation;
pub mod parameters;
pub mod refusal;
pub mod registry;
pub mod sigv4;

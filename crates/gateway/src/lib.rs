//! The front door: TLS, limits, lockout, audit, dispatch to registered operations.
//!
//! A request passes these stations in this order, which a test traces (identity.md R1):
//!
//! | Station | Module |
//! |---|---|
//! | accept, TLS, header caps and times | [`server`], [`tls`] |
//! | request id, body cap and read | [`pipeline`], [`body`] |
//! | service and action, without decoding | [`route`] |
//! | lockout, signature, account status | [`lockout`], [`authenticate`] |
//! | throttle | [`throttle`] |
//! | decode, access, decision, effect, encode | `aws-wire`, called from [`pipeline`] |
//! | audit line, then the answer | [`audit`] |
//!
//! Nothing here knows an operation. Errors are answered in the envelope of the service's protocol from the first byte at
//! which the service is known.

pub mod audit;
mod authenticate;
mod body;
pub mod error;
pub mod limits;
mod lockout;
mod pipeline;
mod route;
mod server;
mod throttle;
mod tls;

pub use error::GatewayError;
pub use server::{Gateway, GatewayConfig};

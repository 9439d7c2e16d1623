//! The IAM policy language and its evaluation. Pure: no I/O, no clock, no store.
//!
//! - [`document`]: a parsed, validated and compiled policy; the only way to get one is [`Policy::parse`].
//! - [`decide`]: the decision over typed layers (identity, boundary, session, resource) with its explanation.
//! - [`context`]: what a request says about itself, asked for by condition key.
//! - [`principal`]: who a request acts as, and which principal clause names it.
//!
//! Everything a decision reads is in its arguments, so live decisions, simulators, trust policies and bucket
//! policies share this one evaluator. Evaluation is bounded by a step budget; beyond it the answer is deny.
//! Where policies are stored and who they are attached to is `iam`'s.

pub mod condition;
pub mod context;
pub mod decide;
pub mod document;
mod json;
pub mod limits;
mod parse;
mod pattern;
pub mod principal;
mod value;

#[cfg(test)]
mod tests;

pub use context::{Context, Facts, Values};
pub use decide::{
    Decision, HeldPolicies, Layer, Layers, NamedPolicy, Reason, Request, ResourceLayer, StatementRef,
    Verdict, decide,
};
pub use document::{Effect, Policy, PolicyKind};
pub use parse::PolicyFault;
pub use principal::{Principal, PrincipalMatch};

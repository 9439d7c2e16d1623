//! The agent that makes one machine match its intent by driving the engines.
//!
//! | Module | What |
//! |---|---|
//! | [`agent`] | watches the node's specs, keeps one owner task an object, registers the node |
//! | [`guest`] | the owner of one guest: decide, launch, adopt, record |
//! | [`volumes`], [`networks`] | specs of volumes and networks, made true by `block` and `vnet` |
//! | [`metadata`] | the instance metadata service |
//! | [`console`] | answers that only this node can give |
//! | [`facts`] | what this machine is |
//!
//! Invariants: the absence of a spec is never an order; each irreversible step is durable in the guest's record before it is
//! done; a killed agent finds again what it started by identity, never by name. Services are unknown here: what they want
//! arrives as `node-spec` records, what is leaves as observations.

pub mod agent;
pub mod console;
pub mod error;
pub mod facts;
pub mod guest;
pub mod limits;
pub mod metadata;
pub mod networks;
pub mod volumes;

mod converge;

pub use agent::{Agent, AgentConfig};
pub use error::AgentError;

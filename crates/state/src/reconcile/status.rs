//! What can be seen of a reconciler: `spx get reconcilers` prints these as they are.
//!
//! Kept in memory by the controller and changed only by it; times are UTC, for people, and nothing is decided by them.

use super::{PassCause, PassReport};
use serde::{Deserialize, Serialize};
use std::error::Error;
use time::OffsetDateTime;

/// The state of one reconciler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReconcilerStatus {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub phase: Phase,
    /// The last finished pass.
    pub last: Option<PassSummary>,
    /// The last pass that succeeded.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_success: Option<OffsetDateTime>,
    /// Passes that ended since the process started.
    pub passes: u64,
    /// How many passes failed in a row.
    pub failures_in_a_row: u32,
    /// When the next pass runs at the latest.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_due: Option<OffsetDateTime>,
}

/// What a reconciler is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not yet run.
    Starting,
    /// In a pass.
    Running,
    /// Waiting for a wake-up or its time.
    Idle,
    /// Waiting after a failed pass.
    BackingOff,
    /// Ended with the process.
    Stopped,
}

/// A finished pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassSummary {
    /// Why it ran.
    pub cause: PassCause,
    /// When it started.
    #[serde(with = "time::serde::rfc3339")]
    pub started: OffsetDateTime,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339")]
    pub ended: OffsetDateTime,
    /// How it ended.
    pub outcome: PassOutcome,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum PassOutcome {
    /// It was done.
    Done(PassReport),
    /// It could not be done; the errors from the outermost to the cause.
    Failed {
        /// The chain.
        errors: Vec<String>,
    },
    /// It was cut off at its time bound.
    TimedOut,
    /// It panicked; a bug, contained to this pass.
    Panicked,
    /// It was cut off by shutdown.
    Stopped,
}

impl PassOutcome {
    /// Whether the pass was done.
    pub fn is_done(&self) -> bool {
        matches!(self, PassOutcome::Done(_))
    }
}

impl ReconcilerStatus {
    pub(super) fn new(name: &'static str) -> ReconcilerStatus {
        ReconcilerStatus {
            name: name.to_owned(),
            phase: Phase::Starting,
            last: None,
            last_success: None,
            passes: 0,
            failures_in_a_row: 0,
            next_due: None,
        }
    }
}

pub(super) fn error_chain(error: &dyn Error) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause
        && chain.len() < crate::limits::ERROR_CHAIN_MAX
    {
        chain.push(error.to_string());
        cause = error.source();
    }
    chain
}

//! The reconcile loop: how intent becomes true.
//!
//! A [`Reconciler`] looks at the whole of what it is responsible for and moves it one step closer, in passes. It is
//! woken by changes of the tables it watches, by the time it asked for, or by its resync interval; the wake-up carries no
//! data, so a lost, merged or repeated one changes nothing, and a pass after a restart is like any other. A pass reads
//! the store, plans (a pure function of what it read), and applies idempotent steps; it may be cut off at any await.
//!
//! The [`Controller`] (in `controller`) runs reconcilers side by side, bounds and retries their passes and keeps their
//! [`ReconcilerStatus`] (in `status`). Rejected: handing changes to the pass (the first lost one is a bug for ever), and
//! a saga engine (its journal is a second truth). Run every reconciler in `lab`'s fault harness as well.

mod controller;
mod status;

pub use controller::{Controller, ControllerHandle, StatusObserver, Timing};
pub use status::{PassOutcome, PassSummary, Phase, ReconcilerStatus};

use crate::error::{StoreError, UpdateError};
use crate::result::Unreadable;
use crate::store::Store;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// One loop that makes something converge.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Its name in status, logs and metrics; unique.
    fn name(&self) -> &'static str;

    /// The tables (`Record::TABLE`) whose changes wake it.
    fn watches(&self) -> &[&'static str];

    /// It runs at least this often.
    fn resync(&self) -> Duration {
        crate::limits::RESYNC_INTERVAL
    }

    /// Looks at everything and moves it closer. Must be idempotent and must bear being dropped at any await. One bad
    /// item is counted in `failed` and does not fail the pass; an error means that the pass as a whole could not be done.
    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError>;
}

/// What a pass is given.
#[derive(Clone)]
pub struct PassContext {
    /// The store.
    pub store: Store,
    /// Why the pass runs; for logs only.
    pub cause: PassCause,
    /// The pass is cut off then.
    pub deadline: Instant,
    stop: Option<watch::Receiver<bool>>,
}

impl PassContext {
    /// A context for running a pass by hand.
    pub fn new(store: Store, cause: PassCause) -> PassContext {
        PassContext {
            store,
            cause,
            deadline: Instant::now() + crate::limits::PASS_TIME_MAX,
            stop: None,
        }
    }

    /// Whether the process is shutting down; a long pass then ends after its current step.
    pub fn is_stopping(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow())
    }
}

/// Why a pass runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassCause {
    /// The first pass of the process.
    Startup,
    /// Something it watches changed, or it was woken by hand.
    Wake,
    /// The time that the last pass named, or the resync interval.
    Timer,
    /// The last pass failed.
    Retry,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassReport {
    /// Items looked at.
    pub examined: u64,
    /// Items changed.
    pub changed: u64,
    /// Items left for the next pass.
    pub deferred: u64,
    /// Items that failed, each on its own back-off.
    pub failed: u64,
    /// Run again after this time, if that is before the resync interval.
    pub next_due: Option<Duration>,
    /// How long the oldest item has not converged.
    pub oldest_unconverged: Option<Duration>,
}

impl PassReport {
    /// Asks for a pass after at most `delay`; the soonest of several wishes counts.
    pub fn due_in(&mut self, delay: Duration) {
        self.next_due = Some(self.next_due.map_or(delay, |earlier| earlier.min(delay)));
    }
}

/// A pass as a whole could not be done.
#[derive(Debug, thiserror::Error)]
#[error("could not {attempted}")]
pub struct PassError {
    /// What was attempted, as in "could not …".
    pub attempted: &'static str,
    /// Why it failed.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

impl PassError {
    /// An error of any kind.
    pub fn new(attempted: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> PassError {
        PassError {
            attempted,
            source: source.into(),
        }
    }
}

impl From<StoreError> for PassError {
    fn from(source: StoreError) -> Self {
        PassError::new("use the store", source)
    }
}

impl From<Unreadable> for PassError {
    fn from(source: Unreadable) -> Self {
        PassError::new("read the store", source)
    }
}

impl<E: Error + Send + Sync + 'static> From<UpdateError<E>> for PassError {
    fn from(source: UpdateError<E>) -> Self {
        PassError::new("commit to the store", source)
    }
}

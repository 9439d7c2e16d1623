//! [`Controller`]: runs reconcilers, each in its own task.
//!
//! Per reconciler: the watches start before the first pass, so no change falls between them; a start-up pass precedes
//! any wake; wakes merge into one and are debounced; a pass is bounded, and one that panics or hangs is cut off and
//! counted as failed; failed passes back off exponentially with jitter, and a wake then shortens the wait to no less
//! than the first step. Shutdown lets a running pass finish within a grace period.

use super::status::{PassOutcome, PassSummary, Phase, ReconcilerStatus, error_chain};
use super::{PassCause, PassContext, Reconciler};
use crate::engine::{EngineWatch, WatchItem};
use crate::limits;
use crate::record::table_range;
use crate::store::Store;
use futures_util::FutureExt;
use rand::Rng;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

/// The bounds of the loop; tests pass smaller ones.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Changes within this time wake once.
    pub debounce: Duration,
    /// A pass is cut off after this time.
    pub pass_max: Duration,
    /// First wait after a failed pass.
    pub backoff_min: Duration,
    /// Longest wait after failed passes.
    pub backoff_max: Duration,
    /// How long shutdown waits for a running pass.
    pub shutdown_grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            debounce: limits::WAKE_DEBOUNCE,
            pass_max: limits::PASS_TIME_MAX,
            backoff_min: limits::BACKOFF_MIN,
            backoff_max: limits::BACKOFF_MAX,
            shutdown_grace: limits::SHUTDOWN_GRACE,
        }
    }
}

/// Reconcilers to be started.
pub struct Controller {
    store: Store,
    timing: Timing,
    reconcilers: Vec<Arc<dyn Reconciler>>,
}

impl Controller {
    /// No reconciler yet.
    pub fn new(store: Store) -> Controller {
        Controller {
            store,
            timing: Timing::default(),
            reconcilers: Vec::new(),
        }
    }

    /// Other bounds than the default.
    pub fn with_timing(mut self, timing: Timing) -> Controller {
        self.timing = timing;
        self
    }

    /// Adds a reconciler.
    ///
    /// # Panics
    /// If one of the same name was added: that is a wiring error, found at the first start.
    pub fn register(mut self, reconciler: Arc<dyn Reconciler>) -> Controller {
        let name = reconciler.name();
        assert!(
            self.reconcilers.iter().all(|other| other.name() != name),
            "two reconcilers named {name}"
        );
        self.reconcilers.push(reconciler);
        self
    }

    /// Starts all. Dropping the handle stops them without grace.
    pub fn start(self) -> ControllerHandle {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut entries = Vec::new();
        for reconciler in self.reconcilers {
            let shared = Arc::new(Shared {
                status: Mutex::new(ReconcilerStatus::new(reconciler.name())),
                wake: Notify::new(),
            });
            entries.push(shared.clone());
            let runner = Runner {
                reconciler,
                shared,
                store: self.store.clone(),
                timing: self.timing,
                stop: stopped.clone(),
            };
            tasks.spawn(runner.run());
        }
        ControllerHandle { stop, tasks, entries }
    }
}

/// Running reconcilers.
pub struct ControllerHandle {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    entries: Vec<Arc<Shared>>,
}

impl ControllerHandle {
    /// The state of each reconciler, in the order of registration.
    pub fn statuses(&self) -> Vec<ReconcilerStatus> {
        self.observer().statuses()
    }

    /// A cheap view of the statuses that outlives borrows of the handle.
    pub fn observer(&self) -> StatusObserver {
        StatusObserver {
            entries: self.entries.clone(),
        }
    }

    /// Wakes one reconciler; false if there is none of that name.
    pub fn wake(&self, name: &str) -> bool {
        self.observer().wake(name)
    }

    /// Stops all: running passes may finish within the grace period. When it returns, no pass runs.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// A view of running reconcilers, for admin calls.
#[derive(Clone)]
pub struct StatusObserver {
    entries: Vec<Arc<Shared>>,
}

impl StatusObserver {
    /// The state of each reconciler, in the order of registration.
    pub fn statuses(&self) -> Vec<ReconcilerStatus> {
        self.entries.iter().map(|entry| entry.status().clone()).collect()
    }

    /// Wakes one reconciler; false if there is none of that name.
    pub fn wake(&self, name: &str) -> bool {
        match self.entries.iter().find(|entry| entry.status().name == name) {
            Some(entry) => {
                entry.wake.notify_one();
                true
            }
            None => false,
        }
    }
}

struct Shared {
    status: Mutex<ReconcilerStatus>,
    wake: Notify,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, ReconcilerStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Runner {
    reconciler: Arc<dyn Reconciler>,
    shared: Arc<Shared>,
    store: Store,
    timing: Timing,
    stop: watch::Receiver<bool>,
}

/// Aborts its task when dropped, so that a cancelled runner leaves nothing behind.
struct Owned<T>(JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Runner {
    async fn run(self) {
        let mut watchers = Vec::new();
        for table in self.reconciler.watches() {
            let watching = Watching {
                store: self.store.clone(),
                table,
                shared: self.shared.clone(),
                retry: self.timing.backoff_min,
            };
            // The first attempt is made here, before the start-up pass.
            let first = self.store.watch(table_range(table), None).await.ok();
            watchers.push(Owned(tokio::spawn(watching.run(first))));
        }
        let mut stop = self.stop.clone();
        let mut cause = PassCause::Startup;
        loop {
            if *stop.borrow() {
                break;
            }
            let wait = self.pass(cause).await;
            let next = async {
                tokio::select! {
                    () = sleep_until(wait.latest) => {
                        if wait.failed { PassCause::Retry } else { PassCause::Timer }
                    }
                    () = self.shared.wake.notified() => {
                        sleep_until(wait.earliest.max(Instant::now() + self.timing.debounce)).await;
                        PassCause::Wake
                    }
                }
            };
            cause = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                cause = next => cause,
            };
        }
        let mut status = self.shared.status();
        status.phase = Phase::Stopped;
        status.next_due = None;
    }

    async fn pass(&self, cause: PassCause) -> Wait {
        // Wakes up to here are this pass's: it reads the store after them.
        let _ = self.shared.wake.notified().now_or_never();
        let started = OffsetDateTime::now_utc();
        self.shared.status().phase = Phase::Running;
        let context = PassContext {
            store: self.store.clone(),
            cause,
            deadline: Instant::now() + self.timing.pass_max,
            stop: Some(self.stop.clone()),
        };
        let reconciler = self.reconciler.clone();
        // In its own task, so that a panic ends the pass and not the loop.
        let mut task = Owned(tokio::spawn(async move { reconciler.pass(&context).await }));
        let mut stop = self.stop.clone();
        let outcome = tokio::select! {
            ended = timeout(self.timing.pass_max, &mut task.0) => match ended {
                Ok(Ok(Ok(report))) => PassOutcome::Done(report),
                Ok(Ok(Err(error))) => PassOutcome::Failed { errors: error_chain(&error) },
                Ok(Err(_)) => PassOutcome::Panicked,
                Err(_) => PassOutcome::TimedOut,
            },
            () = async {
                let _ = stop.wait_for(|stop| *stop).await;
                tokio::time::sleep(self.timing.shutdown_grace).await;
            } => PassOutcome::Stopped,
        };
        task.0.abort();
        if !task.0.is_finished() {
            // Wait until it is really gone, so that no two passes of one reconciler ever overlap.
            let _ = (&mut task.0).await;
        }
        self.finish(cause, started, outcome)
    }

    fn finish(&self, cause: PassCause, started: OffsetDateTime, outcome: PassOutcome) -> Wait {
        let name = self.reconciler.name();
        match &outcome {
            PassOutcome::Done(report) => tracing::debug!(reconciler = name, ?cause, ?report, "pass done"),
            outcome => tracing::warn!(reconciler = name, ?cause, ?outcome, "pass failed"),
        }
        let mut status = self.shared.status();
        let ended = OffsetDateTime::now_utc();
        status.passes += 1;
        let (delay, floor) = match &outcome {
            PassOutcome::Done(report) => {
                status.failures_in_a_row = 0;
                status.last_success = Some(ended);
                status.phase = Phase::Idle;
                let resync = self.reconciler.resync();
                (
                    report.next_due.map_or(resync, |due| due.min(resync)),
                    Duration::ZERO,
                )
            }
            _ => {
                status.failures_in_a_row += 1;
                status.phase = Phase::BackingOff;
                (self.backoff(status.failures_in_a_row), self.timing.backoff_min)
            }
        };
        status.next_due = Some(ended + delay);
        let failed = !outcome.is_done();
        status.last = Some(PassSummary {
            cause,
            started,
            ended,
            outcome,
        });
        let now = Instant::now();
        Wait {
            earliest: now + floor,
            latest: now + delay,
            failed,
        }
    }

    fn backoff(&self, failures: u32) -> Duration {
        let doubled = self
            .timing
            .backoff_min
            .saturating_mul(1 << failures.saturating_sub(1).min(16));
        let jitter = 1.0 + rand::rng().random::<f64>() / 4.0;
        doubled.mul_f64(jitter).min(self.timing.backoff_max)
    }
}

struct Wait {
    earliest: Instant,
    latest: Instant,
    failed: bool,
}

/// Turns the changes of one table into wakes.
struct Watching {
    store: Store,
    table: &'static str,
    shared: Arc<Shared>,
    retry: Duration,
}

impl Watching {
    async fn run(self, mut watch: Option<Box<dyn EngineWatch>>) {
        loop {
            match watch.take() {
                Some(mut running) => {
                    match running.next().await {
                        Ok(WatchItem::Events(_) | WatchItem::Resync { .. }) => {
                            self.shared.wake.notify_one();
                            watch = Some(running);
                        }
                        Ok(WatchItem::Progress(_)) => watch = Some(running),
                        Err(error) => tracing::warn!(table = self.table, %error, "watch ended; trying again"),
                    };
                }
                None => {
                    tokio::time::sleep(self.retry).await;
                    watch = self.store.watch(table_range(self.table), None).await.ok();
                    // Whatever changed while there was no watch.
                    self.shared.wake.notify_one();
                }
            }
        }
    }
}

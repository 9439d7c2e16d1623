//! [`Faults`]: numbers every step of a test, and makes one of them fail in a chosen way.
//!
//! The store's engine and the fakes of the world outside (hypervisors, networks, disks) share one `Faults`, so that "the
//! seventh step" means the same in every run and a failure can be replayed by two words: the fault and the number.
//! A crash is a step that never returns; the harness sees it and drops the pass, as a killed process would.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// What happens to one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and does nothing; the caller is told so.
    Refused,
    /// It does nothing, and the caller cannot know.
    RequestLost,
    /// It is done, but the caller cannot know. Asking again works.
    AnswerLost,
    /// It is done, the caller cannot know, and the next steps fail as well.
    Outage,
    /// It is done twice.
    Repeated,
    /// Another writer interferes just before: what a commit compares has moved. Elsewhere no fault.
    Conflict,
    /// The process dies just before it.
    CrashBefore,
    /// The process dies just after it.
    CrashAfter,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 8] = [
        Fault::Refused,
        Fault::RequestLost,
        Fault::AnswerLost,
        Fault::Outage,
        Fault::Repeated,
        Fault::Conflict,
        Fault::CrashBefore,
        Fault::CrashAfter,
    ];
}

/// How many steps an outage lasts after the one it starts with: a lost commit and both ways of resolving it.
const OUTAGE_STEPS: u64 = 3;

/// A step failed because the test wanted it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("injected fault at step {step}")]
pub struct InjectedFault {
    /// The step, from one.
    pub step: u64,
}

/// The steps of one test. Cheap to clone.
#[derive(Clone, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    steps: AtomicU64,
    armed: Mutex<Option<(u64, Fault)>>,
    crashed: AtomicBool,
    crash: Notify,
}

impl Faults {
    /// No fault.
    pub fn new() -> Faults {
        Faults::default()
    }

    /// Makes step `at`, counted from one and from now, fail.
    pub fn arm(&self, at: u64, fault: Fault) {
        self.shared.steps.store(0, Ordering::SeqCst);
        *self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, fault));
    }

    /// No fault any more; also ends an outage and forgets a crash.
    pub fn disarm(&self) {
        *self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.shared.crashed.store(false, Ordering::SeqCst);
    }

    /// Steps taken since the last [`Faults::arm`].
    pub fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::SeqCst)
    }

    /// Waits until a step crashes.
    pub async fn crashed(&self) {
        loop {
            let notified = self.shared.crash.notified();
            if self.shared.crashed.load(Ordering::SeqCst) {
                return;
            }
            notified.await;
        }
    }

    /// One step outside the store: `act` is the thing done, in the fake world.
    pub async fn step<T, F, Fut>(&self, act: F) -> Result<T, InjectedFault>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = T>,
    {
        let (step, fault) = self.next();
        let failed = Err(InjectedFault { step });
        match fault {
            None | Some(Fault::Conflict) => Ok(act().await),
            Some(Fault::Refused | Fault::RequestLost) => failed,
            Some(Fault::AnswerLost | Fault::Outage) => {
                act().await;
                failed
            }
            Some(Fault::Repeated) => {
                act().await;
                Ok(act().await)
            }
            Some(Fault::CrashBefore) => self.die().await,
            Some(Fault::CrashAfter) => {
                act().await;
                self.die().await
            }
        }
    }

    /// Counts a step; its number and what happens to it.
    pub(crate) fn next(&self) -> (u64, Option<Fault>) {
        let step = self.shared.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let armed = *self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = match armed {
            Some((at, fault)) if at == step => Some(fault),
            Some((at, Fault::Outage)) if step > at && step <= at + OUTAGE_STEPS => Some(Fault::Refused),
            _ => None,
        };
        (step, fault)
    }

    /// Never returns; whoever waits for [`Faults::crashed`] drops us.
    pub(crate) async fn die<T>(&self) -> T {
        self.shared.crashed.store(true, Ordering::SeqCst);
        self.shared.crash.notify_waiters();
        std::future::pending().await
    }
}

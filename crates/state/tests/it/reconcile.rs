//! The reconcile loop: what wakes it, what bounds it, what it shows.

use crate::fixture::{Counter, Machine, bounded, machine};
use async_trait::async_trait;
use state::reconcile::{PassOutcome, Phase, Timing};
use state::{
    Controller, ControllerHandle, PassCause, PassContext, PassError, PassReport, Reconciler,
    ReconcilerStatus, Scope, Store, StoreError, UpdateError,
};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// What a scripted pass does.
#[derive(Debug, Clone, Copy)]
enum Act {
    Done,
    DueIn(Duration),
    Fail,
    Panic,
    Hang,
    /// Runs until shutdown is asked for.
    UntilStopping,
}

/// Follows a script, then is always done; notes each pass.
struct Scripted {
    script: Mutex<Vec<Act>>,
    passes: Mutex<Vec<PassCause>>,
}

impl Scripted {
    fn new(mut script: Vec<Act>) -> Arc<Scripted> {
        script.reverse();
        Arc::new(Scripted {
            script: Mutex::new(script),
            passes: Mutex::default(),
        })
    }

    fn passes(&self) -> Vec<PassCause> {
        self.passes.lock().expect("lock").clone()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the world is closed")]
struct Closed;

#[async_trait]
impl Reconciler for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn watches(&self) -> &[&'static str] {
        &["machines", "counters"]
    }

    fn resync(&self) -> Duration {
        Duration::from_secs(1_000)
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        self.passes.lock().expect("lock").push(context.cause);
        let act = self.script.lock().expect("lock").pop().unwrap_or(Act::Done);
        let mut report = PassReport {
            examined: 3,
            ..PassReport::default()
        };
        match act {
            Act::Done => {}
            Act::DueIn(delay) => report.due_in(delay),
            Act::Fail => return Err(PassError::new("look at the world", Closed)),
            Act::Panic => panic!("a pass that the test makes panic"),
            Act::Hang => std::future::pending().await,
            Act::UntilStopping => {
                while !context.is_stopping() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                report.changed = 1;
            }
        }
        Ok(report)
    }
}

fn start(store: &Store, reconciler: &Arc<Scripted>) -> ControllerHandle {
    Controller::new(store.clone())
        .register(reconciler.clone())
        .start()
}

/// Waits until the status fits; time is the test's own, so nothing is waited for in vain.
async fn until(handle: &ControllerHandle, fits: impl Fn(&ReconcilerStatus) -> bool) -> ReconcilerStatus {
    bounded(async {
        loop {
            let status = handle.statuses().remove(0);
            if fits(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

async fn put(store: &Store, count: u64) {
    let counter = &Counter {
        id: "a".to_owned(),
        count,
    };
    let outcome: Result<(), UpdateError<StoreError>> =
        store.update(|tx| async move { tx.put(counter) }).await;
    outcome.expect("committed");
}

#[tokio::test(start_paused = true)]
async fn starts_with_a_pass_and_is_woken_by_changes() {
    let store = Store::memory();
    let reconciler = Scripted::new(Vec::new());
    let handle = start(&store, &reconciler);
    let status = until(&handle, |status| status.phase == Phase::Idle).await;
    assert_eq!(reconciler.passes(), [PassCause::Startup]);
    assert_eq!(status.passes, 1);
    let outcome = status.last.expect("a pass").outcome;
    assert!(
        matches!(outcome, PassOutcome::Done(PassReport { examined: 3, .. })),
        "{outcome:?}"
    );

    // Many changes at once are one wake.
    for n in 0..20 {
        put(&store, n).await;
    }
    let machine = &machine("1", "a", "n");
    let outcome: Result<(), UpdateError<StoreError>> =
        store.update(|tx| async move { tx.put(machine) }).await;
    outcome.expect("committed");
    until(&handle, |status| status.passes == 2).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(reconciler.passes(), [PassCause::Startup, PassCause::Wake]);

    assert!(handle.wake("scripted"));
    assert!(!handle.wake("another"));
    until(&handle, |status| status.passes == 3).await;
    // Without any wake it runs at its resync interval.
    tokio::time::sleep(Duration::from_secs(1_001)).await;
    until(&handle, |status| status.passes == 4).await;
    assert_eq!(reconciler.passes()[3], PassCause::Timer);
    handle.shutdown().await;
    let _: Vec<Machine> = store.list_all().await.expect("the store outlives the loop");
}

#[tokio::test(start_paused = true)]
async fn a_pass_names_its_next_time() {
    let store = Store::memory();
    let reconciler = Scripted::new(vec![Act::DueIn(Duration::from_secs(5)), Act::Done]);
    let handle = start(&store, &reconciler);
    until(&handle, |status| status.phase == Phase::Idle).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(reconciler.passes().len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(reconciler.passes(), [PassCause::Startup, PassCause::Timer]);
    handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_show_their_chain() {
    let store = Store::memory();
    let reconciler = Scripted::new(vec![Act::Fail, Act::Panic, Act::Hang, Act::Fail, Act::Done]);
    let handle = start(&store, &reconciler);
    let status = until(&handle, |status| status.phase == Phase::BackingOff).await;
    let PassOutcome::Failed { errors } = status.last.expect("a pass").outcome else {
        panic!("failed")
    };
    assert_eq!(errors, ["could not look at the world", "the world is closed"]);
    assert!(status.last_success.is_none() && status.next_due.is_some());

    // The second attempt panics, a second later; the loop survives it.
    let status = until(&handle, |status| status.passes == 2).await;
    assert_eq!(status.last.expect("a pass").outcome, PassOutcome::Panicked);
    // The third hangs and is cut off.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(handle.statuses()[0].phase, Phase::Running);
    tokio::time::sleep(Duration::from_secs(63)).await;
    let status = handle.statuses().remove(0);
    assert_eq!(status.last.expect("a pass").outcome, PassOutcome::TimedOut);
    assert_eq!((status.passes, status.failures_in_a_row), (3, 3));
    // Four seconds after the third failure at the earliest.
    let before = tokio::time::Instant::now();
    until(&handle, |status| status.passes == 4).await;
    assert!(before.elapsed() < Duration::from_secs(6));
    // A change shortens the wait of eight seconds, but not below the first step.
    put(&store, 1).await;
    let before = tokio::time::Instant::now();
    let status = until(&handle, |status| status.passes == 5).await;
    assert!(before.elapsed() >= Duration::from_millis(900) && before.elapsed() < Duration::from_secs(2));
    assert_eq!(status.failures_in_a_row, 0);
    assert_eq!(reconciler.passes()[4], PassCause::Wake);
    handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_pass_but_not_for_ever() {
    let store = Store::memory();
    let reconciler = Scripted::new(vec![Act::UntilStopping]);
    let handle = start(&store, &reconciler);
    until(&handle, |status| status.phase == Phase::Running).await;
    let observer = handle.observer();
    handle.shutdown().await;
    let status = observer.statuses().remove(0);
    assert_eq!(status.phase, Phase::Stopped);
    let outcome = status.last.expect("a pass").outcome;
    assert!(
        matches!(outcome, PassOutcome::Done(PassReport { changed: 1, .. })),
        "{outcome:?}"
    );

    let hanging = Scripted::new(vec![Act::Hang]);
    let handle = Controller::new(store.clone())
        .with_timing(Timing {
            shutdown_grace: Duration::from_secs(3),
            ..Timing::default()
        })
        .register(hanging.clone())
        .start();
    until(&handle, |status| status.phase == Phase::Running).await;
    let observer = handle.observer();
    let before = tokio::time::Instant::now();
    bounded(handle.shutdown()).await;
    assert!(before.elapsed() < Duration::from_secs(5));
    assert_eq!(
        observer.statuses()[0].last.as_ref().expect("a pass").outcome,
        PassOutcome::Stopped
    );
    // Nothing runs on.
    put(&store, 1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(hanging.passes().len(), 1);
    assert!(
        store
            .find::<Counter>(&Scope::NONE, "a")
            .await
            .expect("readable")
            .is_some()
    );
}

#[test]
#[should_panic(expected = "two reconcilers named scripted")]
fn names_are_unique() {
    let store = Store::memory();
    let _ = Controller::new(store)
        .register(Scripted::new(Vec::new()))
        .register(Scripted::new(Vec::new()));
}

//! The reconciler harness: every fault at every step, each followed by a restart, must end converged and quiet.
//!
//! One run without faults counts the steps. Then, for each step and each fault, in a fresh world: seed, run passes with
//! the fault armed until the reconciler has converged or died, build a new reconciler over the same store and world (the
//! restart), run passes without faults until nothing changes, and ask the scenario's own check. After that one more pass
//! must leave the store's revision as it is: a converged reconciler writes nothing (R45). A violation panics with the
//! fault and the step, which replay it.

use crate::fault_engine::FaultEngine;
use crate::faults::{Fault, Faults};
use crate::limits;
use async_trait::async_trait;
use state::Store;
use state::engine::{Engine, MemoryEngine};
use state::reconcile::{PassCause, PassContext, PassReport, Reconciler};
use std::sync::Arc;

/// Why a world is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Violation {
    /// What was found, for the reader of the failed test.
    pub what: String,
}

impl Violation {
    /// A violation found by a check.
    pub fn new(what: impl Into<String>) -> Violation {
        Violation { what: what.into() }
    }
}

/// What is to be reconciled.
#[async_trait]
pub trait Scenario: Send + Sync {
    /// What exists outside the store and outlives the process: processes, files, links. Its steps go through
    /// [`Faults::step`].
    type World: Send + Sync;

    /// Writes the intent into an empty store and makes the world that it meets.
    async fn seed(&self, store: &Store, faults: &Faults) -> Self::World;

    /// A fresh reconciler, as after a restart: it knows nothing but the store and the world.
    fn reconciler(&self, store: &Store, world: &Self::World) -> Arc<dyn Reconciler>;

    /// Whether everything converged and nothing is left over.
    async fn check(&self, store: &Store, world: &Self::World) -> Result<(), Violation>;

    /// The faults to try.
    fn faults(&self) -> Vec<Fault> {
        Fault::ALL.to_vec()
    }
}

/// What a run of the harness covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// Steps of a run without faults.
    pub steps: u64,
    /// Runs with one fault each.
    pub runs: u64,
}

/// Runs the scenario with every fault at every step. Panics at the first violation.
pub async fn run_reconciler_with_faults<S: Scenario>(scenario: &S) -> Coverage {
    let steps = match one_run(scenario, None).await {
        Ok(steps) => steps,
        Err(violation) => panic!("without any fault: {violation}"),
    };
    assert!(steps <= limits::STEPS_MAX, "{steps} steps; split the scenario");
    let mut runs = 0;
    for step in 1..=steps {
        for fault in scenario.faults() {
            if let Err(violation) = one_run(scenario, Some((step, fault))).await {
                panic!("{fault:?} at step {step} of {steps}: {violation}");
            }
            runs += 1;
        }
    }
    Coverage { steps, runs }
}

/// One fresh world with at most one fault; answers the steps taken before the restart.
async fn one_run<S: Scenario>(scenario: &S, fault: Option<(u64, Fault)>) -> Result<u64, Violation> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let faults = Faults::new();
    let faulty = || Store::with_engine(Arc::new(FaultEngine::new(engine.clone(), faults.clone())));
    let store = faulty();
    let world = scenario.seed(&store, &faults).await;
    let (at, fault) = fault.unwrap_or((0, Fault::Refused));
    faults.arm(at, fault);
    let reconciler = scenario.reconciler(&store, &world);
    let mut converged = false;
    for _ in 0..limits::PASSES_MAX {
        let context = PassContext::new(store.clone(), PassCause::Wake);
        let ended = tokio::select! {
            () = faults.crashed() => break,
            ended = bounded(reconciler.pass(&context)) => ended?,
        };
        // An error is the fault at work; the next pass goes on.
        if ended.is_ok_and(is_done) {
            converged = true;
            break;
        }
    }
    let steps = faults.steps();
    if at == 0 && !converged {
        return Err(Violation::new(format!(
            "not converged after {} passes",
            limits::PASSES_MAX
        )));
    }
    drop(reconciler);
    faults.disarm();

    let store = faulty();
    let restarted = scenario.reconciler(&store, &world);
    settle(&store, restarted.as_ref()).await?;
    scenario.check(&store, &world).await?;

    let before = revision(&store).await?;
    pass(&store, restarted.as_ref()).await?;
    let after = revision(&store).await?;
    if before != after {
        return Err(Violation::new(format!(
            "a converged pass wrote: revision {before} became {after}"
        )));
    }
    scenario.check(&store, &world).await?;
    Ok(steps)
}

/// Passes until nothing changes.
async fn settle(store: &Store, reconciler: &dyn Reconciler) -> Result<(), Violation> {
    for _ in 0..limits::PASSES_MAX {
        if is_done(pass(store, reconciler).await?) {
            return Ok(());
        }
    }
    Err(Violation::new(format!(
        "not converged {} passes after the restart",
        limits::PASSES_MAX
    )))
}

fn is_done(report: PassReport) -> bool {
    report.changed == 0 && report.deferred == 0 && report.failed == 0
}

async fn pass(store: &Store, reconciler: &dyn Reconciler) -> Result<PassReport, Violation> {
    let context = PassContext::new(store.clone(), PassCause::Startup);
    bounded(reconciler.pass(&context)).await?.map_err(|error| {
        Violation::new(format!(
            "a pass without faults failed: {error}: {:?}",
            error.source
        ))
    })
}

async fn bounded<T>(pass: impl Future<Output = T>) -> Result<T, Violation> {
    tokio::time::timeout(limits::PASS_TIME_MAX, pass)
        .await
        .map_err(|_| Violation::new(format!("a pass took longer than {:?}", limits::PASS_TIME_MAX)))
}

async fn revision(store: &Store) -> Result<u64, Violation> {
    let revision = store
        .revision()
        .await
        .map_err(|error| Violation::new(error.to_string()))?;
    Ok(revision.0)
}

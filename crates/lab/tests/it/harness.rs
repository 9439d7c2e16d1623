//! A small cloud of lamps: intent says which are lit, the world has bulbs, the reconciler switches them.
//!
//! The sound reconciler records that it is about to light a bulb before it does, so that a lamp that is deleted in
//! between leaves nothing burning. Each unsound one leaves out one thing that the loop demands.

use async_trait::async_trait;
use lab::{Coverage, Fault, Faults, InjectedFault, Scenario, Violation, run_reconciler_with_faults};
use serde::{Deserialize, Serialize};
use state::reconcile::{PassContext, PassError, PassReport, Reconciler};
use state::{Record, RecordKey, Scope, Store, StoreError, UpdateError};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Lamp {
    id: String,
    wanted: bool,
    switching: bool,
    lit: bool,
    switched: u64,
}

impl Record for Lamp {
    const TABLE: &'static str = "lamps";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.id)
    }
}

#[derive(Clone)]
struct Bulbs {
    burning: Arc<Mutex<BTreeSet<String>>>,
    faults: Faults,
}

impl Bulbs {
    async fn switch(&self, id: &str, on: bool) -> Result<(), InjectedFault> {
        self.faults
            .step(|| async {
                let mut burning = self.burning.lock().expect("lock");
                if on {
                    burning.insert(id.to_owned())
                } else {
                    burning.remove(id)
                };
            })
            .await
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// Counts a switch twice when the answer was lost.
    BlindWrite,
    /// Writes in every pass.
    Restless,
}

struct Lighter {
    bulbs: Bulbs,
    flaw: Flaw,
}

type Outcome = Result<(), UpdateError<StoreError>>;

#[async_trait]
impl Reconciler for Lighter {
    fn name(&self) -> &'static str {
        "lighter"
    }

    fn watches(&self) -> &[&'static str] {
        &["lamps"]
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let mut report = PassReport::default();
        for lamp in context.store.list::<Lamp>(&Scope::NONE).await? {
            report.examined += 1;
            let id = lamp.id.as_str();
            if self.flaw == Flaw::Restless {
                let outcome: Outcome = context
                    .store
                    .update(|tx| async move {
                        let mut lamp: Lamp = tx.fetch(&Scope::NONE, id).await?;
                        lamp.switched += 1;
                        tx.put(&lamp)
                    })
                    .await;
                outcome?;
            }
            if lamp.wanted == lamp.lit && !lamp.switching {
                continue;
            }
            report.changed += 1;
            if !lamp.switching {
                self.set(&context.store, id, |lamp| lamp.switching = true).await?;
            }
            let switched = self.bulbs.switch(id, lamp.wanted).await;
            switched.map_err(|error| PassError::new("switch a bulb", error))?;
            self.set(&context.store, id, |lamp| {
                lamp.switching = false;
                lamp.lit = lamp.wanted;
                lamp.switched = 1;
            })
            .await?;
            if self.flaw == Flaw::BlindWrite {
                self.set(&context.store, id, |lamp| lamp.switched += 1).await?;
            }
        }
        Ok(report)
    }
}

impl Lighter {
    async fn set(&self, store: &Store, id: &str, change: impl Fn(&mut Lamp)) -> Outcome {
        let change = &change;
        store
            .update(|tx| async move {
                let mut lamp: Lamp = tx.fetch(&Scope::NONE, id).await?;
                change(&mut lamp);
                tx.put(&lamp)
            })
            .await
    }
}

struct Lamps {
    flaw: Flaw,
}

#[async_trait]
impl Scenario for Lamps {
    type World = Bulbs;

    async fn seed(&self, store: &Store, faults: &Faults) -> Bulbs {
        let outcome: Outcome = store
            .update(|tx| async move {
                for (id, wanted) in [("a", true), ("b", false), ("c", true)] {
                    let lamp = Lamp {
                        id: id.to_owned(),
                        wanted,
                        switching: false,
                        lit: id == "b",
                        switched: 0,
                    };
                    tx.insert(&lamp)?;
                }
                Ok(())
            })
            .await;
        outcome.expect("seeded");
        let burning = Arc::new(Mutex::new(BTreeSet::from(["b".to_owned()])));
        Bulbs {
            burning,
            faults: faults.clone(),
        }
    }

    fn reconciler(&self, _store: &Store, world: &Bulbs) -> Arc<dyn Reconciler> {
        Arc::new(Lighter {
            bulbs: world.clone(),
            flaw: self.flaw,
        })
    }

    async fn check(&self, store: &Store, world: &Bulbs) -> Result<(), Violation> {
        let lamps = store
            .list::<Lamp>(&Scope::NONE)
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        for lamp in &lamps {
            let burning = world.burning.lock().expect("lock").contains(&lamp.id);
            if burning != lamp.wanted || lamp.lit != lamp.wanted || lamp.switching {
                return Err(Violation::new(format!("{lamp:?}, burning: {burning}")));
            }
            let expected = if self.flaw == Flaw::BlindWrite { 2 } else { 1 };
            if lamp.switched != expected && self.flaw != Flaw::Restless {
                return Err(Violation::new(format!(
                    "{lamp:?} was not switched {expected} times"
                )));
            }
        }
        let burning = world.burning.lock().expect("lock").len();
        if burning != 2 {
            return Err(Violation::new(format!("{burning} bulbs burn")));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_sound_reconciler_converges_under_every_fault() {
    let coverage = run_reconciler_with_faults(&Lamps { flaw: Flaw::None }).await;
    let Coverage { steps, runs } = coverage;
    assert!(steps >= 3 * 5, "{coverage:?}");
    assert_eq!(runs, steps * Fault::ALL.len() as u64);
}

#[tokio::test]
#[should_panic(expected = "was not switched 2 times")]
async fn a_write_that_is_not_settled_is_caught() {
    run_reconciler_with_faults(&Lamps {
        flaw: Flaw::BlindWrite,
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "a converged pass wrote")]
async fn a_restless_reconciler_is_caught() {
    run_reconciler_with_faults(&Lamps { flaw: Flaw::Restless }).await;
}

#[tokio::test]
async fn faults_happen_at_their_step() {
    let faults = Faults::new();
    let done = Mutex::new(0);
    let act = || async { *done.lock().expect("lock") += 1 };
    faults.arm(2, Fault::Repeated);
    for _ in 0..3 {
        faults.step(act).await.expect("no error");
    }
    assert_eq!((*done.lock().expect("lock"), faults.steps()), (4, 3));
    faults.arm(1, Fault::Refused);
    assert_eq!(faults.step(act).await, Err(InjectedFault { step: 1 }));
    assert_eq!(*done.lock().expect("lock"), 4);
    faults.arm(1, Fault::AnswerLost);
    assert!(faults.step(act).await.is_err());
    assert_eq!(*done.lock().expect("lock"), 5);
    faults.arm(1, Fault::CrashAfter);
    tokio::select! {
        () = faults.crashed() => {}
        _ = faults.step(act) => panic!("a crashed step does not return"),
    }
    assert_eq!(*done.lock().expect("lock"), 6);
}

//! [`FaultEngine`]: wraps any engine; each read and each commit is one step of its [`Faults`].
//!
//! Faults are answered as the contract has them: a refused read is unreadable, a lost commit is unknown. Watches and
//! status pass through, since a watch only wakes and a reconciler must not depend on it.

use crate::faults::{Fault, Faults, InjectedFault};
use async_trait::async_trait;
use state::engine::{Engine, EngineStatus, EngineWatch, Op, Over, ReadAnswer, ReadOp, ReadRequest, Txn};
use state::{Change, Key, KeyRange, Refusal, Revision, Unreadable};
use std::sync::Arc;

/// An engine whose calls can be made to fail.
pub struct FaultEngine {
    inner: Arc<dyn Engine>,
    faults: Faults,
}

impl FaultEngine {
    /// Wraps `inner`; `faults` decides what fails.
    pub fn new(inner: Arc<dyn Engine>, faults: Faults) -> FaultEngine {
        FaultEngine { inner, faults }
    }

    /// Another writer rewrites, unchanged, the records that `txn` compares, so that their revisions move.
    async fn interfere(&self, txn: &Txn) {
        let records = Key::of(&["t"]).children();
        let mut keys: Vec<Key> = Vec::new();
        for compare in &txn.compares {
            if let Over::Key(key) = &compare.over
                && records.contains(key)
                && !keys.contains(key)
            {
                keys.push(key.clone());
            }
        }
        let ops = keys.into_iter().map(ReadOp::Get).collect();
        let Ok(answer) = self.inner.read(ReadRequest { ops, at: None }).await else {
            return;
        };
        let mut rewrite = Txn::new();
        let rows = answer.pages.into_iter().flat_map(|page| page.rows);
        rewrite.then.extend(rows.map(|row| Op::Put {
            key: row.key,
            value: row.value,
        }));
        self.inner.commit(rewrite).await;
    }
}

fn refused(step: u64) -> Change {
    Change::Refused(Refusal::Engine(Box::new(InjectedFault { step })))
}

#[async_trait]
impl Engine for FaultEngine {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadAnswer, Unreadable> {
        match self.faults.next() {
            (_, None | Some(Fault::Conflict | Fault::Repeated)) => self.inner.read(request).await,
            (step, Some(Fault::Refused)) => Err(Unreadable::Engine(Box::new(InjectedFault { step }))),
            (_, Some(Fault::RequestLost | Fault::AnswerLost | Fault::Outage)) => {
                Err(Unreadable::TimedOut { seconds: 0 })
            }
            (_, Some(Fault::CrashBefore | Fault::CrashAfter)) => self.faults.die().await,
        }
    }

    async fn commit(&self, txn: Txn) -> Change {
        let id = txn.id;
        match self.faults.next() {
            (_, None) => self.inner.commit(txn).await,
            (step, Some(Fault::Refused)) => refused(step),
            (_, Some(Fault::RequestLost)) => Change::Unknown(id),
            // A commit that is sent twice is one whose first answer was lost.
            (_, Some(Fault::AnswerLost | Fault::Outage | Fault::Repeated)) => {
                self.inner.commit(txn).await;
                Change::Unknown(id)
            }
            (_, Some(Fault::Conflict)) => {
                self.interfere(&txn).await;
                self.inner.commit(txn).await
            }
            (_, Some(Fault::CrashBefore)) => self.faults.die().await,
            (_, Some(Fault::CrashAfter)) => {
                self.inner.commit(txn).await;
                self.faults.die().await
            }
        }
    }

    async fn watch(
        &self,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Box<dyn EngineWatch>, Unreadable> {
        self.inner.watch(range, from).await
    }

    async fn status(&self) -> Result<EngineStatus, Unreadable> {
        self.inner.status().await
    }
}

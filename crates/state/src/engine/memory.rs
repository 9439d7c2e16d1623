//! The memory engine: the contract without a disk. For unit tests, and the reference that `redb` is compared with.
//!
//! One mutex around ordered maps; every call holds it for one request and never across an await. What it shares with
//! `redb` is in `mvcc` (transactions, reads at a revision) and `feed` (watches); only the rows and the log are its own.

use super::feed::{Feed, Log, watch_log};
use super::mvcc::{self, MergeAt, Rows, Snapshot, Stored};
use super::{
    Engine, EngineStatus, EngineWatch, HistoryLimits, PageRows, ReadAnswer, ReadRequest, RevisionEvents, Txn,
    check_read, check_txn,
};
use crate::key::{Key, KeyRange};
use crate::limits;
use crate::result::{Change, Refusal, Revision, Unreadable};
use async_trait::async_trait;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The memory engine.
pub struct MemoryEngine {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    feed: Feed,
    history: HistoryLimits,
}

#[derive(Default)]
struct State {
    revision: Revision,
    oldest: Revision,
    rows: MemoryRows,
    log: VecDeque<(Instant, Arc<RevisionEvents>)>,
    changes: u64,
    bytes: u64,
}

#[derive(Default)]
struct MemoryRows {
    current: BTreeMap<Key, Stored>,
    history: BTreeMap<(Key, Revision), Stored>,
}

impl MemoryEngine {
    /// An empty store.
    pub fn new() -> MemoryEngine {
        MemoryEngine::with_history(HistoryLimits::default())
    }

    /// An empty store that keeps this much history.
    pub fn with_history(history: HistoryLimits) -> MemoryEngine {
        let shared = Shared {
            state: Mutex::default(),
            feed: Feed::new(Revision::ZERO),
            history,
        };
        MemoryEngine {
            shared: Arc::new(shared),
        }
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        MemoryEngine::new()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed only by code that cannot panic half-way, so a poisoned lock still holds whole revisions.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, txn: &Txn) -> Change {
        let mut state = self.lock();
        let next = state.revision.next();
        let Ok(applied) = mvcc::apply(&mut state.rows, txn, next);
        let mut made = None;
        if !applied.events.is_empty() {
            state.revision = next;
            state.changes += applied.events.len() as u64;
            state.bytes += event_bytes(&applied.events);
            state.log.push_back((
                Instant::now(),
                Arc::new(RevisionEvents {
                    revision: next,
                    events: applied.events,
                }),
            ));
            state.compact(&self.history);
            self.feed.announce(next);
            made = Some(next);
        }
        if applied.held {
            Change::Applied(state.revision)
        } else {
            Change::Refused(Refusal::Compare { otherwise: made })
        }
    }
}

impl State {
    fn compact(&mut self, limits: &HistoryLimits) {
        while let Some((at, batch)) = self.log.front() {
            let over = self.changes > limits.changes_max || self.bytes > limits.bytes_max;
            if !over && at.elapsed() < limits.span_min {
                break;
            }
            let batch = batch.clone();
            self.log.pop_front();
            self.changes -= batch.events.len() as u64;
            self.bytes -= event_bytes(&batch.events);
            self.oldest = batch.revision;
            for event in &batch.events {
                self.rows.history.remove(&(event.key.clone(), batch.revision));
            }
        }
    }
}

fn event_bytes(events: &[super::Event]) -> u64 {
    let value = |kv: &Option<super::KeyValue>| kv.as_ref().map_or(0, |kv| kv.value.len());
    events
        .iter()
        .map(|event| (event.key.len() + value(&event.new) + value(&event.old)) as u64)
        .sum()
}

#[async_trait]
impl Engine for MemoryEngine {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadAnswer, Unreadable> {
        check_read(&request).map_err(Unreadable::Bounds)?;
        let state = self.shared.lock();
        let at = request.at.unwrap_or(state.revision);
        if at > state.revision {
            return Err(Unreadable::Future {
                asked: at,
                current: state.revision,
            });
        }
        if at < state.oldest {
            return Err(Unreadable::Compacted { oldest: state.oldest });
        }
        let Ok(pages) = mvcc::answer(
            &AtRevision {
                rows: &state.rows,
                at,
            },
            &request.ops,
        );
        Ok(ReadAnswer { revision: at, pages })
    }

    async fn commit(&self, txn: Txn) -> Change {
        match check_txn(&txn) {
            Ok(_) => self.shared.commit(&txn),
            Err(bounds) => Change::Refused(Refusal::Bounds(bounds)),
        }
    }

    async fn watch(
        &self,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Box<dyn EngineWatch>, Unreadable> {
        watch_log(&self.shared, range, from)
    }

    async fn status(&self) -> Result<EngineStatus, Unreadable> {
        let state = self.shared.lock();
        Ok(EngineStatus {
            revision: state.revision,
            oldest: state.oldest,
            history_changes: state.changes,
            writable: true,
        })
    }
}

#[async_trait]
impl Log for Shared {
    async fn log_after(self: Arc<Self>, after: Revision) -> Result<Vec<Arc<RevisionEvents>>, Unreadable> {
        let state = self.lock();
        if after < state.oldest {
            return Err(Unreadable::Compacted { oldest: state.oldest });
        }
        // The log has every revision after `oldest`, so the position follows from the numbers.
        let skip = usize::try_from(after.0 - state.oldest.0).unwrap_or(usize::MAX);
        let mut changes = 0;
        let mut page = Vec::new();
        for (_, batch) in state.log.iter().skip(skip) {
            if changes > 0 && changes + batch.events.len() > limits::WATCH_PAGE_CHANGES_MAX {
                break;
            }
            changes += batch.events.len();
            page.push(batch.clone());
        }
        Ok(page)
    }

    fn oldest(&self) -> Revision {
        self.lock().oldest
    }

    fn feed(&self) -> &Feed {
        &self.feed
    }
}

impl Rows for MemoryRows {
    type Error = Infallible;

    fn current(&self, key: &Key) -> Result<Option<Stored>, Infallible> {
        Ok(self.current.get(key).cloned())
    }

    fn each_current(
        &self,
        range: &KeyRange,
        visit: &mut dyn FnMut(Key, Stored) -> bool,
    ) -> Result<(), Infallible> {
        if !range.is_empty() {
            for (key, stored) in self.current.range::<Key, _>(&range.start..&range.end) {
                if !visit(key.clone(), stored.clone()) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn put_current(&mut self, key: &Key, stored: &Stored) -> Result<(), Infallible> {
        self.current.insert(key.clone(), stored.clone());
        Ok(())
    }

    fn remove_current(&mut self, key: &Key) -> Result<(), Infallible> {
        self.current.remove(key);
        Ok(())
    }

    fn put_history(&mut self, key: &Key, superseded: Revision, stored: &Stored) -> Result<(), Infallible> {
        self.history.insert((key.clone(), superseded), stored.clone());
        Ok(())
    }
}

struct AtRevision<'a> {
    rows: &'a MemoryRows,
    at: Revision,
}

impl Snapshot for AtRevision<'_> {
    type Error = Infallible;

    fn get(&self, key: &Key) -> Result<Option<Stored>, Infallible> {
        let mut budget = usize::MAX;
        let single = KeyRange {
            start: key.clone(),
            end: key.successor(),
        };
        let page = self.range(&single, 1, &mut budget, true)?;
        Ok(page.rows.into_iter().next().map(|kv| Stored {
            value: kv.value,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
        }))
    }

    fn range(
        &self,
        range: &KeyRange,
        limit: usize,
        budget: &mut usize,
        must: bool,
    ) -> Result<PageRows, Infallible> {
        if range.is_empty() {
            return Ok(PageRows::default());
        }
        let current = self.rows.current.range::<Key, _>(&range.start..&range.end);
        let from = (range.start.clone(), Revision::ZERO);
        let to = (range.end.clone(), Revision::ZERO);
        let history = self.rows.history.range(from..to);
        let merged = MergeAt {
            current: current
                .map(|(key, stored)| Ok((key.clone(), stored.clone())))
                .peekable(),
            history: history
                .map(|((key, superseded), stored)| Ok((key.clone(), *superseded, stored.clone())))
                .peekable(),
            at: self.at,
        };
        mvcc::page(merged, limit, budget, must)
    }
}

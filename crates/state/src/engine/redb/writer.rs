//! The writer thread: takes what waits in the queue, applies it as consecutive revisions, and makes it durable with
//! one sync.
//!
//! A job enters the batch before the batch's commit starts, so the sync that acknowledges it started after it (R1).
//! While one batch is being synced the next one gathers, which is all the group commit there is: no timer, no added
//! latency for a single client. History is compacted in the same redb transaction, a bounded step per batch.

use super::rows::{Position, RedbError, WriteTables};
use super::{Job, Shared};
use crate::engine::mvcc;
use crate::engine::{RevisionEvents, Txn};
use crate::limits;
use crate::result::{Change, Refusal, Revision};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

pub(super) struct Writer {
    shared: Arc<Shared>,
    position: Position,
    ages: Ages,
}

/// The outcome of one transaction within a batch that is not yet durable.
struct Done {
    held: bool,
    /// The store's revision after it.
    revision: Revision,
    changed: bool,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, position: Position) -> Writer {
        let ages = Ages::new(shared.history.span_min, position.revision);
        Writer {
            shared,
            position,
            ages,
        }
    }

    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut carried = None;
        while let Some(first) = carried.take().or_else(|| jobs.blocking_recv()) {
            let mut bytes = first.bytes;
            let mut batch = vec![first];
            while batch.len() < limits::BATCH_TXNS_MAX {
                let Ok(job) = jobs.try_recv() else { break };
                bytes += job.bytes;
                if bytes > limits::BATCH_BYTES_MAX {
                    carried = Some(job);
                    break;
                }
                batch.push(job);
            }
            self.commit(batch);
        }
    }

    fn commit(&mut self, batch: Vec<Job>) {
        if self.shared.is_poisoned() {
            answer(batch, |_, _| Change::Refused(Refusal::Poisoned));
            return;
        }
        let mut position = self.position;
        let mut done = Vec::with_capacity(batch.len());
        let mut published = Vec::new();
        let txns = batch.iter().map(|job| &job.txn);
        let write = match self.apply(txns, &mut position, &mut done, &mut published) {
            Ok(write) => write,
            Err(error) => {
                // Nothing of the batch reached redb's commit, so the refusal is definite.
                tracing::error!(%error, "the store failed while applying a batch; it takes no more writes");
                self.shared.poisoned.store(true, Ordering::Release);
                answer(batch, |_, _| Change::Refused(Refusal::Poisoned));
                return;
            }
        };
        if let Some(write) = write
            && let Err(error) = write.commit()
        {
            tracing::error!(%error, "the store failed to sync; it takes no more writes");
            self.shared.poisoned.store(true, Ordering::Release);
            answer(batch, |position, job| match &done[position] {
                // It did not happen and never will, whatever became of the batch.
                Done {
                    held: false,
                    changed: false,
                    ..
                } => Change::Refused(Refusal::Compare { otherwise: None }),
                _ => Change::Unknown(job.txn.id),
            });
            return;
        }
        self.position = position;
        if !published.is_empty() {
            self.shared.publish(published, position);
        }
        answer(batch, |position, _| {
            let done = &done[position];
            if done.held {
                Change::Applied(done.revision)
            } else {
                Change::Refused(Refusal::Compare {
                    otherwise: done.changed.then_some(done.revision),
                })
            }
        });
    }

    /// Applies a batch; `None` if nothing changed, so that there is nothing to sync.
    fn apply<'a>(
        &mut self,
        txns: impl Iterator<Item = &'a Txn>,
        position: &mut Position,
        done: &mut Vec<Done>,
        published: &mut Vec<Arc<RevisionEvents>>,
    ) -> Result<Option<::redb::WriteTransaction>, RedbError> {
        let mut write = self.shared.db.begin_write()?;
        write.set_durability(::redb::Durability::Immediate)?;
        {
            let mut tables = WriteTables::open(&write)?;
            let mut added = 0;
            for txn in txns {
                let next = position.revision.next();
                let applied = mvcc::apply(&mut tables, txn, next)?;
                let changed = !applied.events.is_empty();
                if changed {
                    tables.put_log(next, &applied.events)?;
                    position.revision = next;
                    position.changes += applied.events.len() as u64;
                    position.bytes += super::rows::event_bytes(&applied.events) as u64;
                    added += applied.events.len();
                    published.push(Arc::new(RevisionEvents {
                        revision: next,
                        events: applied.events,
                    }));
                }
                done.push(Done {
                    held: applied.held,
                    revision: position.revision,
                    changed,
                });
            }
            if !published.is_empty() {
                self.compact(&mut tables, position, added)?;
                tables.put_position(*position)?;
            }
        }
        if published.is_empty() {
            write.abort()?;
            return Ok(None);
        }
        Ok(Some(write))
    }

    fn compact(
        &mut self,
        tables: &mut WriteTables<'_>,
        position: &mut Position,
        added: usize,
    ) -> Result<(), RedbError> {
        let history = &self.shared.history;
        let aged = self.ages.older_than_span(position.revision);
        for _ in 0..added + limits::COMPACT_STEP_MAX {
            let over = position.changes > history.changes_max || position.bytes > history.bytes_max;
            if !(over || position.oldest < aged) || !tables.compact_one(position)? {
                break;
            }
        }
        Ok(())
    }
}

fn answer(batch: Vec<Job>, outcome: impl Fn(usize, &Job) -> Change) {
    for (position, job) in batch.into_iter().enumerate() {
        let change = outcome(position, &job);
        // The caller may have hung up; what was committed stays committed.
        let _ = job.answer.send(change);
    }
}

/// Which revisions are old enough to be compacted, by this process's monotonic clock: no step of the wall clock can
/// shorten history, and what an earlier process wrote counts as written when this one started.
struct Ages {
    span: Duration,
    every: Duration,
    marks: VecDeque<(Instant, Revision)>,
    aged: Revision,
}

impl Ages {
    fn new(span: Duration, revision: Revision) -> Ages {
        // A hundred marks over the span, however long it is.
        let marks = VecDeque::from([(Instant::now(), revision)]);
        Ages {
            span,
            every: span / 100,
            marks,
            aged: Revision::ZERO,
        }
    }

    fn older_than_span(&mut self, revision: Revision) -> Revision {
        if self.marks.back().is_none_or(|(at, _)| at.elapsed() >= self.every) {
            self.marks.push_back((Instant::now(), revision));
        }
        while let Some((at, marked)) = self.marks.front()
            && at.elapsed() >= self.span
        {
            self.aged = *marked;
            self.marks.pop_front();
        }
        self.aged
    }
}

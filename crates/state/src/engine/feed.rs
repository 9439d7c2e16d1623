//! How the in-process engines feed their watchers: a watcher pulls from the change log; a commit only announces its
//! revision.
//!
//! A watcher holds a position in the log and nothing else, so it cannot lose, repeat or reorder a change, needs no queue
//! of its own, and costs the writer nothing but a wake-up. What bounds a slow watcher is the history itself: when its
//! position is compacted away it is told to list again. Rejected: a queue per watcher, filled by the writer, which
//! needs a hand-over from replay to live delivery and memory for each slow consumer.

use super::{EngineWatch, RevisionEvents, WatchItem};
use crate::key::KeyRange;
use crate::limits;
use crate::result::{BoundsError, Revision, Unreadable};
use async_trait::async_trait;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// A change log that watchers pull from.
#[async_trait]
pub(super) trait Log: Send + Sync + 'static {
    /// The changes after a revision, oldest first, at most about [`limits::WATCH_PAGE_CHANGES_MAX`] of them; every
    /// revision in it is complete. `Compacted` if some of them are gone.
    async fn log_after(self: Arc<Self>, after: Revision) -> Result<Vec<Arc<RevisionEvents>>, Unreadable>;

    /// The oldest revision that the log can continue from.
    fn oldest(&self) -> Revision;

    /// Where commits announce themselves.
    fn feed(&self) -> &Feed;
}

/// The newest committed revision, and how many watch it.
pub(super) struct Feed {
    latest: watch::Sender<Revision>,
    watchers: Arc<AtomicUsize>,
}

impl Feed {
    pub(super) fn new(latest: Revision) -> Feed {
        Feed {
            latest: watch::Sender::new(latest),
            watchers: Arc::default(),
        }
    }

    /// Announces that everything up to `revision` is committed and readable from the log.
    pub(super) fn announce(&self, revision: Revision) {
        self.latest.send_if_modified(|latest| {
            let newer = revision > *latest;
            *latest = revision.max(*latest);
            newer
        });
    }
}

/// Starts a watch on a log.
pub(super) fn watch_log<L: Log>(
    log: &Arc<L>,
    range: KeyRange,
    from: Option<Revision>,
) -> Result<Box<dyn EngineWatch>, Unreadable> {
    let wake = log.feed().latest.subscribe();
    let latest = *wake.borrow();
    let from = from.unwrap_or(latest);
    if from > latest {
        return Err(Unreadable::Future {
            asked: from,
            current: latest,
        });
    }
    let oldest = log.oldest();
    if from < oldest {
        return Err(Unreadable::Compacted { oldest });
    }
    let watchers = log.feed().watchers.clone();
    let seat = Seat(watchers);
    if seat.0.fetch_add(1, Ordering::Relaxed) >= limits::WATCHERS_MAX {
        let count = limits::WATCHERS_MAX + 1;
        return Err(Unreadable::Bounds(BoundsError::Count {
            what: "watchers",
            count,
        }));
    }
    Ok(Box::new(PullWatch {
        log: Arc::downgrade(log),
        wake,
        range,
        seen: from,
        told: from,
        page: VecDeque::new(),
        _seat: seat,
    }))
}

/// One of the places for watchers; given back on drop.
struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct PullWatch<L> {
    // Weak, so that a forgotten watch does not keep the engine's file open.
    log: Weak<L>,
    wake: watch::Receiver<Revision>,
    range: KeyRange,
    seen: Revision,
    told: Revision,
    page: VecDeque<Arc<RevisionEvents>>,
    _seat: Seat,
}

impl<L: Log> PullWatch<L> {
    /// The next item from the changes at hand.
    fn next_at_hand(&mut self) -> Option<WatchItem> {
        while let Some(batch) = self.page.pop_front() {
            self.seen = batch.revision;
            let ours = batch
                .events
                .iter()
                .filter(|event| self.range.contains(&event.key))
                .count();
            if ours == 0 {
                continue;
            }
            self.told = self.seen;
            if ours == batch.events.len() {
                return Some(WatchItem::Events(batch));
            }
            let events = batch
                .events
                .iter()
                .filter(|event| self.range.contains(&event.key))
                .cloned()
                .collect();
            return Some(WatchItem::Events(Arc::new(RevisionEvents {
                revision: batch.revision,
                events,
            })));
        }
        None
    }
}

#[async_trait]
impl<L: Log> EngineWatch for PullWatch<L> {
    async fn next(&mut self) -> Result<WatchItem, Unreadable> {
        loop {
            if let Some(item) = self.next_at_hand() {
                return Ok(item);
            }
            if self.seen.0 >= self.told.0 + limits::WATCH_PROGRESS_REVISIONS {
                self.told = self.seen;
                return Ok(WatchItem::Progress(self.seen));
            }
            let latest = *self.wake.borrow_and_update();
            if self.seen >= latest {
                self.wake.changed().await.map_err(|_| Unreadable::Unreachable)?;
                continue;
            }
            let log = self.log.upgrade().ok_or(Unreadable::Unreachable)?;
            match log.log_after(self.seen).await {
                Ok(page) => self.page = page.into(),
                Err(Unreadable::Compacted { .. }) => {
                    self.seen = latest;
                    self.told = latest;
                    return Ok(WatchItem::Resync { revision: latest });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn revision(&self) -> Revision {
        self.seen
    }
}

//! [`Store`]: the handle that everything else in the house holds. Cheap to clone.
//!
//! Here: construction, the byte-level calls with their time bounds, commit markers and their resolution (R48), and the
//! canary. Typed reads are in `tables`, transactions in `update` and `tx`, typed watches in `watch`.
//!
//! A commit that goes through a `Store` writes the marker `x/<txn id>` in the same transaction and compares that it is
//! absent. If the answer is lost, [`Store::resolve`] tries to write the marker as *aborted*: if that succeeds the
//! transaction can never apply; if the marker is there, it says what happened. Markers are swept after an hour as one
//! key range; with store leases they will expire by themselves.

mod markers;
mod tables;
mod tx;
mod update;
mod watch;

pub use tables::{Page, PageRequest, Row};
pub use tx::Tx;
pub use watch::{TableChange, TableItem, TableWatch};

use crate::engine::{
    Compare, Engine, EngineStatus, EngineWatch, HistoryLimits, KeyValue, MemoryEngine, Op, OpenError,
    PageRows, ReadAnswer, ReadOp, ReadRequest, RedbEngine, Txn,
};
use crate::key::{Key, KeyRange, space};
use crate::limits;
use crate::result::{Change, Read, Refusal, Revision, TxnId, Unreadable};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The store. The file of an embedded engine is closed when the last clone is dropped. Under tokio's paused test clock
/// use the memory engine: an answer from redb's writer thread looks like idleness there, and the time bounds fire.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    lanes: [tokio::sync::Mutex<()>; limits::RETRY_LANES],
    markers: markers::Sweeper,
}

/// What the canary saw.
#[derive(Debug)]
pub enum Probe {
    /// Written and read back; this long it took.
    Healthy(Duration),
    /// A definite failure, or another value came back.
    Failed(ProbeFailure),
    /// No answer, or an unknown one; says nothing about the store's health.
    Inconclusive,
}

/// A definite failure of the canary.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFailure {
    /// The write was refused.
    #[error("the canary could not be written")]
    Write(#[source] Refusal),
    /// The read failed.
    #[error("the canary could not be read back")]
    Read(#[source] Unreadable),
    /// What was read is not what was written.
    #[error("the canary read back another value")]
    OtherValue,
}

impl Store {
    /// A store in memory, for tests.
    pub fn memory() -> Store {
        Store::with_engine(Arc::new(MemoryEngine::new()))
    }

    /// Opens or creates the redb file at `path` (mode 0600). Blocks while the file is checked; one process at a time.
    pub fn open_redb(path: impl AsRef<Path>) -> Result<Store, OpenError> {
        let engine = RedbEngine::open(path.as_ref(), HistoryLimits::default())?;
        Ok(Store::with_engine(Arc::new(engine)))
    }

    /// A store over any engine.
    pub fn with_engine(engine: Arc<dyn Engine>) -> Store {
        let lanes = std::array::from_fn(|_| tokio::sync::Mutex::new(()));
        Store {
            inner: Arc::new(Inner {
                engine,
                lanes,
                markers: markers::Sweeper::new(),
            }),
        }
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.inner.engine.name()
    }

    /// Where the engine stands.
    pub async fn status(&self) -> Result<EngineStatus, Unreadable> {
        self.timed_read(self.inner.engine.status()).await
    }

    /// The newest revision.
    pub async fn revision(&self) -> Result<Revision, Unreadable> {
        Ok(self.read(Vec::new(), None).await?.revision)
    }

    /// Reads one key.
    pub async fn get(&self, key: &Key) -> Read<KeyValue> {
        match self.read(vec![ReadOp::Get(key.clone())], None).await {
            Ok(answer) => match answer.pages.into_iter().flat_map(|page| page.rows).next() {
                Some(found) => {
                    let revision = found.mod_revision;
                    Read::Present(found, revision)
                }
                None => Read::Absent,
            },
            Err(reason) => Read::Unreadable(reason),
        }
    }

    /// Reads one page of a range, and the revision it was read at.
    pub async fn range(
        &self,
        range: KeyRange,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<(PageRows, Revision), Unreadable> {
        let answer = self.read(vec![ReadOp::Range { range, limit }], at).await?;
        let page = answer.pages.into_iter().next().unwrap_or_default();
        Ok((page, answer.revision))
    }

    /// Several reads at one revision.
    pub async fn read(&self, ops: Vec<ReadOp>, at: Option<Revision>) -> Result<ReadAnswer, Unreadable> {
        self.timed_read(self.inner.engine.read(ReadRequest { ops, at }))
            .await
    }

    /// Commits a transaction of keys and bytes. If it has no else-branch it carries a marker, so that `Unknown` is
    /// answered only when the store stayed unreachable.
    pub async fn commit(&self, mut txn: Txn) -> Change {
        let id = txn.id;
        let marked = txn.otherwise.is_empty() && !txn.then.is_empty();
        if marked {
            txn.compares.push(Compare::absent(markers::key(id)));
            txn.then.push(Op::put(markers::key(id), markers::COMMITTED));
        }
        let change = match self.timed_commit(txn).await {
            Change::Unknown(_) if marked => self.resolve(id).await,
            change => change,
        };
        self.inner.markers.after_commit(self);
        change
    }

    /// Settles a transaction whose answer was lost: applied at its revision, or refused for ever. `Unknown` only while
    /// the store cannot be reached. For ids that a commit of this store answered as `Unknown`.
    pub async fn resolve(&self, id: TxnId) -> Change {
        let key = markers::key(id);
        let mut abort = Txn::new();
        abort.compares.push(Compare::absent(key.clone()));
        abort.then.push(Op::put(key.clone(), markers::ABORTED));
        match self.timed_commit(abort).await {
            Change::Applied(_) => Change::Refused(Refusal::Aborted),
            Change::Refused(Refusal::Compare { .. }) => match self.get(&key).await {
                Read::Present(marker, revision) if marker.value == markers::COMMITTED => {
                    Change::Applied(revision)
                }
                Read::Present(..) => Change::Refused(Refusal::Aborted),
                Read::Absent | Read::Unreadable(_) => Change::Unknown(id),
            },
            Change::Refused(_) | Change::Unknown(_) => self.read_marker(id).await,
        }
    }

    /// The last resort of [`Store::resolve`], when nothing can be written: a marker that is there still decides.
    async fn read_marker(&self, id: TxnId) -> Change {
        match self.get(&markers::key(id)).await {
            Read::Present(marker, revision) if marker.value == markers::COMMITTED => {
                Change::Applied(revision)
            }
            Read::Present(..) => Change::Refused(Refusal::Aborted),
            Read::Absent | Read::Unreadable(_) => Change::Unknown(id),
        }
    }

    /// Watches a range of keys: every change after `from`, or after now.
    pub async fn watch(
        &self,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Box<dyn EngineWatch>, Unreadable> {
        self.timed_read(self.inner.engine.watch(range, from)).await
    }

    /// The canary: writes a random value under `meta/canary/<process>` and reads it back. Health is what this saw.
    pub async fn probe(&self) -> Probe {
        let started = Instant::now();
        let value = hex::encode(rand::random::<[u8; 16]>());
        let key = Key::of(&[space::META, "canary", &std::process::id().to_string()]);
        let mut txn = Txn::new();
        txn.then.push(Op::put(key.clone(), value.clone()));
        match self.timed_commit(txn).await {
            Change::Applied(_) => {}
            Change::Refused(refusal) => return Probe::Failed(ProbeFailure::Write(refusal)),
            Change::Unknown(_) => return Probe::Inconclusive,
        }
        match self.get(&key).await {
            Read::Present(found, _) if found.value == value => Probe::Healthy(started.elapsed()),
            Read::Present(..) | Read::Absent => Probe::Failed(ProbeFailure::OtherValue),
            Read::Unreadable(Unreadable::TimedOut { .. } | Unreadable::Unreachable) => Probe::Inconclusive,
            Read::Unreadable(reason) => Probe::Failed(ProbeFailure::Read(reason)),
        }
    }

    async fn timed_read<T>(
        &self,
        read: impl Future<Output = Result<T, Unreadable>> + Send,
    ) -> Result<T, Unreadable> {
        tokio::time::timeout(limits::READ_TIME_MAX, read)
            .await
            .unwrap_or(Err(Unreadable::TimedOut {
                seconds: limits::READ_TIME_MAX.as_secs(),
            }))
    }

    async fn timed_commit(&self, txn: Txn) -> Change {
        let id = txn.id;
        let commit = self.inner.engine.commit(txn);
        tokio::time::timeout(limits::COMMIT_TIME_MAX, commit)
            .await
            .unwrap_or(Change::Unknown(id))
    }
}

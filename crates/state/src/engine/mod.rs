//! The engine contract: etcd's data model, the same on every engine.
//!
//! Ordered keys; one global [`Revision`] that rises by one per transaction that changes something; `create_revision`,
//! `mod_revision` and `version` per key; reads of many keys at one revision; transactions of compares and two branches;
//! watches from a revision. `memory` and `redb` implement it here; the rest of the crate sees only `dyn Engine`.
//!
//! Left for the next step, with its place: store leases become `Put::lease`, a `lease` compare, and three methods of
//! [`Engine`] (grant, renew, revoke) that default to refusing; expiry is one more transaction of deletes. The etcd
//! engine maps a [`Txn`] one to one onto an etcd transaction and a [`ReadRequest`] onto one of ranges only, which is why
//! both are lists, and why compares over a range exist.

mod check;
mod feed;
mod memory;
mod mvcc;
mod redb;

use crate::key::{Key, KeyRange};
use crate::limits;
use crate::result::{Change, Revision, TxnId, Unreadable};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

pub use check::{check_read, check_txn};
pub use memory::MemoryEngine;
pub use redb::{OpenError, RedbEngine};

/// What every engine does. Implementations are safe to call from any task; no call blocks the caller's thread for long.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// `memory`, `redb`, and later `etcd`.
    fn name(&self) -> &'static str;

    /// Reads at one revision: the newest (linearizable: every change acknowledged before the call is seen), or `at`.
    async fn read(&self, request: ReadRequest) -> Result<ReadAnswer, Unreadable>;

    /// Commits atomically and durably. The engine adds nothing to `txn`; the marker is the caller's.
    async fn commit(&self, txn: Txn) -> Change;

    /// Watches a range: every change after `from` (`None`: after now), each once, in order, a revision's together.
    async fn watch(
        &self,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Box<dyn EngineWatch>, Unreadable>;

    /// Where the engine stands.
    async fn status(&self) -> Result<EngineStatus, Unreadable>;
}

/// A running watch.
#[async_trait]
pub trait EngineWatch: Send {
    /// Waits for the next item. An error ends the watch. Safe to cancel: nothing is lost.
    async fn next(&mut self) -> Result<WatchItem, Unreadable>;

    /// Every change up to this revision was delivered; watching again from here loses and repeats nothing.
    fn revision(&self) -> Revision;
}

/// What a watch delivers.
#[derive(Debug, Clone)]
pub enum WatchItem {
    /// All changes of one revision within the range.
    Events(Arc<RevisionEvents>),
    /// Changes were lost to compaction because this watcher was too slow. List again; the watch goes on after `revision`.
    Resync {
        /// Watching continues after this revision.
        revision: Revision,
    },
    /// Nothing in the range changed up to here.
    Progress(Revision),
}

/// The changes of one revision.
#[derive(Debug, Clone)]
pub struct RevisionEvents {
    /// The revision.
    pub revision: Revision,
    /// Its changes, ordered by key.
    pub events: Vec<Event>,
}

/// One change of one key.
#[derive(Debug, Clone)]
pub struct Event {
    /// The key.
    pub key: Key,
    /// What it is now; `None` if it was deleted.
    pub new: Option<KeyValue>,
    /// What it was before; `None` if it was absent.
    pub old: Option<KeyValue>,
}

/// A key with its value and its place in history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The revision that last changed it.
    pub mod_revision: Revision,
    /// How often it was written since its creation; the creation counts as one.
    pub version: u64,
}

/// Several reads at one revision.
#[derive(Debug, Clone, Default)]
pub struct ReadRequest {
    /// The reads, at most [`limits::READ_OPS_MAX`].
    pub ops: Vec<ReadOp>,
    /// The revision; `None` is the newest.
    pub at: Option<Revision>,
}

/// One read.
#[derive(Debug, Clone)]
pub enum ReadOp {
    /// One key.
    Get(Key),
    /// The first `limit` keys of a range.
    Range {
        /// The range.
        range: KeyRange,
        /// At most this many rows, up to [`limits::PAGE_KEYS_MAX`].
        limit: usize,
    },
}

/// The answer to a [`ReadRequest`].
#[derive(Debug, Clone)]
pub struct ReadAnswer {
    /// The revision that was read.
    pub revision: Revision,
    /// One answer for each read, in order.
    pub pages: Vec<PageRows>,
}

/// The rows that one read found.
#[derive(Debug, Clone, Default)]
pub struct PageRows {
    /// The rows, ordered by key.
    pub rows: Vec<KeyValue>,
    /// There is more: the page was full, or the answer reached [`limits::READ_BYTES_MAX`] (then a get may have no row;
    /// ask again at the answer's revision). The first read of a request always gets at least one row that exists.
    pub more: bool,
}

/// A transaction: if all compares hold then one branch, otherwise the other.
#[derive(Debug, Clone)]
pub struct Txn {
    /// Its id.
    pub id: TxnId,
    /// The conditions.
    pub compares: Vec<Compare>,
    /// Done if all hold.
    pub then: Vec<Op>,
    /// Done if one does not.
    pub otherwise: Vec<Op>,
}

impl Txn {
    /// An empty transaction with a fresh id.
    pub fn new() -> Txn {
        Txn {
            id: TxnId::generate(),
            compares: Vec::new(),
            then: Vec::new(),
            otherwise: Vec::new(),
        }
    }

    /// Adds a condition.
    pub fn when(mut self, compare: Compare) -> Txn {
        self.compares.push(compare);
        self
    }

    /// Adds an operation to the then-branch.
    pub fn then(mut self, op: Op) -> Txn {
        self.then.push(op);
        self
    }

    /// Adds an operation to the else-branch.
    pub fn otherwise(mut self, op: Op) -> Txn {
        self.otherwise.push(op);
        self
    }
}

impl Default for Txn {
    fn default() -> Self {
        Txn::new()
    }
}

/// A condition on one key or on all keys of a range. An absent key, or an empty range, counts as one key with create
/// and mod revision zero, version zero and no value.
#[derive(Debug, Clone)]
pub struct Compare {
    /// What is compared.
    pub over: Over,
    /// The condition.
    pub condition: Condition,
}

impl Compare {
    /// The key does not exist.
    pub fn absent(key: Key) -> Compare {
        Compare::unmoved(key, Revision::ZERO)
    }

    /// The key was last changed at exactly this revision (zero: it is absent).
    pub fn unmoved(key: Key, revision: Revision) -> Compare {
        Compare {
            over: Over::Key(key),
            condition: Condition::ModRevision(Relation::Equal, revision),
        }
    }

    /// No key of the range was created or changed after this revision. Says nothing about deletions.
    pub fn nothing_newer(range: KeyRange, revision: Revision) -> Compare {
        Compare {
            over: Over::Range(range),
            condition: Condition::ModRevision(Relation::Less, revision.next()),
        }
    }
}

/// What a condition applies to.
#[derive(Debug, Clone)]
pub enum Over {
    /// One key.
    Key(Key),
    /// Every key of a range.
    Range(KeyRange),
}

/// A condition on a key.
#[derive(Debug, Clone)]
pub enum Condition {
    /// On the revision of its last change.
    ModRevision(Relation, Revision),
    /// On the revision of its creation.
    CreateRevision(Relation, Revision),
    /// On how often it was written.
    Version(Relation, u64),
    /// On its value; false for an absent key.
    Value(Relation, Bytes),
}

/// How the key's own fact relates to the given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less than the given one.
    Less,
    /// Greater than the given one.
    Greater,
}

impl Relation {
    fn holds<T: Ord + ?Sized>(self, own: &T, given: &T) -> bool {
        match self {
            Relation::Equal => own == given,
            Relation::NotEqual => own != given,
            Relation::Less => own < given,
            Relation::Greater => own > given,
        }
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone)]
pub enum Op {
    /// Writes a key.
    Put {
        /// The key.
        key: Key,
        /// Its new value.
        value: Bytes,
    },
    /// Deletes a key; nothing if it is absent.
    Delete(Key),
    /// Deletes all keys of a range. For ranges that the caller knows to be small.
    DeleteRange(KeyRange),
}

impl Op {
    /// Writes `key`.
    pub fn put(key: Key, value: impl Into<Bytes>) -> Op {
        Op::Put {
            key,
            value: value.into(),
        }
    }
}

/// Where an engine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStatus {
    /// The newest revision.
    pub revision: Revision,
    /// The oldest revision that can be read or watched from.
    pub oldest: Revision,
    /// Changes kept in history.
    pub history_changes: u64,
    /// False after a write or sync error, until the restart.
    pub writable: bool,
}

/// How much history an engine keeps.
#[derive(Debug, Clone, Copy)]
pub struct HistoryLimits {
    /// Most changes.
    pub changes_max: u64,
    /// Most bytes.
    pub bytes_max: u64,
    /// Younger changes are kept unless a bound above is reached.
    pub span_min: Duration,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        HistoryLimits {
            changes_max: limits::HISTORY_CHANGES_MAX,
            bytes_max: limits::HISTORY_BYTES_MAX,
            span_min: limits::HISTORY_SPAN_MIN,
        }
    }
}

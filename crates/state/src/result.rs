//! The results of store calls, as types: a read is present, absent or unreadable; a change is applied, refused or
//! unknown (DESIGN §1.3). Also the small vocabulary they share, [`Revision`] and [`TxnId`].
//!
//! Nothing here turns unreadable into absent or unknown into refused; code that must choose has to write the match.
//! The errors of typed calls ([`StoreError`](crate::StoreError), [`UpdateError`](crate::UpdateError)) are in `error`.

use crate::key::{Key, KeyDecodeError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The store's logical time: it rises by one with each committed transaction that changed something.
/// Zero is the revision of the empty store, and of an absent key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of the empty store.
    pub const ZERO: Revision = Revision(0);

    /// The revision after this one.
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names one transaction, so that a lost answer can be resolved by its marker `x/<txn id>`.
/// Ids sort by the time they were made, which lets old markers be swept as one range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(u128);

impl TxnId {
    /// A fresh id: 48 bits of Unix time in milliseconds, 80 random bits.
    pub fn generate() -> TxnId {
        let ms = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.as_millis());
        TxnId((ms << 80) | (rand::random::<u128>() >> 48))
    }

    /// The smallest id made at that time, in milliseconds since 1970.
    pub(crate) fn first_at(unix_ms: u64) -> TxnId {
        TxnId(u128::from(unix_ms) << 80)
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxnId({self})")
    }
}

/// The outcome of reading one thing.
#[derive(Debug)]
pub enum Read<T> {
    /// It is there, last changed at this revision.
    Present(T, Revision),
    /// It is definitely not there.
    Absent,
    /// Nobody knows whether it is there.
    Unreadable(Unreadable),
}

impl<T> Read<T> {
    /// Absent becomes `None`; unreadable stays an error.
    pub fn found(self) -> Result<Option<T>, Unreadable> {
        match self {
            Read::Present(value, _) => Ok(Some(value)),
            Read::Absent => Ok(None),
            Read::Unreadable(reason) => Err(reason),
        }
    }

    /// The value if it is present.
    pub fn present(&self) -> Option<&T> {
        match self {
            Read::Present(value, _) => Some(value),
            Read::Absent | Read::Unreadable(_) => None,
        }
    }
}

/// Why something could not be read. None of these says that it is absent.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The engine is gone or was closed.
    #[error("the store cannot be reached")]
    Unreachable,
    /// The engine did not answer in time.
    #[error("the store did not answer within {seconds} s")]
    TimedOut {
        /// The bound that passed.
        seconds: u64,
    },
    /// The stored bytes are not a record of this table.
    #[error("the record at {key} cannot be decoded")]
    Undecodable {
        /// Where it is stored.
        key: Key,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The record was written by a newer build.
    #[error("the record at {key} has version {found}, this build knows {known}; written by {writer}")]
    NewerVersion {
        /// Where it is stored.
        key: Key,
        /// The version found.
        found: u32,
        /// The newest version that this build knows.
        known: u32,
        /// The build that wrote it.
        writer: String,
    },
    /// The revision asked for is no longer kept.
    #[error("history before revision {oldest} is compacted")]
    Compacted {
        /// The oldest revision that can be read or watched from.
        oldest: Revision,
    },
    /// The revision asked for has not happened.
    #[error("revision {asked} has not happened, the store is at {current}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The store's revision.
        current: Revision,
    },
    /// The request is outside the bounds of §2.1.
    #[error("the read is outside the store's bounds")]
    Bounds(#[source] BoundsError),
    /// The list is longer than one call may gather.
    #[error("the list has more than {rows} rows and must be paged")]
    TooLong {
        /// The bound.
        rows: usize,
    },
    /// The engine failed.
    #[error("the engine failed to read")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is wrong with stored bytes.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not the JSON that this table's version prescribes.
    #[error("not the JSON of this version")]
    Json(#[from] serde_json::Error),
    /// The key is not one of ours.
    #[error("its key is malformed")]
    Key(#[from] KeyDecodeError),
    /// There is no migration from its version.
    #[error("no migration from version {found}")]
    NoMigration {
        /// The version found.
        found: u32,
    },
    /// A migration refused it.
    #[error("the migration from version {from} refused it")]
    Migration {
        /// The version it had.
        from: u32,
        /// Why.
        #[source]
        source: crate::record::MigrationError,
    },
    /// The record names another key than the one it is stored at.
    #[error("the record calls itself {named}")]
    OtherKey {
        /// The key it names.
        named: Key,
    },
    /// A field is out of bounds.
    #[error("a field is out of bounds")]
    Invalid(#[source] crate::record::InvalidField),
    /// An index entry or unique value names a record that is not there.
    #[error("it names the absent record {record}")]
    Dangling {
        /// The record named.
        record: Key,
    },
    /// A row of engine bookkeeping is malformed.
    #[error("the engine's row is malformed")]
    Row,
}

/// The outcome of a change.
#[derive(Debug)]
pub enum Change {
    /// It happened at this revision, durably.
    Applied(Revision),
    /// It did not happen and never will.
    Refused(Refusal),
    /// Nobody knows. Never retried as something new; resolve it by its id.
    Unknown(TxnId),
}

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A compare did not hold. If the else-branch changed something, this is its revision.
    #[error("a compare did not hold")]
    Compare {
        /// The revision made by the else-branch.
        otherwise: Option<Revision>,
    },
    /// The transaction is outside the bounds of §2.1.
    #[error("the transaction is outside the store's bounds")]
    Bounds(#[source] BoundsError),
    /// An earlier write or sync failed; the store takes no more writes until it is restarted and checked.
    #[error("the store is poisoned by an earlier write error")]
    Poisoned,
    /// The transaction was declared aborted while its outcome was being resolved.
    #[error("the transaction was aborted while resolving its outcome")]
    Aborted,
    /// The engine is closed.
    #[error("the store is closed")]
    Closed,
    /// The engine failed before anything was written.
    #[error("the engine failed before writing")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Which bound of §2.1 a request breaks; checked before anything is sent, alike on all engines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// A key is empty or longer than the bound.
    #[error("a key has {bytes} bytes")]
    KeyLength {
        /// Its length.
        bytes: usize,
    },
    /// A value is longer than the bound.
    #[error("the value of {key} has {bytes} bytes")]
    ValueLength {
        /// Its key.
        key: Key,
        /// Its length.
        bytes: usize,
    },
    /// Too many compares or operations.
    #[error("{count} {what} in one request")]
    Count {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// The transaction is too large.
    #[error("the transaction has {bytes} bytes")]
    TxnBytes {
        /// Its size.
        bytes: usize,
    },
    /// A key is written twice.
    #[error("{key} is written twice")]
    WrittenTwice {
        /// The key.
        key: Key,
    },
    /// A key is written inside a range that the same transaction deletes.
    #[error("{key} is written inside a range deleted by the same transaction")]
    InsideDeleted {
        /// The key.
        key: Key,
    },
    /// A page limit is zero or above the bound.
    #[error("a page of {limit} keys")]
    PageLimit {
        /// The limit asked for.
        limit: usize,
    },
}

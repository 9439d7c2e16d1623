//! The errors of typed calls: [`StoreError`] for reads and for building a transaction, [`UpdateError`] for the outcome
//! of `Store::update`. Services map both to AWS errors in their own single place; the three-valued outcomes underneath
//! are in `result`.

use crate::record::{InvalidField, RecordKey};
use crate::result::{BoundsError, Refusal, TxnId, Unreadable};

/// Why a typed read, or a step of a transaction, failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It could not be read; whether it exists is not known.
    #[error("could not read the store")]
    Unreadable(#[from] Unreadable),
    /// `fetch` of a record that is definitely absent.
    #[error("{table} has no record {key}")]
    NotFound {
        /// The table.
        table: &'static str,
        /// The record asked for.
        key: RecordKey,
    },
    /// A record to be written has a field out of bounds.
    #[error("a record of {table} is invalid")]
    InvalidRecord {
        /// The table.
        table: &'static str,
        /// The field.
        #[source]
        source: InvalidField,
    },
    /// A record to be written cannot be represented as JSON.
    #[error("a record of {table} cannot be encoded")]
    Encode {
        /// The table.
        table: &'static str,
        /// What the encoder said.
        #[source]
        source: serde_json::Error,
    },
    /// The transaction inserts a record that it has itself written.
    #[error("the transaction writes {table} {key} twice")]
    InsertedTwice {
        /// The table.
        table: &'static str,
        /// The record.
        key: RecordKey,
    },
    /// The transaction has ended; a handle outlived its closure.
    #[error("the transaction has ended")]
    Ended,
    /// A request is outside the store's bounds.
    #[error("outside the store's bounds")]
    Bounds(#[from] BoundsError),
}

/// Why `Store::update` did not commit, or does not know whether it did.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError<E> {
    /// The closure ended the transaction; nothing was written.
    #[error("the transaction was ended by its closure")]
    Aborted(E),
    /// A unique value is taken by another record; nothing was written.
    #[error("{index} {value:?} of {table} is taken")]
    UniqueTaken {
        /// The table.
        table: &'static str,
        /// The unique index.
        index: &'static str,
        /// The value.
        value: Vec<String>,
    },
    /// A record to be inserted exists; nothing was written.
    #[error("{table} already has {key}")]
    AlreadyExists {
        /// The table.
        table: &'static str,
        /// The record.
        key: RecordKey,
    },
    /// Other writers won each time; nothing was written.
    #[error("gave way to other writers {attempts} times")]
    Contended {
        /// How often the closure ran.
        attempts: u32,
    },
    /// The store refused the transaction; nothing was written.
    #[error("the store refused the transaction")]
    Refused(#[source] Refusal),
    /// The outcome is unknown: never retried as something new, never reported as failed.
    #[error("the outcome of transaction {0} is unknown")]
    Unknown(TxnId),
    /// The store failed while the transaction was prepared; nothing was written.
    #[error("the transaction could not be prepared")]
    Store(#[source] StoreError),
}

//! Typed watches: the changes of one table, old and new record together.
//!
//! Built on the engine's watch, so a change is delivered once and in order, a revision's changes together, and a
//! watcher that was too slow is told to list again. A record that cannot be decoded arrives as unreadable with its key.

use super::Store;
use crate::engine::{EngineWatch, KeyValue, WatchItem};
use crate::record::{Record, RecordKey, decode, record_key, table_range};
use crate::result::{Read, Revision, Unreadable};
use std::marker::PhantomData;

/// A watch on a table.
pub struct TableWatch<T> {
    watch: Box<dyn EngineWatch>,
    table: PhantomData<fn() -> T>,
}

/// What a watch on a table delivers.
#[derive(Debug)]
pub enum TableItem<T> {
    /// The changes of one revision.
    Changes {
        /// The revision.
        revision: Revision,
        /// Its changes in this table, ordered by key.
        changes: Vec<TableChange<T>>,
    },
    /// Changes were lost because this watcher was too slow: list again. The watch goes on after `revision`; a list made
    /// now misses nothing.
    Resync {
        /// Watching continues after this revision.
        revision: Revision,
    },
    /// Nothing in the table changed up to here.
    Progress(Revision),
}

/// One change of one record.
#[derive(Debug)]
pub struct TableChange<T> {
    /// The record.
    pub key: RecordKey,
    /// What it was; absent if this created it.
    pub old: Read<T>,
    /// What it is; absent if this deleted it.
    pub new: Read<T>,
}

impl Store {
    /// Watches a table: every change after `from`, or after now. `Compacted` if `from` is no longer kept.
    pub async fn watch_table<T: Record>(&self, from: Option<Revision>) -> Result<TableWatch<T>, Unreadable> {
        let watch = self.watch(table_range(T::TABLE), from).await?;
        Ok(TableWatch {
            watch,
            table: PhantomData,
        })
    }
}

impl<T: Record> TableWatch<T> {
    /// Waits for the next item. An error ends the watch. Safe to cancel.
    pub async fn next(&mut self) -> Result<TableItem<T>, Unreadable> {
        match self.watch.next().await? {
            WatchItem::Events(batch) => {
                let changes = batch.events.iter().map(|event| {
                    let key = record_key(&event.key).map_err(|source| Unreadable::Undecodable {
                        key: event.key.clone(),
                        source,
                    })?;
                    Ok(TableChange {
                        key,
                        old: typed(&event.old),
                        new: typed(&event.new),
                    })
                });
                let changes = changes.collect::<Result<_, Unreadable>>()?;
                Ok(TableItem::Changes {
                    revision: batch.revision,
                    changes,
                })
            }
            WatchItem::Resync { revision } => Ok(TableItem::Resync { revision }),
            WatchItem::Progress(revision) => Ok(TableItem::Progress(revision)),
        }
    }

    /// Every change up to this revision was delivered.
    pub fn revision(&self) -> Revision {
        self.watch.revision()
    }
}

fn typed<T: Record>(stored: &Option<KeyValue>) -> Read<T> {
    match stored {
        None => Read::Absent,
        Some(stored) => match decode(stored) {
            Ok(record) => Read::Present(record, stored.mod_revision),
            Err(reason) => Read::Unreadable(reason),
        },
    }
}

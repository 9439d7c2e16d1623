//! The redb tables and their encodings.
//!
//! | table | key → value |
//! |---|---|
//! | `current` | key → create, mod, version (three `u64`, most significant byte first), then the value |
//! | `history` | (key, superseding revision) → the same encoding of the version that was replaced or deleted |
//! | `log` | revision → size in bytes (`u64`), then per change: put or delete (`u8`), key length (`u16`), key |
//! | `meta` | `format` → layout version; `position` → revision, oldest, changes, bytes |
//!
//! The log holds keys only: what a change wrote is in `current` or, if superseded since, in `history`, and what it
//! replaced is in `history`. So a value is stored once however many tables speak of it.

use super::super::mvcc::{self, MergeAt, Rows, Snapshot, Stored};
use super::super::{Event, KeyValue, PageRows, RevisionEvents};
use crate::key::{Key, KeyRange};
use crate::limits;
use crate::result::{DecodeError, Revision, Unreadable};
use ::redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition,
    WriteTransaction,
};
use bytes::{Buf, BufMut, Bytes};
use std::sync::Arc;

const CURRENT: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("current");
const HISTORY: TableDefinition<'static, (&[u8], u64), &[u8]> = TableDefinition::new("history");
const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const HEADER: usize = 24;

/// Anything that goes wrong inside the redb engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedbError {
    #[error("redb failed")]
    Redb(#[source] Box<::redb::Error>),
    #[error("the row {key} is malformed")]
    Row { key: Key },
    #[error("the store's own table is malformed")]
    Meta,
}

impl<E: Into<::redb::Error>> From<E> for RedbError {
    fn from(error: E) -> Self {
        RedbError::Redb(Box::new(error.into()))
    }
}

impl From<RedbError> for Unreadable {
    fn from(error: RedbError) -> Self {
        match error {
            RedbError::Row { key } => Unreadable::Undecodable {
                key,
                source: DecodeError::Row,
            },
            error => Unreadable::Engine(Box::new(error)),
        }
    }
}

impl RedbError {
    pub(super) fn into_redb(self) -> ::redb::Error {
        match self {
            RedbError::Redb(error) => *error,
            error => ::redb::Error::Corrupted(error.to_string()),
        }
    }
}

/// Where the store stands; committed with every batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub revision: Revision,
    pub oldest: Revision,
    pub changes: u64,
    pub bytes: u64,
}

impl Position {
    fn encode(self) -> [u8; 32] {
        let mut out = [0; 32];
        let mut rest = &mut out[..];
        for number in [self.revision.0, self.oldest.0, self.changes, self.bytes] {
            rest.put_u64(number);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Result<Position, RedbError> {
        if bytes.len() != 32 {
            return Err(RedbError::Meta);
        }
        Ok(Position {
            revision: Revision(bytes.get_u64()),
            oldest: Revision(bytes.get_u64()),
            changes: bytes.get_u64(),
            bytes: bytes.get_u64(),
        })
    }
}

/// Reads the layout version and position; lays the tables out if the file is new.
pub(super) fn open_tables(db: &Database, format: u64) -> Result<(u64, Position), RedbError> {
    {
        let read = db.begin_read()?;
        match read.open_table(META) {
            Ok(meta) => {
                let found = meta.get("format")?.ok_or(RedbError::Meta)?;
                let found = u64::from_be_bytes(found.value().try_into().map_err(|_| RedbError::Meta)?);
                let position = meta.get("position")?.ok_or(RedbError::Meta)?;
                return Ok((found, Position::decode(position.value())?));
            }
            Err(::redb::TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let write = db.begin_write()?;
    let position = Position::default();
    {
        write.open_table(CURRENT)?;
        write.open_table(HISTORY)?;
        write.open_table(LOG)?;
        let mut meta = write.open_table(META)?;
        meta.insert("format", &format.to_be_bytes()[..])?;
        meta.insert("position", &position.encode()[..])?;
    }
    write.commit()?;
    Ok((format, position))
}

fn encode(stored: &Stored) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + stored.value.len());
    out.put_u64(stored.create_revision.0);
    out.put_u64(stored.mod_revision.0);
    out.put_u64(stored.version);
    out.put_slice(&stored.value);
    out
}

fn decode(key: &[u8], mut bytes: &[u8]) -> Result<Stored, RedbError> {
    if bytes.len() < HEADER {
        return Err(RedbError::Row {
            key: Key::from_bytes(Bytes::copy_from_slice(key)),
        });
    }
    Ok(Stored {
        create_revision: Revision(bytes.get_u64()),
        mod_revision: Revision(bytes.get_u64()),
        version: bytes.get_u64(),
        value: Bytes::copy_from_slice(bytes),
    })
}

fn owned(key: &[u8]) -> Key {
    Key::from_bytes(Bytes::copy_from_slice(key))
}

pub(super) fn event_bytes(events: &[Event]) -> usize {
    let value = |kv: &Option<KeyValue>| kv.as_ref().map_or(0, |kv| kv.value.len());
    events
        .iter()
        .map(|event| event.key.len() + value(&event.new) + value(&event.old))
        .sum()
}

fn encode_log(events: &[Event]) -> Vec<u8> {
    let keys: usize = events.iter().map(|event| event.key.len() + 3).sum();
    let mut out = Vec::with_capacity(8 + keys);
    out.put_u64(event_bytes(events) as u64);
    for event in events {
        out.put_u8(u8::from(event.new.is_some()));
        // Keys are at most `limits::KEY_BYTES_MAX` long, which is checked before.
        out.put_u16(event.key.len() as u16);
        out.put_slice(event.key.as_bytes());
    }
    out
}

/// The size of a log entry's changes, and for each its key and whether it was written rather than deleted.
fn decode_log(mut bytes: &[u8]) -> Result<(u64, Vec<(Key, bool)>), RedbError> {
    if bytes.len() < 8 {
        return Err(RedbError::Meta);
    }
    let size = bytes.get_u64();
    let mut changes = Vec::new();
    while bytes.len() >= 3 {
        let put = bytes.get_u8() == 1;
        let length = usize::from(bytes.get_u16());
        let key = bytes.get(..length).ok_or(RedbError::Meta)?;
        changes.push((owned(key), put));
        bytes.advance(length);
    }
    Ok((size, changes))
}

/// The tables inside the writer's transaction.
pub(super) struct WriteTables<'txn> {
    current: Table<'txn, &'static [u8], &'static [u8]>,
    history: Table<'txn, (&'static [u8], u64), &'static [u8]>,
    log: Table<'txn, u64, &'static [u8]>,
    meta: Table<'txn, &'static str, &'static [u8]>,
}

impl<'txn> WriteTables<'txn> {
    pub(super) fn open(write: &'txn WriteTransaction) -> Result<Self, RedbError> {
        Ok(WriteTables {
            current: write.open_table(CURRENT)?,
            history: write.open_table(HISTORY)?,
            log: write.open_table(LOG)?,
            meta: write.open_table(META)?,
        })
    }

    pub(super) fn put_log(&mut self, revision: Revision, events: &[Event]) -> Result<(), RedbError> {
        self.log.insert(revision.0, &encode_log(events)[..])?;
        Ok(())
    }

    pub(super) fn put_position(&mut self, position: Position) -> Result<(), RedbError> {
        self.meta.insert("position", &position.encode()[..])?;
        Ok(())
    }

    /// Drops the oldest revision from the history; false if there is none.
    pub(super) fn compact_one(&mut self, position: &mut Position) -> Result<bool, RedbError> {
        let next = position.oldest.next();
        let Some(entry) = self.log.remove(next.0)? else {
            return Ok(false);
        };
        let (size, changes) = decode_log(entry.value())?;
        drop(entry);
        for (key, _) in &changes {
            self.history.remove((key.as_bytes(), next.0))?;
        }
        position.oldest = next;
        position.changes = position.changes.saturating_sub(changes.len() as u64);
        position.bytes = position.bytes.saturating_sub(size);
        Ok(true)
    }
}

impl Rows for WriteTables<'_> {
    type Error = RedbError;

    fn current(&self, key: &Key) -> Result<Option<Stored>, RedbError> {
        let found = self.current.get(key.as_bytes())?;
        found
            .map(|value| decode(key.as_bytes(), value.value()))
            .transpose()
    }

    fn each_current(
        &self,
        range: &KeyRange,
        visit: &mut dyn FnMut(Key, Stored) -> bool,
    ) -> Result<(), RedbError> {
        if range.is_empty() {
            return Ok(());
        }
        for row in self.current.range(range.start.as_bytes()..range.end.as_bytes())? {
            let (key, value) = row?;
            if !visit(owned(key.value()), decode(key.value(), value.value())?) {
                break;
            }
        }
        Ok(())
    }

    fn put_current(&mut self, key: &Key, stored: &Stored) -> Result<(), RedbError> {
        self.current.insert(key.as_bytes(), &encode(stored)[..])?;
        Ok(())
    }

    fn remove_current(&mut self, key: &Key) -> Result<(), RedbError> {
        self.current.remove(key.as_bytes())?;
        Ok(())
    }

    fn put_history(&mut self, key: &Key, superseded: Revision, stored: &Stored) -> Result<(), RedbError> {
        self.history
            .insert((key.as_bytes(), superseded.0), &encode(stored)[..])?;
        Ok(())
    }
}

/// The tables of one redb snapshot.
pub(super) struct ReadTables {
    current: ReadOnlyTable<&'static [u8], &'static [u8]>,
    history: ReadOnlyTable<(&'static [u8], u64), &'static [u8]>,
    log: ReadOnlyTable<u64, &'static [u8]>,
    position: Position,
}

impl ReadTables {
    pub(super) fn open(read: ReadTransaction) -> Result<ReadTables, RedbError> {
        let position = {
            let meta = read.open_table(META)?;
            let position = meta.get("position")?.ok_or(RedbError::Meta)?;
            Position::decode(position.value())?
        };
        Ok(ReadTables {
            current: read.open_table(CURRENT)?,
            history: read.open_table(HISTORY)?,
            log: read.open_table(LOG)?,
            position,
        })
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// The revision that a request means, if it can be read.
    pub(super) fn resolve(&self, at: Option<Revision>) -> Result<Revision, Unreadable> {
        let at = at.unwrap_or(self.position.revision);
        if at > self.position.revision {
            return Err(Unreadable::Future {
                asked: at,
                current: self.position.revision,
            });
        }
        if at < self.position.oldest {
            return Err(Unreadable::Compacted {
                oldest: self.position.oldest,
            });
        }
        Ok(at)
    }

    pub(super) fn at(&self, at: Revision) -> AtRevision<'_> {
        AtRevision { tables: self, at }
    }

    /// A page of the log with the values that each change wrote and replaced.
    pub(super) fn log_after(&self, after: Revision) -> Result<Vec<Arc<RevisionEvents>>, Unreadable> {
        self.resolve(Some(after))?;
        let mut page = Vec::new();
        let (mut changes, mut bytes) = (0, 0);
        for entry in self.log.range(after.next().0..).map_err(RedbError::from)? {
            let (revision, entry) = entry.map_err(RedbError::from)?;
            let revision = Revision(revision.value());
            let (size, keys) = decode_log(entry.value())?;
            bytes += usize::try_from(size).unwrap_or(usize::MAX);
            let full =
                changes + keys.len() > limits::WATCH_PAGE_CHANGES_MAX || bytes > limits::READ_BYTES_MAX;
            if full && !page.is_empty() {
                break;
            }
            changes += keys.len();
            let events = keys
                .into_iter()
                .map(|(key, put)| self.event(key, put, revision))
                .collect::<Result<Vec<_>, RedbError>>()?;
            page.push(Arc::new(RevisionEvents { revision, events }));
        }
        Ok(page)
    }

    fn event(&self, key: Key, put: bool, revision: Revision) -> Result<Event, RedbError> {
        let old = match self.history.get((key.as_bytes(), revision.0))? {
            Some(row) => Some(decode(key.as_bytes(), row.value())?.with_key(key.clone())),
            None => None,
        };
        let new = if put {
            let written = self.version_at(&key, revision)?;
            Some(
                written
                    .ok_or_else(|| RedbError::Row { key: key.clone() })?
                    .with_key(key.clone()),
            )
        } else {
            None
        };
        Ok(Event { key, new, old })
    }

    fn version_at(&self, key: &Key, at: Revision) -> Result<Option<Stored>, RedbError> {
        if let Some(row) = self.current.get(key.as_bytes())? {
            let stored = decode(key.as_bytes(), row.value())?;
            if stored.mod_revision <= at {
                return Ok(Some(stored));
            }
        }
        if at == self.position.revision {
            return Ok(None);
        }
        let superseded = (key.as_bytes(), at.next().0)..=(key.as_bytes(), u64::MAX);
        match self.history.range(superseded)?.next() {
            Some(row) => {
                let stored = decode(key.as_bytes(), row?.1.value())?;
                Ok((stored.mod_revision <= at).then_some(stored))
            }
            None => Ok(None),
        }
    }
}

/// A snapshot at a revision that it can answer.
pub(super) struct AtRevision<'a> {
    tables: &'a ReadTables,
    at: Revision,
}

impl Snapshot for AtRevision<'_> {
    type Error = RedbError;

    fn get(&self, key: &Key) -> Result<Option<Stored>, RedbError> {
        self.tables.version_at(key, self.at)
    }

    fn range(
        &self,
        range: &KeyRange,
        limit: usize,
        budget: &mut usize,
        must: bool,
    ) -> Result<PageRows, RedbError> {
        if range.is_empty() {
            return Ok(PageRows::default());
        }
        let (start, end) = (range.start.as_bytes(), range.end.as_bytes());
        let current = self.tables.current.range(start..end)?.map(|row| {
            let (key, value) = row?;
            Ok((owned(key.value()), decode(key.value(), value.value())?))
        });
        if self.at == self.tables.position.revision {
            return mvcc::page(current, limit, budget, must);
        }
        let history = self.tables.history.range((start, 0)..(end, 0))?.map(|row| {
            let (key, value) = row?;
            let (key, superseded) = key.value();
            Ok((owned(key), Revision(superseded), decode(key, value.value())?))
        });
        let merged = MergeAt {
            current: current.peekable(),
            history: history.peekable(),
            at: self.at,
        };
        mvcc::page(merged, limit, budget, must)
    }
}

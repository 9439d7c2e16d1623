//! [`Tx`]: what the closure of `Store::update` works with.
//!
//! All reads of one run see one revision, that of the first read. Reads of single keys (`find`, `fetch`, `find_unique`)
//! are compared when the transaction commits, absence included; so what was decided on them still holds then. Lists are
//! *not* compared unless [`Tx::guard`] or [`Tx::guard_index`] asks for it: these compare every row that was there and
//! that nothing in the range is newer, which covers changed, new and deleted rows, without a counter that all writers
//! would fight over. A guard costs one compare a row (two for an index), within the bound of a transaction.
//!
//! Writes are kept until the closure has ended, and are seen by later reads of the same transaction. Index entries and
//! unique values follow from the records: `prepare` works out the difference to what was stored.

use super::Store;
use crate::engine::{Compare, KeyValue, Op, Txn};
use crate::error::{StoreError, UpdateError};
use crate::key::{Key, KeyRange};
use crate::record::{
    Index, Record, RecordKey, Scope, decode, encode, index_key, index_range, key_of, same_record,
    scope_range, stored_version, unique_key,
};
use crate::result::{BoundsError, DecodeError, Revision, Unreadable};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One run of a transaction. Cheap to clone; useless after its closure has ended.
#[derive(Clone)]
pub struct Tx {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: bool,
    pinned: Option<Revision>,
    seen: BTreeMap<Key, Option<KeyValue>>,
    guards: Vec<Compare>,
    writes: BTreeMap<Key, Write>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Insert,
    Put,
    Delete,
}

#[derive(Clone)]
struct Write {
    mode: Mode,
    table: &'static str,
    key: RecordKey,
    /// The new record; empty for a deletion.
    bytes: Bytes,
    entries: Entries,
    /// The entries of the record as it is stored now.
    entries_of: fn(&KeyValue) -> Result<Entries, Unreadable>,
    version: u32,
}

#[derive(Clone, Default)]
struct Entries {
    indexes: Vec<Index>,
    uniques: Vec<Index>,
}

fn entries_of<T: Record>(stored: &KeyValue) -> Result<Entries, Unreadable> {
    let record: T = decode(stored)?;
    Ok(Entries {
        indexes: record.indexes(),
        uniques: record.uniques(),
    })
}

/// A transaction ready to be committed.
pub(super) struct Prepared {
    /// Nothing to commit if this has no operation.
    pub txn: Txn,
}

impl Tx {
    pub(super) fn new(store: Store) -> Tx {
        Tx {
            shared: Arc::new(Shared {
                store,
                state: Mutex::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is a single insertion, so it is whole even if a closure panicked.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state();
        if state.ended {
            Err(StoreError::Ended)
        } else {
            Ok(state)
        }
    }

    /// A record that may be absent; compared at commit.
    pub async fn find<T: Record>(&self, scope: &Scope, id: impl AsRef<str>) -> Result<Option<T>, StoreError> {
        let key = key_of::<T>(scope, id.as_ref());
        self.find_at(&key).await
    }

    /// A record that must exist; compared at commit.
    pub async fn fetch<T: Record>(&self, scope: &Scope, id: impl AsRef<str>) -> Result<T, StoreError> {
        let id = id.as_ref();
        self.find(scope, id).await?.ok_or_else(|| StoreError::NotFound {
            table: T::TABLE,
            key: RecordKey {
                scope: scope.clone(),
                id: id.to_owned(),
            },
        })
    }

    /// The record that holds a unique value; compared at commit, also that nobody holds it. Sees the records as stored,
    /// not what this transaction has written.
    pub async fn find_unique<T: Record>(
        &self,
        index: &'static str,
        value: &[&str],
    ) -> Result<Option<T>, StoreError> {
        let unique = unique_key(T::TABLE, index, value);
        let Some(holder) = self.see(&unique).await? else {
            return Ok(None);
        };
        let record = Key::from_bytes(holder.value);
        match self.find_at::<T>(&record).await? {
            Some(found) => Ok(Some(found)),
            // Gone by this transaction's own doing.
            None if self.state().writes.contains_key(&record) => Ok(None),
            None => {
                let source = DecodeError::Dangling { record };
                Err(StoreError::Unreadable(Unreadable::Undecodable {
                    key: unique,
                    source,
                }))
            }
        }
    }

    /// All records of a scope, with what this transaction wrote. Not compared at commit; see [`Tx::guard`].
    pub async fn list<T: Record>(&self, scope: &Scope) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(&scope_range(T::TABLE, scope)).await?;
        self.overlay(T::TABLE, rows, |write| write.key.scope == *scope)
    }

    /// All records whose entry in `index` starts with `value`, with what this transaction wrote (those come last).
    /// Not compared at commit; see [`Tx::guard_index`].
    pub async fn list_by_index<T: Record>(
        &self,
        index: &'static str,
        value: &[&str],
    ) -> Result<Vec<T>, StoreError> {
        let entries = self.rows(&index_range(T::TABLE, index, value)).await?;
        let rows = match self.state().pinned {
            Some(pinned) => (pinned, entries),
            None => return Err(StoreError::Ended),
        };
        let rows = self.shared.store.indexed_rows(T::TABLE, &rows.1, rows.0).await?;
        self.overlay(T::TABLE, rows, |write| {
            write.entries.indexes.iter().any(|entry| {
                entry.name == index
                    && entry.value.len() >= value.len()
                    && entry.value.iter().zip(value).all(|(own, given)| own == given)
            })
        })
    }

    /// Makes the commit depend on the records of a scope: none was created, changed or deleted meanwhile.
    pub async fn guard<T: Record>(&self, scope: &Scope) -> Result<(), StoreError> {
        self.guard_range(scope_range(T::TABLE, scope)).await?;
        Ok(())
    }

    /// Makes the commit depend on the records whose entry in `index` starts with `value`: none was added to it, taken
    /// from it or changed meanwhile.
    pub async fn guard_index<T: Record>(
        &self,
        index: &'static str,
        value: &[&str],
    ) -> Result<(), StoreError> {
        let (pinned, entries) = self.guard_range(index_range(T::TABLE, index, value)).await?;
        let rows = self.shared.store.indexed_rows(T::TABLE, &entries, pinned).await?;
        let mut state = self.open()?;
        state.guards.extend(
            rows.into_iter()
                .map(|row| Compare::unmoved(row.key, row.mod_revision)),
        );
        Ok(())
    }

    /// Writes a record that must not exist; otherwise the update ends with `AlreadyExists`.
    pub fn insert<T: Record>(&self, record: &T) -> Result<(), StoreError> {
        self.write(Mode::Insert, record)
    }

    /// Writes a record, whether it exists or not.
    pub fn put<T: Record>(&self, record: &T) -> Result<(), StoreError> {
        self.write(Mode::Put, record)
    }

    /// Deletes a record, its index entries and its unique values. No change if it is absent.
    pub fn delete<T: Record>(&self, scope: &Scope, id: impl AsRef<str>) -> Result<(), StoreError> {
        let key = RecordKey {
            scope: scope.clone(),
            id: id.as_ref().to_owned(),
        };
        let write = Write {
            mode: Mode::Delete,
            table: T::TABLE,
            bytes: Bytes::new(),
            entries: Entries::default(),
            entries_of: entries_of::<T>,
            version: T::VERSION,
            key,
        };
        self.open()?
            .writes
            .insert(key_of::<T>(scope, &write.key.id), write);
        Ok(())
    }

    fn write<T: Record>(&self, mode: Mode, record: &T) -> Result<(), StoreError> {
        let key = record.key();
        let at = key_of::<T>(&key.scope, &key.id);
        let bytes = encode(record)?;
        let mut state = self.open()?;
        let mode = match state.writes.get(&at).map(|earlier| earlier.mode) {
            // What was deleted may be written anew; the record's own state decides at commit.
            Some(Mode::Delete) => Mode::Put,
            Some(_) if mode == Mode::Insert => {
                return Err(StoreError::InsertedTwice { table: T::TABLE, key });
            }
            Some(earlier) => earlier,
            None => mode,
        };
        let entries = Entries {
            indexes: record.indexes(),
            uniques: record.uniques(),
        };
        let write = Write {
            mode,
            table: T::TABLE,
            key,
            bytes,
            entries,
            entries_of: entries_of::<T>,
            version: T::VERSION,
        };
        state.writes.insert(at, write);
        Ok(())
    }

    async fn find_at<T: Record>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        let written = self.open()?.writes.get(key).cloned();
        if let Some(write) = written {
            return Ok(write.as_stored(key).as_ref().map(decode).transpose()?);
        }
        Ok(self.see(key).await?.as_ref().map(decode).transpose()?)
    }

    /// The stored value of one key, remembered for the compare.
    async fn see(&self, key: &Key) -> Result<Option<KeyValue>, StoreError> {
        if let Some(seen) = self.open()?.seen.get(key) {
            return Ok(seen.clone());
        }
        self.see_all(std::slice::from_ref(key)).await?;
        Ok(self.open()?.seen.get(key).cloned().flatten())
    }

    async fn see_all(&self, keys: &[Key]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        loop {
            let pinned = self.open()?.pinned;
            let (revision, rows) = self.shared.store.get_many(keys, pinned).await?;
            let mut state = self.open()?;
            if *state.pinned.get_or_insert(revision) != revision {
                // A concurrent first read pinned another revision; read again at that one.
                continue;
            }
            state.seen.extend(keys.iter().cloned().zip(rows));
            return Ok(());
        }
    }

    async fn rows(&self, range: &KeyRange) -> Result<Vec<KeyValue>, StoreError> {
        loop {
            let pinned = self.open()?.pinned;
            let (revision, rows) = self.shared.store.scan(range, pinned).await?;
            if *self.open()?.pinned.get_or_insert(revision) == revision {
                return Ok(rows);
            }
        }
    }

    async fn guard_range(&self, range: KeyRange) -> Result<(Revision, Vec<KeyValue>), StoreError> {
        let rows = self.rows(&range).await?;
        let mut state = self.open()?;
        let pinned = state.pinned.ok_or(StoreError::Ended)?;
        state.guards.extend(
            rows.iter()
                .map(|row| Compare::unmoved(row.key.clone(), row.mod_revision)),
        );
        state.guards.push(Compare::nothing_newer(range, pinned));
        Ok((pinned, rows))
    }

    /// Replaces the rows that this transaction wrote, and adds those that now belong to the list.
    fn overlay<T: Record>(
        &self,
        table: &'static str,
        mut rows: Vec<KeyValue>,
        belongs: impl Fn(&Write) -> bool,
    ) -> Result<Vec<T>, StoreError> {
        let state = self.open()?;
        rows.retain(|row| !state.writes.contains_key(&row.key));
        for (key, write) in state.writes.iter().filter(|(_, write)| write.table == table) {
            if let Some(stored) = write.as_stored(key).filter(|_| belongs(write)) {
                rows.push(stored);
            }
        }
        drop(state);
        Ok(rows.iter().map(decode).collect::<Result<_, Unreadable>>()?)
    }

    /// Ends the run and works out the transaction: compares of everything read, and the changes of records, index
    /// entries and unique values. Reads what it still needs at the pinned revision.
    pub(super) async fn prepare<E>(&self) -> Result<Prepared, UpdateError<E>> {
        let writes = self.state().writes.clone();
        self.see_missing(writes.keys().cloned()).await?;
        let mut plan = Plan::default();
        for (key, write) in &writes {
            let stored = self.state().seen.get(key).cloned().flatten();
            plan.add(key, write, stored)?;
        }
        self.see_missing(plan.taken.keys().cloned()).await?;

        let mut state = self.state();
        state.ended = true;
        for (key, (owner, write, index)) in &plan.taken {
            let holder = state.seen.get(key).cloned().flatten();
            let free = match &holder {
                None => true,
                Some(holder) => holder.value == *owner || plan.freed.contains(key),
            };
            if !free {
                return Err(UpdateError::UniqueTaken {
                    table: write.table,
                    index: index.name,
                    value: index.value.clone(),
                });
            }
            if holder.is_none_or(|holder| holder.value != *owner) {
                plan.puts.insert(key.clone(), owner.clone());
            }
        }
        let mut txn = Txn::new();
        txn.compares.extend(state.seen.iter().map(|(key, seen)| {
            let revision = seen.as_ref().map_or(Revision::ZERO, |stored| stored.mod_revision);
            Compare::unmoved(key.clone(), revision)
        }));
        txn.compares.append(&mut state.guards);
        let deletes = plan.deletes.iter().filter(|key| !plan.puts.contains_key(*key));
        txn.then.extend(deletes.cloned().map(Op::Delete));
        txn.then
            .extend(plan.puts.into_iter().map(|(key, value)| Op::Put { key, value }));
        Ok(Prepared { txn })
    }

    async fn see_missing<E>(&self, keys: impl Iterator<Item = Key>) -> Result<(), UpdateError<E>> {
        let missing: Vec<Key> = {
            let state = self.state();
            keys.filter(|key| !state.seen.contains_key(key)).collect()
        };
        if let Some(key) = missing
            .iter()
            .find(|key| key.len() > crate::limits::KEY_BYTES_MAX)
        {
            let bounds = BoundsError::KeyLength { bytes: key.len() };
            return Err(UpdateError::Store(StoreError::Bounds(bounds)));
        }
        self.see_all(&missing).await.map_err(UpdateError::Store)
    }
}

impl Write {
    fn as_stored(&self, key: &Key) -> Option<KeyValue> {
        (self.mode != Mode::Delete).then(|| KeyValue {
            key: key.clone(),
            value: self.bytes.clone(),
            create_revision: Revision::ZERO,
            mod_revision: Revision::ZERO,
            version: 0,
        })
    }
}

/// The changes of a transaction, while they are gathered record by record.
#[derive(Default)]
struct Plan<'a> {
    puts: BTreeMap<Key, Bytes>,
    deletes: BTreeSet<Key>,
    /// Unique values that the written records have: their record's key, and where they come from.
    taken: BTreeMap<Key, (Bytes, &'a Write, &'a Index)>,
    /// Unique values that stored records had and no longer have.
    freed: BTreeSet<Key>,
}

impl<'a> Plan<'a> {
    fn add<E>(
        &mut self,
        key: &Key,
        write: &'a Write,
        stored: Option<KeyValue>,
    ) -> Result<(), UpdateError<E>> {
        if write.mode == Mode::Insert && stored.is_some() {
            return Err(UpdateError::AlreadyExists {
                table: write.table,
                key: write.key.clone(),
            });
        }
        let unreadable = |reason| UpdateError::Store(StoreError::Unreadable(reason));
        let (old, current_version) = match &stored {
            Some(stored) => {
                let version = stored_version(stored).map_err(unreadable)?;
                (
                    (write.entries_of)(stored).map_err(unreadable)?,
                    version == write.version,
                )
            }
            None => (Entries::default(), true),
        };
        let index_keys = |entries: &Entries| -> BTreeSet<Key> {
            entries
                .indexes
                .iter()
                .map(|index| index_key(write.table, index, &write.key))
                .collect()
        };
        let (old_keys, new_keys) = (index_keys(&old), index_keys(&write.entries));
        self.deletes.extend(old_keys.difference(&new_keys).cloned());
        // A record of an older version may lack entries that its indexes have today, so they are all written.
        let missing = new_keys
            .iter()
            .filter(|key| !current_version || !old_keys.contains(*key));
        self.puts.extend(missing.map(|key| (key.clone(), Bytes::new())));

        let unique = |index: &Index| {
            let value: Vec<&str> = index.value.iter().map(String::as_str).collect();
            unique_key(write.table, index.name, &value)
        };
        let new_uniques: BTreeSet<Key> = write.entries.uniques.iter().map(unique).collect();
        for gone in old
            .uniques
            .iter()
            .map(unique)
            .filter(|key| !new_uniques.contains(key))
        {
            self.deletes.insert(gone.clone());
            self.freed.insert(gone);
        }
        for index in &write.entries.uniques {
            if let Some((_, _, index)) = self.taken.insert(unique(index), (key.to_bytes(), write, index)) {
                return Err(UpdateError::UniqueTaken {
                    table: write.table,
                    index: index.name,
                    value: index.value.clone(),
                });
            }
        }
        match (&stored, write.mode) {
            (None, Mode::Delete) => {}
            (Some(_), Mode::Delete) => {
                self.deletes.insert(key.clone());
            }
            // A write that changes no byte is skipped (R13).
            (Some(stored), _) if same_record(&stored.value, &write.bytes) => {}
            _ => {
                self.puts.insert(key.clone(), write.bytes.clone());
            }
        }
        Ok(())
    }
}

//! Typed reads outside a transaction: one record, a whole list at one revision, or a page of it.
//!
//! A list is one scan at one revision (R15): its pages are read at the revision of the first, and it starts again, at
//! most [`limits::LIST_RESTARTS_MAX`] times, if that revision is compacted meanwhile. A row that cannot be decoded fails
//! the list with its key; it never shortens it. Index lists read the entries of a page and then their records, both at
//! one revision. Reads that a decision depends on belong into a transaction (`tx`).

use super::Store;
use crate::engine::{KeyValue, ReadOp};
use crate::error::StoreError;
use crate::key::{Key, KeyRange};
use crate::limits;
use crate::record::{
    Record, RecordKey, Scope, decode, index_range, indexed_record, key_of, scope_range, table_range,
    unique_key,
};
use crate::result::{DecodeError, Read, Revision, Unreadable};

/// Which page of a list.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// At most this many rows, from one to [`limits::PAGE_KEYS_MAX`].
    pub limit: usize,
    /// Start after this position, which an earlier [`Page::next`] named. Positions are keys: they never expire.
    pub after: Option<Key>,
    /// Read at this revision; `None` is the newest.
    pub at: Option<Revision>,
}

impl Default for PageRequest {
    fn default() -> Self {
        PageRequest {
            limit: limits::PAGE_KEYS_MAX,
            after: None,
            at: None,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The rows, in the order of their keys (of their index entries, for an index).
    pub rows: Vec<Row<T>>,
    /// Where the next page starts; `None` if this was the last.
    pub next: Option<Key>,
    /// The revision that was read.
    pub revision: Revision,
}

/// A record with the revision of its last change.
#[derive(Debug, Clone)]
pub struct Row<T> {
    /// The record.
    pub record: T,
    /// The revision of its last change.
    pub revision: Revision,
}

impl Store {
    /// Reads one record.
    pub async fn read_record<T: Record>(&self, scope: &Scope, id: impl AsRef<str>) -> Read<T> {
        let key = key_of::<T>(scope, id.as_ref());
        match self.get(&key).await {
            Read::Present(stored, revision) => match decode(&stored) {
                Ok(record) => Read::Present(record, revision),
                Err(reason) => Read::Unreadable(reason),
            },
            Read::Absent => Read::Absent,
            Read::Unreadable(reason) => Read::Unreadable(reason),
        }
    }

    /// A record that may be absent.
    pub async fn find<T: Record>(&self, scope: &Scope, id: impl AsRef<str>) -> Result<Option<T>, StoreError> {
        Ok(self.read_record(scope, id).await.found()?)
    }

    /// A record that must exist.
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

    /// The records of these keys, in their order, at one revision; absent ones are `None`.
    pub async fn find_many<T: Record>(&self, keys: &[RecordKey]) -> Result<Vec<Option<T>>, StoreError> {
        let keys: Vec<Key> = keys.iter().map(|key| key_of::<T>(&key.scope, &key.id)).collect();
        let (_, rows) = self.get_many(&keys, None).await?;
        let rows = rows.into_iter().map(|row| row.as_ref().map(decode).transpose());
        Ok(rows.collect::<Result<_, Unreadable>>()?)
    }

    /// The record that holds a unique value.
    pub async fn find_unique<T: Record>(
        &self,
        index: &'static str,
        value: &[&str],
    ) -> Result<Option<T>, StoreError> {
        let unique = unique_key(T::TABLE, index, value);
        let (revision, holder) = self.get_many(std::slice::from_ref(&unique), None).await?;
        let Some(holder) = holder.into_iter().flatten().next() else {
            return Ok(None);
        };
        let record = Key::from_bytes(holder.value);
        let (_, rows) = self
            .get_many(std::slice::from_ref(&record), Some(revision))
            .await?;
        match rows.into_iter().flatten().next() {
            Some(row) => Ok(Some(decode(&row)?)),
            None => Err(dangling(unique, record).into()),
        }
    }

    /// All records of a scope, at one revision.
    pub async fn list<T: Record>(&self, scope: &Scope) -> Result<Vec<T>, StoreError> {
        Ok(self.gather(scope_range(T::TABLE, scope), false).await?.1)
    }

    /// All records of a table, whatever their scope, at one revision.
    pub async fn list_all<T: Record>(&self) -> Result<Vec<T>, StoreError> {
        Ok(self.gather(table_range(T::TABLE), false).await?.1)
    }

    /// All records whose entry in `index` starts with `value`, at one revision, ordered by entry.
    pub async fn list_by_index<T: Record>(
        &self,
        index: &'static str,
        value: &[&str],
    ) -> Result<Vec<T>, StoreError> {
        Ok(self.gather(index_range(T::TABLE, index, value), true).await?.1)
    }

    /// As [`Store::list_by_index`] for each of many values, in their order, all at one revision. For answers that join one
    /// table to a page of another: it reads what the page needs, whatever the size of the table.
    pub async fn list_by_index_each<T: Record>(
        &self,
        index: &'static str,
        values: &[&[&str]],
    ) -> Result<Vec<Vec<T>>, StoreError> {
        let ranges: Vec<KeyRange> = values
            .iter()
            .map(|value| index_range(T::TABLE, index, value))
            .collect();
        let mut restarts = 0;
        let (counts, rows) = loop {
            match self.gather_each(T::TABLE, &ranges).await {
                Err(Unreadable::Compacted { .. }) if restarts < limits::LIST_RESTARTS_MAX => restarts += 1,
                gathered => break gathered?,
            }
        };
        let mut records = decode_rows(rows).await?.into_iter();
        Ok(counts
            .into_iter()
            .map(|count| records.by_ref().take(count).collect())
            .collect())
    }

    /// As [`Store::list_all`], with the revision, so that a watch can go on from it.
    pub async fn snapshot<T: Record>(&self) -> Result<(Revision, Vec<T>), StoreError> {
        Ok(self.gather(table_range(T::TABLE), false).await?)
    }

    /// One page of the records of a scope.
    pub async fn page<T: Record>(&self, scope: &Scope, request: PageRequest) -> Result<Page<T>, StoreError> {
        Ok(self
            .typed_page(scope_range(T::TABLE, scope), false, request)
            .await?)
    }

    /// One page of the records of a table.
    pub async fn page_all<T: Record>(&self, request: PageRequest) -> Result<Page<T>, StoreError> {
        Ok(self.typed_page(table_range(T::TABLE), false, request).await?)
    }

    /// One page of the records whose entry in `index` starts with `value`.
    pub async fn page_by_index<T: Record>(
        &self,
        index: &'static str,
        value: &[&str],
        request: PageRequest,
    ) -> Result<Page<T>, StoreError> {
        Ok(self
            .typed_page(index_range(T::TABLE, index, value), true, request)
            .await?)
    }

    async fn gather<T: Record>(
        &self,
        range: KeyRange,
        indexed: bool,
    ) -> Result<(Revision, Vec<T>), Unreadable> {
        let mut restarts = 0;
        loop {
            match self.scan(&range, None).await {
                Ok((revision, rows)) => {
                    let rows = if indexed {
                        match self.indexed_rows(T::TABLE, &rows, revision).await {
                            Err(Unreadable::Compacted { .. }) if restarts < limits::LIST_RESTARTS_MAX => {
                                restarts += 1;
                                continue;
                            }
                            rows => rows?,
                        }
                    } else {
                        rows
                    };
                    return Ok((revision, decode_rows(rows).await?));
                }
                Err(Unreadable::Compacted { .. }) if restarts < limits::LIST_RESTARTS_MAX => restarts += 1,
                Err(reason) => return Err(reason),
            }
        }
    }

    /// The records behind each of some ranges of an index, one range after the other, and how many each has.
    async fn gather_each(
        &self,
        table: &str,
        ranges: &[KeyRange],
    ) -> Result<(Vec<usize>, Vec<KeyValue>), Unreadable> {
        let mut at = None;
        let (mut counts, mut entries) = (Vec::with_capacity(ranges.len()), Vec::new());
        for part in ranges.chunks(limits::READ_OPS_MAX) {
            let limit = limits::PAGE_KEYS_MAX;
            let first_pages = part.iter().cloned().map(|range| ReadOp::Range { range, limit });
            let answer = self.read(first_pages.collect(), at).await?;
            at = Some(answer.revision);
            for (page, range) in answer.pages.into_iter().zip(part) {
                // A range that goes on beyond its share of the answer is read by itself.
                let rows = match page.more {
                    true => self.scan(range, at).await?.1,
                    false => page.rows,
                };
                counts.push(rows.len());
                entries.extend(rows);
            }
        }
        let rows = match at {
            Some(at) => self.indexed_rows(table, &entries, at).await?,
            None => Vec::new(),
        };
        Ok((counts, rows))
    }

    async fn typed_page<T: Record>(
        &self,
        mut range: KeyRange,
        indexed: bool,
        request: PageRequest,
    ) -> Result<Page<T>, Unreadable> {
        if let Some(after) = &request.after {
            range = range.after(after);
        }
        let (page, revision) = self.range(range, request.limit, request.at).await?;
        let next = if page.more {
            page.rows.last().map(|row| row.key.clone())
        } else {
            None
        };
        let rows = if indexed {
            self.indexed_rows(T::TABLE, &page.rows, revision).await?
        } else {
            page.rows
        };
        let revisions: Vec<Revision> = rows.iter().map(|row| row.mod_revision).collect();
        let records = decode_rows(rows).await?;
        let rows = records
            .into_iter()
            .zip(revisions)
            .map(|(record, revision)| Row { record, revision })
            .collect();
        Ok(Page { rows, next, revision })
    }

    /// All rows of a range at one revision.
    pub(crate) async fn scan(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
    ) -> Result<(Revision, Vec<KeyValue>), Unreadable> {
        let (mut page, revision) = self.range(range.clone(), limits::PAGE_KEYS_MAX, at).await?;
        let mut rows = std::mem::take(&mut page.rows);
        while page.more {
            if rows.len() >= limits::LIST_ROWS_MAX {
                return Err(Unreadable::TooLong {
                    rows: limits::LIST_ROWS_MAX,
                });
            }
            let rest = match rows.last() {
                Some(last) => range.after(&last.key),
                None => range.clone(),
            };
            (page, _) = self.range(rest, limits::PAGE_KEYS_MAX, Some(revision)).await?;
            rows.append(&mut page.rows);
        }
        Ok((revision, rows))
    }

    /// The records that index entries name, at the entries' revision.
    pub(crate) async fn indexed_rows(
        &self,
        table: &str,
        entries: &[KeyValue],
        at: Revision,
    ) -> Result<Vec<KeyValue>, Unreadable> {
        let keys: Vec<Key> = entries
            .iter()
            .map(|entry| indexed_record(table, &entry.key))
            .collect::<Result<_, _>>()?;
        let (_, rows) = self.get_many(&keys, Some(at)).await?;
        rows.into_iter()
            .zip(entries.iter().zip(&keys))
            .map(|(row, (entry, record))| row.ok_or_else(|| dangling(entry.key.clone(), record.clone())))
            .collect()
    }

    /// Many keys at one revision, in as many requests as their size needs.
    pub(crate) async fn get_many(
        &self,
        keys: &[Key],
        mut at: Option<Revision>,
    ) -> Result<(Revision, Vec<Option<KeyValue>>), Unreadable> {
        let mut found = Vec::with_capacity(keys.len());
        loop {
            let rest = &keys[found.len()..];
            let ops = rest
                .iter()
                .take(limits::READ_OPS_MAX)
                .cloned()
                .map(ReadOp::Get)
                .collect();
            let answer = self.read(ops, at).await?;
            at = Some(answer.revision);
            for page in answer.pages {
                if page.more {
                    break;
                }
                found.push(page.rows.into_iter().next());
            }
            if found.len() == keys.len() {
                return Ok((answer.revision, found));
            }
        }
    }
}

fn dangling(key: Key, record: Key) -> Unreadable {
    Unreadable::Undecodable {
        key,
        source: DecodeError::Dangling { record },
    }
}

/// Decodes rows; long lists on the blocking pool, because JSON of a thousand records takes milliseconds.
async fn decode_rows<T: Record>(rows: Vec<KeyValue>) -> Result<Vec<T>, Unreadable> {
    if rows.len() <= limits::DECODE_INLINE_ROWS_MAX {
        return rows.iter().map(decode).collect();
    }
    tokio::task::spawn_blocking(move || rows.iter().map(decode).collect())
        .await
        .map_err(|error| Unreadable::Engine(Box::new(error)))?
}

//! The semantics of a transaction and of a read at a past revision, once, for the engines that hold their own rows.
//!
//! Rows live in two ordered sets. *Current* holds the newest version of each key. *History* holds each version that
//! was replaced or deleted, under (key, revision that superseded it). The version of a key at revision `r` is the one
//! with `mod_revision ≤ r < superseded`; so reading the past merges the two sets over the key range and costs what
//! happened in that range, not what happened in the store. An engine supplies the rows through [`Rows`]; atomicity,
//! durability, the change log and its compaction are the engine's.

use super::{Compare, Condition, Event, KeyValue, Op, Over, PageRows, ReadOp, Txn};
use crate::key::{Key, KeyRange};
use crate::limits;
use crate::result::Revision;
use bytes::Bytes;
use std::iter::Peekable;

/// A version of a key, without the key.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    pub version: u64,
}

impl Stored {
    pub(super) fn with_key(self, key: Key) -> KeyValue {
        KeyValue {
            key,
            value: self.value,
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            version: self.version,
        }
    }
}

/// The rows of an engine while it applies one transaction after another.
pub(super) trait Rows {
    type Error;
    fn current(&self, key: &Key) -> Result<Option<Stored>, Self::Error>;
    /// Calls `visit` for the current rows of a range until it answers false.
    fn each_current(
        &self,
        range: &KeyRange,
        visit: &mut dyn FnMut(Key, Stored) -> bool,
    ) -> Result<(), Self::Error>;
    fn put_current(&mut self, key: &Key, stored: &Stored) -> Result<(), Self::Error>;
    fn remove_current(&mut self, key: &Key) -> Result<(), Self::Error>;
    fn put_history(&mut self, key: &Key, superseded: Revision, stored: &Stored) -> Result<(), Self::Error>;
}

/// What applying a transaction did.
pub(super) struct Applied {
    /// Whether the compares held.
    pub held: bool,
    /// The changes of the branch taken, ordered by key; empty if it changed nothing.
    pub events: Vec<Event>,
}

/// Applies a checked transaction as revision `next`. If no event comes back, `next` was not used.
pub(super) fn apply<R: Rows>(rows: &mut R, txn: &Txn, next: Revision) -> Result<Applied, R::Error> {
    let mut held = true;
    for compare in &txn.compares {
        if !holds(rows, compare)? {
            held = false;
            break;
        }
    }
    let mut events = Vec::new();
    for op in if held { &txn.then } else { &txn.otherwise } {
        match op {
            Op::Put { key, value } => events.push(put(rows, key, value, next)?),
            Op::Delete(key) => {
                if let Some(old) = rows.current(key)? {
                    events.push(delete(rows, key.clone(), old, next)?);
                }
            }
            Op::DeleteRange(range) => {
                let mut doomed = Vec::new();
                rows.each_current(range, &mut |key, stored| {
                    doomed.push((key, stored));
                    true
                })?;
                for (key, old) in doomed {
                    events.push(delete(rows, key, old, next)?);
                }
            }
        }
    }
    events.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(Applied { held, events })
}

fn put<R: Rows>(rows: &mut R, key: &Key, value: &Bytes, next: Revision) -> Result<Event, R::Error> {
    let old = rows.current(key)?;
    let new = Stored {
        value: value.clone(),
        create_revision: old.as_ref().map_or(next, |old| old.create_revision),
        mod_revision: next,
        version: old.as_ref().map_or(1, |old| old.version + 1),
    };
    rows.put_current(key, &new)?;
    if let Some(old) = &old {
        rows.put_history(key, next, old)?;
    }
    Ok(Event {
        key: key.clone(),
        new: Some(new.with_key(key.clone())),
        old: old.map(|old| old.with_key(key.clone())),
    })
}

fn delete<R: Rows>(rows: &mut R, key: Key, old: Stored, next: Revision) -> Result<Event, R::Error> {
    rows.remove_current(&key)?;
    rows.put_history(&key, next, &old)?;
    Ok(Event {
        key: key.clone(),
        new: None,
        old: Some(old.with_key(key)),
    })
}

fn holds<R: Rows>(rows: &R, compare: &Compare) -> Result<bool, R::Error> {
    match &compare.over {
        Over::Key(key) => Ok(condition_holds(&compare.condition, rows.current(key)?.as_ref())),
        Over::Range(range) => {
            let (mut any, mut all) = (false, true);
            rows.each_current(range, &mut |_, stored| {
                any = true;
                all = condition_holds(&compare.condition, Some(&stored));
                all
            })?;
            Ok(if any {
                all
            } else {
                condition_holds(&compare.condition, None)
            })
        }
    }
}

fn condition_holds(condition: &Condition, stored: Option<&Stored>) -> bool {
    match condition {
        Condition::ModRevision(relation, given) => relation.holds(
            &stored.map_or(Revision::ZERO, |stored| stored.mod_revision),
            given,
        ),
        Condition::CreateRevision(relation, given) => relation.holds(
            &stored.map_or(Revision::ZERO, |stored| stored.create_revision),
            given,
        ),
        Condition::Version(relation, given) => {
            relation.holds(&stored.map_or(0, |stored| stored.version), given)
        }
        Condition::Value(relation, given) => {
            stored.is_some_and(|stored| relation.holds(&stored.value[..], &given[..]))
        }
    }
}

/// Merges the current rows and the history of a range into what they were at revision `at`.
/// `history` yields (key, superseded) in order; both iterators end themselves on an error after yielding it.
pub(super) struct MergeAt<C: Iterator, H: Iterator> {
    pub current: Peekable<C>,
    pub history: Peekable<H>,
    pub at: Revision,
}

impl<C, H, E> Iterator for MergeAt<C, H>
where
    C: Iterator<Item = Result<(Key, Stored), E>>,
    H: Iterator<Item = Result<(Key, Revision, Stored), E>>,
{
    type Item = Result<(Key, Stored), E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // The smaller head names the key to settle now.
            let key = match (self.current.peek(), self.history.peek()) {
                (None, None) => return None,
                (Some(Err(_)), _) => return self.current.next(),
                (_, Some(Err(_))) => return self.history.next()?.err().map(Err),
                (Some(Ok((key, _))), None) => key.clone(),
                (None, Some(Ok((key, _, _)))) => key.clone(),
                (Some(Ok((key, _))), Some(Ok((other, _, _)))) => key.min(other).clone(),
            };
            let mut found = None;
            while let Some(Ok((_, superseded, stored))) = self
                .history
                .next_if(|item| matches!(item, Ok((other, _, _)) if *other == key))
            {
                if found.is_none() && superseded > self.at && stored.mod_revision <= self.at {
                    found = Some(stored);
                }
            }
            if let Some(Ok((_, stored))) = self
                .current
                .next_if(|item| matches!(item, Ok((other, _)) if *other == key))
                && stored.mod_revision <= self.at
            {
                found = Some(stored);
            }
            if let Some(stored) = found {
                return Some(Ok((key, stored)));
            }
        }
    }
}

/// Gathers one page from rows in order, within the page's limit and the answer's byte budget. `must` admits the first
/// row even when it is larger than the budget.
pub(super) fn page<E>(
    rows: impl Iterator<Item = Result<(Key, Stored), E>>,
    limit: usize,
    budget: &mut usize,
    must: bool,
) -> Result<PageRows, E> {
    let mut page = PageRows::default();
    for row in rows {
        let (key, stored) = row?;
        let bytes = key.len() + stored.value.len();
        let admitted = bytes <= *budget || (must && page.rows.is_empty());
        if page.rows.len() == limit || !admitted {
            page.more = true;
            break;
        }
        *budget = budget.saturating_sub(bytes);
        page.rows.push(stored.with_key(key));
    }
    Ok(page)
}

/// A source of rows at one revision; [`answer`] runs a whole request against it.
pub(super) trait Snapshot {
    type Error;
    /// The version of `key` at the snapshot's revision.
    fn get(&self, key: &Key) -> Result<Option<Stored>, Self::Error>;
    /// One page of `range` at the snapshot's revision.
    fn range(
        &self,
        range: &KeyRange,
        limit: usize,
        budget: &mut usize,
        must: bool,
    ) -> Result<PageRows, Self::Error>;
}

/// Runs the reads of a request within [`limits::READ_BYTES_MAX`].
pub(super) fn answer<S: Snapshot>(snapshot: &S, ops: &[ReadOp]) -> Result<Vec<PageRows>, S::Error> {
    let mut budget = limits::READ_BYTES_MAX;
    let mut pages = Vec::with_capacity(ops.len());
    let mut full = false;
    for (position, op) in ops.iter().enumerate() {
        if full {
            pages.push(PageRows {
                rows: Vec::new(),
                more: true,
            });
            continue;
        }
        let must = position == 0;
        let page = match op {
            ReadOp::Get(key) => {
                let row = snapshot.get(key)?.map(|stored| Ok((key.clone(), stored)));
                page(row.into_iter(), 1, &mut budget, must)?
            }
            ReadOp::Range { range, limit } => snapshot.range(range, *limit, &mut budget, must)?,
        };
        full = page.more && !matches!(op, ReadOp::Range { limit, .. } if page.rows.len() == *limit);
        pages.push(page);
    }
    Ok(pages)
}

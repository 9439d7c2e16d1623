//! Lockout: who fails too often is refused before any cryptography and any read (identity.md R34, R35).
//!
//! Failures count per (source, claimed key), and per source at twenty times the limit, so that tenants behind one address
//! do not lock each other out. Only distinct failures count: one stuck client that repeats one bad request is one. A
//! success clears its own pair. The table is bounded; when it is full the oldest entry that is not locked goes.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{
    LOCKOUT_ENTRIES_MAX, LOCKOUT_FAILURES, LOCKOUT_FIRST, LOCKOUT_LONGEST, LOCKOUT_SOURCE_FAILURES,
    LOCKOUT_WINDOW,
};

/// Entries looked at to find one that may go.
const EVICTION_TRIES: usize = 16;

/// Where requests come from: an IPv4 address, or the /64 of an IPv6 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(u64, bool);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Source(u64::from(u32::from(address)), false),
            IpAddr::V6(address) => Source((u128::from(address) >> 64) as u64, true),
        }
    }
}

/// A source with the key it claims; no key for the source as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Suspect {
    source: Source,
    key: Option<Box<str>>,
}

struct Record {
    /// Digests of the failures in the window that began at `since`.
    failures: HashSet<u64>,
    since: Instant,
    locked_until: Option<Instant>,
    locks: u32,
}

#[derive(Default)]
struct Table {
    records: HashMap<Suspect, Record>,
    order: VecDeque<Suspect>,
}

/// The table of suspects.
pub(crate) struct Lockout {
    table: Mutex<Table>,
    entries_max: usize,
}

impl Lockout {
    pub(crate) fn new() -> Self {
        Self {
            table: Mutex::default(),
            entries_max: LOCKOUT_ENTRIES_MAX,
        }
    }

    /// How long the source, or the source with this key, stays locked.
    pub(crate) fn locked_for(&self, source: Source, key: Option<&str>, now: Instant) -> Option<Duration> {
        let table = self.table();
        if table.records.is_empty() {
            return None;
        }
        let left = |suspect: Suspect| {
            let until = table.records.get(&suspect)?.locked_until?;
            until.checked_duration_since(now).filter(|left| !left.is_zero())
        };
        let pair = key.and_then(|key| {
            left(Suspect {
                source,
                key: Some(key.into()),
            })
        });
        pair.max(left(Suspect { source, key: None }))
    }

    /// Counts a failure. `fingerprint` tells distinct failures apart: reason, key, signature, token.
    pub(crate) fn failed(&self, source: Source, key: Option<&str>, fingerprint: impl Hash, now: Instant) {
        let mut hasher = DefaultHasher::new();
        (key, &fingerprint).hash(&mut hasher);
        let digest = hasher.finish();
        let mut table = self.table();
        if let Some(key) = key {
            let pair = Suspect {
                source,
                key: Some(key.into()),
            };
            table.count(pair, digest, LOCKOUT_FAILURES, now, self.entries_max);
        }
        let whole = Suspect { source, key: None };
        table.count(whole, digest, LOCKOUT_SOURCE_FAILURES, now, self.entries_max);
    }

    /// Forgets the failures of this pair.
    pub(crate) fn succeeded(&self, source: Source, key: &str) {
        let mut table = self.table();
        if !table.records.is_empty() {
            table.records.remove(&Suspect {
                source,
                key: Some(key.into()),
            });
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A record is inserted whole, so the table is usable even if a holder panicked.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn count(&mut self, suspect: Suspect, digest: u64, limit: usize, now: Instant, entries_max: usize) {
        if !self.records.contains_key(&suspect) {
            self.make_room(now, entries_max);
            self.order.push_back(suspect.clone());
        }
        let record = match self.records.entry(suspect) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Record {
                failures: HashSet::new(),
                since: now,
                locked_until: None,
                locks: 0,
            }),
        };
        if now.duration_since(record.since) > LOCKOUT_WINDOW {
            record.failures.clear();
            record.since = now;
            // A pair that behaved for as long as its last lock starts anew.
            if record
                .locked_until
                .is_none_or(|until| now.saturating_duration_since(until) > LOCKOUT_LONGEST)
            {
                record.locks = 0;
            }
        }
        record.failures.insert(digest);
        if record.failures.len() >= limit {
            let factor = 1_u32.checked_shl(record.locks).unwrap_or(u32::MAX);
            let lock = LOCKOUT_FIRST.saturating_mul(factor).min(LOCKOUT_LONGEST);
            record.locked_until = Some(now + lock);
            record.locks = record.locks.saturating_add(1);
            record.failures.clear();
            record.since = now;
        }
    }

    fn make_room(&mut self, now: Instant, entries_max: usize) {
        // Entries that a success removed are still in the order.
        while self
            .order
            .front()
            .is_some_and(|oldest| !self.records.contains_key(oldest))
        {
            self.order.pop_front();
        }
        if self.order.len() < entries_max {
            return;
        }
        for _ in 0..EVICTION_TRIES {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.records.get(&oldest) {
                Some(record) if record.locked_until.is_some_and(|until| until > now) => {
                    self.order.push_back(oldest)
                }
                _ => {
                    self.records.remove(&oldest);
                    return;
                }
            }
        }
        // Nothing but locked entries in sight: the oldest of them goes, since memory is bounded before all else.
        if let Some(oldest) = self.order.pop_front() {
            self.records.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{Lockout, Source};

    fn source(address: &str) -> Source {
        Source::from(address.parse::<IpAddr>().expect("an address"))
    }

    #[test]
    fn ten_distinct_failures_lock_the_pair_and_no_other() {
        let lockout = Lockout::new();
        let (here, now) = (source("192.0.2.1"), Instant::now());
        for failure in 0..9 {
            lockout.failed(here, Some("AKIA1"), failure, now);
        }
        assert_eq!(lockout.locked_for(here, Some("AKIA1"), now), None);
        lockout.failed(here, Some("AKIA1"), 9, now);
        assert_eq!(
            lockout.locked_for(here, Some("AKIA1"), now),
            Some(Duration::from_secs(30))
        );
        assert_eq!(lockout.locked_for(here, Some("AKIA2"), now), None);
        assert_eq!(lockout.locked_for(source("192.0.2.2"), Some("AKIA1"), now), None);
        assert_eq!(
            lockout.locked_for(here, Some("AKIA1"), now + Duration::from_secs(31)),
            None
        );
    }

    #[test]
    fn a_repeated_failure_is_one_and_old_ones_are_forgotten() {
        let lockout = Lockout::new();
        let (here, start) = (source("192.0.2.1"), Instant::now());
        for second in 0..3_600 {
            lockout.failed(
                here,
                Some("AKIA1"),
                "the same",
                start + Duration::from_secs(second),
            );
        }
        for second in 0..100 {
            lockout.failed(
                here,
                Some("AKIA3"),
                second,
                start + Duration::from_secs(10 * second),
            );
        }
        let end = start + Duration::from_secs(3_600);
        assert_eq!(lockout.locked_for(here, Some("AKIA1"), end), None);
        assert_eq!(lockout.locked_for(here, Some("AKIA3"), end), None);
    }

    #[test]
    fn locks_double_up_to_five_minutes_and_success_clears_its_pair() {
        let lockout = Lockout::new();
        let here = source("192.0.2.1");
        let mut now = Instant::now();
        let mut locks = Vec::new();
        for round in 0..6 {
            for failure in 0..10 {
                lockout.failed(here, Some("AKIA1"), (round, failure), now);
            }
            let lock = lockout.locked_for(here, Some("AKIA1"), now).expect("locked");
            locks.push(lock.as_secs());
            now += lock + Duration::from_secs(1);
        }
        assert_eq!(locks, [30, 60, 120, 240, 300, 300]);
        for failure in 0..9 {
            lockout.failed(here, Some("AKIA2"), failure, now);
        }
        lockout.succeeded(here, "AKIA2");
        lockout.failed(here, Some("AKIA2"), 9, now);
        assert_eq!(lockout.locked_for(here, Some("AKIA2"), now), None);
    }

    #[test]
    fn two_hundred_failures_lock_the_source() {
        let lockout = Lockout::new();
        let (here, now) = (source("2001:db8::1"), Instant::now());
        for failure in 0..200 {
            lockout.failed(here, None, failure, now);
        }
        assert!(lockout.locked_for(here, Some("AKIA9"), now).is_some());
        assert!(
            lockout.locked_for(source("2001:db8::ffff"), None, now).is_some(),
            "the same /64"
        );
        assert!(lockout.locked_for(source("2001:db8:0:1::1"), None, now).is_none());
    }

    #[test]
    fn the_table_is_bounded() {
        let lockout = Lockout {
            entries_max: 100,
            ..Lockout::new()
        };
        let now = Instant::now();
        for failure in 0..10 {
            lockout.failed(source("192.0.2.1"), Some("AKIA1"), failure, now);
        }
        for address in 0..10_000_u32 {
            lockout.failed(Source::from(IpAddr::from(address.to_be_bytes())), None, 0, now);
        }
        let table = lockout.table();
        assert!(table.records.len() <= 100 && table.order.len() <= 100);
        drop(table);
        assert!(
            lockout
                .locked_for(source("192.0.2.1"), Some("AKIA1"), now)
                .is_some(),
            "locked entries stay"
        );
    }
}

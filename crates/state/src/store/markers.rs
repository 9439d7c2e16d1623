//! Commit markers: their keys, their two values, and the sweep of old ones.
//!
//! Marker ids sort by time, so the sweep deletes one key range per step. It runs at most once a minute, only after a
//! commit (an idle store writes nothing), in its own task, and a failed sweep simply runs again later.

use super::Store;
use crate::engine::{Op, Txn};
use crate::key::{Key, KeyRange, space};
use crate::limits;
use crate::result::{Change, TxnId};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(super) const COMMITTED: &str = r#"{"v":1,"outcome":"committed"}"#;
pub(super) const ABORTED: &str = r#"{"v":1,"outcome":"aborted"}"#;

pub(super) fn key(id: TxnId) -> Key {
    Key::of(&[space::MARKER, &id.to_string()])
}

pub(super) struct Sweeper {
    swept: Mutex<Instant>,
}

impl Sweeper {
    /// The first sweep is due a while after the store was opened.
    pub(super) fn new() -> Sweeper {
        Sweeper {
            swept: Mutex::new(Instant::now()),
        }
    }

    /// Starts a sweep if one is due.
    pub(super) fn after_commit(&self, store: &Store) {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.elapsed() < limits::MARKER_SWEEP_EVERY {
            return;
        }
        *swept = Instant::now();
        drop(swept);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = now.saturating_sub(limits::MARKER_KEPT).as_millis();
        let before = TxnId::first_at(u64::try_from(before).unwrap_or(u64::MAX));
        let store = store.clone();
        tokio::spawn(async move { sweep(&store, before).await });
    }
}

/// Deletes the markers of transactions made before `before`.
async fn sweep(store: &Store, before: TxnId) {
    let old = KeyRange {
        start: Key::of(&[space::MARKER]).children().start,
        end: key(before),
    };
    // Page by page, so that no step deletes more than a page.
    loop {
        let Ok((page, _)) = store.range(old.clone(), limits::PAGE_KEYS_MAX, None).await else {
            return;
        };
        let Some(last) = page.rows.last() else { return };
        let mut txn = Txn::new();
        txn.then.push(Op::DeleteRange(KeyRange {
            start: old.start.clone(),
            end: last.key.successor(),
        }));
        if !matches!(store.timed_commit(txn).await, Change::Applied(_)) || !page.more {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMITTED, Op, Store, Txn, TxnId, key, sweep};
    use crate::key::Key;
    use crate::limits;
    use crate::result::{Change, Read};

    #[tokio::test]
    async fn old_markers_go_and_young_ones_stay() {
        let store = Store::memory();
        // More than one page of them.
        for block in 0..5 {
            let mut txn = Txn::new();
            txn.then
                .extend((0..500).map(|n| Op::put(key(TxnId::first_at(block * 500 + n)), COMMITTED)));
            assert!(matches!(store.timed_commit(txn).await, Change::Applied(_)));
        }
        let young = Txn::new().then(Op::put(Key::of(&["test"]), "x"));
        let id = young.id;
        assert!(matches!(store.commit(young).await, Change::Applied(_)));
        sweep(&store, TxnId::first_at(2_400)).await;
        let left = store
            .range(Key::of(&["x"]).children(), limits::PAGE_KEYS_MAX, None)
            .await;
        let left = left.expect("readable").0.rows;
        assert_eq!(left.len(), 101);
        assert_eq!(left[0].key, key(TxnId::first_at(2_400)));
        assert!(matches!(store.get(&key(id)).await, Read::Present(..)));
    }

    #[test]
    fn ids_sort_by_their_time() {
        assert!(key(TxnId::first_at(9)) < key(TxnId::first_at(10)));
        assert!(TxnId::generate() > TxnId::first_at(1_700_000_000_000));
        assert_ne!(TxnId::generate(), TxnId::generate());
    }
}

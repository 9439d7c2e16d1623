//! What a redb file keeps across restarts of its process.

use crate::fixture::{Counter, Machine, account, bounded, machine};
use state::engine::{HistoryLimits, Op, OpenError, RedbEngine, Txn};
use state::{Change, Key, Revision, Scope, Store, StoreError, TableItem, Unreadable, UpdateError};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;

async fn put_counter(store: &Store, id: &str, count: u64) -> Revision {
    let counter = &Counter {
        id: id.to_owned(),
        count,
    };
    let outcome: Result<_, UpdateError<StoreError>> =
        store.update_at(|tx| async move { tx.put(counter) }).await;
    outcome.expect("committed").1.expect("changed")
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_a_restart() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("state.redb");
    let mut last = Revision(0);
    for run in 0..4u64 {
        let store = Store::open_redb(&path).expect("open");
        assert_eq!(
            store.revision().await.expect("readable"),
            last,
            "the revision goes on"
        );
        assert_eq!(
            store.list::<Counter>(&Scope::NONE).await.expect("readable").len(),
            run as usize
        );
        put_counter(&store, &format!("run-{run}"), run).await;
        last = put_counter(&store, "run-0", run + 1).await;
    }
    let store = Store::open_redb(&path).expect("open");
    // Earlier processes' changes can still be watched and read.
    let mut watch = store
        .watch_table::<Counter>(Some(Revision(0)))
        .await
        .expect("watch");
    let mut seen = Vec::new();
    while watch.revision() < last {
        if let TableItem::Changes { revision, changes } = bounded(watch.next()).await.expect("item") {
            for change in changes {
                let old = change.old.present().map(|old| old.count);
                let new = change.new.present().map(|new| new.count);
                seen.push((revision.0, change.key.id, old, new));
            }
        }
    }
    let expected = [
        (1, "run-0", None, Some(0)),
        (2, "run-0", Some(0), Some(1)),
        (3, "run-1", None, Some(1)),
        (4, "run-0", Some(1), Some(2)),
        (5, "run-2", None, Some(2)),
        (6, "run-0", Some(2), Some(3)),
        (7, "run-3", None, Some(3)),
        (8, "run-0", Some(3), Some(4)),
    ];
    let expected = expected.map(|(revision, id, old, new)| (revision, id.to_owned(), old, new));
    assert_eq!(seen, expected);
    // What the running process adds follows without a seam.
    let next = put_counter(&store, "run-9", 9).await;
    let TableItem::Changes { revision, .. } = bounded(watch.next()).await.expect("item") else {
        panic!("changes")
    };
    assert_eq!(revision, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_survives_a_restart() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("state.redb");
    let limits = HistoryLimits {
        changes_max: 10,
        ..HistoryLimits::default()
    };
    let open = || Store::with_engine(Arc::new(RedbEngine::open(&path, limits).expect("open")));
    let store = open();
    for n in 0..50 {
        put_counter(&store, "a", n).await;
    }
    let before = store.status().await.expect("readable");
    drop(store);
    let store = open();
    let after = store.status().await.expect("readable");
    assert_eq!(after, before);
    let early = store.watch_table::<Counter>(Some(Revision(1))).await;
    assert!(matches!(early.err(), Some(Unreadable::Compacted { oldest }) if oldest == before.oldest));
    let mut watch = store
        .watch_table::<Counter>(Some(before.oldest))
        .await
        .expect("watch");
    let item = bounded(watch.next()).await.expect("item");
    assert!(matches!(item, TableItem::Changes { revision, .. } if revision == before.oldest.next()));
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_end_when_the_store_closes_and_do_not_keep_it_open() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("state.redb");
    let store = Store::open_redb(&path).expect("open");
    let mut watch = store.watch_table::<Counter>(None).await.expect("watch");
    drop(store);
    assert!(matches!(
        bounded(watch.next()).await,
        Err(Unreadable::Unreachable)
    ));
    Store::open_redb(&path).expect("free again while the watch still exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_has_one_opener_and_only_its_owner_reads_it() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("state.redb");
    let _store = Store::open_redb(&path).expect("open");
    let second = Store::open_redb(&path).err();
    assert!(matches!(second, Some(OpenError::InUse { .. })), "{second:?}");
    let mode = std::fs::metadata(&path).expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_not_a_store_is_refused_and_left_alone() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("state.redb");
    let garbage: Vec<u8> = (0..100_000u32).map(|n| (n * 7 + 1) as u8).collect();
    std::fs::write(&path, &garbage).expect("written");
    let opened = Store::open_redb(&path).err();
    assert!(
        matches!(opened, Some(OpenError::Damaged { .. } | OpenError::Io { .. })),
        "{opened:?}"
    );
    assert_eq!(std::fs::read(&path).expect("read"), garbage);
    let nowhere = Store::open_redb(dir.path().join("no/such/directory")).err();
    assert!(matches!(nowhere, Some(OpenError::Io { .. })), "{nowhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_cancels_nothing() {
    let dir = TempDir::new().expect("directory");
    let store = Store::open_redb(dir.path().join("state.redb")).expect("open");
    let machine = machine("1", "a", "n");
    let key = state::key_of::<Machine>(&account("1"), "a");
    let value = serde_json::to_vec(&serde_json::json!({ "v": 2, "w": "test", "d": machine })).expect("json");
    let txn = Txn::new().then(Op::put(key.clone(), value));
    let id = txn.id;
    {
        // Polled once: sent, and then the caller is gone.
        let commit = std::pin::pin!(store.commit(txn));
        let _ = futures_util::poll!(commit);
    }
    let settled = bounded(store.resolve(id)).await;
    assert!(matches!(settled, Change::Applied(Revision(1))), "{settled:?}");
    assert!(
        store
            .find::<Machine>(&account("1"), "a")
            .await
            .expect("readable")
            .is_some()
    );
    // Enough to show that the store goes on.
    let more = store
        .commit(Txn::new().then(Op::put(Key::of(&["test"]), "x")))
        .await;
    assert!(matches!(more, Change::Applied(_)), "{more:?}");
}

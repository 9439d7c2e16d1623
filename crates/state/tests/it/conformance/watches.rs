//! Watches: no gap, no repeat, in order; compaction and slowness are said, not hidden.

use crate::fixture::{Counter, Fixture, Machine, account, bounded, machine};
use state::engine::{EngineWatch, WatchItem};
use state::{Key, Read, Revision, Scope, Store, StoreError, TableItem, Unreadable, UpdateError, table_range};
use std::collections::BTreeMap;

async fn count(store: &Store, id: &str, count: u64) -> Revision {
    let counter = &Counter {
        id: id.to_owned(),
        count,
    };
    let outcome: Result<_, UpdateError<StoreError>> =
        store.update_at(|tx| async move { tx.put(counter) }).await;
    outcome.expect("committed").1.expect("changed")
}

/// The next changes as (revision, key, old, new) with values as text.
async fn events(watch: &mut Box<dyn EngineWatch>) -> Option<(Revision, Vec<(Key, Option<String>)>)> {
    match bounded(watch.next()).await.expect("watching") {
        WatchItem::Events(batch) => {
            let events = batch.events.iter().map(|event| {
                let new = event
                    .new
                    .as_ref()
                    .map(|new| String::from_utf8_lossy(&new.value).into_owned());
                (event.key.clone(), new)
            });
            Some((batch.revision, events.collect()))
        }
        WatchItem::Progress(_) => None,
        WatchItem::Resync { .. } => panic!("not slow"),
    }
}

pub(crate) async fn every_change_arrives_once_in_order(fixture: Fixture) {
    let store = fixture.store();
    const WRITERS: u64 = 8;
    const EACH: u64 = 50;
    let range = table_range("counters");
    let watchers: Vec<_> = (0..4)
        .map(|position| {
            let (store, range) = (store.clone(), range.clone());
            tokio::spawn(async move {
                // Some from the beginning, some from wherever the store is when they come.
                let from = (position % 2 == 0).then_some(Revision(0));
                let mut watch = store.watch(range.clone(), from).await.expect("watch");
                let start = watch.revision();
                let (rows, at) = store.range(range, 1_000, Some(start)).await.expect("readable");
                assert_eq!(at, start);
                let mut seen: BTreeMap<Key, String> = rows
                    .rows
                    .into_iter()
                    .map(|row| (row.key, String::from_utf8_lossy(&row.value).into_owned()))
                    .collect();
                let mut last = start;
                loop {
                    let Some((revision, changes)) = events(&mut watch).await else {
                        continue;
                    };
                    assert!(revision > last, "{revision} after {last}");
                    last = revision;
                    for (key, new) in changes {
                        match new {
                            Some(new) => seen.insert(key, new),
                            None => seen.remove(&key),
                        };
                    }
                    if seen.values().any(|value| value.contains("999999")) {
                        return (last, seen);
                    }
                }
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..EACH {
                    count(&store, &format!("{writer}-{}", n % 7), n).await;
                }
            })
        })
        .collect();
    for writer in writers {
        bounded(writer).await.expect("writer");
    }
    let end = count(&store, "end", 999_999).await;
    let (rows, _) = store.range(range.clone(), 1_000, None).await.expect("readable");
    let expected: BTreeMap<Key, String> = rows
        .rows
        .into_iter()
        .map(|row| (row.key, String::from_utf8_lossy(&row.value).into_owned()))
        .collect();
    for watcher in watchers {
        let (last, seen) = bounded(watcher).await.expect("watcher");
        assert_eq!(last, end);
        assert_eq!(seen, expected, "replaying the changes gives the table");
    }
    // A replay of everything has each revision exactly once: every commit changed one counter.
    let mut replay = store.watch(range, Some(Revision(0))).await.expect("watch");
    for expected in 1..=end.0 {
        loop {
            if let Some((revision, changes)) = events(&mut replay).await {
                assert_eq!((revision.0, changes.len()), (expected, 1));
                break;
            }
        }
    }
}

pub(crate) async fn a_watch_goes_on_where_another_ended(fixture: Fixture) {
    let store = fixture.store();
    let mut position = Revision(0);
    let mut got = Vec::new();
    for n in 1..=30 {
        count(&store, "a", n).await;
        count(&store, "b", n).await;
        let mut watch = store.watch_table::<Counter>(Some(position)).await.expect("watch");
        // Take one item and drop the watch: the rest must come to the next one.
        if let TableItem::Changes { changes, .. } = bounded(watch.next()).await.expect("item") {
            got.extend(
                changes
                    .into_iter()
                    .map(|change| (change.key.id, count_of(&change.new))),
            );
        }
        position = watch.revision();
    }
    let mut rest = store.watch_table::<Counter>(Some(position)).await.expect("watch");
    while got.len() < 60 {
        if let TableItem::Changes { changes, .. } = bounded(rest.next()).await.expect("item") {
            got.extend(
                changes
                    .into_iter()
                    .map(|change| (change.key.id, count_of(&change.new))),
            );
        }
    }
    let expected: Vec<(String, u64)> = (1..=30)
        .flat_map(|n| [("a".to_owned(), n), ("b".to_owned(), n)])
        .collect();
    assert_eq!(got, expected);
}

fn count_of(read: &Read<Counter>) -> u64 {
    read.present().expect("present").count
}

pub(crate) async fn typed_changes_carry_old_and_new(fixture: Fixture) {
    let store = fixture.store();
    let mut watch = store.watch_table::<Machine>(None).await.expect("watch");
    count(&store, "not-ours", 1).await;
    let change = |machine: Option<Machine>| {
        let store = store.clone();
        async move {
            let machine = &machine;
            let outcome: Result<(), UpdateError<StoreError>> = store
                .update(|tx| async move {
                    match machine {
                        Some(machine) => tx.put(machine),
                        None => tx.delete::<Machine>(&account("1"), "a"),
                    }
                })
                .await;
            outcome.expect("committed");
        }
    };
    let (first, second) = (machine("1", "a", "n1"), machine("1", "a", "n2"));
    change(Some(first.clone())).await;
    change(Some(second.clone())).await;
    change(None).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        if let TableItem::Changes { changes, .. } = bounded(watch.next()).await.expect("item") {
            for change in changes {
                assert_eq!(change.key, first.key_for_test());
                seen.push((change.old.present().cloned(), change.new.present().cloned()));
            }
        }
    }
    let expected = [
        (None, Some(first.clone())),
        (Some(first), Some(second.clone())),
        (Some(second), None),
    ];
    assert_eq!(seen, expected);
}

impl Machine {
    fn key_for_test(&self) -> state::RecordKey {
        state::RecordKey {
            scope: Scope::account(&self.account),
            id: self.id.clone(),
        }
    }
}

pub(crate) async fn compaction_is_answered_as_such(fixture: Fixture) {
    let store = fixture.store_keeping(20);
    for n in 1..=50 {
        count(&store, "a", n).await;
    }
    let oldest = store.status().await.expect("readable").oldest;
    assert!(oldest > Revision(0));
    let early = store.watch_table::<Counter>(Some(Revision(oldest.0 - 1))).await;
    assert!(matches!(early.err(), Some(Unreadable::Compacted { oldest: found }) if found == oldest));
    let mut watch = store.watch_table::<Counter>(Some(oldest)).await.expect("watch");
    let TableItem::Changes { revision, .. } = bounded(watch.next()).await.expect("item") else {
        panic!("changes")
    };
    assert_eq!(revision, oldest.next());
    let future = store.watch_table::<Counter>(Some(Revision(1_000))).await;
    assert!(matches!(future.err(), Some(Unreadable::Future { .. })));
}

pub(crate) async fn slow_watchers_are_told_to_list_again(fixture: Fixture) {
    // One watcher sleeps while more is written than is kept, in memory and on disk.
    let store = fixture.store_keeping(20);
    let mut watch = store.watch_table::<Counter>(None).await.expect("watch");
    let value = "x".repeat(300_000);
    for n in 1..=60 {
        let counter = &Counter {
            id: format!("{n}-{value}")[..900].to_owned(),
            count: n,
        };
        let outcome: Result<(), UpdateError<StoreError>> =
            store.update(|tx| async move { tx.put(counter) }).await;
        outcome.expect("committed");
        let txn =
            state::engine::Txn::new().then(state::engine::Op::put(Key::of(&["test", "big"]), value.clone()));
        assert!(matches!(store.commit(txn).await, state::Change::Applied(_)));
    }
    let mut resynced = false;
    let end = count(&store, "end", 1).await;
    loop {
        match bounded(watch.next()).await.expect("item") {
            TableItem::Resync { revision } => {
                resynced = true;
                assert!(revision <= end);
                // Listing now misses nothing, and the watch goes on.
                assert_eq!(store.list_all::<Counter>().await.expect("readable").len(), 61);
                count(&store, "after", 1).await;
            }
            TableItem::Changes { changes, .. } => {
                if changes.iter().any(|change| change.key.id == "after") {
                    break;
                }
            }
            TableItem::Progress(_) => {}
        }
    }
    assert!(resynced);
}

//! Keys and bytes: revisions, compares, refusals, ranges, history, lost answers.

use crate::fixture::{Fixture, bounded};
use state::engine::{Compare, Condition, Op, Over, ReadOp, Relation, Txn};
use state::{BoundsError, Change, Key, KeyRange, Probe, Read, Refusal, Revision, Store, Unreadable, limits};

fn key(name: &str) -> Key {
    Key::of(&["test", name])
}

fn all() -> KeyRange {
    Key::of(&["test"]).children()
}

fn put(name: &str, value: &str) -> Op {
    Op::put(key(name), value.to_owned())
}

/// Commits and expects success.
async fn commit(store: &Store, txn: Txn) -> Revision {
    match store.commit(txn).await {
        Change::Applied(revision) => revision,
        other => panic!("not applied: {other:?}"),
    }
}

async fn value(store: &Store, name: &str) -> Option<String> {
    let found = store.get(&key(name)).await.found().expect("readable");
    found.map(|found| String::from_utf8_lossy(&found.value).into_owned())
}

pub(crate) async fn revisions_count_changes(fixture: Fixture) {
    let store = fixture.store();
    assert_eq!(store.revision().await.expect("readable"), Revision(0));
    assert_eq!(
        commit(&store, Txn::new().then(put("a", "1")).then(put("b", "1"))).await,
        Revision(1)
    );
    assert_eq!(commit(&store, Txn::new().then(put("a", "2"))).await, Revision(2));
    let Read::Present(a, revision) = store.get(&key("a")).await else {
        panic!("present")
    };
    assert_eq!(
        (a.create_revision, a.mod_revision, a.version),
        (Revision(1), Revision(2), 2)
    );
    assert_eq!(revision, Revision(2));
    let Read::Present(b, _) = store.get(&key("b")).await else {
        panic!("present")
    };
    assert_eq!(
        (b.create_revision, b.mod_revision, b.version),
        (Revision(1), Revision(1), 1)
    );

    // Only compares: nothing changes, so no revision is made.
    assert_eq!(
        commit(&store, Txn::new().when(Compare::absent(key("c")))).await,
        Revision(2)
    );
    // A key that was deleted starts anew.
    commit(&store, Txn::new().then(Op::Delete(key("a")))).await;
    commit(&store, Txn::new().then(put("a", "3"))).await;
    let Read::Present(a, _) = store.get(&key("a")).await else {
        panic!("present")
    };
    assert_eq!((a.create_revision, a.version), (Revision(4), 1));
}

pub(crate) async fn compares_decide_the_branch(fixture: Fixture) {
    let store = fixture.store();
    commit(&store, Txn::new().then(put("a", "1"))).await;
    commit(&store, Txn::new().then(put("a", "2"))).await;
    let on = |over: Over, condition: Condition| Compare { over, condition };
    let a = || Over::Key(key("a"));
    let none = || Over::Key(key("none"));
    let holds = [
        on(a(), Condition::ModRevision(Relation::Equal, Revision(2))),
        on(a(), Condition::CreateRevision(Relation::Less, Revision(2))),
        on(a(), Condition::Version(Relation::Greater, 1)),
        on(a(), Condition::Value(Relation::NotEqual, "1".into())),
        on(none(), Condition::Version(Relation::Equal, 0)),
        on(
            Over::Range(all()),
            Condition::ModRevision(Relation::Less, Revision(3)),
        ),
        on(
            Over::Range(key("none").children()),
            Condition::CreateRevision(Relation::Equal, Revision(0)),
        ),
    ];
    let fails = [
        on(a(), Condition::ModRevision(Relation::Equal, Revision(1))),
        on(a(), Condition::Version(Relation::Less, 2)),
        on(a(), Condition::Value(Relation::Equal, "1".into())),
        on(none(), Condition::Value(Relation::NotEqual, "1".into())),
        on(none(), Condition::Version(Relation::Greater, 0)),
        on(
            Over::Range(all()),
            Condition::ModRevision(Relation::Less, Revision(2)),
        ),
    ];
    for compare in &holds {
        let change = store.commit(Txn::new().when(compare.clone())).await;
        assert!(matches!(change, Change::Applied(_)), "{compare:?}: {change:?}");
    }
    for compare in &fails {
        let txn = Txn::new()
            .when(holds[0].clone())
            .when(compare.clone())
            .then(put("b", "then"));
        let change = store.commit(txn).await;
        assert!(
            matches!(change, Change::Refused(Refusal::Compare { otherwise: None })),
            "{compare:?}: {change:?}"
        );
    }
    assert_eq!(value(&store, "b").await, None);
    let txn = Txn::new()
        .when(fails[0].clone())
        .then(put("b", "then"))
        .otherwise(put("b", "else"));
    let change = store.commit(txn).await;
    let Change::Refused(Refusal::Compare {
        otherwise: Some(revision),
    }) = change
    else {
        panic!("{change:?}")
    };
    assert_eq!(store.revision().await.expect("readable"), revision);
    assert_eq!(value(&store, "b").await.as_deref(), Some("else"));
}

pub(crate) async fn the_same_requests_are_refused(fixture: Fixture) {
    let store = fixture.store();
    let long = Key::of(&["x".repeat(limits::KEY_BYTES_MAX).as_str()]);
    let huge = "v".repeat(limits::VALUE_BYTES_MAX + 1);
    let half = "v".repeat(limits::TXN_BYTES_MAX / 3);
    let many = |count: usize| (0..count).map(|n| put(&format!("k{n}"), "")).collect::<Vec<_>>();
    let ops = |then: Vec<Op>| Txn { then, ..Txn::new() };
    let refused = [
        ops(vec![Op::put(Key::new(Vec::<String>::new()), "")]),
        ops(vec![Op::put(long.clone(), "")]),
        ops(vec![Op::Delete(long.clone())]),
        Txn::new().when(Compare::absent(long)),
        ops(vec![put("a", &huge)]),
        ops(vec![put("a", &half), put("b", &half), put("c", &half)]),
        ops(vec![put("a", "1"), put("a", "2")]),
        ops(vec![put("a", "1"), Op::Delete(key("a"))]),
        ops(vec![put("a", "1"), Op::DeleteRange(all())]),
        ops(vec![Op::DeleteRange(all()), Op::Delete(key("a"))]),
        ops(vec![Op::DeleteRange(all()), Op::DeleteRange(key("a").children())]),
        ops(many(limits::TXN_OPS_MAX + 1)),
        Txn {
            compares: vec![Compare::absent(key("a")); limits::TXN_OPS_MAX + 1],
            ..Txn::new()
        },
        Txn::new().otherwise(put("a", "1")).otherwise(put("a", "2")),
    ];
    for txn in refused {
        let shown = format!("{:.80}", format!("{txn:?}"));
        let change = store.commit(txn).await;
        assert!(
            matches!(change, Change::Refused(Refusal::Bounds(_))),
            "{shown}: {change:?}"
        );
    }
    for limit in [0, limits::PAGE_KEYS_MAX + 1] {
        let read = store.range(all(), limit, None).await;
        assert!(matches!(
            read,
            Err(Unreadable::Bounds(BoundsError::PageLimit { .. }))
        ));
    }
    let future = store.range(all(), 1, Some(Revision(9))).await;
    assert!(matches!(future, Err(Unreadable::Future { .. })), "{future:?}");
    assert_eq!(
        store.revision().await.expect("readable"),
        Revision(0),
        "nothing was written"
    );

    // The largest that is allowed; the marker takes one operation and one compare.
    commit(&store, ops(many(limits::TXN_OPS_MAX - 1))).await;
    commit(&store, ops(vec![put("a", &huge[..limits::VALUE_BYTES_MAX])])).await;
}

pub(crate) async fn ranges_page_at_one_revision(fixture: Fixture) {
    let store = fixture.store();
    for n in 0..10 {
        commit(&store, Txn::new().then(put(&format!("k{n}"), "old"))).await;
    }
    let (first, at) = store.range(all(), 4, None).await.expect("readable");
    assert_eq!((first.rows.len(), first.more), (4, true));
    // What happens between two pages does not show in the second.
    let mut txn = Txn::new()
        .then(put("k5", "new"))
        .then(put("k55", "new"))
        .then(Op::Delete(key("k7")));
    txn.then.push(put("k9", "new"));
    commit(&store, txn).await;
    commit(&store, Txn::new().then(put("k9", "newer"))).await;
    let rest = all().after(&first.rows[3].key);
    let (second, same) = store.range(rest, 100, Some(at)).await.expect("readable");
    assert_eq!(same, at);
    let names: Vec<String> = second.rows.iter().map(|row| row.key.to_string()).collect();
    assert_eq!(
        names,
        ["test/k4", "test/k5", "test/k6", "test/k7", "test/k8", "test/k9"]
    );
    assert!(
        second
            .rows
            .iter()
            .all(|row| row.value == "old" && row.mod_revision <= at)
    );
    assert!(!second.more);
    let (now, _) = store.range(all(), 100, None).await.expect("readable");
    assert_eq!(now.rows.len(), 10);
    assert_eq!(now.rows.iter().filter(|row| row.value == "new").count(), 2);
    // A page that is exactly full says that nothing follows.
    assert!(!store.range(all(), 10, None).await.expect("readable").0.more);
}

pub(crate) async fn large_answers_are_cut_and_go_on(fixture: Fixture) {
    let store = fixture.store();
    let value = "v".repeat(limits::VALUE_BYTES_MAX - 100);
    for n in 0..12 {
        commit(&store, Txn::new().then(put(&format!("k{n:02}"), &value))).await;
    }
    let ops = (0..12).map(|n| ReadOp::Get(key(&format!("k{n:02}")))).collect();
    let answer = store.read(ops, None).await.expect("readable");
    let served = answer.pages.iter().filter(|page| page.rows.len() == 1).count();
    assert!((7..=8).contains(&served), "{served}");
    assert!(
        answer.pages[served..]
            .iter()
            .all(|page| page.rows.is_empty() && page.more)
    );
    let (page, _) = store.range(all(), 100, None).await.expect("readable");
    assert!(page.more && page.rows.len() == served, "{}", page.rows.len());
}

pub(crate) async fn the_past_is_readable_until_compacted(fixture: Fixture) {
    let store = fixture.store_keeping(40);
    for n in 1..=100u64 {
        commit(&store, Txn::new().then(put("a", &n.to_string()))).await;
    }
    // Each commit is two changes: its key and its marker.
    let status = store.status().await.expect("readable");
    assert_eq!(status.revision, Revision(100));
    assert!(status.history_changes <= 40, "{status:?}");
    let oldest = status.oldest.0;
    assert!((75..=85).contains(&oldest), "{oldest}");
    for at in oldest..=100 {
        let answer = store
            .read(vec![ReadOp::Get(key("a"))], Some(Revision(at)))
            .await
            .expect("readable");
        assert_eq!(answer.pages[0].rows[0].value, at.to_string());
        let (page, _) = store.range(all(), 9, Some(Revision(at))).await.expect("readable");
        assert_eq!(page.rows[0].mod_revision, Revision(at));
    }
    let early = store.range(all(), 9, Some(Revision(oldest - 1))).await;
    assert!(
        matches!(early, Err(Unreadable::Compacted { oldest: found }) if found.0 == oldest),
        "{early:?}"
    );
}

pub(crate) async fn deleting_a_range_is_one_revision(fixture: Fixture) {
    let store = fixture.store();
    let mut txn = Txn::new();
    txn.then.extend((0..50).map(|n| put(&format!("k{n}"), "")));
    commit(&store, txn).await;
    let mut watch = store.watch(all(), None).await.expect("watch");
    let at = commit(&store, Txn::new().then(Op::DeleteRange(all()))).await;
    let state::engine::WatchItem::Events(batch) = bounded(watch.next()).await.expect("item") else {
        panic!("events")
    };
    assert_eq!((batch.revision, batch.events.len()), (at, 50));
    assert!(
        batch
            .events
            .iter()
            .all(|event| event.new.is_none() && event.old.is_some())
    );
    // Deleting what is not there changes nothing; only the marker is new.
    commit(&store, Txn::new().then(Op::DeleteRange(all()))).await;
    assert!(
        store
            .range(all(), 9, None)
            .await
            .expect("readable")
            .0
            .rows
            .is_empty()
    );
    let (before, _) = store
        .range(all(), 100, Some(Revision(at.0 - 1)))
        .await
        .expect("readable");
    assert_eq!(before.rows.len(), 50);
}

pub(crate) async fn lost_answers_are_resolved(fixture: Fixture) {
    let store = fixture.store();
    let txn = Txn::new().then(put("a", "1"));
    let id = txn.id;
    let applied = commit(&store, txn).await;
    // As if the answer had been lost: the marker tells, however often it is asked.
    for _ in 0..2 {
        let resolved = store.resolve(id).await;
        assert!(
            matches!(resolved, Change::Applied(revision) if revision == applied),
            "{resolved:?}"
        );
    }
    // A transaction that never arrived is aborted by resolving it, and then can never apply.
    let late = Txn::new().then(put("a", "2"));
    let resolved = store.resolve(late.id).await;
    assert!(
        matches!(resolved, Change::Refused(Refusal::Aborted)),
        "{resolved:?}"
    );
    assert!(matches!(
        store.commit(late).await,
        Change::Refused(Refusal::Compare { .. })
    ));
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
}

pub(crate) async fn the_canary_reads_back(fixture: Fixture) {
    let store = fixture.store();
    for _ in 0..2 {
        let probe = store.probe().await;
        assert!(matches!(probe, Probe::Healthy(_)), "{probe:?}");
    }
}

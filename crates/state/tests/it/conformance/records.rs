//! Typed tables: round trips, uniqueness, indexes, optimistic transactions, versions.

use crate::fixture::{Counter, Fixture, Machine, account, bounded, machine};
use state::engine::{Op, Txn};
use state::{
    Change, DecodeError, Key, PageRequest, Read, RecordKey, Scope, Store, StoreError, Unreadable,
    UpdateError, key_of, limits,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, thiserror::Error)]
enum TestError {
    #[error("store")]
    Store(#[from] StoreError),
    #[error("refused by the test")]
    Refused,
}

type Outcome<T = ()> = Result<T, UpdateError<TestError>>;

async fn put_all(store: &Store, machines: &[Machine]) {
    let outcome: Outcome = store
        .update(|tx| async move {
            for machine in machines {
                tx.put(machine)?;
            }
            Ok(())
        })
        .await;
    outcome.expect("committed");
}

async fn ids_in(store: &Store, network: &[&str]) -> Vec<String> {
    let found = store
        .list_by_index::<Machine>("by-network", network)
        .await
        .expect("readable");
    found.into_iter().map(|machine| machine.id).collect()
}

pub(crate) async fn records_round_trip(fixture: Fixture) {
    let store = fixture.store();
    let (a, b, c) = (
        machine("1", "a", "n1"),
        machine("1", "b", "n2"),
        machine("2", "a", "n1"),
    );
    put_all(&store, &[a.clone(), b.clone(), c.clone()]).await;
    assert_eq!(
        store.find::<Machine>(&account("1"), "a").await.expect("readable"),
        Some(a.clone())
    );
    assert_eq!(
        store.fetch::<Machine>(&account("2"), "a").await.expect("there"),
        c
    );
    assert_eq!(
        store.find::<Machine>(&account("2"), "b").await.expect("readable"),
        None
    );
    let missing = store.fetch::<Machine>(&account("2"), "b").await;
    assert!(
        matches!(
            missing,
            Err(StoreError::NotFound {
                table: "machines",
                ..
            })
        ),
        "{missing:?}"
    );
    assert_eq!(
        store.list::<Machine>(&account("1")).await.expect("readable"),
        [a.clone(), b.clone()]
    );
    assert_eq!(
        store.list_all::<Machine>().await.expect("readable"),
        [a.clone(), b.clone(), c.clone()]
    );
    let found = store
        .find_unique::<Machine>("name", &["1", "name-of-b"])
        .await
        .expect("readable");
    assert_eq!(found, Some(b.clone()));
    let keys = [RecordKey::account("1", "b"), RecordKey::account("1", "x")];
    let many = store.find_many::<Machine>(&keys).await.expect("readable");
    assert_eq!(many, [Some(b.clone()), None]);

    let mut walked = Vec::new();
    let mut request = PageRequest {
        limit: 2,
        ..PageRequest::default()
    };
    loop {
        let page = store
            .page_all::<Machine>(request.clone())
            .await
            .expect("readable");
        walked.extend(page.rows.into_iter().map(|row| row.record));
        request.at = Some(page.revision);
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    assert_eq!(walked, [a, b, c]);
}

pub(crate) async fn inserts_and_uniques_are_typed(fixture: Fixture) {
    let store = fixture.store();
    put_all(&store, &[machine("1", "a", "n"), machine("1", "b", "n")]).await;
    let before = store.revision().await.expect("readable");

    let again: Outcome = store
        .update(|tx| async move { Ok(tx.insert(&machine("1", "a", "n"))?) })
        .await;
    assert!(
        matches!(
            again,
            Err(UpdateError::AlreadyExists {
                table: "machines",
                ..
            })
        ),
        "{again:?}"
    );
    let mut rival = machine("1", "c", "n");
    rival.name = "name-of-a".to_owned();
    let rival = &rival;
    let taken: Outcome = store.update(|tx| async move { Ok(tx.insert(rival)?) }).await;
    let Err(UpdateError::UniqueTaken {
        table: "machines",
        index: "name",
        value,
    }) = taken
    else {
        panic!("{taken:?}")
    };
    assert_eq!(value, ["1", "name-of-a"]);
    // Two records of one transaction cannot share it either.
    let both: Outcome = store
        .update(|tx| async move {
            let (mut x, mut y) = (machine("3", "x", "n"), machine("3", "y", "n"));
            x.name = "same".to_owned();
            y.name = "same".to_owned();
            tx.insert(&x)?;
            Ok(tx.insert(&y)?)
        })
        .await;
    assert!(matches!(both, Err(UpdateError::UniqueTaken { .. })), "{both:?}");
    assert_eq!(store.revision().await.expect("readable"), before);

    // Another account may have it; deletion and renaming free it, even within one transaction.
    let mut other = machine("2", "c", "n");
    other.name = "name-of-a".to_owned();
    put_all(&store, &[other]).await;
    let swapped: Outcome = store
        .update(|tx| async move {
            let mut b: Machine = tx.fetch(&account("1"), "b").await?;
            tx.delete::<Machine>(&account("1"), "a")?;
            b.name = "name-of-a".to_owned();
            Ok(tx.put(&b)?)
        })
        .await;
    swapped.expect("committed");
    let holder = store
        .find_unique::<Machine>("name", &["1", "name-of-a"])
        .await
        .expect("readable");
    assert_eq!(holder.map(|machine| machine.id).as_deref(), Some("b"));
    let freed = store
        .find_unique::<Machine>("name", &["1", "name-of-b"])
        .await
        .expect("readable");
    assert_eq!(freed, None);
}

pub(crate) async fn indexes_follow_their_records(fixture: Fixture) {
    let store = fixture.store();
    put_all(
        &store,
        &[
            machine("1", "a", "n1"),
            machine("1", "b", "n1"),
            machine("2", "a", "n1"),
        ],
    )
    .await;
    assert_eq!(ids_in(&store, &["1", "n1"]).await, ["a", "b"]);
    // By a leading part of the value.
    assert_eq!(ids_in(&store, &["1"]).await, ["a", "b"]);
    assert_eq!(ids_in(&store, &["2"]).await, ["a"]);
    put_all(&store, &[machine("1", "a", "n2")]).await;
    assert_eq!(ids_in(&store, &["1", "n1"]).await, ["b"]);
    assert_eq!(ids_in(&store, &["1", "n2"]).await, ["a"]);
    let gone: Outcome = store
        .update(|tx| async move { Ok(tx.delete::<Machine>(&account("1"), "b")?) })
        .await;
    gone.expect("committed");
    assert!(ids_in(&store, &["1", "n1"]).await.is_empty());
    // Nothing is left of it.
    let names = store
        .find_unique::<Machine>("name", &["1", "name-of-b"])
        .await
        .expect("readable");
    assert_eq!(names, None);
    // Deleting what is absent is no change.
    let before = store.revision().await.expect("readable");
    let gone: Outcome = store
        .update(|tx| async move { Ok(tx.delete::<Machine>(&account("1"), "b")?) })
        .await;
    gone.expect("no change");
    assert_eq!(store.revision().await.expect("readable"), before);
}

pub(crate) async fn indexes_page_at_one_revision(fixture: Fixture) {
    let store = fixture.store();
    // More than a page of the store, so that lists go over several.
    let machines: Vec<Machine> = (0..2_500)
        .map(|n| machine("1", &format!("m{n:04}"), "n"))
        .collect();
    for block in machines.chunks(250) {
        put_all(&store, block).await;
    }
    assert_eq!(
        store.list::<Machine>(&account("1")).await.expect("readable"),
        machines
    );
    let by_index = store
        .list_by_index::<Machine>("by-network", &["1", "n"])
        .await
        .expect("readable");
    assert_eq!(by_index, machines);
    // Each value has its own list, in the order asked: one longer than a page, one short, one empty.
    put_all(&store, &[machine("2", "a", "n"), machine("2", "b", "n")]).await;
    let each = store
        .list_by_index_each::<Machine>("by-network", &[&["2", "n"], &["1", "n"], &["2", "none"]])
        .await
        .expect("readable");
    let lengths: Vec<usize> = each.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 2_500, 0]);
    assert_eq!(each[1], machines);
    let many: Vec<&[&str]> = vec![&["2", "n"]; 1_500];
    let each = store
        .list_by_index_each::<Machine>("by-network", &many)
        .await
        .expect("readable");
    assert_eq!(each.len(), 1_500);
    assert!(each.iter().all(|one| one.len() == 2));

    let mut walked = Vec::new();
    let mut request = PageRequest {
        limit: 700,
        ..PageRequest::default()
    };
    loop {
        let page = store
            .page_by_index::<Machine>("by-network", &["1", "n"], request.clone())
            .await
            .expect("readable");
        walked.extend(page.rows.into_iter().map(|row| row.record));
        // A machine leaves the index, another changes, a third is new; this walk's revision has them as they were.
        put_all(
            &store,
            &[machine("1", "m2499", "other"), machine("1", "zzz", "n")],
        )
        .await;
        request.at = Some(page.revision);
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    assert_eq!(walked, machines);
    // Without the revision a walk sees what is there now, from where it was.
    let last = PageRequest {
        after: request.after,
        at: None,
        ..PageRequest::default()
    };
    let page = store
        .page_by_index::<Machine>("by-network", &["1", "n"], last)
        .await
        .expect("readable");
    let ids: Vec<String> = page.rows.into_iter().map(|row| row.record.id).collect();
    assert_eq!(ids.len(), 400);
    assert_eq!(ids.last().map(String::as_str), Some("zzz"));
}

pub(crate) async fn a_failing_closure_writes_nothing(fixture: Fixture) {
    let store = fixture.store();
    let outcome: Outcome = store
        .update(|tx| async move {
            tx.put(&machine("1", "a", "n"))?;
            Err(TestError::Refused)
        })
        .await;
    assert!(
        matches!(outcome, Err(UpdateError::Aborted(TestError::Refused))),
        "{outcome:?}"
    );
    let mut invalid = machine("1", "a", "n");
    invalid.size = 0;
    let invalid = &invalid;
    let outcome: Outcome = store.update(|tx| async move { Ok(tx.put(invalid)?) }).await;
    assert!(
        matches!(
            outcome,
            Err(UpdateError::Aborted(TestError::Store(
                StoreError::InvalidRecord { .. }
            )))
        ),
        "{outcome:?}"
    );
    // Too many writes for one transaction.
    let outcome: Outcome = store
        .update(|tx| async move {
            for n in 0..limits::TXN_OPS_MAX {
                tx.put(&machine("1", &n.to_string(), "n"))?;
            }
            Ok(())
        })
        .await;
    assert!(matches!(outcome, Err(UpdateError::Refused(_))), "{outcome:?}");
    assert_eq!(store.revision().await.expect("readable").0, 0);
}

pub(crate) async fn reads_are_compared_and_closures_run_clean(fixture: Fixture) {
    let store = fixture.store();
    let runs = AtomicU32::new(0);
    let (runs, other) = (&runs, &store.clone());
    // Each run of the closure is overtaken once: on a record it read, then on one it found absent.
    let outcome: Outcome<u64> = store
        .update(|tx| async move {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            let seen: Option<Counter> = tx.find(&Scope::NONE, "a").await?;
            if run < 2 {
                let interference: Outcome = other
                    .update(|tx| async move {
                        Ok(tx.put(&Counter {
                            id: "a".to_owned(),
                            count: u64::from(run) + 10,
                        })?)
                    })
                    .await;
                interference.expect("committed");
            }
            // One revision: reading again shows the same, whatever happened meanwhile.
            let again: Option<Counter> = tx.find(&Scope::NONE, "a").await?;
            assert_eq!(again, seen);
            assert_eq!(
                tx.list::<Counter>(&Scope::NONE).await?.len(),
                usize::from(seen.is_some())
            );
            tx.put(&Counter {
                id: format!("run-{run}"),
                count: 0,
            })?;
            tx.put(&Counter {
                id: "b".to_owned(),
                count: seen.as_ref().map_or(0, |seen| seen.count),
            })?;
            Ok(seen.map_or(0, |seen| seen.count))
        })
        .await;
    assert_eq!(outcome.expect("committed"), 11);
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    let ids: Vec<String> = store
        .list::<Counter>(&Scope::NONE)
        .await
        .expect("readable")
        .into_iter()
        .map(|counter| counter.id)
        .collect();
    assert_eq!(ids, ["a", "b", "run-2"], "what the failed runs wrote is gone");
}

pub(crate) async fn retries_are_bounded(fixture: Fixture) {
    let store = fixture.store();
    let runs = AtomicU32::new(0);
    let (runs, other) = (&runs, &store.clone());
    let outcome: Outcome = bounded(store.update(|tx| async move {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        let _: Option<Counter> = tx.find(&Scope::NONE, "a").await?;
        let interference: Outcome = other
            .update(|tx| async move {
                Ok(tx.put(&Counter {
                    id: "a".to_owned(),
                    count: run.into(),
                })?)
            })
            .await;
        interference.expect("committed");
        Ok(tx.put(&Counter {
            id: "b".to_owned(),
            count: 0,
        })?)
    }))
    .await;
    assert!(
        matches!(outcome, Err(UpdateError::Contended { .. })),
        "{outcome:?}"
    );
    assert!(runs.load(Ordering::SeqCst) <= limits::UPDATE_ATTEMPTS_MAX);
    assert_eq!(
        store.find::<Counter>(&Scope::NONE, "b").await.expect("readable"),
        None
    );
}

pub(crate) async fn contended_counters_lose_nothing(fixture: Fixture) {
    let store = fixture.store();
    const WRITERS: u64 = 64;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while done < 3 {
                    let outcome: Outcome = store
                        .update(|tx| async move {
                            let found: Option<Counter> = tx.find(&Scope::NONE, "n").await?;
                            let count = found.map_or(0, |found| found.count) + 1;
                            Ok(tx.put(&Counter {
                                id: "n".to_owned(),
                                count,
                            })?)
                        })
                        .await;
                    match outcome {
                        Ok(()) => done += 1,
                        Err(UpdateError::Contended { .. }) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    bounded(async {
        for writer in writers {
            writer.await.expect("writer");
        }
    })
    .await;
    assert_eq!(
        store
            .fetch::<Counter>(&Scope::NONE, "n")
            .await
            .expect("there")
            .count,
        WRITERS * 3
    );
}

pub(crate) async fn one_of_many_creators_wins(fixture: Fixture) {
    let store = fixture.store();
    let creators: Vec<_> = (0..32)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut mine = machine("1", &format!("m{n}"), "n");
                mine.name = "wanted".to_owned();
                let mine = &mine;
                let outcome: Outcome = store.update(|tx| async move { Ok(tx.insert(mine)?) }).await;
                match outcome {
                    Ok(()) => 1,
                    Err(UpdateError::UniqueTaken { .. }) => 0,
                    Err(other) => panic!("{other:?}"),
                }
            })
        })
        .collect();
    let mut won = 0;
    for creator in creators {
        won += bounded(creator).await.expect("creator");
    }
    assert_eq!(won, 1);
    assert_eq!(
        store
            .list::<Machine>(&account("1"))
            .await
            .expect("readable")
            .len(),
        1
    );
}

pub(crate) async fn guards_see_new_changed_and_gone_rows(fixture: Fixture) {
    let store = fixture.store();
    for by_index in [false, true] {
        for interference in 0..4 {
            put_all(&store, &[machine("1", "a", "n"), machine("1", "b", "n")]).await;
            let runs = AtomicU32::new(0);
            let (runs, other) = (&runs, &store.clone());
            let outcome: Outcome<usize> = store
                .update(|tx| async move {
                    let listed = if by_index {
                        tx.guard_index::<Machine>("by-network", &["1", "n"]).await?;
                        tx.list_by_index::<Machine>("by-network", &["1", "n"]).await?
                    } else {
                        tx.guard::<Machine>(&account("1")).await?;
                        tx.list::<Machine>(&account("1")).await?
                    };
                    if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                        let interference: Outcome = other
                            .update(|tx| async move {
                                let mut a = machine("1", "a", "n");
                                match interference {
                                    0 => tx.put(&machine("1", "c", "n"))?,
                                    1 => {
                                        a.size = 7;
                                        tx.put(&a)?;
                                    }
                                    2 => tx.delete::<Machine>(&account("1"), "a")?,
                                    // Another scope and another index value: not guarded.
                                    _ => tx.put(&machine("2", "z", "n"))?,
                                }
                                Ok(())
                            })
                            .await;
                        interference.expect("committed");
                    }
                    tx.put(&Counter {
                        id: "seen".to_owned(),
                        count: listed.len() as u64,
                    })?;
                    tx.put(&Counter {
                        id: format!("{by_index}-{interference}"),
                        count: 0,
                    })?;
                    Ok(listed.len())
                })
                .await;
            let (expected, expected_runs) = [(3, 2), (2, 2), (1, 2), (2, 1)][interference];
            assert_eq!(outcome.expect("committed"), expected, "{by_index} {interference}");
            assert_eq!(
                runs.load(Ordering::SeqCst),
                expected_runs,
                "{by_index} {interference}"
            );
            let clean: Outcome = store
                .update(|tx| async move { Ok(tx.delete::<Machine>(&account("1"), "c")?) })
                .await;
            clean.expect("committed");
        }
    }
}

pub(crate) async fn a_transaction_sees_its_own_writes(fixture: Fixture) {
    let store = fixture.store();
    put_all(
        &store,
        &[
            machine("1", "a", "n1"),
            machine("1", "b", "n1"),
            machine("1", "c", "n2"),
        ],
    )
    .await;
    let outcome: Outcome = store
        .update(|tx| async move {
            tx.put(&machine("1", "a", "n2"))?;
            tx.delete::<Machine>(&account("1"), "b")?;
            tx.insert(&machine("1", "d", "n1"))?;
            let ids = |found: Vec<Machine>| -> Vec<String> {
                found.into_iter().map(|machine| machine.id).collect()
            };
            assert_eq!(ids(tx.list(&account("1")).await?), ["c", "a", "d"]);
            assert_eq!(ids(tx.list_by_index("by-network", &["1", "n1"]).await?), ["d"]);
            assert_eq!(
                ids(tx.list_by_index("by-network", &["1", "n2"]).await?),
                ["c", "a"]
            );
            assert_eq!(tx.find::<Machine>(&account("1"), "b").await?, None);
            assert!(tx.find::<Machine>(&account("1"), "d").await?.is_some());
            assert_eq!(
                tx.find_unique::<Machine>("name", &["1", "name-of-b"]).await?,
                None
            );
            let twice = tx.insert(&machine("1", "d", "n1"));
            assert!(
                matches!(twice, Err(StoreError::InsertedTwice { .. })),
                "{twice:?}"
            );
            // What was deleted may be written anew.
            Ok(tx.insert(&machine("1", "b", "n3"))?)
        })
        .await;
    outcome.expect("committed");
    assert_eq!(ids_in(&store, &["1"]).await, ["d", "a", "c", "b"]);
}

pub(crate) async fn unchanged_records_are_not_written(fixture: Fixture) {
    let store = fixture.store();
    put_all(&store, &[machine("1", "a", "n")]).await;
    let before = store.revision().await.expect("readable");
    let (_, made) = store
        .update_at::<_, TestError, _, _>(|tx| async move { Ok(tx.put(&machine("1", "a", "n"))?) })
        .await
        .expect("no change");
    assert_eq!(made, None);
    let (found, made) = store
        .update_at::<_, TestError, _, _>(
            |tx| async move { Ok(tx.find::<Machine>(&account("1"), "a").await?) },
        )
        .await
        .expect("no change");
    assert!(found.is_some() && made.is_none());
    assert_eq!(store.revision().await.expect("readable"), before);
    // A handle that outlives its closure is useless.
    let kept: Arc<std::sync::Mutex<Option<state::Tx>>> = Arc::default();
    let keep = &kept;
    let outcome: Outcome = store
        .update(|tx| async move {
            *keep.lock().expect("lock") = Some(tx);
            Ok(())
        })
        .await;
    outcome.expect("no change");
    let tx = kept.lock().expect("lock").take().expect("kept");
    assert!(matches!(tx.put(&machine("1", "z", "n")), Err(StoreError::Ended)));
}

async fn raw(store: &Store, id: &str, value: &str) -> Key {
    let key = key_of::<Machine>(&account("1"), id);
    let change = store
        .commit(Txn::new().then(Op::put(key.clone(), value.to_owned())))
        .await;
    assert!(matches!(change, Change::Applied(_)), "{change:?}");
    key
}

pub(crate) async fn unreadable_is_not_absent(fixture: Fixture) {
    let store = fixture.store();
    put_all(&store, &[machine("1", "a", "n"), machine("2", "a", "n")]).await;
    let data = serde_json::to_string(&machine("1", "b", "n")).expect("json");
    let newer = format!(r#"{{"v":3,"w":"spx 9.0","d":{data}}}"#);
    let key = raw(&store, "b", &newer).await;

    let found = store.read_record::<Machine>(&account("1"), "b").await;
    let Read::Unreadable(Unreadable::NewerVersion {
        found: 3,
        known: 2,
        writer,
        ..
    }) = found
    else {
        panic!("{found:?}")
    };
    assert_eq!(writer, "spx 9.0");
    // It fails the lists that contain it, and only those; it is neither rewritten nor dropped.
    assert!(store.list::<Machine>(&account("1")).await.is_err());
    assert!(store.list_all::<Machine>().await.is_err());
    assert_eq!(
        store
            .list::<Machine>(&account("2"))
            .await
            .expect("readable")
            .len(),
        1
    );
    let put: Outcome = store
        .update(|tx| async move { Ok(tx.put(&machine("1", "b", "n"))?) })
        .await;
    assert!(
        matches!(put, Err(UpdateError::Store(StoreError::Unreadable(_)))),
        "{put:?}"
    );
    let delete: Outcome = store
        .update(|tx| async move { Ok(tx.delete::<Machine>(&account("1"), "b")?) })
        .await;
    assert!(
        matches!(delete, Err(UpdateError::Store(StoreError::Unreadable(_)))),
        "{delete:?}"
    );
    assert_eq!(
        store
            .get(&key)
            .await
            .found()
            .expect("readable")
            .expect("there")
            .value,
        newer
    );

    let other = serde_json::to_string(&machine("1", "x", "n")).expect("json");
    let invalid = data.replace(r#""size":1"#, r#""size":0"#);
    for (value, what) in [
        ("".to_owned(), "empty"),
        (r#"{"d":{}}"#.to_owned(), "no version"),
        (r#"{"v":0,"d":{}}"#.to_owned(), "version before the first"),
        (format!(r#"{{"v":2,"w":"","d":{other}}}"#), "another id"),
        (
            format!(r#"{{"v":2,"w":"","d":{invalid}}}"#),
            "a field out of bounds",
        ),
    ] {
        raw(&store, "b", &value).await;
        let found = store.read_record::<Machine>(&account("1"), "b").await;
        let Read::Unreadable(Unreadable::Undecodable { key: named, source }) = found else {
            panic!("{what}: {found:?}")
        };
        assert_eq!(named, key);
        match what {
            "another id" => assert!(matches!(source, DecodeError::OtherKey { .. }), "{source:?}"),
            "a field out of bounds" => assert!(matches!(source, DecodeError::Invalid(_)), "{source:?}"),
            "version before the first" => {
                assert!(
                    matches!(source, DecodeError::NoMigration { found: 0 }),
                    "{source:?}"
                );
            }
            _ => assert!(matches!(source, DecodeError::Json(_)), "{source:?}"),
        }
    }
}

pub(crate) async fn older_versions_are_migrated(fixture: Fixture) {
    let store = fixture.store();
    let old = r#"{"v":1,"w":"spx 0.0","d":{"account":"1","id":"a","name":"old","network":"n"}}"#;
    raw(&store, "a", old).await;
    let found = store
        .fetch::<Machine>(&account("1"), "a")
        .await
        .expect("migrated");
    assert_eq!((found.name.as_str(), found.size), ("old", 1));
    // The next write brings the record and its index entries up to date.
    let outcome: Outcome = store
        .update(|tx| async move {
            let mut found: Machine = tx.fetch(&account("1"), "a").await?;
            found.size = 2;
            Ok(tx.put(&found)?)
        })
        .await;
    outcome.expect("committed");
    assert_eq!(ids_in(&store, &["1", "n"]).await, ["a"]);
}

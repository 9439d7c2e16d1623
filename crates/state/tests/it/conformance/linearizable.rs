//! Linearizability of histories of concurrent clients.
//!
//! The store's revision makes the check exact: a write says at which revision it happened and a read which revision it
//! saw, so the order is given and only has to be verified. It must respect real time (what ended before another began has
//! no later revision, and a write an earlier one), each revision must have one writer, each read must show precisely the
//! replay of the writes up to its revision, and each compare-and-set must have met the value that it compared.

use crate::fixture::{Fixture, bounded};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use state::engine::{Compare, Op, ReadOp, Txn};
use state::{Change, Key, Refusal, Revision, Store};
use std::collections::BTreeMap;
use std::time::Instant;

const CLIENTS: u64 = 16;
const OPERATIONS: usize = 120;
const KEYS: usize = 4;

#[derive(Debug)]
enum Did {
    /// Saw these values at this revision.
    Saw(BTreeMap<usize, u64>),
    /// Set a key, having compared its mod revision if there was one.
    Set {
        key: usize,
        value: u64,
        compared: Option<Revision>,
    },
    /// A compare of this key with this mod revision did not hold.
    Missed { key: usize, compared: Revision },
}

#[derive(Debug)]
struct Event {
    began: Instant,
    ended: Instant,
    /// Of a miss: nothing is known.
    revision: Option<Revision>,
    did: Did,
}

fn key(number: usize) -> Key {
    Key::of(&["linear", &number.to_string()])
}

async fn client(store: Store, number: u64) -> Vec<Event> {
    let mut dice = StdRng::seed_from_u64(number);
    let mut known: BTreeMap<usize, Revision> = BTreeMap::new();
    let mut events = Vec::new();
    for operation in 0..OPERATIONS {
        let value = number * 1_000_000 + operation as u64;
        let target = dice.random_range(0..KEYS);
        let began = Instant::now();
        let (revision, did) = match dice.random_range(0..3) {
            0 => {
                let answer = store
                    .read((0..KEYS).map(key).map(ReadOp::Get).collect(), None)
                    .await;
                let answer = answer.expect("readable");
                let mut seen = BTreeMap::new();
                known.clear();
                for (number, page) in answer.pages.iter().enumerate() {
                    if let Some(row) = page.rows.first() {
                        let value = std::str::from_utf8(&row.value).expect("text");
                        seen.insert(number, value.parse().expect("number"));
                        known.insert(number, row.mod_revision);
                    }
                }
                (Some(answer.revision), Did::Saw(seen))
            }
            action => {
                let compared = (action == 1).then(|| known.get(&target).copied().unwrap_or_default());
                let mut txn = Txn::new().then(Op::put(key(target), value.to_string()));
                if let Some(revision) = compared {
                    txn = txn.when(Compare::unmoved(key(target), revision));
                }
                match (store.commit(txn).await, compared) {
                    (Change::Applied(revision), compared) => {
                        known.insert(target, revision);
                        (
                            Some(revision),
                            Did::Set {
                                key: target,
                                value,
                                compared,
                            },
                        )
                    }
                    (Change::Refused(Refusal::Compare { .. }), Some(compared)) => (
                        None,
                        Did::Missed {
                            key: target,
                            compared,
                        },
                    ),
                    (other, _) => panic!("{other:?}"),
                }
            }
        };
        events.push(Event {
            began,
            ended: Instant::now(),
            revision,
            did,
        });
    }
    events
}

pub(crate) async fn histories_of_many_clients_have_one_order(fixture: Fixture) {
    let store = fixture.store();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(store.clone(), number)))
        .collect();
    let mut history = Vec::new();
    for client in clients {
        history.extend(bounded(client).await.expect("client"));
    }
    check(history);
}

/// Panics unless the history is linearizable.
fn check(mut history: Vec<Event>) {
    // By revision; at one revision its write first, then the reads of it.
    let is_read = |event: &Event| matches!(event.did, Did::Saw(_));
    let misses: Vec<Event> = history.extract_if(.., |event| event.revision.is_none()).collect();
    history.sort_by_key(|event| (event.revision, is_read(event), event.began));
    let mut latest_began: Option<(Instant, Revision)> = None;
    for event in &history {
        let revision = event.revision.unwrap_or_default();
        if let Some((began, later)) = latest_began {
            assert!(
                event.ended >= began,
                "revision {revision} ended before an event of {later} began, but follows it"
            );
        }
        if latest_began.is_none_or(|(began, _)| event.began > began) {
            latest_began = Some((event.began, revision));
        }
    }

    let mut state: BTreeMap<usize, (u64, Revision)> = BTreeMap::new();
    let mut versions: BTreeMap<usize, Vec<Revision>> = BTreeMap::new();
    let mut written = Revision(0);
    for event in &history {
        let revision = event.revision.unwrap_or_default();
        match &event.did {
            Did::Set { key, value, compared } => {
                assert!(revision > written, "revision {revision} has two writers");
                written = revision;
                if let Some(compared) = compared {
                    let found = state.get(key).map_or(Revision(0), |(_, revision)| *revision);
                    assert_eq!(found, *compared, "a compare held that should not");
                }
                state.insert(*key, (*value, revision));
                versions.entry(*key).or_default().push(revision);
            }
            Did::Saw(seen) => {
                let expected: BTreeMap<usize, u64> =
                    state.iter().map(|(key, (value, _))| (*key, *value)).collect();
                assert_eq!(*seen, expected, "a read at {revision}");
            }
            Did::Missed { .. } => unreachable!("sorted out above"),
        }
    }
    assert!(written.0 > 500, "{written} writes");
    // A compare may only miss if the key was changed after the compared revision at all.
    for miss in misses {
        let Did::Missed { key, compared } = miss.did else {
            unreachable!("only misses have no revision")
        };
        let changed = versions
            .get(&key)
            .is_some_and(|revisions| revisions.iter().any(|r| *r > compared));
        assert!(
            changed,
            "a compare of {key} with {compared} missed, but nothing changed it"
        );
    }
}

//! `kill -9` of a writing process: what it was told is committed is there, and nothing is half there.
//!
//! The child is this test binary itself, running the ignored test `crash_child` with the file's path in its environment.
//! It prints a line after each acknowledged commit; the parent kills it in the middle, reopens the file and compares.

use crate::fixture::{Counter, Machine, account, machine};
use state::{Revision, Scope, Store, StoreError, UpdateError};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const FILE: &str = "SPX_TEST_CRASH_FILE";
const WRITERS: u64 = 16;

/// Kills its process when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_survive_kill_nine() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("state.redb");
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let mut newest = 0;
    for round in 0..6i64 {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args(["--exact", "crash::crash_child", "--ignored", "--nocapture"]);
        command
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Killed(command.spawn().expect("child"));
        let lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
        // A different number of commits each round, so that the kill meets different moments.
        let mut left: i64 = 40 + round * 77;
        for line in lines {
            let line = line.expect("line");
            // The test harness of the child prints lines of its own.
            let Some(ack) = line.strip_prefix("ack ") else {
                continue;
            };
            let fields: Vec<&str> = ack.split(' ').collect();
            let [id, count, revision] = fields[..] else {
                continue;
            };
            acknowledged.insert(id.to_owned(), count.parse().expect("count"));
            newest = newest.max(revision.parse().expect("revision"));
            // Lines go on after the kill: what was in the pipe was acknowledged too.
            left -= 1;
            if left == 0 {
                child.0.kill().expect("killed");
            }
        }
        drop(child);

        let store = Store::open_redb(&path).expect("opens after the kill");
        let revision = store.revision().await.expect("readable");
        assert!(
            revision >= Revision(newest),
            "{revision} is behind an acknowledged {newest}"
        );
        for (id, count) in &acknowledged {
            let found: Counter = store
                .fetch(&Scope::NONE, id)
                .await
                .expect("acknowledged, so there");
            assert!(
                found.count >= *count,
                "{id}: {} after an acknowledged {count}",
                found.count
            );
            // Each count was committed with a machine, its index entry and its name, or not at all.
            let machines = store
                .list_by_index::<Machine>("by-network", &["1", id])
                .await
                .expect("readable");
            assert_eq!(machines.len() as u64, found.count, "{id}");
            let last = format!("name-of-{id}-{}", found.count);
            let holder = store
                .find_unique::<Machine>("name", &["1", &last])
                .await
                .expect("readable");
            assert_eq!(holder.map(|machine| machine.network).as_ref(), Some(id));
        }
        let machines = store
            .list::<Machine>(&account("1"))
            .await
            .expect("readable")
            .len() as u64;
        let counters = store.list::<Counter>(&Scope::NONE).await.expect("readable");
        assert_eq!(
            machines,
            counters.iter().map(|counter| counter.count).sum::<u64>()
        );
    }
    assert!(acknowledged.len() as u64 == WRITERS && newest > 400, "{newest}");
}

#[test]
#[ignore = "the child process of acknowledged_commits_survive_kill_nine"]
fn crash_child() {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("runtime");
    runtime.block_on(async {
        let store = Store::open_redb(path).expect("open");
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write_for_ever(store.clone(), writer)));
        let writers: Vec<_> = writers.collect();
        let (ended, ..) = futures_util::future::select_all(writers).await;
        ended.expect("a writer ends only by failing");
    });
}

async fn write_for_ever(store: Store, writer: u64) {
    loop {
        write(&store, &format!("w{writer}")).await;
    }
}

async fn write(store: &Store, id: &str) {
    let outcome: Result<_, UpdateError<StoreError>> = store
        .update_at(|tx| async move {
            let found: Option<Counter> = tx.find(&Scope::NONE, id).await?;
            let count = found.map_or(0, |found| found.count) + 1;
            tx.put(&Counter {
                id: id.to_owned(),
                count,
            })?;
            tx.insert(&machine("1", &format!("{id}-{count}"), id))?;
            Ok(count)
        })
        .await;
    let (count, revision) = outcome.expect("committed");
    let revision = revision.expect("changed");
    let mut out = std::io::stdout().lock();
    // The parent may be gone; then the kill is near.
    let _ = writeln!(out, "ack {id} {count} {revision}").and_then(|()| out.flush());
}

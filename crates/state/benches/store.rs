//! What the store costs, as ratios against the disk's own price: `cargo bench -p state`.
//!
//! Peer: appending 4 KiB to a preallocated file with one fdatasync each, on the same file system in the same run.
//! Measured: durable commits per second with 1, 8 and 64 writers on redb (bytes, and typed records with an index and a
//! unique value), a point read, an index list of 1,000 records of 1.5 KB, and commit to watcher. Medians of several
//! rounds; `SPX_BENCH_DIR` chooses the file system, and `-- writes`, `-- reads` or `-- watch` runs one part.

use serde::{Deserialize, Serialize};
use state::engine::{Op, Txn};
use state::{Change, Index, Key, Record, RecordKey, Scope, Store, StoreError, TableItem, UpdateError};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_000);

#[derive(Clone, Serialize, Deserialize)]
struct Row {
    id: String,
    group: String,
    filler: Vec<String>,
}

impl Record for Row {
    const TABLE: &'static str = "rows";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account("000000000001", &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("by-group", [&self.group])]
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("name", [format!("name-of-{}", self.id)])]
    }
}

/// A record of about `bytes` bytes of JSON with many small fields, as real records have.
fn row(id: u64, group: &str, bytes: usize) -> Row {
    let filler = (0..bytes / 27)
        .map(|n| format!("field-{n:04}-of-this-record"))
        .collect();
    Row {
        id: format!("row-{id:012}"),
        group: group.to_owned(),
        filler,
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let base = std::env::var_os("SPX_BENCH_DIR").unwrap_or_else(|| "/var/tmp".into());
    let dir = tempfile::Builder::new()
        .prefix("spx-bench")
        .tempdir_in(base)
        .expect("directory");
    let store = Store::open_redb(dir.path().join("state.redb")).expect("open");
    // The peer runs right before each measurement: other work on the disk must meet both alike.
    let against_raw = |measure: &dyn Fn() -> f64| {
        let rounds: Vec<(f64, f64)> = (0..ROUNDS)
            .map(|_| (raw_appends(dir.path()), measure()))
            .collect();
        let ratio = median(rounds.iter().map(|(raw, ours)| ours / raw).collect());
        (median(rounds.iter().map(|(_, ours)| *ours).collect()), ratio)
    };
    let wanted = |part: &str| {
        std::env::args()
            .skip(1)
            .all(|arg| arg.starts_with('-') || arg == part)
    };
    if wanted("writes") {
        println!("raw = 4 KiB append + fdatasync, 1 writer; {ROUNDS} rounds, medians");
        for writers in [1, 8, 64] {
            let (rate, ratio) = against_raw(&|| runtime.block_on(commits(&store, writers)));
            println!("redb commit, 512 B, {writers:>2} writers           {rate:>8.0} /s  {ratio:>6.2} x raw");
        }
        for writers in [1, 64] {
            let (rate, ratio) = against_raw(&|| runtime.block_on(inserts(&store, writers)));
            println!(
                "typed insert + index + unique, {writers:>2} writers {rate:>7.0} /s  {ratio:>6.2} x raw"
            );
        }
        let pairs: Vec<f64> = (0..ROUNDS)
            .map(|_| runtime.block_on(inserts(&store, 1)) / runtime.block_on(commits(&store, 1)))
            .collect();
        println!(
            "typed insert against byte commit         {:>8.2} x",
            median(pairs)
        );
    }
    if wanted("reads") {
        runtime.block_on(reads(&store));
    }
    if wanted("watch") {
        runtime.block_on(watch_lag(&store));
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn raw_appends(dir: &Path) -> f64 {
    let path = dir.join("raw");
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .expect("file");
    file.write_all_at(&vec![1; 64 << 20], 0).expect("preallocated");
    file.sync_all().expect("synced");
    let block = [7; 4_096];
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < ROUND && count < (64 << 20) / 4_096 {
        file.write_all_at(&block, count * 4_096).expect("written");
        file.sync_data().expect("synced");
        count += 1;
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// Runs `writers` tasks for a round and answers how often `work` was done a second.
async fn round<F, Fut>(writers: usize, work: F) -> f64
where
    F: Fn(u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (work, stop, done) = (
        Arc::new(work),
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (work, stop, done) = (work.clone(), stop.clone(), done.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    work(NEXT.fetch_add(1, Ordering::Relaxed)).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(ROUND).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("writer");
    }
    done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

async fn commits(store: &Store, writers: usize) -> f64 {
    let store = store.clone();
    let value = bytes::Bytes::from(vec![b'v'; 512]);
    round(writers, move |n| {
        let (store, value) = (store.clone(), value.clone());
        async move {
            let key = Key::of(&["bench", &format!("{:08}", n % 100_000)]);
            let change = store.commit(Txn::new().then(Op::put(key, value))).await;
            assert!(matches!(change, Change::Applied(_)), "{change:?}");
        }
    })
    .await
}

async fn inserts(store: &Store, writers: usize) -> f64 {
    let store = store.clone();
    round(writers, move |n| {
        let store = store.clone();
        async move {
            let row = &row(n, "inserted", 512);
            let outcome: Result<(), UpdateError<StoreError>> =
                store.update(|tx| async move { tx.insert(row) }).await;
            outcome.expect("inserted");
        }
    })
    .await
}

async fn reads(store: &Store) {
    for first in (0..1_000u64).step_by(100) {
        let outcome: Result<(), UpdateError<StoreError>> = store
            .update(|tx| async move {
                for n in first..first + 100 {
                    tx.put(&row(900_000_000 + n, "listed", 1_500))?;
                }
                Ok(())
            })
            .await;
        outcome.expect("written");
    }
    let bytes = serde_json::to_vec(&row(1, "listed", 1_500)).expect("json").len();
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        let rows = store
            .list_by_index::<Row>("by-group", &["listed"])
            .await
            .expect("listed");
        assert_eq!(rows.len(), 1_000);
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let best = times.iter().copied().fold(f64::MAX, f64::min);
    println!(
        "index list of 1,000 records of {bytes} B     {:>10.2} ms, best {best:.2} ms",
        median(times)
    );
    let mut times = Vec::new();
    for n in 0..5_000 {
        let id = format!("row-{:012}", 900_000_000 + n % 1_000);
        let started = Instant::now();
        let found: Option<Row> = store
            .find(&Scope::account("000000000001"), &id)
            .await
            .expect("readable");
        times.push(started.elapsed().as_secs_f64() * 1e6);
        assert!(found.is_some());
    }
    println!(
        "point read, decoded                      {:>10.2} us",
        median(times)
    );
}

async fn watch_lag(store: &Store) {
    let mut watch = store.watch_table::<Row>(None).await.expect("watch");
    let mut times = Vec::new();
    for n in 0..200u64 {
        let row = &row(n, "watched", 512 + n as usize);
        let writer = store.clone();
        let outcome: Result<(), UpdateError<StoreError>> =
            writer.update(|tx| async move { tx.put(row) }).await;
        outcome.expect("written");
        let committed = Instant::now();
        loop {
            let item = watch.next().await.expect("item");
            if matches!(&item, TableItem::Changes { changes, .. } if changes.iter().any(|c| c.key.id == row.id))
            {
                break;
            }
        }
        times.push(committed.elapsed().as_secs_f64() * 1e6);
    }
    println!(
        "commit answered to watcher               {:>10.2} us",
        median(times)
    );
}

//! How the engine behaves when its storage fails: power cuts at every write, and errors of write and sync.
//!
//! The storage is in memory and records what is done to it. A power cut is modelled two ways at every point: everything
//! up to it arrived in order; or of what was not synced yet, an arbitrary part arrived. The seed of the arbitrary part
//! is fixed, so that a failure repeats.

use super::RedbEngine;
use crate::engine::{Engine, HistoryLimits, Op, ReadOp, ReadRequest, Txn};
use crate::key::Key;
use crate::result::{Change, Refusal, Revision};
use crate::store::Store;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redb::StorageBackend;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
enum DiskOp {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
}

#[derive(Debug, Clone, Default)]
struct Disk {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: Mutex<Vec<u8>>,
    log: Mutex<Vec<DiskOp>>,
    sync_fails: AtomicBool,
    write_fails: AtomicBool,
}

impl Disk {
    fn holding(bytes: Vec<u8>) -> Disk {
        let disk = Disk::default();
        *disk.shared.bytes.lock().expect("lock") = bytes;
        disk
    }

    fn log(&self, op: DiskOp) {
        self.shared.log.lock().expect("lock").push(op);
    }

    fn ops(&self) -> Vec<DiskOp> {
        self.shared.log.lock().expect("lock").clone()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.shared.bytes.lock().expect("lock").len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let bytes = self.shared.bytes.lock().expect("lock");
        let start = offset as usize;
        let found = bytes
            .get(start..start + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.shared.bytes.lock().expect("lock").resize(len as usize, 0);
        self.log(DiskOp::Length(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        if self.shared.sync_fails.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.log(DiskOp::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        if self.shared.write_fails.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let start = offset as usize;
        self.shared.bytes.lock().expect("lock")[start..start + data.len()].copy_from_slice(data);
        self.log(DiskOp::Write(start, data.to_vec()));
        Ok(())
    }
}

fn replay(image: &mut Vec<u8>, op: &DiskOp) {
    match op {
        DiskOp::Write(start, data) => {
            if image.len() < start + data.len() {
                image.resize(start + data.len(), 0);
            }
            image[*start..start + data.len()].copy_from_slice(data);
        }
        DiskOp::Length(length) => image.resize(*length, 0),
        DiskOp::Sync => {}
    }
}

fn open(disk: &Disk) -> Arc<RedbEngine> {
    Arc::new(RedbEngine::open_on(disk.clone(), HistoryLimits::default()).expect("opens"))
}

fn key(name: &str) -> Key {
    Key::of(&["test", name])
}

async fn read(engine: &RedbEngine, name: &str) -> Option<String> {
    let request = ReadRequest {
        ops: vec![ReadOp::Get(key(name))],
        at: None,
    };
    let page = engine.read(request).await.expect("readable").pages.remove(0);
    page.rows
        .first()
        .map(|row| String::from_utf8_lossy(&row.value).into_owned())
}

/// Each transaction writes its number to three keys, so that a torn one shows.
fn numbered(number: u64) -> Txn {
    let value = format!("{number}-{}", "x".repeat(number as usize * 37 % 3_000));
    ["a", "b", "c"]
        .into_iter()
        .fold(Txn::new(), |txn, name| {
            txn.then(Op::put(key(name), value.clone()))
        })
        .then(Op::put(key(&format!("n{number}")), ""))
}

#[tokio::test]
async fn a_power_cut_at_any_write_keeps_what_was_acknowledged() {
    let disk = Disk::default();
    let engine = open(&disk);
    let mut acknowledged = vec![(disk.ops().len(), 0)];
    for number in 1..=25u64 {
        let change = engine.commit(numbered(number)).await;
        assert!(
            matches!(change, Change::Applied(Revision(revision)) if revision == number),
            "{change:?}"
        );
        acknowledged.push((disk.ops().len(), number));
    }
    let ops = disk.ops();
    let laid_out = acknowledged[0].0;
    assert!(ops.len() > laid_out + 50, "{} operations", ops.len());
    let mut dice = StdRng::seed_from_u64(42);
    for cut in laid_out..=ops.len() {
        let owed = acknowledged
            .iter()
            .filter(|(at, _)| *at <= cut)
            .map(|(_, number)| *number)
            .max();
        let owed = owed.unwrap_or(0);
        let synced = ops[..cut]
            .iter()
            .rposition(|op| matches!(op, DiskOp::Sync))
            .map_or(0, |at| at + 1);
        let mut in_order = Vec::new();
        ops[..cut].iter().for_each(|op| replay(&mut in_order, op));
        let mut torn = Vec::new();
        ops[..synced].iter().for_each(|op| replay(&mut torn, op));
        for op in &ops[synced..cut] {
            if matches!(op, DiskOp::Length(_)) || dice.random::<bool>() {
                replay(&mut torn, op);
            }
        }
        for image in [in_order, torn] {
            let engine = open(&Disk::holding(image));
            let Revision(found) = engine.status().await.expect("readable").revision;
            assert!(
                found >= owed && found <= owed + 1,
                "cut {cut}: at {found}, {owed} were acknowledged"
            );
            for name in ["a", "b", "c"] {
                let value = read(&engine, name).await.unwrap_or_default();
                let number = value
                    .split('-')
                    .next()
                    .and_then(|number| number.parse().ok())
                    .unwrap_or(0);
                assert_eq!(number, found, "cut {cut}: {name} is of another transaction");
            }
            assert_eq!(read(&engine, &format!("n{}", found + 1)).await, None);
            // It takes new transactions with a revision that was never used for another.
            let change = engine.commit(numbered(found + 1)).await;
            assert!(
                matches!(change, Change::Applied(Revision(next)) if next == found + 1),
                "{change:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_error_of_write_or_sync_poisons_until_the_restart() {
    for by_sync in [true, false] {
        let disk = Disk::default();
        let engine = open(&disk);
        let store = Store::with_engine(engine.clone());
        assert!(matches!(
            store.commit(numbered(1)).await,
            Change::Applied(Revision(1))
        ));
        let fails = if by_sync {
            &disk.shared.sync_fails
        } else {
            &disk.shared.write_fails
        };
        fails.store(true, Ordering::SeqCst);
        let failed = numbered(2);
        let id = failed.id;
        // Not known, since the bytes may have reached the disk; never called refused or applied.
        let change = store.commit(failed).await;
        assert!(
            matches!(change, Change::Unknown(unknown) if unknown == id),
            "{change:?}"
        );
        assert!(!engine.status().await.expect("readable").writable);

        // Reads go on; writes are refused even when the disk works again.
        fails.store(false, Ordering::SeqCst);
        assert!(
            read(&engine, "a")
                .await
                .is_some_and(|value| value.starts_with("1-"))
        );
        assert!(matches!(
            store.commit(numbered(3)).await,
            Change::Refused(Refusal::Poisoned)
        ));
        assert!(matches!(store.probe().await, crate::store::Probe::Failed(_)));
        drop(store);
        drop(engine);

        let engine = open(&disk);
        let store = Store::with_engine(engine.clone());
        assert!(engine.status().await.expect("readable").writable);
        // After the restart the marker tells what became of it, and the values agree.
        let settled = store.resolve(id).await;
        let expected = match settled {
            Change::Applied(Revision(2)) => "2-",
            Change::Refused(Refusal::Aborted) => "1-",
            other => panic!("{other:?}"),
        };
        assert!(
            read(&engine, "a")
                .await
                .is_some_and(|value| value.starts_with(expected))
        );
        assert!(matches!(store.commit(numbered(4)).await, Change::Applied(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_come_together_share_a_sync() {
    let disk = Disk::default();
    let store = Store::with_engine(open(&disk));
    let syncs = || disk.ops().iter().filter(|op| matches!(op, DiskOp::Sync)).count();
    let before = syncs();
    let writers = (0..400).map(|n| {
        let store = store.clone();
        async move {
            store
                .commit(Txn::new().then(Op::put(key(&n.to_string()), "x")))
                .await
        }
    });
    let changes = futures_util::future::join_all(writers).await;
    let mut revisions: Vec<u64> = changes
        .iter()
        .map(|change| match change {
            Change::Applied(Revision(revision)) => *revision,
            other => panic!("{other:?}"),
        })
        .collect();
    revisions.sort_unstable();
    assert_eq!(
        revisions,
        (1..=400).collect::<Vec<u64>>(),
        "each its own revision"
    );
    let shared = syncs() - before;
    assert!(shared <= 100, "{shared} syncs for 400 transactions");
}

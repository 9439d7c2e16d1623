//! An open volume whose file fails: what is refused, what goes on, what is never claimed.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustix::io::Errno;

use super::backing::{BackingFile, HostFile};
use super::device::{FileDevice, Tenure};
use super::layout::{Layout, VolumeDirectory};
use crate::device::{BlockDevice, DeviceError, ZeroMode};
use crate::durable::Found;
use crate::id::{Generation, VolumeHandle, VolumeId};
use crate::provider::{ExportAddress, Publication};

/// Which calls fail, shared with the test.
#[derive(Debug, Default)]
struct Faults {
    sync: Mutex<Option<i32>>,
    write: Mutex<Option<i32>>,
    fallocate: Mutex<Option<i32>>,
    syncs: AtomicU64,
    free: AtomicU64,
}

#[derive(Debug)]
struct FaultFile {
    host: HostFile,
    faults: Arc<Faults>,
}

fn fault(place: &Mutex<Option<i32>>) -> io::Result<()> {
    match *place.lock().unwrap() {
        Some(number) => Err(io::Error::from_raw_os_error(number)),
        None => Ok(()),
    }
}

impl BackingFile for FaultFile {
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        self.host.read_cached(buffer, offset)
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.host.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        fault(&self.faults.write)?;
        self.host.write_all_at(buffer, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        fault(&self.faults.sync)?;
        self.host.sync_data()
    }
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        fault(&self.faults.fallocate)?;
        self.host.punch_hole(offset, length)
    }
    fn zero_allocated(&self, offset: u64, length: u64) -> io::Result<()> {
        fault(&self.faults.fallocate)?;
        self.host.zero_allocated(offset, length)
    }
    fn run_at(&self, offset: u64) -> io::Result<(bool, u64)> {
        self.host.run_at(offset)
    }
    fn length(&self) -> io::Result<u64> {
        self.host.length()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.faults.free.load(Ordering::SeqCst))
    }
}

struct Bench {
    device: FileDevice,
    faults: Arc<Faults>,
    directory: VolumeDirectory,
    _temporary: tempfile::TempDir,
}

const SIZE: u64 = 1 << 20;
const RESERVE: u64 = 1 << 30;

fn bench() -> Bench {
    let temporary = tempfile::tempdir().unwrap();
    let layout = Layout::new(temporary.path());
    layout.ensure().unwrap();
    let handle = VolumeHandle::mint();
    let directory = layout.volume(handle);
    std::fs::create_dir(&directory.0).unwrap();
    directory.put_fence(Generation(3)).unwrap();
    let path = directory.data();
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.set_len(SIZE).unwrap();
    let host = HostFile::new(file, File::open(&path).unwrap());
    let faults = Arc::new(Faults::default());
    faults.free.store(u64::MAX / 2, Ordering::SeqCst);
    let tenure = Tenure {
        volume: VolumeId::new("vol-1").unwrap(),
        handle,
        generation: Generation(3),
        fence: directory.fence().unwrap(),
        directory: directory.clone(),
        lock: Mutex::new(layout.lock_volume(handle).unwrap()),
    };
    let file = FaultFile {
        host,
        faults: Arc::clone(&faults),
    };
    let device = FileDevice::new(Box::new(file), Some(tenure), false, RESERVE).unwrap();
    Bench {
        device,
        faults,
        directory,
        _temporary: temporary,
    }
}

fn publication(generation: u64) -> Publication {
    Publication {
        volume: VolumeId::new("vol-1").unwrap(),
        handle: VolumeHandle::mint(),
        node: crate::id::NodeId::new("n1").unwrap(),
        read_only: false,
        generation: Generation(generation),
        export: ExportAddress::NbdUnix { socket: "/s".into() },
    }
}

fn data() -> Bytes {
    Bytes::from_static(b"data")
}

#[tokio::test]
async fn a_failed_sync_poisons_for_good() {
    let bench = bench();
    let device = &bench.device;
    device.write_at(0, data(), false).await.unwrap();
    device.flush().await.unwrap();
    *bench.faults.sync.lock().unwrap() = Some(Errno::IO.raw_os_error());
    assert!(matches!(
        device.write_at(0, data(), true).await,
        Err(DeviceError::Poisoned)
    ));
    // The kernel would now say that all is well, and lie.
    *bench.faults.sync.lock().unwrap() = None;
    assert!(matches!(device.flush().await, Err(DeviceError::Poisoned)));
    assert!(matches!(
        device.write_at(0, data(), false).await,
        Err(DeviceError::Poisoned)
    ));
    assert!(matches!(
        device.trim(0, SIZE, false).await,
        Err(DeviceError::Poisoned)
    ));
    assert_eq!(&device.read_at(0, 4).await.unwrap()[..], b"data", "reads go on");
    assert!(
        matches!(device.close().await, Err(DeviceError::Poisoned)),
        "it is not sealed"
    );
    assert!(matches!(bench.directory.receipt(), Found::Absent));
    assert!(bench.directory.sync_failed(&publication(3)).unwrap());
    assert!(!bench.directory.sync_failed(&publication(4)).unwrap());
}

#[tokio::test]
async fn a_failed_sync_at_close_leaves_no_receipt() {
    let bench = bench();
    bench.device.write_at(0, data(), false).await.unwrap();
    *bench.faults.sync.lock().unwrap() = Some(Errno::IO.raw_os_error());
    assert!(bench.device.close().await.is_err());
    assert!(matches!(bench.directory.receipt(), Found::Absent));
}

#[tokio::test]
async fn a_failed_write_is_its_own_error_and_a_full_disk_has_its_own() {
    let bench = bench();
    let device = &bench.device;
    *bench.faults.write.lock().unwrap() = Some(Errno::IO.raw_os_error());
    assert!(matches!(
        device.write_at(0, data(), false).await,
        Err(DeviceError::Io { .. })
    ));
    for full in [Errno::NOSPC, Errno::DQUOT] {
        *bench.faults.write.lock().unwrap() = Some(full.raw_os_error());
        assert!(matches!(
            device.write_at(0, data(), false).await,
            Err(DeviceError::NoSpace)
        ));
    }
    *bench.faults.write.lock().unwrap() = None;
    device.write_at(0, data(), true).await.unwrap();
    device.close().await.unwrap();
    assert!(
        matches!(bench.directory.receipt(), Found::Present(receipt) if receipt.generation == Generation(3))
    );
}

#[tokio::test]
async fn the_reserve_is_kept_from_new_blocks_only() {
    let bench = bench();
    let device = &bench.device;
    device
        .write_at(0, Bytes::from(vec![1; 8192]), false)
        .await
        .unwrap();
    // Another volume of the pool fills the disk: what this one may still spend is bounded.
    bench.faults.free.store(RESERVE, Ordering::SeqCst);
    bench.device.spend_budget();
    let refused = device.write_at(65536, data(), false).await;
    assert!(matches!(refused, Err(DeviceError::NoSpace)), "{refused:?}");
    let kept = ZeroMode {
        no_hole: true,
        ..ZeroMode::default()
    };
    assert!(matches!(
        device.write_zeroes(65536, 4096, kept).await,
        Err(DeviceError::NoSpace)
    ));
    device.write_at(4096, data(), false).await.unwrap();
    device
        .write_zeroes(65536, 4096, ZeroMode::default())
        .await
        .unwrap();
    device.trim(0, SIZE, false).await.unwrap();
    device.flush().await.unwrap();
    bench.faults.free.store(RESERVE + SIZE, Ordering::SeqCst);
    device.write_at(65536, data(), false).await.unwrap();
}

#[tokio::test]
async fn without_holes_zeros_are_written_unless_only_fast_will_do() {
    let bench = bench();
    let device = &bench.device;
    device
        .write_at(0, Bytes::from(vec![1; 65536]), false)
        .await
        .unwrap();
    *bench.faults.fallocate.lock().unwrap() = Some(Errno::OPNOTSUPP.raw_os_error());
    for no_hole in [false, true] {
        let fast = ZeroMode {
            no_hole,
            fast_only: true,
            fua: false,
        };
        assert!(matches!(
            device.write_zeroes(0, 4096, fast).await,
            Err(DeviceError::NotFast)
        ));
        assert_eq!(device.read_at(0, 1).await.unwrap()[0], 1, "nothing changed");
    }
    device
        .write_zeroes(
            10,
            100,
            ZeroMode {
                no_hole: true,
                ..ZeroMode::default()
            },
        )
        .await
        .unwrap();
    device
        .write_zeroes(8192, 8192, ZeroMode::default())
        .await
        .unwrap();
    device.trim(20_000, 10_000, false).await.unwrap();
    let bytes = device.read_at(0, 65536).await.unwrap();
    let zeros = bytes.iter().filter(|byte| **byte == 0).count();
    assert_eq!(zeros, 100 + 8192 + 8192);
}

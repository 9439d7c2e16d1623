//! A full disk: a typed refusal, nothing half-made, and everything that frees space still works. On a tmpfs of its own.

use std::path::Path;
use std::sync::Arc;

use block::device::DeviceError;
use block::file::{FilePool, FilePoolConfig};
use block::provider::{CreateSnapshot, CreateVolume, ProviderError, VolumeProvider};
use bytes::Bytes;
use tempfile::TempDir;

use crate::stage::{MIB, directory, node, open, publish, snapshot, volume};

struct Mount {
    directory: TempDir,
}

impl Mount {
    fn new(mib: u32) -> Self {
        let directory = directory();
        let options = format!("size={mib}m,mode=700");
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "spx-block-test"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(done.success(), "mounting a tmpfs needs root");
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.directory.path())
            .status();
    }
}

fn pool(mount: &Mount, reserve_bytes: u64) -> FilePool {
    FilePool::open(FilePoolConfig {
        root: mount.path().join("pool"),
        exports: mount.path().join("exports"),
        reserve_bytes: Some(reserve_bytes),
    })
    .unwrap()
}

fn left_over(mount: &Mount) -> usize {
    std::fs::read_dir(mount.path().join("pool/tmp")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_refuses_and_recovers() {
    let mount = Mount::new(16);
    let reserve = 2 * MIB;
    let pool = pool(&mount, reserve);
    pool.create_volume(CreateVolume::blank(volume("vol-1"), 64 * MIB))
        .await
        .unwrap();
    let publication = pool.publish_volume(publish(&volume("vol-1"))).await.unwrap();
    let device = pool.open_volume(open(&publication)).await.unwrap();
    let chunk = Bytes::from(vec![5; 1 << 18]);
    let mut written = 0;
    let refusal = loop {
        match device.write_at(written, chunk.clone(), false).await {
            Ok(()) => written += chunk.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, DeviceError::NoSpace), "{refusal:?}");
    // The last bytes, too.
    while device
        .write_at(written, Bytes::from(vec![5; 4096]), false)
        .await
        .is_ok()
    {
        written += 4096;
    }
    assert!(written >= 10 * MIB, "only {written} bytes fitted");
    let stat = rustix::fs::statvfs(mount.path()).unwrap();
    assert!(
        stat.f_bavail * stat.f_frsize >= reserve - MIB,
        "the reserve was spent"
    );
    // What is allocated can be rewritten, read, flushed; new volumes are refused.
    device
        .write_at(0, Bytes::from(vec![6; 4096]), true)
        .await
        .unwrap();
    device.flush().await.unwrap();
    assert_eq!(device.read_at(0, 1).await.unwrap()[0], 6);
    let refused = pool
        .create_volume(CreateVolume::blank(volume("vol-2"), MIB))
        .await
        .unwrap_err();
    assert!(matches!(refused, ProviderError::NoSpace { .. }), "{refused:?}");
    assert!(matches!(
        pool.fetch_volume(&volume("vol-2"), None).await,
        Err(ProviderError::NotFound(_))
    ));
    assert_eq!(left_over(&mount), 0);
    // Trim frees, and the state clears by itself.
    device.trim(0, written, false).await.unwrap();
    device.write_at(0, chunk.clone(), false).await.unwrap();
    device.close().await.unwrap();
    drop(device);
    pool.unpublish_volume(&volume("vol-1"), None, &node("n1"))
        .await
        .unwrap();
    pool.create_volume(CreateVolume::blank(volume("vol-2"), MIB))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seal_and_delete_work_on_a_full_disk() {
    let mount = Mount::new(16);
    let pool = pool(&mount, MIB);
    pool.create_volume(CreateVolume::blank(volume("vol-1"), 64 * MIB))
        .await
        .unwrap();
    let publication = pool.publish_volume(publish(&volume("vol-1"))).await.unwrap();
    let device = pool.open_volume(open(&publication)).await.unwrap();
    let mut offset = 0;
    while device
        .write_at(offset, Bytes::from(vec![5; 1 << 16]), false)
        .await
        .is_ok()
    {
        offset += 1 << 16;
    }
    device.close().await.unwrap();
    drop(device);
    pool.unpublish_volume(&volume("vol-1"), None, &node("n1"))
        .await
        .unwrap();
    // A snapshot would need a copy here: refused as a whole.
    let cut = CreateSnapshot {
        snapshot: snapshot("snap-1"),
        volume: volume("vol-1"),
        volume_handle: None,
    };
    let refused = pool.create_snapshot(cut.clone()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::NoSpace { .. }), "{refused:?}");
    assert!(matches!(
        pool.fetch_snapshot(&snapshot("snap-1"), None).await,
        Err(ProviderError::NotFound(_))
    ));
    assert_eq!(left_over(&mount), 0);
    pool.delete_volume(&volume("vol-1"), None).await.unwrap();
    pool.create_volume(CreateVolume::blank(volume("vol-1"), 64 * MIB))
        .await
        .unwrap();
    pool.create_snapshot(cut).await.unwrap();
}

/// Copies that run out in the middle, with nothing but the file system to say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_does_not_fit_leaves_nothing() {
    let mount = Mount::new(16);
    let pool = Arc::new(pool(&mount, 0));
    pool.create_volume(CreateVolume::blank(volume("vol-1"), 64 * MIB))
        .await
        .unwrap();
    let publication = pool.publish_volume(publish(&volume("vol-1"))).await.unwrap();
    let device = pool.open_volume(open(&publication)).await.unwrap();
    device
        .write_at(0, Bytes::from(vec![5; 6 << 20]), false)
        .await
        .unwrap();
    device.close().await.unwrap();
    drop(device);
    pool.unpublish_volume(&volume("vol-1"), None, &node("n1"))
        .await
        .unwrap();
    let cut = CreateSnapshot {
        snapshot: snapshot("snap-1"),
        volume: volume("vol-1"),
        volume_handle: None,
    };
    let view = pool.create_snapshot(cut).await.unwrap();
    // Two clones at once, and room for none.
    let clones: Vec<_> = ["vol-2", "vol-3"]
        .map(|name| {
            let (pool, request) = (
                Arc::clone(&pool),
                CreateVolume::from_snapshot(volume(name), 64 * MIB, &view),
            );
            tokio::spawn(async move { pool.create_volume(request).await })
        })
        .into_iter()
        .collect();
    for clone in clones {
        let refused = clone.await.unwrap().unwrap_err();
        assert!(matches!(refused, ProviderError::NoSpace { .. }), "{refused:?}");
    }
    assert_eq!(left_over(&mount), 0);
    assert_eq!(pool.list_volumes(0, None).await.unwrap().items.len(), 1);
    pool.delete_volume(&volume("vol-1"), None).await.unwrap();
    pool.create_volume(CreateVolume::from_snapshot(volume("vol-2"), 64 * MIB, &view))
        .await
        .unwrap();
}

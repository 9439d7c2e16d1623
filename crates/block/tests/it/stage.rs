//! What the tests stand on: pools of each kind, names, raw NBD clients, guards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::device::BlockDevice;
use block::file::{FilePool, FilePoolConfig};
use block::id::{NodeId, SnapshotId, VolumeId};
use block::memory::MemoryPool;
use block::nbd::{NbdServer, listen};
use block::provider::{CreateVolume, OpenVolume, Publication, PublishVolume, VolumeProvider, VolumeView};
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// A provider in a directory of its own.
pub struct Stage {
    pub provider: Arc<dyn VolumeProvider>,
    pub directory: TempDir,
}

pub fn file_config(directory: &Path) -> FilePoolConfig {
    FilePoolConfig {
        root: directory.join("pool"),
        exports: directory.join("exports"),
        reserve_bytes: Some(0),
    }
}

pub fn directory() -> TempDir {
    tempfile::Builder::new().prefix("spx-block-").tempdir().unwrap()
}

pub fn memory() -> Stage {
    let directory = directory();
    let provider = Arc::new(MemoryPool::new(directory.path().join("exports")));
    Stage { provider, directory }
}

pub fn file() -> Stage {
    let directory = directory();
    let provider = Arc::new(FilePool::open(file_config(directory.path())).unwrap());
    Stage { provider, directory }
}

pub fn volume(name: &str) -> VolumeId {
    VolumeId::new(name).unwrap()
}

pub fn snapshot(name: &str) -> SnapshotId {
    SnapshotId::new(name).unwrap()
}

pub fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub fn publish(volume: &VolumeId) -> PublishVolume {
    PublishVolume {
        volume: volume.clone(),
        handle: None,
        node: node("n1"),
        read_only: false,
        generation: None,
    }
}

pub fn open(publication: &Publication) -> OpenVolume {
    OpenVolume {
        volume: publication.volume.clone(),
        handle: publication.handle,
        generation: publication.generation,
    }
}

impl Stage {
    /// A blank volume.
    pub async fn blank(&self, name: &str, bytes: u64) -> VolumeView {
        self.provider
            .create_volume(CreateVolume::blank(volume(name), bytes))
            .await
            .unwrap()
    }

    /// Publishes and opens a volume.
    pub async fn opened(&self, name: &str) -> Arc<dyn BlockDevice> {
        let publication = self
            .provider
            .publish_volume(publish(&volume(name)))
            .await
            .unwrap();
        self.provider.open_volume(open(&publication)).await.unwrap()
    }

    /// Closes a volume and ends its publication.
    pub async fn put_away(&self, name: &str, device: Arc<dyn BlockDevice>) {
        device.close().await.unwrap();
        drop(device);
        self.provider
            .unpublish_volume(&volume(name), None, &node("n1"))
            .await
            .unwrap();
    }
}

/// An NBD server in this process.
pub struct Served {
    pub socket: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    pub fn new(directory: &Path, device: Arc<dyn BlockDevice>) -> Self {
        let socket = directory.join("test.sock");
        let listener = listen(&socket).unwrap();
        let server = NbdServer::new(device);
        let task = tokio::spawn(async move { server.serve(listener).await });
        Self { socket, task }
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a program to its end without blocking the runtime; panics with its output unless it succeeds.
pub async fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(program);
    command
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(std::time::Duration::from_secs(120), command.output())
        .await
        .unwrap_or_else(|_| panic!("{program} {arguments:?} does not end"))
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{out}\n{err}",
        output.status
    );
    out.into_owned()
}

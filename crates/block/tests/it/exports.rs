//! Export processes: they outlive their agent, are adopted by identity, seal on SIGTERM, and die when fenced.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::export::{
    ExportError, ExportManager, ExportManagerConfig, ExportPool, ExportState, Observed, StopOutcome,
};
use block::file::FilePool;
use block::id::{Generation, VolumeHandle};
use block::provider::{
    CapacityRange, CreateVolume, Publication, PublishVolume, SealedBy, Unpublication, VolumeProvider,
};
use tempfile::TempDir;

use crate::stage::{MIB, directory, file_config, node, open, publish, run, volume};

const DRAIN: Duration = Duration::from_secs(20);

/// A pool, its exports, and a guard that ends every export of the directory.
struct Yard {
    pool: FilePool,
    manager: ExportManager,
    directory: TempDir,
}

fn manager(directory: &Path) -> ExportManager {
    ExportManager::open(ExportManagerConfig {
        exports: directory.join("exports"),
        launcher: vec![OsString::from(env!("CARGO_BIN_EXE_block-serve"))],
        pool: ExportPool::File {
            root: directory.join("pool"),
            reserve_bytes: 0,
        },
    })
    .unwrap()
}

impl Yard {
    fn new() -> Self {
        let directory = directory();
        let pool = FilePool::open(file_config(directory.path())).unwrap();
        Self {
            pool,
            manager: manager(directory.path()),
            directory,
        }
    }

    async fn published(&self, name: &str) -> Publication {
        self.pool
            .create_volume(CreateVolume::blank(volume(name), 8 * MIB))
            .await
            .unwrap();
        self.pool.publish_volume(publish(&volume(name))).await.unwrap()
    }

    async fn unpublish(&self, name: &str) -> SealedBy {
        match self
            .pool
            .unpublish_volume(&volume(name), None, &node("n1"))
            .await
            .unwrap()
        {
            Unpublication::Sealed(receipt) => receipt.sealed_by,
            Unpublication::NothingPublished => panic!("nothing was published"),
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let exports = self.directory.path().join("exports");
        for entry in std::fs::read_dir(exports).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(entry.path().join("status.json")).unwrap_or_default();
            let Ok(status) = serde_json::from_str::<block::export::ExportStatus>(&text) else {
                continue;
            };
            let stat =
                std::fs::read_to_string(format!("/proc/{}/stat", status.process.pid)).unwrap_or_default();
            if stat.contains(&format!(" {} ", status.process.start_ticks))
                && let Some(pid) = rustix::process::Pid::from_raw(status.process.pid)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

async fn write_pattern(uri: &str, pattern: u8) {
    let command = format!("write -P {pattern} 4096 8192");
    run("qemu-io", &["-f", "raw", "-c", &command, uri]).await;
}

async fn read_pattern(uri: &str, pattern: u8) {
    let command = format!("read -P {pattern} 4096 8192");
    let out = run("qemu-io", &["-f", "raw", "-r", "-c", &command, uri]).await;
    assert!(!out.contains("verification failed"), "{out}");
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve_write_stop_seal() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    assert!(matches!(
        yard.manager.find(publication.handle).await,
        Observed::Absent
    ));
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::AlreadyGone
    );
    let running = yard.manager.ensure(&publication).await.unwrap();
    assert_eq!(running.status.state, ExportState::Serving);
    assert_eq!(
        (running.status.generation, running.status.size_bytes),
        (Generation(1), 8 * MIB)
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let socket = publication.export.socket();
    assert_eq!((mode(socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    let uri = publication.export.uri();
    write_pattern(&uri, 0x5a).await;
    // The same publication again: the same process.
    let again = yard.manager.ensure(&publication).await.unwrap();
    assert_eq!(again.status.process, running.status.process);
    // Served elsewhere: not openable here, not unpublishable.
    assert!(yard.pool.open_volume(open(&publication)).await.is_err());
    assert!(
        yard.pool
            .unpublish_volume(&volume("vol-1"), None, &node("n1"))
            .await
            .is_err()
    );
    assert!(matches!(
        yard.manager.remove(publication.handle).await,
        Err(ExportError::StillRunning { .. })
    ));
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::Sealed
    );
    running.exited().await.unwrap();
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::Sealed
    );
    assert_eq!(yard.unpublish("vol-1").await, SealedBy::Owner);
    yard.manager.remove(publication.handle).await.unwrap();
    yard.manager.remove(publication.handle).await.unwrap();
    assert!(yard.manager.list().await.unwrap().is_empty());
    // The next publication serves what was written, under the next generation.
    let second = yard.pool.publish_volume(publish(&volume("vol-1"))).await.unwrap();
    let running = yard.manager.ensure(&second).await.unwrap();
    assert_eq!(running.status.generation, Generation(2));
    read_pattern(&second.export.uri(), 0x5a).await;
    // The old publication is over.
    assert!(matches!(
        yard.manager.ensure(&publication).await,
        Err(ExportError::Fenced { .. })
    ));
    yard.manager.stop(second.handle, DRAIN).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_sees_no_error_while_hangups_come_and_drain_ends_it() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    let running = yard.manager.ensure(&publication).await.unwrap();
    let pid = running.status.process.pid;
    // A session of its own: what ends its parent's group or terminal does not reach it.
    let own = rustix::process::Pid::from_raw(pid);
    assert_eq!(rustix::process::getpgid(own).unwrap(), own.unwrap());
    assert_eq!(rustix::process::getsid(own).unwrap(), own.unwrap());
    signal(pid, rustix::process::Signal::HUP);
    signal(pid, rustix::process::Signal::INT);
    write_pattern(&publication.export.uri(), 1).await;
    // A client that stays connected does not keep it.
    let idle = tokio::net::UnixStream::connect(publication.export.socket())
        .await
        .unwrap();
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::Sealed
    );
    drop(idle);
}

/// The agent of [`an_export_survives_its_agent`]: starts an export and waits to be killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_process_for_another_test() {
    let Some(directory) = std::env::var_os("SPX_BLOCK_TEST_AGENT") else {
        return;
    };
    let directory = std::path::PathBuf::from(directory);
    let text = std::fs::read_to_string(directory.join("publication.json")).unwrap();
    let publication: Publication = serde_json::from_str(&text).unwrap();
    let manager = manager(&directory);
    let _running = manager.ensure(&publication).await.unwrap();
    std::fs::write(directory.join("agent-ready"), b"").unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_survives_its_agent() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    let text = serde_json::to_string(&publication).unwrap();
    std::fs::write(yard.directory.path().join("publication.json"), text).unwrap();
    let mut agent = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "exports::agent_process_for_another_test"])
        .env("SPX_BLOCK_TEST_AGENT", yard.directory.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ready = yard.directory.path().join("agent-ready");
    for _ in 0..2000 {
        if ready.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(ready.exists(), "the agent did not start its export");
    let before = match yard.manager.find(publication.handle).await {
        Observed::Running(running) => running.status.process,
        other => panic!("{other:?}"),
    };
    write_pattern(&publication.export.uri(), 0x77).await;
    agent.kill().await.unwrap();
    // Nothing happened to the disk, and another agent takes the same process over.
    read_pattern(&publication.export.uri(), 0x77).await;
    let adopted = yard.manager.ensure(&publication).await.unwrap();
    assert_eq!(adopted.status.process, before);
    let listed = yard.manager.list().await.unwrap();
    assert!(matches!(&listed[..], [(handle, Observed::Running(_))] if *handle == publication.handle));
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::Sealed
    );
    assert_eq!(yard.unpublish("vol-1").await, SealedBy::Owner);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_export_is_reopened_under_its_generation() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    for round in 0..3u8 {
        let running = yard.manager.ensure(&publication).await.unwrap();
        assert_eq!(running.status.generation, Generation(1));
        if round > 0 {
            read_pattern(&publication.export.uri(), round).await;
        }
        write_pattern(&publication.export.uri(), round + 1).await;
        signal(running.status.process.pid, rustix::process::Signal::KILL);
        running.exited().await.unwrap();
        assert!(matches!(
            yard.manager.find(publication.handle).await,
            Observed::Ended(_)
        ));
    }
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::Unsealed
    );
    assert_eq!(yard.unpublish("vol-1").await, SealedBy::Unpublish);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_generation_ends_an_export() {
    let yard = Yard::new();
    let first = yard.published("vol-1").await;
    let running = yard.manager.ensure(&first).await.unwrap();
    write_pattern(&first.export.uri(), 9).await;
    let taken = PublishVolume {
        generation: Some(Generation(4)),
        ..publish(&volume("vol-1"))
    };
    let second = yard.pool.publish_volume(taken).await.unwrap();
    // It ends by itself, nobody has to stop it.
    tokio::time::timeout(DRAIN, running.exited())
        .await
        .unwrap()
        .unwrap();
    let successor = yard.manager.ensure(&second).await.unwrap();
    assert_eq!(successor.status.generation, Generation(4));
    read_pattern(&second.export.uri(), 9).await;
    assert!(yard.manager.ensure(&first).await.unwrap_err().is_fenced());
    // One that is stopped in its tracks and wakes later changes nothing either.
    let pid = successor.status.process.pid;
    signal(pid, rustix::process::Signal::STOP);
    let taken = PublishVolume {
        generation: Some(Generation(5)),
        ..publish(&volume("vol-1"))
    };
    let third = yard.pool.publish_volume(taken).await.unwrap();
    let refused = yard.manager.ensure(&third).await.unwrap_err();
    assert!(matches!(refused, ExportError::Unresponsive { .. }), "{refused}");
    signal(pid, rustix::process::Signal::CONT);
    tokio::time::timeout(DRAIN, successor.exited())
        .await
        .unwrap()
        .unwrap();
    yard.manager.ensure(&third).await.unwrap();
    read_pattern(&third.export.uri(), 9).await;
    yard.manager.stop(third.handle, DRAIN).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_managers_start_one_export() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    let other = Arc::new(manager(yard.directory.path()));
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let (other, publication) = (Arc::clone(&other), publication.clone());
            tokio::spawn(async move {
                other
                    .ensure(&publication)
                    .await
                    .map(|running| running.status.process)
            })
        })
        .collect();
    let mine = yard
        .manager
        .ensure(&publication)
        .await
        .map(|running| running.status.process);
    let mut seen = vec![mine.unwrap()];
    for racer in racers {
        seen.push(racer.await.unwrap().unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
    yard.manager.stop(publication.handle, DRAIN).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_file_alone_proves_nothing() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    let running = yard.manager.ensure(&publication).await.unwrap();
    yard.manager.stop(publication.handle, DRAIN).await.unwrap();
    // The status of a process that is over, with a pid that lives: this one.
    let mut status = running.status.clone();
    status.state = ExportState::Serving;
    status.process.pid = i32::try_from(std::process::id()).unwrap();
    let path = publication.export.socket().with_file_name("status.json");
    std::fs::write(&path, serde_json::to_vec(&status).unwrap()).unwrap();
    assert!(matches!(
        yard.manager.find(publication.handle).await,
        Observed::Ended(_)
    ));
    assert_eq!(
        yard.manager.stop(publication.handle, DRAIN).await.unwrap(),
        StopOutcome::Unsealed
    );
    // Not ours to read: neither absent nor running.
    std::fs::write(&path, b"{}").unwrap();
    assert!(matches!(
        yard.manager.find(publication.handle).await,
        Observed::Unreadable(_)
    ));
    assert!(yard.manager.stop(publication.handle, DRAIN).await.is_err());
    assert!(yard.manager.ensure(&publication).await.is_err());
    std::fs::remove_file(&path).unwrap();
    yard.manager.ensure(&publication).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_served_says_why() {
    let yard = Yard::new();
    let mut publication = yard.published("vol-1").await;
    publication.generation = Generation(9);
    match yard.manager.ensure(&publication).await.unwrap_err() {
        error @ ExportError::Ended { .. } => {
            assert!(error.is_fenced());
            assert!(error.to_string().contains("is not the owner"), "{error}");
        }
        other => panic!("{other}"),
    }
    publication.handle = VolumeHandle::mint();
    assert!(matches!(
        yard.manager.ensure(&publication).await,
        Err(ExportError::ForeignSocket { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_served_volume_grows() {
    let yard = Yard::new();
    let publication = yard.published("vol-1").await;
    let running = yard.manager.ensure(&publication).await.unwrap();
    let size = |out: &str| out.trim().parse::<u64>().unwrap();
    let uri = publication.export.uri();
    assert_eq!(size(&run("nbdinfo", &["--size", &uri]).await), 8 * MIB);
    yard.pool
        .expand_volume(&volume("vol-1"), None, CapacityRange::exactly(16 * MIB))
        .await
        .unwrap();
    assert_eq!(yard.manager.refresh_size(&running).await.unwrap(), 16 * MIB);
    assert_eq!(size(&run("nbdinfo", &["--size", &uri]).await), 16 * MIB);
    yard.manager.stop(publication.handle, DRAIN).await.unwrap();
}

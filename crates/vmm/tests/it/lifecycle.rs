//! Start, find again, end: with the agent's part played by dropping the handle.

use std::fs;
use std::time::Duration;

use vmm::{
    Adoption, ExitStatus, GuestEvent, ProcessIdentity, RunState, SpawnError, adopt, find_unrecorded,
    kill_recorded,
};

use crate::bench::{Bench, UUID};

const BOUND: Duration = Duration::from_secs(20);

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, what)
        .await
        .expect("it takes less than the bound")
}

#[tokio::test]
async fn a_guest_starts_stopped_and_is_steered() {
    let bench = Bench::new().await;
    let (guest, _guard) = bench.spawn().await;
    assert_eq!(
        guest.status().await.unwrap(),
        RunState::Prelaunch,
        "nothing runs before the identity is recorded"
    );
    guest.resume().await.unwrap();
    assert_eq!(within(guest.next_event()).await, GuestEvent::Resumed);
    assert_eq!(guest.status().await.unwrap(), RunState::Running);
    guest.pause().await.unwrap();
    assert_eq!(within(guest.next_event()).await, GuestEvent::Stopped);
    assert_eq!(guest.status().await.unwrap(), RunState::Paused);
    guest.reset().await.unwrap();
    assert_eq!(
        within(guest.next_event()).await,
        GuestEvent::Reset { by_guest: false }
    );
    assert_eq!(guest.uuid().await.unwrap(), UUID);
    guest.quit().await.unwrap();
    let mut last = within(guest.next_event()).await;
    while last == GuestEvent::Stopped {
        last = within(guest.next_event()).await;
    }
    assert_eq!(
        last,
        GuestEvent::Exited {
            status: ExitStatus::Code(0)
        }
    );
    assert_eq!(guest.next_event().await, last, "it stays exited");
}

#[tokio::test]
async fn the_process_stands_alone_and_is_bounded() {
    let bench = Bench::new().await;
    let (guest, _guard) = bench.spawn().await;
    let pid = guest.identity().pid;
    let session = rustix::process::getsid(rustix::process::Pid::from_raw(pid)).unwrap();
    assert_eq!(session.as_raw_nonzero().get(), pid, "a session of its own");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max file size"))
        .unwrap();
    assert!(files.contains("2097152"), "{files}");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_ne!(ignored & 1 << 24, 0, "SIGXFSZ (25) is ignored: {ignored:x}");
    let descriptors: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.starts_with(bench.dir.path()))
        .collect();
    assert!(
        descriptors.contains(&bench.dir.path().join("lock")),
        "{descriptors:?}"
    );
}

#[tokio::test]
async fn a_dropped_guest_is_adopted() {
    let bench = Bench::new().await;
    let (guest, _guard) = bench.spawn().await;
    guest.resume().await.unwrap();
    let identity = guest.identity().clone();
    drop(guest);

    let files = bench.plan().files;
    let Adoption::Adopted(again) = adopt(&files, UUID, &identity).await.unwrap() else {
        panic!("it runs")
    };
    assert_eq!(again.status().await.unwrap(), RunState::Running);
    assert_eq!(again.identity(), &identity);
    drop(again);

    let other = "ec2f1a00-0000-4000-8000-000000000002";
    let Adoption::Mismatch { uuid } = adopt(&files, other, &identity).await.unwrap() else {
        panic!("another")
    };
    assert_eq!(uuid, UUID);
    let reused = ProcessIdentity {
        start_ticks: identity.start_ticks - 1,
        ..identity.clone()
    };
    assert!(matches!(
        adopt(&files, UUID, &reused).await.unwrap(),
        Adoption::Gone
    ));

    assert!(kill_recorded(&identity).await.unwrap().is_some());
    assert!(matches!(
        adopt(&files, UUID, &identity).await.unwrap(),
        Adoption::Gone
    ));
    assert_eq!(kill_recorded(&identity).await.unwrap(), None);
}

#[tokio::test]
async fn an_unrecorded_guest_is_found_by_its_lock() {
    let bench = Bench::new().await;
    let files = bench.plan().files;
    assert!(
        matches!(find_unrecorded(&files, UUID).await.unwrap(), Adoption::Gone),
        "never started"
    );
    let (guest, _guard) = bench.spawn().await;
    let identity = guest.identity().clone();
    drop(guest);

    let error = bench.try_spawn(&bench.plan()).await.unwrap_err();
    assert!(matches!(error, SpawnError::AlreadyRunning { .. }), "{error}");
    let Adoption::Adopted(found) = find_unrecorded(&files, UUID).await.unwrap() else {
        panic!("it is there")
    };
    assert_eq!(found.identity(), &identity);
    assert_eq!(found.status().await.unwrap(), RunState::Prelaunch);
    found.kill().await.unwrap();
    assert!(matches!(
        find_unrecorded(&files, UUID).await.unwrap(),
        Adoption::Gone
    ));
    let (again, _guard) = bench.spawn().await;
    assert_ne!(again.identity(), &identity);
}

#[tokio::test]
async fn a_killed_process_is_seen_at_once() {
    let bench = Bench::new().await;
    let (guest, _guard) = bench.spawn().await;
    let pid = rustix::process::Pid::from_raw(guest.identity().pid).unwrap();
    let killer = async { rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap() };
    let (event, ()) = within(async { tokio::join!(guest.next_event(), killer) }).await;
    assert_eq!(
        event,
        GuestEvent::Exited {
            status: ExitStatus::Signal(9)
        }
    );
    assert!(guest.status().await.is_err());
}

#[tokio::test]
async fn a_hanging_process_is_silent_not_dead() {
    let bench = Bench::new().await;
    let (guest, _guard) = bench.spawn().await;
    let identity = guest.identity().clone();
    drop(guest);
    let pid = rustix::process::Pid::from_raw(identity.pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let files = bench.plan().files;
    // The greeting's bound is 30 s of real time; here it only has to outlast what a healthy one takes.
    let adopting = tokio::time::timeout(Duration::from_secs(2), adopt(&files, UUID, &identity)).await;
    assert!(adopting.is_err(), "it is neither adopted nor gone");
    assert!(
        kill_recorded(&identity).await.unwrap().is_some(),
        "and can still be killed"
    );
}

#[tokio::test]
async fn what_qemu_refuses_is_quoted() {
    let bench = Bench::new().await;
    let mut plan = bench.plan();
    plan.uuid = "not a uuid".into();
    let error = bench.try_spawn(&plan).await.unwrap_err();
    let SpawnError::ExitedEarly { output, status, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*status, ExitStatus::Code(1));
    assert!(output.contains("UUID"), "{output}");

    let (guest, _guard) = bench.spawn().await;
    guest.kill().await.unwrap();
    plan = bench.plan();
    plan.disks.push(vmm::Disk {
        id: "vol-1".into(),
        nbd_socket: bench.dir.path().join("nobody"),
        nbd_export: String::new(),
        serial: "vol1".into(),
        slot: vmm::PciSlot(0),
        boot_index: Some(1),
        read_only: false,
    });
    let error = bench.try_spawn(&plan).await.unwrap_err();
    assert!(error.to_string().contains("nobody"), "{error}");
    assert!(
        matches!(find_unrecorded(&plan.files, UUID).await.unwrap(), Adoption::Gone),
        "nothing is left"
    );
}

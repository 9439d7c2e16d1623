//! From a spec to running CPUs, in the order that a kill between any two steps leaves one guest or none.
//!
//! ```text
//! record "starting" ─▶ volumes made, published, exported ─▶ network applied ─▶ firmware ─▶ taps ─▶ QEMU with CPUs stopped
//!   ─▶ record the process ─▶ is it still wanted? ─▶ CPUs run
//! ```
//!
//! Whoever waits here watches the spec too: a launch whose guest is no longer wanted gives up at once. An error is
//! definite only where it says so ([`LaunchError::failure`]); everything else is tried again within the stall limit.

use super::record::{GuestRecord, RecordError, Stage};
use super::{GuestContext, machine_uuid};
use crate::error::{NetworkError, VolumeError};
use crate::limits;
use node_spec::{Firmware, GuestFailure, GuestSpec, RunIntent};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;
use vmm::{
    CpuTopology, Disk, Guest, GuestPlan, HypervisorError, Machine, Nic, PciSlot, QmpError, Smbios, SpawnError,
};

/// A launch did not lead to running CPUs.
#[derive(Debug, Error)]
pub(super) enum LaunchError {
    #[error("the guest is no longer wanted")]
    Unwanted,
    #[error("publishing a volume")]
    Volume(#[from] VolumeError),
    #[error("opening a tap")]
    Network(#[from] NetworkError),
    #[error("recording the start")]
    Record(#[from] RecordError),
    #[error("preparing the firmware")]
    Firmware(#[source] HypervisorError),
    #[error("UEFI firmware is not installed on this node (Debian package ovmf)")]
    NoUefi,
    #[error("starting the hypervisor")]
    Spawn(#[from] SpawnError),
    #[error("letting the CPUs run")]
    Resume(#[source] QmpError),
    #[error("killing a guest that is no longer wanted")]
    Kill(#[source] vmm::ProcessError),
}

impl LaunchError {
    /// The class of a definite failure: trying again cannot help.
    pub(super) fn failure(&self) -> Option<GuestFailure> {
        match self {
            LaunchError::Volume(VolumeError::NotMade { .. } | VolumeError::Name { .. }) => {
                Some(GuestFailure::Volume)
            }
            LaunchError::Network(NetworkError::Malformed { .. }) => Some(GuestFailure::Network),
            LaunchError::NoUefi => Some(GuestFailure::Host),
            LaunchError::Spawn(
                SpawnError::Plan { .. } | SpawnError::ExitedEarly { .. } | SpawnError::Execute { .. },
            ) => Some(GuestFailure::Hypervisor),
            _ => None,
        }
    }

    /// The class to report when the stall limit is over.
    pub(super) fn stalled(&self) -> GuestFailure {
        match self {
            LaunchError::Volume(_) => GuestFailure::Volume,
            LaunchError::Network(_) => GuestFailure::Network,
            LaunchError::Spawn(_) | LaunchError::Resume(_) | LaunchError::Kill(_) => GuestFailure::Hypervisor,
            _ => GuestFailure::Host,
        }
    }
}

/// Launches. The record is durable at every step; on an error its stage says what may be left.
pub(super) async fn launch(
    cx: &GuestContext,
    spec: &GuestSpec,
    record: &mut GuestRecord,
    specs: &mut watch::Receiver<Option<GuestSpec>>,
) -> Result<Guest, LaunchError> {
    let dir = cx.dirs.ensure(&spec.instance)?;
    record.stage = Stage::Starting;
    record.current_start = spec.start_generation;
    record.released = false;
    cx.dirs.put(record)?;
    state::fault_point!("node/launch/journalled");

    let begun = Instant::now();
    let sockets = publish_disks(cx, spec, specs).await?;
    let exported = begun.elapsed();
    state::fault_point!("node/launch/exported");
    await_network(cx, spec, specs).await?;
    let networked = begun.elapsed();
    state::fault_point!("node/launch/networked");

    let plan = plan_of(cx, spec, &dir, &sockets)?;
    let taps = open_taps(cx, spec).await?;
    let guest = vmm::spawn(&cx.hypervisor, cx.accelerator, &plan, taps).await?;
    let spawned = begun.elapsed();
    state::fault_point!("node/launch/spawned");
    record.stage = Stage::Started {
        process: guest.identity().clone(),
    };
    record.starts += 1;
    record.applied_start = spec.start_generation;
    // A reboot that was asked for while the guest was off is what a start does anyway.
    record.applied_reboot = spec.reboot_generation;
    cx.dirs.put(record)?;
    state::fault_point!("node/launch/recorded");

    if !is_wanted(specs) {
        guest.kill().await.map_err(LaunchError::Kill)?;
        record.stage = Stage::Idle;
        cx.dirs.put(record)?;
        return Err(LaunchError::Unwanted);
    }
    guest.resume().await.map_err(LaunchError::Resume)?;
    let resumed = begun.elapsed();
    debug!(instance = %spec.instance, ?exported, ?networked, ?spawned, ?resumed, "when each step of the launch was done");
    state::fault_point!("node/launch/resumed");
    Ok(guest)
}

fn is_wanted(specs: &watch::Receiver<Option<GuestSpec>>) -> bool {
    specs
        .borrow()
        .as_ref()
        .is_some_and(|spec| spec.run == RunIntent::Run)
}

/// Waits for a change of `changes`, or of the spec; an error if the guest is no longer wanted.
async fn await_change<T>(
    changes: &mut watch::Receiver<T>,
    specs: &mut watch::Receiver<Option<GuestSpec>>,
) -> Result<(), LaunchError> {
    let closed = tokio::select! {
        changed = changes.changed() => changed.is_err(),
        changed = specs.changed() => changed.is_err(),
        () = tokio::time::sleep(limits::RETRY_MAX) => false,
    };
    if closed || !is_wanted(specs) {
        Err(LaunchError::Unwanted)
    } else {
        Ok(())
    }
}

async fn publish_disks(
    cx: &GuestContext,
    spec: &GuestSpec,
    specs: &mut watch::Receiver<Option<GuestSpec>>,
) -> Result<Vec<PathBuf>, LaunchError> {
    let mut changes = cx.volumes.changes();
    let mut sockets = Vec::with_capacity(spec.disks.len());
    for disk in &spec.disks {
        let published = loop {
            changes.borrow_and_update();
            match cx.volumes.publish(&disk.volume).await? {
                Some(published) => break published,
                None => await_change(&mut changes, specs).await?,
            }
        };
        sockets.push(published.socket);
    }
    Ok(sockets)
}

async fn await_network(
    cx: &GuestContext,
    spec: &GuestSpec,
    specs: &mut watch::Receiver<Option<GuestSpec>>,
) -> Result<(), LaunchError> {
    let mut applied = cx.networks.applied();
    loop {
        let ready = {
            let applied = applied.borrow_and_update();
            spec.nics.iter().all(|nic| applied.has(&nic.vpc, &nic.interface))
        };
        if ready {
            return Ok(());
        }
        await_change(&mut applied, specs).await?;
    }
}

async fn open_taps(cx: &GuestContext, spec: &GuestSpec) -> Result<Vec<OwnedFd>, LaunchError> {
    let mut taps = Vec::with_capacity(spec.nics.len());
    for nic in &spec.nics {
        taps.push(cx.networks.open_tap(&nic.vpc, &nic.interface).await?);
    }
    Ok(taps)
}

fn plan_of(
    cx: &GuestContext,
    spec: &GuestSpec,
    dir: &Path,
    sockets: &[PathBuf],
) -> Result<GuestPlan, LaunchError> {
    let firmware = match spec.firmware {
        Firmware::Bios => vmm::Firmware::Bios,
        Firmware::Uefi => {
            let ovmf = cx.ovmf.as_ref().ok_or(LaunchError::NoUefi)?;
            let vars = dir.join("vars.fd");
            ovmf.ensure_variables(&vars).map_err(LaunchError::Firmware)?;
            vmm::Firmware::Uefi {
                code: ovmf.code.clone(),
                vars,
            }
        }
    };
    let disk = |(disk, socket): (&node_spec::GuestDisk, &PathBuf)| Disk {
        id: disk.volume.to_string(),
        nbd_socket: socket.clone(),
        nbd_export: String::new(),
        serial: disk.volume.as_str().replace('-', ""),
        slot: PciSlot(disk.slot),
        boot_index: disk.boot.then_some(1),
        read_only: false,
    };
    let nic = |(index, nic): (usize, &node_spec::GuestNic)| Nic {
        id: nic.interface.to_string(),
        tap_fd_index: index,
        mac: nic.mac.clone(),
        slot: PciSlot(nic.slot),
        mtu: Some(cx.mtu),
    };
    let uuid = machine_uuid(&spec.instance);
    Ok(GuestPlan {
        id: spec.instance.to_string(),
        machine: Machine::Q35,
        cpus: CpuTopology::flat(spec.vcpus),
        memory_mib: u32::try_from(spec.memory_mib).unwrap_or(u32::MAX),
        firmware,
        smbios: Smbios {
            vendor: "Amazon EC2".into(),
            product: spec.instance_type.clone(),
            serial: uuid.clone(),
            board_asset_tag: spec.instance.to_string(),
            chassis_asset_tag: "Amazon EC2".into(),
        },
        uuid,
        disks: spec.disks.iter().zip(sockets).map(disk).collect(),
        nics: spec.nics.iter().enumerate().map(nic).collect(),
        pci_slots: limits::PCI_SLOTS,
        files: cx.dirs.files(&spec.instance),
    })
}

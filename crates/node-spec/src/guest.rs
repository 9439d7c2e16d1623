//! What a node must do with one guest, and what it saw.
//!
//! The compute planner writes a [`GuestSpec`]; the owner task of that guest on the node writes the
//! [`GuestObservation`]. The spec's `generation` rises with every change; an observation names the generation it
//! has made true, so that the control plane never mistakes an old fact for the answer to a new wish.

use crate::process::ProcessIdentity;
use aws_types::AccountId;
use aws_types::ids::{InstanceId, NetworkInterfaceId, NodeId, VolumeId, VpcId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// What should be true of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunIntent {
    /// Its CPUs run. A guest that powers itself off stays off until the control plane has decided.
    Run,
    /// No process; disks unpublished, kept. The guest is asked to power off and killed after its grace.
    Stop,
    /// As `Stop`, without asking the guest.
    ForceStop,
    /// As `ForceStop`, and nothing of the guest stays on the node. The observation `Gone` acknowledges it.
    Gone,
}

/// Boot firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Firmware {
    /// SeaBIOS (`legacy-bios`).
    Bios,
    /// OVMF with variables of the guest's own (`uefi`).
    Uefi,
}

/// A disk of the guest, published by the node's export of that volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestDisk {
    /// The volume.
    pub volume: VolumeId,
    /// PCI slot, kept for the attachment's life.
    pub slot: u8,
    /// The disk firmware boots from.
    pub boot: bool,
}

/// A network interface of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNic {
    /// The interface; its addresses and groups are in the network's spec.
    pub interface: NetworkInterfaceId,
    /// The network it belongs to.
    pub vpc: VpcId,
    /// `02:xx:xx:xx:xx:xx`.
    pub mac: String,
    /// PCI slot.
    pub slot: u8,
}

/// The whole device plan and intent of one guest on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSpec {
    /// The node this is for.
    pub node: NodeId,
    /// The guest.
    pub instance: InstanceId,
    /// Owner; names the encryption domain and appears in logs.
    pub account: AccountId,
    /// Rises with every change of this record.
    pub generation: u64,
    /// What should be true.
    pub run: RunIntent,
    /// A process is started once for each rise while `run` is `Run`. A guest that ended by itself therefore stays off
    /// until the control plane raises this, whatever else changes in the spec.
    pub start_generation: u64,
    /// The guest is rebooted once for each rise.
    pub reboot_generation: u64,
    /// Type name, shown to the guest as the machine's product name.
    pub instance_type: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Boot firmware.
    pub firmware: Firmware,
    /// Disks, the boot disk first.
    pub disks: Vec<GuestDisk>,
    /// Interfaces by device index.
    pub nics: Vec<GuestNic>,
}

/// Why a guest's process ended, or its CPUs stopped for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ExitCause {
    /// The guest powered itself off.
    GuestPowerOff,
    /// A disk answered an error.
    DiskError {
        /// The volume behind the disk.
        volume: VolumeId,
    },
    /// The process died of a signal.
    Signal {
        /// Signal number.
        signal: i32,
    },
    /// The process exited by itself.
    ExitCode {
        /// Exit code.
        code: i32,
    },
    /// Ended because the spec said so.
    Intent,
    /// The process is gone and nobody saw why (it died while the agent was away, or with the boot).
    Unknown,
}

/// The guest as the node last saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum GuestState {
    /// Disks, network and process are being made.
    Preparing,
    /// CPUs run.
    Running,
    /// Asked to power off, or being killed.
    Stopping,
    /// No process. `cause` says how it ended.
    Stopped {
        /// How the last process ended.
        cause: ExitCause,
    },
    /// The spec could not be made true, definitely; nothing of the guest runs.
    Failed {
        /// Class of the failure, for the state reason.
        failure: GuestFailure,
        /// Text for operators; never shown to tenants.
        message: String,
    },
    /// Nothing of the guest is left on this node.
    Gone,
}

/// Why a guest could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestFailure {
    /// A volume could not be made or published.
    Volume,
    /// The network did not apply.
    Network,
    /// The hypervisor refused or died before the guest's first instruction.
    Hypervisor,
    /// The host lacks something: memory, disk space, a program.
    Host,
}

/// What the node saw of one guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestObservation {
    /// The node that writes this.
    pub node: NodeId,
    /// The guest.
    pub instance: InstanceId,
    /// The newest spec generation that is true.
    pub applied_generation: u64,
    /// The newest start that led to a process, or definitely failed.
    pub applied_start_generation: u64,
    /// The newest reboot that was done.
    pub applied_reboot_generation: u64,
    /// The guest's state.
    pub state: GuestState,
    /// The hypervisor process, while there is one.
    pub process: Option<ProcessIdentity>,
    /// When `state` was entered.
    pub since: OffsetDateTime,
    /// Starts of a process since the record exists.
    pub starts: u64,
    /// When the guest's kernel last panicked in the current process. It is not stopped for that: kdump and `panic=` work.
    pub panicked_at: Option<OffsetDateTime>,
}

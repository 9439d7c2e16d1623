//! Guests of this node: one owner task each, which alone touches the guest's process, exports and files.
//!
//! | File | What |
//! |---|---|
//! | `machine` | what to do next: pure |
//! | `owner` | the task: does the step, waits for what happens, reports |
//! | `launch` | the steps from a spec to running CPUs |
//! | `adopt` | what became of a guest while no agent ran |
//! | `record` | what the node itself remembers, durable before each irreversible step |

pub mod machine;
pub mod record;

mod adopt;
mod launch;
mod owner;

pub(crate) use owner::{Owner, OwnerStatus};

use crate::networks::NetworkKeeper;
use crate::volumes::VolumeKeeper;
use aws_types::ids::{InstanceId, NodeId};
use record::GuestDirs;
use sha2::{Digest, Sha256};
use state::Store;
use std::sync::Arc;
use vmm::{Accelerator, Hypervisor, Ovmf};

/// What all owners share.
pub(crate) struct GuestContext {
    pub(crate) node: NodeId,
    pub(crate) store: Store,
    pub(crate) volumes: Arc<VolumeKeeper>,
    pub(crate) networks: Arc<NetworkKeeper>,
    pub(crate) hypervisor: Hypervisor,
    pub(crate) accelerator: Accelerator,
    /// Firmware for UEFI guests, if it is installed.
    pub(crate) ovmf: Option<Ovmf>,
    pub(crate) dirs: GuestDirs,
    /// MTU told to guests.
    pub(crate) mtu: u16,
}

impl GuestContext {
    /// A time limit for what a guest does, longer where it is emulated.
    pub(crate) fn guest_time(&self, limit: std::time::Duration) -> std::time::Duration {
        match self.accelerator {
            Accelerator::Kvm => limit,
            Accelerator::Tcg => limit * crate::limits::EMULATION_FACTOR,
        }
    }
}

/// The machine UUID of an instance: `ec2` and a digest of its id, as EC2's begin with `ec2` and cloud-init looks for that.
pub fn machine_uuid(instance: &InstanceId) -> String {
    let hex = hex::encode(Sha256::digest(instance.as_str()));
    format!(
        "ec2{}-{}-{}-{}-{}",
        &hex[..5],
        &hex[5..9],
        &hex[9..13],
        &hex[13..17],
        &hex[17..29]
    )
}

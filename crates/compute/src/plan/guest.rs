//! The guest's spec and metadata from the instance and what hangs on it.

use crate::instance_types;
use crate::records::{Attachment, BootMode, Instance, InstanceBoot, Phase};
use aws_types::Tags;
use aws_types::ids::{NetworkInterfaceId, VpcId};
use node_spec::{
    GuestDisk, GuestMetadata, GuestNic, GuestSpec, MetadataInterface, MetadataOptions, RunIntent,
};
use std::net::Ipv4Addr;

/// An interface of the instance, as `network` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// What the metadata service shows of it; the guest's NIC is made from the same facts.
    pub facts: MetadataInterface,
}

impl Nic {
    fn guest_nic(&self, slot: u8) -> GuestNic {
        GuestNic {
            interface: self.facts.interface.clone(),
            vpc: self.facts.vpc.clone(),
            mac: self.facts.mac.clone(),
            slot,
        }
    }

    /// The interface.
    pub fn interface(&self) -> &NetworkInterfaceId {
        &self.facts.interface
    }

    /// The network it belongs to.
    pub fn vpc(&self) -> &VpcId {
        &self.facts.vpc
    }

    /// Its private address.
    pub fn address(&self) -> Ipv4Addr {
        self.facts.address
    }
}

/// Where the instance is, in words the guest may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Region.
    pub region: String,
    /// Id of the instance's zone.
    pub zone_id: String,
}

/// The specs of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedInstance {
    /// Devices and intent.
    pub guest: GuestSpec,
    /// What the metadata service answers.
    pub metadata: GuestMetadata,
}

/// What the node should make true in this phase.
pub fn run_intent(phase: Phase, stop_force: bool) -> RunIntent {
    match phase {
        Phase::Placed | Phase::Building | Phase::Starting | Phase::Running | Phase::Recovering => {
            RunIntent::Run
        }
        Phase::Stopping | Phase::Stopped | Phase::Failed if stop_force => RunIntent::ForceStop,
        Phase::Stopping | Phase::Stopped | Phase::Failed => RunIntent::Stop,
        Phase::ShuttingDown | Phase::Terminated => RunIntent::Gone,
    }
}

/// Everything the node needs to know of an instance. `attachments` and `nics` are all that it has; `previous` is the
/// spec that is stored.
pub fn plan_instance(
    instance: &Instance,
    boot: &InstanceBoot,
    attachments: &[Attachment],
    nics: &[Nic],
    tags: &Tags,
    placement: &Placement,
    previous: Option<&GuestSpec>,
) -> PlannedInstance {
    let guest = plan_guest(instance, attachments, nics, previous);
    let metadata = plan_metadata(instance, boot, nics, tags, placement);
    PlannedInstance { guest, metadata }
}

fn plan_guest(
    instance: &Instance,
    attachments: &[Attachment],
    nics: &[Nic],
    previous: Option<&GuestSpec>,
) -> GuestSpec {
    let slot_of = |id: &str| instance.slots.get(id).copied();
    let mut disks: Vec<GuestDisk> = attachments
        .iter()
        .filter_map(|attachment| {
            Some(GuestDisk {
                volume: attachment.volume.clone(),
                slot: slot_of(attachment.volume.as_str())?,
                boot: attachment.device_name == instance.image.root_device_name,
            })
        })
        .collect();
    disks.sort_by_key(|disk| (!disk.boot, disk.slot));
    let mut ordered: Vec<&Nic> = nics.iter().collect();
    ordered.sort_by_key(|nic| nic.facts.device_index);
    let nics = ordered
        .iter()
        .filter_map(|nic| Some(nic.guest_nic(slot_of(nic.interface().as_str())?)))
        .collect();
    let memory_mib = instance_types::find(&instance.instance_type).map_or(0, |kind| kind.memory_mib);
    let spec = GuestSpec {
        node: instance.node.clone(),
        instance: instance.id.clone(),
        account: instance.account,
        instance_type: instance.instance_type.clone(),
        generation: previous.map_or(1, |previous| previous.generation),
        run: run_intent(instance.lifecycle.phase, instance.lifecycle.stop_force),
        start_generation: instance.start_generation,
        reboot_generation: instance.reboot_generation,
        vcpus: instance.vcpus(),
        memory_mib,
        firmware: BootMode::firmware(instance.image.boot_mode),
        disks,
        nics,
    };
    match previous {
        Some(previous) if *previous != spec => GuestSpec {
            generation: previous.generation + 1,
            ..spec
        },
        _ => spec,
    }
}

fn plan_metadata(
    instance: &Instance,
    boot: &InstanceBoot,
    nics: &[Nic],
    tags: &Tags,
    placement: &Placement,
) -> GuestMetadata {
    let mut interfaces: Vec<MetadataInterface> = nics.iter().map(|nic| nic.facts.clone()).collect();
    interfaces.sort_by_key(|interface| interface.device_index);
    let name = instance.key_name.clone();
    GuestMetadata {
        node: instance.node.clone(),
        instance: instance.id.clone(),
        account: instance.account,
        image: instance.image.image.clone(),
        instance_type: instance.instance_type.clone(),
        reservation: instance.reservation.clone(),
        launch_index: instance.launch_index,
        pending_time: instance.launched_at,
        region: placement.region.clone(),
        zone: instance.zone.to_string(),
        zone_id: placement.zone_id.clone(),
        architecture: instance.image.architecture.clone(),
        public_keys: name.zip(boot.public_key.clone()).into_iter().collect(),
        user_data: boot.user_data.clone(),
        tags: tags
            .iter()
            .filter(|(key, _)| !key.starts_with("aws:"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        options: MetadataOptions {
            endpoint_enabled: instance.metadata.endpoint_enabled,
            tokens_required: instance.metadata.tokens_required,
            hop_limit: instance.metadata.hop_limit,
            tags_enabled: instance.metadata.tags_enabled,
        },
        interfaces,
    }
}

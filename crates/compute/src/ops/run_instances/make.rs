//! Making the instances of a resolved launch inside a transaction.
//!
//! One function for both sizes of launch: [`make_instances`] writes the rows of a range of launch indexes. [`begin`]
//! stores a launch that is too large for one transaction together with the room for all of it; [`advance`] makes the next
//! part, moving room from the launch to its instances, so that the node's usage stays equal to the sum of its holds.

use crate::capacity::{cost_of, set_hold};
use crate::error::ComputeError;
use crate::instance_types;
use crate::limits;
use crate::ops::{INSTANCE, VOLUME};
use crate::plan::assign_slot;
use crate::records::{
    Attachment, CapacityHold, Event, Instance, InstanceBoot, Launch, Lifecycle, Room, Volume, VolumeState,
    account_scope,
};
use aws_types::ids::{InstanceId, NodeId, VolumeId};
use aws_types::{AwsError, Tags, catalogue};
use network::capability::interfaces::{
    AttachmentSpec, InterfaceSpec, create_interface, operations_per_interface,
};
use network::capability::tags;
use node_spec::NodeRecord;
use state::{Scope, Tx};
use std::collections::BTreeMap;
use std::ops::Range;
use time::OffsetDateTime;

/// Operations of a transaction that do not depend on how many instances it makes.
const OPERATIONS_FIXED: usize = 64;
/// Operations of an instance without volumes, interfaces and tags: row, index entry, boot row, hold.
const OPERATIONS_PER_INSTANCE: usize = 4;
/// Operations of a volume with its attachment, without tags.
const OPERATIONS_PER_VOLUME: usize = 6;
/// Operations of a tag.
const OPERATIONS_PER_TAG: usize = 3;
/// Bytes of a transaction's bound that rows of instances may take, and those of one instance without user data.
const BYTES_MAX: usize = 768 * 1024;
const BYTES_PER_INSTANCE: usize = 8 * 1024;

fn tags_of<'a>(launch: &'a Launch, resource_type: &str, none: &'a Tags) -> &'a Tags {
    launch.tags.get(resource_type).unwrap_or(none)
}

/// How many instances of a launch fit one transaction of the store; at least one.
pub(super) fn batch_size(launch: &Launch) -> usize {
    let count = |resource_type: &str| launch.tags.get(resource_type).map_or(0, BTreeMap::len);
    let interfaces: usize = launch
        .interfaces
        .iter()
        .map(|one| operations_per_interface(one.groups.len(), count(tags::NETWORK_INTERFACE), one.public))
        .sum();
    let volumes = launch.volumes.len() * (OPERATIONS_PER_VOLUME + OPERATIONS_PER_TAG * count(VOLUME));
    let each = OPERATIONS_PER_INSTANCE + OPERATIONS_PER_TAG * count(INSTANCE) + volumes + interfaces;
    let by_operations = limits::OPS_PER_TRANSACTION_MAX.saturating_sub(OPERATIONS_FIXED) / each;
    let by_bytes = BYTES_MAX / (BYTES_PER_INSTANCE + launch.user_data.as_ref().map_or(0, String::len));
    by_operations.min(by_bytes).max(1)
}

/// What each instance of a launch holds of `node`.
async fn room_of(tx: &Tx, launch: &Launch, node: &NodeId) -> Result<Room, ComputeError> {
    let record = tx.fetch::<NodeRecord>(&Scope::NONE, node).await?;
    let kind = instance_types::find(&launch.instance_type).ok_or_else(AwsError::internal)?;
    let vcpus = launch.core_count * launch.threads_per_core;
    Ok(cost_of(kind, vcpus, launch.volumes.len(), record.accelerator))
}

/// How many of a range of a launch's instances are on each node.
fn per_node(launch: &Launch, range: Range<usize>) -> BTreeMap<&NodeId, u64> {
    let mut nodes = BTreeMap::new();
    for (_, node) in &launch.instances[range] {
        *nodes.entry(node).or_insert(0) += 1;
    }
    nodes
}

/// Holds the room for a whole launch and stores it. Room was judged in `tx`.
pub(super) async fn begin(tx: &Tx, launch: &Launch) -> Result<(), ComputeError> {
    for (node, count) in per_node(launch, 0..launch.instances.len()) {
        let room = room_of(tx, launch, node).await?.times(count);
        set_hold(tx, launch.account, node, launch.reservation.as_str(), room).await?;
    }
    tx.insert(launch)?;
    Ok(())
}

/// Makes the next part of a stored launch. True if there is more to do.
///
/// # Errors
/// What making an instance refuses, such as a subnet without free addresses; see [`abandon`].
pub(crate) async fn advance(tx: &Tx, launch: &Launch) -> Result<bool, ComputeError> {
    let scope = account_scope(launch.account);
    let Some(mut launch) = tx.find::<Launch>(&scope, &launch.reservation).await? else {
        return Ok(false);
    };
    let end = (launch.made + batch_size(&launch)).min(launch.instances.len());
    for (node, count) in per_node(&launch, launch.made..end) {
        let room = room_of(tx, &launch, node).await?;
        let held = tx
            .find::<CapacityHold>(&Scope::node(node), launch.reservation.as_str())
            .await?;
        let left = held
            .map_or(Room::default(), |hold| hold.room)
            .saturating_sub(room.times(count));
        set_hold(tx, launch.account, node, launch.reservation.as_str(), left).await?;
    }
    make_instances(tx, &launch, launch.made..end).await?;
    launch.made = end;
    if end == launch.instances.len() {
        tx.delete::<Launch>(&scope, &launch.reservation)?;
        return Ok(false);
    }
    tx.put(&launch)?;
    Ok(true)
}

/// Gives up a stored launch that was refused half-way: its room is free again, what it made is terminated.
pub(crate) async fn abandon(tx: &Tx, launch: &Launch, now: OffsetDateTime) -> Result<(), ComputeError> {
    let scope = account_scope(launch.account);
    let Some(launch) = tx.find::<Launch>(&scope, &launch.reservation).await? else {
        return Ok(());
    };
    for node in per_node(&launch, 0..launch.instances.len()).into_keys() {
        set_hold(
            tx,
            launch.account,
            node,
            launch.reservation.as_str(),
            Room::default(),
        )
        .await?;
    }
    for (id, _) in &launch.instances[..launch.made] {
        if let Some(mut instance) = tx.find::<Instance>(&scope, id).await? {
            instance.lifecycle.step(Event::TerminateRequested, now);
            tx.put(&instance)?;
        }
    }
    tx.delete::<Launch>(&scope, &launch.reservation)?;
    Ok(())
}

/// Writes everything of the instances with these launch indexes, their holds included.
pub(super) async fn make_instances(
    tx: &Tx,
    launch: &Launch,
    range: Range<usize>,
) -> Result<(), ComputeError> {
    for index in range {
        let (id, node) = &launch.instances[index];
        let room = room_of(tx, launch, node).await?;
        set_hold(tx, launch.account, node, id.as_str(), room).await?;
        make_instance(tx, launch, index, id, node).await?;
    }
    Ok(())
}

async fn make_instance(
    tx: &Tx,
    launch: &Launch,
    index: usize,
    id: &InstanceId,
    node: &NodeId,
) -> Result<(), ComputeError> {
    let none = Tags::new();
    let mut slots = BTreeMap::new();
    let full = || catalogue::ATTACHMENT_LIMIT_EXCEEDED.error("The instance has no free device slot.");
    for volume in &launch.volumes {
        let volume_id = VolumeId::random();
        assign_slot(&mut slots, volume_id.as_str()).map_err(|_| full())?;
        tx.insert(&Volume {
            account: launch.account,
            id: volume_id.clone(),
            size_gib: volume.size_gib,
            volume_type: volume.volume_type.clone(),
            iops: volume.iops,
            throughput: volume.throughput,
            snapshot: volume.snapshot.clone(),
            zone: launch.zone.clone(),
            node: node.clone(),
            state: VolumeState::Creating,
            created_at: launch.launched_at,
        })?;
        tx.insert(&Attachment {
            account: launch.account,
            instance: id.clone(),
            volume: volume_id.clone(),
            device_name: volume.device_name.clone(),
            delete_on_termination: volume.delete_on_termination,
            attached_at: launch.launched_at,
        })?;
        tags::put(
            tx,
            launch.account,
            VOLUME,
            volume_id.as_str(),
            tags_of(launch, VOLUME, &none),
        )
        .await?;
    }
    for interface in &launch.interfaces {
        let made = create_interface(
            tx,
            InterfaceSpec {
                account: launch.account,
                subnet: interface.subnet.clone(),
                groups: interface.groups.clone(),
                description: interface.description.clone(),
                address: interface.address,
                public: interface.public,
                attachment: Some(AttachmentSpec {
                    instance: id.clone(),
                    instance_account: launch.account,
                    device_index: interface.device_index,
                    delete_on_termination: interface.delete_on_termination,
                    metadata_hop_limit: launch.metadata.hop_limit,
                }),
                home: Some(node.clone()),
                requester: None,
                tags: tags_of(launch, tags::NETWORK_INTERFACE, &none).clone(),
                now: launch.launched_at,
            },
        )
        .await?;
        assign_slot(&mut slots, made.id.as_str()).map_err(|_| full())?;
    }
    tags::put(
        tx,
        launch.account,
        INSTANCE,
        id.as_str(),
        tags_of(launch, INSTANCE, &none),
    )
    .await?;
    let (key_name, public_key) = launch.key.clone().unzip();
    tx.insert(&InstanceBoot {
        account: launch.account,
        instance: id.clone(),
        user_data: launch.user_data.clone(),
        public_key,
    })?;
    tx.insert(&Instance {
        account: launch.account,
        id: id.clone(),
        reservation: launch.reservation.clone(),
        launch_index: u32::try_from(index).unwrap_or(u32::MAX),
        client_token: launch.client_token.clone(),
        lifecycle: Lifecycle::launched(launch.launched_at),
        launched_at: launch.launched_at,
        instance_type: launch.instance_type.clone(),
        image: launch.image.clone(),
        key_name,
        zone: launch.zone.clone(),
        node: node.clone(),
        core_count: launch.core_count,
        threads_per_core: launch.threads_per_core,
        credits: launch.credits,
        metadata: launch.metadata.clone(),
        protection: launch.protection,
        shutdown_behaviour: launch.shutdown_behaviour,
        auto_recovery: launch.auto_recovery,
        monitoring: launch.monitoring,
        ebs_optimized: launch.ebs_optimized,
        slots,
        start_generation: 1,
        reboot_generation: 0,
        losses: Vec::new(),
    })?;
    Ok(())
}

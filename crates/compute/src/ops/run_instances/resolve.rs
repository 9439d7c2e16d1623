//! From a well-formed request to a launch: image, key, network, and nodes with room, all read in the transaction (R12–R16).

use super::devices::{Device, lay_over};
use super::request::{LaunchRequest, ZoneWish};
use crate::capacity::{NodeView, choose, cost_of, fetch_usage};
use crate::context::zones_of;
use crate::error::{ComputeError, combination};
use crate::limits;
use crate::ops::{images, key_pairs};
use crate::records::{Image, ImageFacts, KeyPair, Launch, LaunchInterface, LaunchVolume, Snapshot};
use aws_types::ids::{InstanceId, NodeId, ReservationId, SnapshotId, random_hex17};
use aws_types::{AccountId, AvailabilityZone, AwsError, catalogue};
use aws_wire::call::Call;
use network::capability::launch::{LaunchNetwork, resolve_launch_network};
use network::capability::names::zone_id;
use node_spec::NodeRecord;
use state::{Scope, Tx};
use std::collections::BTreeSet;

/// Hex digits that the ids of a launch share, so that its instances are neighbours in the table.
const SHARED_DIGITS: usize = 10;

/// Resolves a launch and chooses its nodes. Nothing is written.
pub(super) async fn resolve(tx: &Tx, call: &Call, request: &LaunchRequest) -> Result<Launch, ComputeError> {
    let account = call.account();
    let image = usable_image(tx, account, request).await?;
    let key = match &request.key_name {
        None => None,
        Some(name) => {
            let account = account.to_string();
            let found = tx.find_unique::<KeyPair>("name", &[&account, name]).await?;
            let pair = found.ok_or_else(|| key_pairs::absent(name))?;
            Some((pair.name, pair.public_key))
        }
    };
    let nodes = tx.list::<NodeRecord>(&Scope::NONE).await?;
    let zones = zones_of(&nodes);
    let networks = resolve_networks(tx, account, &zones, request).await?;
    let zone = networks
        .first()
        .map(|network| network.subnet.zone.clone())
        .ok_or_else(AwsError::internal)?;
    let (devices, holders) = resolve_devices(tx, account, &image, request).await?;
    let interfaces = request
        .interfaces
        .iter()
        .zip(&networks)
        .map(|(wish, network)| LaunchInterface {
            device_index: wish.device_index,
            subnet: network.subnet.id.clone(),
            groups: network.group_ids(),
            public: wish
                .public
                .unwrap_or_else(|| request.interfaces.len() == 1 && network.public_by_default()),
            address: wish.address,
            description: wish.description.clone(),
            delete_on_termination: wish.delete_on_termination,
        })
        .collect();
    let reservation = ReservationId::random();
    let chosen = choose_nodes(tx, request, nodes, &zone, &holders, devices.len(), &reservation).await?;
    Ok(Launch {
        account,
        reservation,
        client_token: request.client_token.clone(),
        instances: neighbours(chosen),
        made: 0,
        launched_at: call.now.replace_nanosecond(0).unwrap_or(call.now),
        instance_type: request.kind.name.to_owned(),
        image: ImageFacts {
            image: image.id,
            architecture: image.architecture,
            boot_mode: image.boot_mode,
            root_device_name: image.root_device_name,
        },
        key,
        user_data: request.user_data.clone(),
        zone,
        volumes: devices.into_iter().map(launch_volume).collect(),
        interfaces,
        tags: request.tags.clone(),
        core_count: request.core_count,
        threads_per_core: request.threads_per_core,
        credits: request.credits,
        metadata: request.metadata.clone(),
        protection: request.protection,
        shutdown_behaviour: request.shutdown_behaviour,
        auto_recovery: request.auto_recovery,
        monitoring: request.monitoring,
        ebs_optimized: request.ebs_optimized,
    })
}

fn launch_volume(device: Device) -> LaunchVolume {
    LaunchVolume {
        device_name: device.name,
        size_gib: device.size_gib,
        snapshot: device.snapshot,
        volume_type: device.volume_type,
        delete_on_termination: device.delete_on_termination,
        iops: device.iops,
        throughput: device.throughput,
    }
}

async fn usable_image(tx: &Tx, account: AccountId, request: &LaunchRequest) -> Result<Image, ComputeError> {
    let found = tx.find_unique::<Image>("id", &[request.image.as_str()]).await?;
    let image = match found {
        Some(image) if image.is_visible_to(account) => image,
        Some(image) if image.account == account => {
            return Err(catalogue::INVALID_AMI_ID_UNAVAILABLE
                .error(format!("The image ID '{}' is no longer available", image.id))
                .into());
        }
        _ => return Err(images::absent(&[request.image.to_string()]).into()),
    };
    if image.architecture != request.kind.architecture {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error(format!(
                "The architecture '{}' of the specified instance type does not match the architecture '{}' of the \
                 specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
                request.kind.architecture, image.architecture
            ))
            .into());
    }
    Ok(image)
}

/// The network of each interface, all in one zone and one VPC.
pub(super) async fn resolve_networks(
    tx: &Tx,
    account: AccountId,
    zones: &[AvailabilityZone],
    request: &LaunchRequest,
) -> Result<Vec<LaunchNetwork>, ComputeError> {
    let zone = match &request.zone {
        ZoneWish::Any => None,
        ZoneWish::Name(name) => Some(name.clone()),
        ZoneWish::Id(id) => {
            let zone = zones.iter().find(|zone| zone_id(zone) == *id);
            let unknown =
                || catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid availability zone-id: [{id}]"));
            Some(zone.ok_or_else(unknown)?.to_string())
        }
    };
    let mut networks: Vec<LaunchNetwork> = Vec::with_capacity(request.interfaces.len());
    for wish in &request.interfaces {
        let mut wanted = wish.network.clone();
        wanted.zone.clone_from(&zone);
        let network = resolve_launch_network(tx, account, zones, &wanted).await?;
        if let Some(first) = networks.first()
            && (first.subnet.zone != network.subnet.zone || first.vpc.id != network.vpc.id)
        {
            return Err(combination(
                "All network interfaces of an instance must be in one Availability Zone and VPC",
            )
            .into());
        }
        networks.push(network);
    }
    Ok(networks)
}

/// The volumes of each instance, and the nodes that hold the snapshots behind them.
async fn resolve_devices(
    tx: &Tx,
    account: AccountId,
    image: &Image,
    request: &LaunchRequest,
) -> Result<(Vec<Device>, BTreeSet<NodeId>), ComputeError> {
    let mut devices = lay_over(image, &request.devices)?;
    let of_image: BTreeSet<&SnapshotId> = image
        .devices
        .iter()
        .filter_map(|own| own.snapshot.as_ref())
        .collect();
    let mut holders = BTreeSet::new();
    for device in &mut devices {
        let Some(id) = device.snapshot.clone() else {
            continue;
        };
        let found = tx.find_unique::<Snapshot>("id", &[id.as_str()]).await?;
        // Who may launch an image may read its snapshots; others must be the caller's.
        let usable = found.filter(|snapshot| snapshot.account == account || of_image.contains(&id));
        let snapshot = usable.ok_or_else(|| {
            catalogue::INVALID_SNAPSHOT_NOT_FOUND.error(format!("The snapshot '{id}' does not exist."))
        })?;
        device.fit_to_snapshot(&id, snapshot.size_gib())?;
        holders.insert(snapshot.node);
    }
    if devices.len() + request.interfaces.len() > limits::DEVICES_PER_INSTANCE_MAX {
        return Err(catalogue::ATTACHMENT_LIMIT_EXCEEDED
            .error(format!(
                "An instance can have {} volumes and interfaces",
                limits::DEVICES_PER_INSTANCE_MAX
            ))
            .into());
    }
    Ok((devices, holders))
}

async fn choose_nodes(
    tx: &Tx,
    request: &LaunchRequest,
    nodes: Vec<NodeRecord>,
    zone: &AvailabilityZone,
    holders: &BTreeSet<NodeId>,
    volumes: usize,
    reservation: &ReservationId,
) -> Result<Vec<NodeId>, ComputeError> {
    let in_zone = |node: &NodeRecord| node.zone == zone.as_str() && request.kind.is_offered_by(node);
    let offering: Vec<NodeRecord> = nodes.into_iter().filter(in_zone).collect();
    if offering.is_empty() {
        return Err(catalogue::UNSUPPORTED
            .error(format!(
                "Your requested instance type ({}) is not supported in your requested Availability Zone ({zone}).",
                request.kind.name
            ))
            .into());
    }
    // Segments of a pool are on one node, so a volume is made where its snapshot is.
    let reachable = |node: &NodeRecord| holders.iter().all(|holder| *holder == node.id);
    let mut views = Vec::new();
    for node in offering.into_iter().filter(reachable) {
        let held = fetch_usage(tx, &node.id).await?.held;
        views.push(NodeView { node, held });
    }
    let vcpus = request.core_count * request.threads_per_core;
    let wanted = request.count_max.min(limits::INSTANCES_PER_LAUNCH_MAX);
    let cost = |node: &NodeRecord| cost_of(request.kind, vcpus, volumes, node.accelerator);
    let chosen = choose(
        views,
        usize::try_from(wanted).unwrap_or(usize::MAX),
        reservation,
        cost,
    );
    if chosen.len() < usize::try_from(request.count_min).unwrap_or(usize::MAX) {
        return Err(insufficient_capacity(request.kind.name, zone).into());
    }
    Ok(chosen)
}

/// `InsufficientInstanceCapacity`: the plan found no room (R26).
pub(in crate::ops) fn insufficient_capacity(type_name: &str, zone: &AvailabilityZone) -> AwsError {
    catalogue::INSUFFICIENT_INSTANCE_CAPACITY.error(format!(
        "We currently do not have sufficient {type_name} capacity in the Availability Zone you requested ({zone}). \
         Our system will be working on provisioning additional capacity."
    ))
}

/// New ids that differ only in their last digits, one for each node.
fn neighbours(nodes: Vec<NodeId>) -> Vec<(InstanceId, NodeId)> {
    let shared = random_hex17();
    let mut taken = BTreeSet::new();
    let mut ids = Vec::with_capacity(nodes.len());
    for node in nodes {
        let id = loop {
            let text = format!(
                "{}{}{}",
                InstanceId::PREFIX,
                &shared[..SHARED_DIGITS],
                &random_hex17()[SHARED_DIGITS..]
            );
            match InstanceId::parse(&text) {
                Some(id) if taken.insert(id.clone()) => break id,
                _ => {}
            }
        };
        ids.push((id, node));
    }
    ids
}

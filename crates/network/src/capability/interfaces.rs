//! The interfaces of an instance, from launch to terminate, inside the transactions of `compute`.
//!
//! | Moment | Call | What it does |
//! |---|---|---|
//! | launch | [`create_interface`] | takes private and public address, device number; `in-use`, attachment `attaching` |
//! | guest runs | [`mark_attached`] | attachment `attached` |
//! | start | [`start_interfaces`] | home on the chosen node, new automatic public address |
//! | stopped | [`stop_interfaces`] | no home, automatic public address given back; private addresses stay |
//! | terminated | [`release_interfaces`] | delete-on-termination interfaces go, others become `available` |
//!
//! All are idempotent: a second call finds nothing to do and succeeds. A failed transaction leaves nothing behind. What
//! one interface costs a transaction is [`operations_per_interface`]; large launches size their batches by it.

use crate::addressing;
use crate::capability::tags;
use crate::error::NetworkError;
use crate::limits;
use crate::mac;
use crate::pool;
use crate::records::{
    Address, Announcement, Attachment, AttachmentStatus, Home, Interface, InterfaceStatus, NodeDevices,
    Requester, SecurityGroup, Subnet,
};
use aws_types::ids::{
    InstanceId, NetworkInterfaceAttachmentId, NetworkInterfaceId, NodeId, SecurityGroupId, SubnetId,
};
use aws_types::{AccountId, Tags};
use state::{Scope, Tx};
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// The instance a new interface belongs to from its first moment.
#[derive(Clone, Debug)]
pub struct AttachmentSpec {
    /// The instance.
    pub instance: InstanceId,
    /// Its owner.
    pub instance_account: AccountId,
    /// Device index, 0 for the primary interface.
    pub device_index: u32,
    /// The interface goes with the instance. Launches default to true.
    pub delete_on_termination: bool,
    /// `HttpPutResponseHopLimit` of the instance, 1 to 64.
    pub metadata_hop_limit: u8,
}

/// A new interface.
#[derive(Clone, Debug)]
pub struct InterfaceSpec {
    /// Owner.
    pub account: AccountId,
    /// Where it is. Must exist.
    pub subnet: SubnetId,
    /// Its groups, 1 to 5, all of the subnet's VPC ([`super::launch::resolve_groups`] checks that).
    pub groups: Vec<SecurityGroupId>,
    /// Text of the tenant, at most 255 characters.
    pub description: String,
    /// The address asked for; none lets the subnet choose.
    pub address: Option<Ipv4Addr>,
    /// Give it a public address, now and at every start.
    pub public: bool,
    /// The instance it belongs to.
    pub attachment: Option<AttachmentSpec>,
    /// The node its guest will run on. Only together with an attachment.
    pub home: Option<NodeId>,
    /// The service that makes it for itself.
    pub requester: Option<Requester>,
    /// Tags.
    pub tags: Tags,
    /// The call's clock reading.
    pub now: OffsetDateTime,
}

/// Most store operations (and compares) that creating one interface adds to a transaction. Beyond it each transaction
/// that creates interfaces has at most four more: subnet cursor, node counter, public pool, and one for each pool tried.
pub fn operations_per_interface(groups: usize, tags: usize, public: bool) -> usize {
    // Row, subnet index, instance index, MAC, address row; an entry per group; two per tag; public row and queue row.
    5 + groups + 2 * tags + if public { 2 } else { 0 }
}

/// Makes an interface: takes its address, its MAC, its device number and, if asked for, a public address.
///
/// # Errors
/// `InsufficientFreeAddressesInSubnet`; `InvalidIPAddress.InUse`, `InvalidParameterValue` for an address asked for;
/// `InsufficientAddressCapacity` when no public address is free. `NotFound` from the store if subnet or groups are gone.
pub async fn create_interface(tx: &Tx, spec: InterfaceSpec) -> Result<Interface, NetworkError> {
    let scope = Scope::account(spec.account);
    let subnet = tx.fetch::<Subnet>(&scope, &spec.subnet).await?;
    for group in &spec.groups {
        // Read so that the commit fails if the group is deleted meanwhile.
        tx.fetch::<SecurityGroup>(&scope, group).await?;
    }
    let id = NetworkInterfaceId::random();
    let address = match spec.address {
        Some(address) => addressing::take_explicit(tx, &subnet, address).await?,
        None => addressing::take_next(tx, &subnet).await?,
    };
    tx.insert(&Address {
        account: spec.account,
        vpc: subnet.vpc.clone(),
        address,
        subnet: subnet.id.clone(),
        interface: id.clone(),
        primary: true,
    })?;
    let home = match &spec.home {
        Some(node) => Some(take_home(tx, node).await?),
        None => None,
    };
    let public = if spec.public {
        Some(pool::take_automatic(tx, spec.account, &id, spec.now).await?)
    } else {
        None
    };
    let interface = Interface {
        account: spec.account,
        vpc: subnet.vpc.clone(),
        subnet: subnet.id.clone(),
        zone: subnet.zone.clone(),
        mac: mac::choose(tx, &id).await?,
        address,
        description: spec.description,
        groups: spec.groups,
        requester: spec.requester,
        source_dest_check: true,
        status: match &spec.attachment {
            Some(_) => InterfaceStatus::InUse,
            None => InterfaceStatus::Available,
        },
        attachment: spec.attachment.map(|attachment| Attachment {
            id: NetworkInterfaceAttachmentId::random(),
            instance: attachment.instance,
            instance_account: attachment.instance_account,
            device_index: attachment.device_index,
            delete_on_termination: attachment.delete_on_termination,
            status: AttachmentStatus::Attaching,
            attached_at: whole_seconds(spec.now),
            metadata_hop_limit: attachment.metadata_hop_limit.clamp(1, 64),
        }),
        public_wanted: spec.public,
        public,
        home,
        created_at: spec.now,
        id,
    };
    tx.insert(&interface)?;
    tags::put(
        tx,
        spec.account,
        tags::NETWORK_INTERFACE,
        interface.id.as_str(),
        &spec.tags,
    )
    .await?;
    Ok(interface)
}

/// The interfaces of an instance by device index, compared at commit.
///
/// # Errors
/// The store could not be read.
pub async fn find_interfaces(tx: &Tx, instance: &InstanceId) -> Result<Vec<Interface>, NetworkError> {
    let listed = tx
        .list_by_index::<Interface>("instance", &[instance.as_str()])
        .await?;
    let mut interfaces = Vec::with_capacity(listed.len());
    for row in listed {
        if let Some(interface) = tx
            .find::<Interface>(&Scope::account(row.account), &row.id)
            .await?
        {
            interfaces.push(interface);
        }
    }
    interfaces.sort_by_key(device_index);
    Ok(interfaces)
}

pub(crate) fn device_index(interface: &Interface) -> u32 {
    interface
        .attachment
        .as_ref()
        .map_or(u32::MAX, |attachment| attachment.device_index)
}

/// The guest runs with its interfaces.
///
/// # Errors
/// The store failed.
pub async fn mark_attached(tx: &Tx, instance: &InstanceId) -> Result<(), NetworkError> {
    for mut interface in find_interfaces(tx, instance).await? {
        let Some(attachment) = &mut interface.attachment else {
            continue;
        };
        if attachment.status.may_become(AttachmentStatus::Attached) {
            attachment.status = AttachmentStatus::Attached;
            tx.put(&interface)?;
        }
    }
    Ok(())
}

/// Gives the interfaces of an instance that starts a home, and those launched with an automatic public address a new
/// one. An interface that has a home there already keeps it.
///
/// # Errors
/// `InsufficientAddressCapacity`; the store failed.
pub async fn start_interfaces(
    tx: &Tx,
    instance: &InstanceId,
    node: &NodeId,
    now: OffsetDateTime,
) -> Result<Vec<Interface>, NetworkError> {
    let mut interfaces = find_interfaces(tx, instance).await?;
    for interface in &mut interfaces {
        let mut changed = false;
        if interface.home.as_ref().is_none_or(|home| home.node != *node) {
            interface.home = Some(take_home(tx, node).await?);
            changed = true;
        }
        if interface.public_wanted && interface.public.is_none() {
            interface.public = Some(pool::take_automatic(tx, interface.account, &interface.id, now).await?);
            changed = true;
        }
        if changed {
            tx.put(interface)?;
        }
    }
    Ok(interfaces)
}

/// Takes the home from the interfaces of an instance that is stopped, and gives automatic public addresses back. Call
/// it when nothing of the guest runs any more.
///
/// # Errors
/// The store failed.
pub async fn stop_interfaces(
    tx: &Tx,
    instance: &InstanceId,
    now: OffsetDateTime,
) -> Result<(), NetworkError> {
    for mut interface in find_interfaces(tx, instance).await? {
        let released = release_public(tx, &mut interface, now).await?;
        if interface.home.take().is_some() || released {
            tx.put(&interface)?;
        }
    }
    Ok(())
}

/// The end of an instance: each interface that names it is deleted, or left `available` with its addresses if it was
/// not to go with the instance. Call it when nothing of the guest runs any more.
///
/// # Errors
/// The store failed.
pub async fn release_interfaces(
    tx: &Tx,
    instance: &InstanceId,
    now: OffsetDateTime,
) -> Result<(), NetworkError> {
    for mut interface in find_interfaces(tx, instance).await? {
        let stays = interface
            .attachment
            .as_ref()
            .is_some_and(|attachment| !attachment.delete_on_termination);
        if stays {
            release_public(tx, &mut interface, now).await?;
            interface.attachment = None;
            interface.home = None;
            interface.public_wanted = false;
            interface.status = InterfaceStatus::Available;
            tx.put(&interface)?;
        } else {
            release_interface(tx, interface, now).await?;
        }
    }
    Ok(())
}

/// Deletes an interface: its row, its address, its tags; an automatic public address goes into quarantine.
///
/// # Errors
/// The store failed.
pub async fn release_interface(
    tx: &Tx,
    mut interface: Interface,
    now: OffsetDateTime,
) -> Result<(), NetworkError> {
    release_public(tx, &mut interface, now).await?;
    tags::remove_all(tx, interface.account, interface.id.as_str()).await?;
    tx.delete::<Address>(&Address::scope(&interface.vpc), Address::id_of(interface.address))?;
    tx.delete::<Interface>(&Scope::account(interface.account), &interface.id)?;
    Ok(())
}

/// Changes the hop limit of metadata answers for every interface of an instance.
///
/// # Errors
/// The store failed.
pub async fn set_metadata_hop_limit(
    tx: &Tx,
    instance: &InstanceId,
    hop_limit: u8,
) -> Result<(), NetworkError> {
    for mut interface in find_interfaces(tx, instance).await? {
        let Some(attachment) = &mut interface.attachment else {
            continue;
        };
        if attachment.metadata_hop_limit != hop_limit {
            attachment.metadata_hop_limit = hop_limit.clamp(1, 64);
            tx.put(&interface)?;
        }
    }
    Ok(())
}

/// Takes the automatic public address off an interface; true if there was one.
async fn release_public(
    tx: &Tx,
    interface: &mut Interface,
    now: OffsetDateTime,
) -> Result<bool, NetworkError> {
    let Some(mapping) = interface.public.take_if(|mapping| mapping.automatic) else {
        return Ok(false);
    };
    let announced_by = interface.home.as_ref().map(|home| Announcement {
        node: home.node.clone(),
        vpc: interface.vpc.clone(),
    });
    pool::give_back(tx, mapping.address, announced_by, now).await?;
    Ok(true)
}

/// Times that answers show and filters name are whole seconds, as AWS's are.
fn whole_seconds(time: OffsetDateTime) -> OffsetDateTime {
    time.replace_nanosecond(0).unwrap_or(time)
}

/// A place on a node: the next device number there.
async fn take_home(tx: &Tx, node: &NodeId) -> Result<Home, NetworkError> {
    let devices = tx.find::<NodeDevices>(&Scope::NONE, node).await?;
    let number = devices.map_or(1, |devices| devices.next);
    // After 2^32 interfaces on one node the numbers would repeat; that many launches do not fit a node's life.
    tx.put(&NodeDevices {
        node: node.clone(),
        next: number.wrapping_add(1).max(1),
    })?;
    Ok(Home {
        node: node.clone(),
        number,
    })
}

/// Longest description an interface may have, for callers that take it from a request.
pub const DESCRIPTION_CHARS_MAX: usize = limits::DESCRIPTION_CHARS_MAX;

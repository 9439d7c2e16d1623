//! What other rooms show of the network: interfaces by instance, group names, names, and the metadata of a guest.
//!
//! The bulk reads are for Describe answers; each is one list at one revision. [`metadata_interfaces`] reads inside a
//! transaction, so that what a guest is told is of one revision.

use crate::capability::interfaces::{device_index, find_interfaces};
use crate::capability::names;
use crate::error::{NetworkError, store_error};
use crate::records::{Interface, SecurityGroup, Subnet, Vpc};
use aws_types::ids::{InstanceId, SecurityGroupId, VpcId};
use aws_types::{AccountId, AwsError, Region};
use node_spec::MetadataInterface;
use state::{Scope, Store, Tx};
use std::collections::{BTreeMap, BTreeSet};

/// The interfaces of instances, by instance and then by device index. Instances without any are absent.
///
/// # Errors
/// `Unavailable` if the store could not be read.
pub async fn interfaces_of_instances(
    store: &Store,
    account: AccountId,
    instances: &[InstanceId],
) -> Result<BTreeMap<InstanceId, Vec<Interface>>, AwsError> {
    let values: Vec<[&str; 1]> = instances.iter().map(|instance| [instance.as_str()]).collect();
    let values: Vec<&[&str]> = values.iter().map(<[&str; 1]>::as_slice).collect();
    let lists = store
        .list_by_index_each::<Interface>("instance", &values)
        .await
        .map_err(|error| store_error(&error))?;
    let mut by_instance = BTreeMap::new();
    for (instance, mut interfaces) in instances.iter().zip(lists) {
        interfaces.retain(|interface| interface.account == account);
        interfaces.sort_by_key(device_index);
        if !interfaces.is_empty() {
            by_instance.insert(instance.clone(), interfaces);
        }
    }
    Ok(by_instance)
}

/// Names of an account's groups by id.
///
/// # Errors
/// `Unavailable` if the store could not be read.
pub async fn group_names(
    store: &Store,
    account: AccountId,
) -> Result<BTreeMap<SecurityGroupId, String>, AwsError> {
    let groups = store
        .list::<SecurityGroup>(&Scope::account(account))
        .await
        .map_err(|error| store_error(&error))?;
    Ok(groups.into_iter().map(|group| (group.id, group.name)).collect())
}

/// The account's VPCs whose interfaces have public names (attribute `enableDnsHostnames`).
///
/// # Errors
/// `Unavailable` if the store could not be read.
pub async fn vpcs_with_host_names(store: &Store, account: AccountId) -> Result<BTreeSet<VpcId>, AwsError> {
    let vpcs = store
        .list::<Vpc>(&Scope::account(account))
        .await
        .map_err(|error| store_error(&error))?;
    Ok(vpcs
        .into_iter()
        .filter(|vpc| vpc.dns_hostnames)
        .map(|vpc| vpc.id)
        .collect())
}

/// The interfaces of a guest as its metadata service shows them.
///
/// # Errors
/// The store could not be read, or a record an interface names is missing.
pub async fn metadata_interfaces(
    tx: &Tx,
    region: &Region,
    dns_suffix: &str,
    instance: &InstanceId,
) -> Result<Vec<MetadataInterface>, NetworkError> {
    let mut shown = Vec::new();
    for interface in find_interfaces(tx, instance).await? {
        let scope = Scope::account(interface.account);
        let vpc = tx.fetch::<Vpc>(&scope, &interface.vpc).await?;
        let subnet = tx.fetch::<Subnet>(&scope, &interface.subnet).await?;
        let mut group_names = Vec::with_capacity(interface.groups.len());
        for group in &interface.groups {
            group_names.push(tx.fetch::<SecurityGroup>(&scope, group).await?.name);
        }
        let public_address = interface.public.as_ref().map(|mapping| mapping.address);
        shown.push(MetadataInterface {
            device_index: device_index(&interface),
            mac: interface.mac,
            vpc_cidr: vpc
                .primary_block()
                .map(|block| block.to_string())
                .unwrap_or_default(),
            vpc: vpc.id,
            subnet_cidr: subnet.block.to_string(),
            subnet: subnet.id,
            address: interface.address,
            public_address,
            private_dns_name: names::private_dns_name(region, interface.address),
            public_dns_name: public_address
                .filter(|_| vpc.dns_hostnames)
                .map(|address| names::public_dns_name(region, address, dns_suffix)),
            group_names,
            group_ids: interface.groups.iter().map(ToString::to_string).collect(),
            interface: interface.id,
        });
    }
    Ok(shown)
}

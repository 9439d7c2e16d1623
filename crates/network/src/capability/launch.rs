//! Which subnet and which groups a launch means, and whether they may be used together.
//!
//! ```text
//! SubnetId given            that subnet
//! else a zone               the default subnet of that zone
//! else                      the default subnet with the most free addresses is not looked for: the first zone's
//! groups by id or by name   must be of the subnet's VPC; names only in the default VPC
//! no groups                 the VPC's default group
//! ```

use crate::error::{NetworkError, malformed, not_found};
use crate::limits;
use crate::pool;
use crate::records::{SecurityGroup, Subnet, Vpc};
use aws_types::ids::{SecurityGroupId, SubnetId, VpcId};
use aws_types::{AccountId, AvailabilityZone, AwsError, catalogue};
use state::{Scope, Tx};

/// What a launch says about its network.
#[derive(Clone, Debug, Default)]
pub struct LaunchNetworkRequest {
    /// `SubnetId`.
    pub subnet: Option<String>,
    /// `Placement.AvailabilityZone`.
    pub zone: Option<String>,
    /// `SecurityGroupId.N`.
    pub group_ids: Vec<String>,
    /// `SecurityGroup.N`: names.
    pub group_names: Vec<String>,
}

/// The network a launch goes to.
#[derive(Clone, Debug)]
pub struct LaunchNetwork {
    /// The VPC.
    pub vpc: Vpc,
    /// The subnet. Its zone is the instance's.
    pub subnet: Subnet,
    /// The groups, in the order given; never empty.
    pub groups: Vec<SecurityGroup>,
    /// The cloud has public addresses to give out, though perhaps none is free now.
    pub has_public_pool: bool,
}

impl LaunchNetwork {
    /// Interfaces get a public address unless the launch says otherwise. In a cloud whose operator configured no public
    /// pool none does; a pool that is empty fails the launch instead.
    pub fn public_by_default(&self) -> bool {
        self.subnet.map_public_ip_on_launch && self.has_public_pool
    }

    /// The ids of the groups.
    pub fn group_ids(&self) -> Vec<SecurityGroupId> {
        self.groups.iter().map(|group| group.id.clone()).collect()
    }
}

/// Resolves the network of a launch, in the launch's transaction. `zones` are the zones of the region, in order.
///
/// # Errors
/// `InvalidSubnetID.NotFound`, `InvalidSubnetID.Malformed`; `MissingInput` when there is no default subnet;
/// `InvalidParameterValue` for a zone that is unknown or not the subnet's; `InvalidGroup.NotFound`,
/// `InvalidGroupId.Malformed`, `InvalidParameter` for groups of another VPC, `InvalidParameterCombination` for names
/// outside of the default VPC, `SecurityGroupsPerInterfaceLimitExceeded`.
pub async fn resolve_launch_network(
    tx: &Tx,
    account: AccountId,
    zones: &[AvailabilityZone],
    request: &LaunchNetworkRequest,
) -> Result<LaunchNetwork, NetworkError> {
    let subnet = resolve_subnet(tx, account, zones, request).await?;
    let vpc = tx.fetch::<Vpc>(&Scope::account(account), &subnet.vpc).await?;
    let groups = resolve_groups(
        tx,
        account,
        &vpc,
        Some(&subnet.id),
        &request.group_ids,
        &request.group_names,
    )
    .await?;
    let has_public_pool = pool::has_pool(tx).await?;
    Ok(LaunchNetwork {
        vpc,
        subnet,
        groups,
        has_public_pool,
    })
}

async fn resolve_subnet(
    tx: &Tx,
    account: AccountId,
    zones: &[AvailabilityZone],
    request: &LaunchNetworkRequest,
) -> Result<Subnet, NetworkError> {
    let zone = match &request.zone {
        None => None,
        Some(name) => Some(
            zones
                .iter()
                .find(|zone| zone.as_str() == name)
                .ok_or_else(|| AwsError::invalid_value(name, "availabilityZone", &known_zones(zones)))?,
        ),
    };
    if let Some(id) = &request.subnet {
        let subnet = find_subnet(tx, account, id).await?;
        if zone.is_some_and(|zone| *zone != subnet.zone) {
            return Err(catalogue::INVALID_PARAMETER_VALUE
                .error(format!(
                    "The availability zone '{}' does not match the availability zone of the subnet '{id}'",
                    request.zone.as_deref().unwrap_or_default()
                ))
                .into());
        }
        return Ok(subnet);
    }
    let candidates = zone.map_or(zones, std::slice::from_ref);
    for zone in candidates {
        let value = [account.to_string(), zone.to_string()];
        if let Some(subnet) = tx
            .find_unique::<Subnet>("default", &[&value[0], &value[1]])
            .await?
        {
            return Ok(subnet);
        }
    }
    let account_text = account.to_string();
    let error = match (tx.find_unique::<Vpc>("default", &[&account_text]).await?, zone) {
        (None, _) => catalogue::VPC_ID_NOT_SPECIFIED.error("No default VPC for this user"),
        (Some(_), Some(zone)) => {
            catalogue::MISSING_INPUT.error(format!("No default subnet for availability zone: '{zone}'."))
        }
        (Some(_), None) => catalogue::MISSING_INPUT.error("No subnets found for the default VPC."),
    };
    Err(error.into())
}

fn known_zones(zones: &[AvailabilityZone]) -> String {
    let names: Vec<&str> = zones.iter().map(AvailabilityZone::as_str).collect();
    format!("It must be one of: {}.", names.join(", "))
}

/// The subnet an id names.
///
/// # Errors
/// `InvalidSubnetID.NotFound`, also for a malformed id.
pub async fn find_subnet(tx: &Tx, account: AccountId, id: &str) -> Result<Subnet, NetworkError> {
    let absent = || not_found(catalogue::INVALID_SUBNET_ID_NOT_FOUND, "subnet", &[id.to_owned()]);
    let known = SubnetId::parse(id)
        .ok_or_else(|| malformed(catalogue::INVALID_SUBNET_ID_MALFORMED, id, SubnetId::PREFIX))?;
    Ok(tx
        .find::<Subnet>(&Scope::account(account), &known)
        .await?
        .ok_or_else(absent)?)
}

/// The groups that ids and names mean in a VPC; its default group if there are none. `subnet` is only named in errors.
///
/// # Errors
/// As [`resolve_launch_network`] says of groups.
pub async fn resolve_groups(
    tx: &Tx,
    account: AccountId,
    vpc: &Vpc,
    subnet: Option<&SubnetId>,
    ids: &[String],
    names: &[String],
) -> Result<Vec<SecurityGroup>, NetworkError> {
    if !names.is_empty() && !vpc.is_default {
        return Err(catalogue::INVALID_PARAMETER_COMBINATION
            .error("The parameter groupName cannot be used with the parameter subnet")
            .into());
    }
    let mut groups: Vec<SecurityGroup> = Vec::with_capacity(ids.len() + names.len());
    for id in ids {
        let group = find_group(tx, account, id).await?;
        if group.vpc != vpc.id {
            return Err(different_networks(&group.id, subnet).into());
        }
        groups.push(group);
    }
    for name in names {
        groups.push(
            find_group_by_name(tx, &vpc.id, name)
                .await?
                .ok_or_else(|| group_name_absent(vpc, name))?,
        );
    }
    let mut distinct: Vec<SecurityGroup> = Vec::with_capacity(groups.len());
    for group in groups {
        if distinct.iter().all(|known| known.id != group.id) {
            distinct.push(group);
        }
    }
    if distinct.is_empty() {
        let default = find_group_by_name(tx, &vpc.id, "default").await?;
        distinct.push(default.ok_or_else(|| group_name_absent(vpc, "default"))?);
    }
    if distinct.len() > limits::GROUPS_PER_INTERFACE_MAX {
        return Err(catalogue::SECURITY_GROUPS_PER_INTERFACE_LIMIT_EXCEEDED
            .error(format!(
                "The maximum number of security groups per interface is {}",
                limits::GROUPS_PER_INTERFACE_MAX
            ))
            .into());
    }
    Ok(distinct)
}

/// The group an id names.
///
/// # Errors
/// `InvalidGroup.NotFound`; `InvalidGroupId.Malformed`.
pub async fn find_group(tx: &Tx, account: AccountId, id: &str) -> Result<SecurityGroup, NetworkError> {
    let known = SecurityGroupId::parse(id)
        .ok_or_else(|| malformed(catalogue::INVALID_GROUP_ID_MALFORMED, id, SecurityGroupId::PREFIX))?;
    let found = tx.find::<SecurityGroup>(&Scope::account(account), &known).await?;
    Ok(found.ok_or_else(|| group_absent(id))?)
}

/// The group of that name in a VPC, if there is one.
///
/// # Errors
/// The store could not be read.
pub async fn find_group_by_name(
    tx: &Tx,
    vpc: &VpcId,
    name: &str,
) -> Result<Option<SecurityGroup>, NetworkError> {
    let key = SecurityGroup::name_key(vpc, name);
    let value: Vec<&str> = key.value.iter().map(String::as_str).collect();
    Ok(tx.find_unique::<SecurityGroup>(key.name, &value).await?)
}

pub(crate) fn group_absent(id: &str) -> AwsError {
    catalogue::INVALID_GROUP_NOT_FOUND.error(format!("The security group '{id}' does not exist"))
}

pub(crate) fn group_name_absent(vpc: &Vpc, name: &str) -> AwsError {
    catalogue::INVALID_GROUP_NOT_FOUND.error(format!(
        "The security group '{name}' does not exist in VPC '{}'",
        vpc.id
    ))
}

fn different_networks(group: &SecurityGroupId, subnet: Option<&SubnetId>) -> AwsError {
    let with = subnet
        .map(|subnet| format!(" and subnet {subnet}"))
        .unwrap_or_default();
    catalogue::INVALID_PARAMETER.error(format!(
        "Security group {group}{with} belong to different networks."
    ))
}

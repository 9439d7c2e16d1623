//! Security groups: CreateSecurityGroup, DeleteSecurityGroup, Authorize…, Revoke…, DescribeSecurityGroups and …Rules.
//!
//! Here is what they share: which group a request means, the access to it, and how a requested peer becomes a rule's. A
//! group is named by id, or by name inside the default VPC. All changes of a group's rules write the group's row too.

pub(crate) mod authorize;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod describe_rules;
pub(crate) mod revoke;

use super::Network;
use super::shared::on_resource;
use crate::capability::launch::{find_group, find_group_by_name, group_absent};
use crate::capability::tags;
use crate::error::{NetworkError, store_error};
use crate::records::{SecurityGroup, Vpc};
use crate::rule::request::{GroupName, RequestedPeer, RequestedRule};
use crate::rule::{Rule, RulePeer};
use aws_types::ids::SecurityGroupId;
use aws_types::{AccountId, AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::AccessRequest;
use state::{Scope, Tx};

/// The group a request is about.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// By id.
    Id(String),
    /// By name in the default VPC.
    Name(String),
}

impl Target {
    /// Reads `GroupId` and `GroupName`.
    ///
    /// # Errors
    /// `MissingParameter` without either, `InvalidParameterCombination` with both.
    pub(crate) fn read(id: Option<&String>, name: Option<&String>) -> Result<Target, AwsError> {
        match (
            id.filter(|id| !id.is_empty()),
            name.filter(|name| !name.is_empty()),
        ) {
            (Some(_), Some(_)) => Err(catalogue::INVALID_PARAMETER_COMBINATION
                .error("The parameter groupName cannot be used with the parameter groupId")),
            (Some(id), None) => Ok(Target::Id(id.clone())),
            (None, Some(name)) => Ok(Target::Name(name.clone())),
            (None, None) => Err(catalogue::MISSING_PARAMETER
                .error("The request must contain the parameter groupName or groupId")),
        }
    }

    /// The group, compared at commit.
    ///
    /// # Errors
    /// `InvalidGroup.NotFound`, `InvalidGroupId.Malformed`, `VPCIdNotSpecified`.
    pub(crate) async fn fetch(&self, tx: &Tx, account: AccountId) -> Result<SecurityGroup, NetworkError> {
        match self {
            Target::Id(id) => find_group(tx, account, id).await,
            Target::Name(name) => {
                let vpc = fetch_default_vpc(tx, account).await?;
                let found = find_group_by_name(tx, &vpc.id, name).await?;
                Ok(found.ok_or_else(|| {
                    catalogue::INVALID_GROUP_NOT_FOUND.error(format!(
                        "The security group '{name}' does not exist in default VPC '{}'",
                        vpc.id
                    ))
                })?)
            }
        }
    }
}

/// The account's default VPC.
///
/// # Errors
/// `VPCIdNotSpecified` if it has none.
pub(crate) async fn fetch_default_vpc(tx: &Tx, account: AccountId) -> Result<Vpc, NetworkError> {
    let found = tx.find_unique::<Vpc>("default", &[&account.to_string()]).await?;
    Ok(found.ok_or_else(|| catalogue::VPC_ID_NOT_SPECIFIED.error("No default VPC for this user"))?)
}

/// The right to an action on the group a request means, with the group's tags and VPC. A group that does not exist is
/// an ARN of the caller's account without tags.
///
/// # Errors
/// `Unavailable`.
pub(crate) async fn on_group(
    network: &Network,
    call: &Call,
    action: &'static str,
    id: Option<&String>,
    name: Option<&String>,
) -> Result<AccessRequest, AwsError> {
    let found = match (id, name) {
        (Some(id), _) => network.find::<SecurityGroup>(call, id).await?,
        (None, Some(name)) => find_named(network, call, name).await?,
        (None, None) => None,
    };
    let Some(group) = found else {
        let id = id.map_or("*", String::as_str);
        let arn = network.arn(call.account(), tags::SECURITY_GROUP, id);
        return Ok(on_resource(action, arn, &Tags::new()));
    };
    let tags = tags::of_resource(network.store(), call.account(), group.id.as_str()).await?;
    let arn = network.arn(group.account, tags::SECURITY_GROUP, group.id.as_str());
    let vpc = network.arn(group.account, tags::VPC, group.vpc.as_str());
    Ok(on_resource(action, arn, &tags).with("ec2:Vpc", vpc.as_str()))
}

async fn find_named(network: &Network, call: &Call, name: &str) -> Result<Option<SecurityGroup>, AwsError> {
    let unreadable = |error| store_error(&error);
    let store = network.store();
    let account = call.account().to_string();
    let Some(vpc) = store
        .find_unique::<Vpc>("default", &[&account])
        .await
        .map_err(unreadable)?
    else {
        return Ok(None);
    };
    let key = SecurityGroup::name_key(&vpc.id, name);
    let value: Vec<&str> = key.value.iter().map(String::as_str).collect();
    store
        .find_unique::<SecurityGroup>(key.name, &value)
        .await
        .map_err(unreadable)
}

/// How requested peers become those of rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// To be stored: a group must exist in the same VPC, a prefix list must exist.
    Existing,
    /// To be compared with what is stored: a group's id is enough.
    Comparable,
}

/// The rules that a request means for a group.
///
/// # Errors
/// `InvalidGroup.NotFound`, `InvalidGroupId.Malformed`, `InvalidPrefixListID.NotFound`.
pub(crate) async fn resolve_rules(
    tx: &Tx,
    group: &SecurityGroup,
    requested: &[RequestedRule],
    how: Resolve,
) -> Result<Vec<Rule>, NetworkError> {
    let mut rules = Vec::with_capacity(requested.len());
    for rule in requested {
        let peer = match &rule.peer {
            RequestedPeer::Ipv4(block) => RulePeer::Ipv4 { block: *block },
            RequestedPeer::Ipv6(block) => RulePeer::Ipv6 { block: *block },
            RequestedPeer::Group(name) => resolve_peer_group(tx, group, name, how).await?,
            RequestedPeer::PrefixList(id) => {
                // No prefix list exists before the operations that make them do.
                return Err(catalogue::INVALID_PREFIX_LIST_ID_NOT_FOUND
                    .error(format!("The prefix list ID '{id}' does not exist"))
                    .into());
            }
        };
        rules.push(Rule {
            traffic: rule.traffic,
            peer,
        });
    }
    Ok(rules)
}

async fn resolve_peer_group(
    tx: &Tx,
    group: &SecurityGroup,
    name: &GroupName,
    how: Resolve,
) -> Result<RulePeer, NetworkError> {
    let account = group.account;
    let shown = name.id.as_deref().or(name.name.as_deref()).unwrap_or_default();
    if name
        .account
        .as_ref()
        .is_some_and(|other| *other != account.to_string())
    {
        // Groups of other accounts can be named only over a peering; see vpc.md R51.
        return Err(group_absent(shown).into());
    }
    if let (Resolve::Comparable, Some(id)) = (how, name.id.as_deref().and_then(SecurityGroupId::parse)) {
        return Ok(RulePeer::Group {
            group: id,
            account,
            vpc: group.vpc.clone(),
        });
    }
    let found = match (&name.id, &name.name) {
        (Some(id), _) => find_group(tx, account, id).await?,
        (None, Some(name)) => {
            let vpc = tx.fetch::<Vpc>(&Scope::account(account), &group.vpc).await?;
            if !vpc.is_default {
                return Err(catalogue::INVALID_PARAMETER_VALUE
                    .error(format!(
                        "Invalid value '{name}' for groupName. You may not reference Amazon VPC security groups by \
                         name. Please use the corresponding id for this operation."
                    ))
                    .into());
            }
            find_group_by_name(tx, &group.vpc, name)
                .await?
                .ok_or_else(|| group_absent(name))?
        }
        (None, None) => return Err(AwsError::missing_parameter("groupId").into()),
    };
    if found.vpc != group.vpc || name.vpc.as_ref().is_some_and(|vpc| *vpc != found.vpc.to_string()) {
        return Err(catalogue::INVALID_GROUP_NOT_FOUND
            .error("You have specified two resources that belong to different networks.")
            .into());
    }
    Ok(RulePeer::Group {
        group: found.id,
        account: found.account,
        vpc: found.vpc,
    })
}

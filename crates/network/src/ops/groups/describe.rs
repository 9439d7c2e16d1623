//! DescribeSecurityGroups.

use crate::capability::tags::{self, TagIndex};
use crate::error::not_found;
use crate::ops::Network;
use crate::ops::describe::{Asked, Described, PAGE_5_TO_1000, Query};
use crate::ops::shared::wire_tags;
use crate::records::{Direction, SecurityGroup, SecurityGroupRule, Vpc};
use crate::rule::{RulePeer, render};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, one};
use aws_types::ids::SecurityGroupId;
use aws_types::{AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use std::borrow::Cow;
use std::collections::BTreeMap;

const FILTERS: &[&str] = &[
    "description",
    "group-id",
    "group-name",
    "owner-id",
    "vpc-id",
    "ip-permission.cidr",
    "ip-permission.from-port",
    "ip-permission.group-id",
    "ip-permission.group-name",
    "ip-permission.ipv6-cidr",
    "ip-permission.prefix-list-id",
    "ip-permission.protocol",
    "ip-permission.to-port",
    "ip-permission.user-id",
    "egress.ip-permission.cidr",
    "egress.ip-permission.from-port",
    "egress.ip-permission.group-id",
    "egress.ip-permission.group-name",
    "egress.ip-permission.ipv6-cidr",
    "egress.ip-permission.prefix-list-id",
    "egress.ip-permission.protocol",
    "egress.ip-permission.to-port",
    "egress.ip-permission.user-id",
    "tag",
    "tag-key",
];

/// DescribeSecurityGroups.
pub(crate) struct DescribeSecurityGroups(pub Network);

/// A group with its rules in canonical order.
struct GroupRow {
    group: SecurityGroup,
    rules: Vec<SecurityGroupRule>,
}

impl GroupRow {
    fn of(&self, direction: Direction) -> impl Iterator<Item = &SecurityGroupRule> {
        self.rules.iter().filter(move |rule| rule.direction == direction)
    }
}

#[async_trait]
impl Operation for DescribeSecurityGroups {
    type Shape = operations::DescribeSecurityGroups;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeSecurityGroups"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeSecurityGroupsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeSecurityGroups").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeSecurityGroupsRequest,
    ) -> Result<ec2::DescribeSecurityGroupsResult, AwsError> {
        let network = &self.0;
        let described = Described {
            schema: operations::DescribeSecurityGroups::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: FILTERS,
            prefix: SecurityGroupId::PREFIX,
            malformed: catalogue::INVALID_GROUP_ID_MALFORMED,
            absent: groups_absent,
        };
        if !input.group_names.is_empty() && input.max_results.is_some() {
            return Err(catalogue::INVALID_PARAMETER_COMBINATION.error(
                "The parameter MaxResults cannot be used with the parameter that lists explicit names",
            ));
        }
        let asked = Asked {
            ids: &input.group_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(network, call, &described, &asked)?;
        let all = network.list::<SecurityGroup>(call).await?;
        let names: BTreeMap<SecurityGroupId, String> = all
            .iter()
            .map(|group| (group.id.clone(), group.name.clone()))
            .collect();
        let named = self.select_named(call, &all, &input.group_names).await?;
        let mut groups = query.select(all, |group| group.id.as_str())?;
        if let Some(named) = named {
            groups.retain(|group| named.contains(&group.id));
        }
        let rows = with_rules(groups, network.list::<SecurityGroupRule>(call).await?);
        let tags = network.tags(call).await?;
        let (page, next_token) = query.page(
            network,
            &rows,
            |row| row.group.id.as_str(),
            &tags,
            |row, name| values(row, name, &names),
        );
        let security_groups = page
            .into_iter()
            .map(|row| render_group(network, row, &tags))
            .collect();
        Ok(ec2::DescribeSecurityGroupsResult {
            security_groups,
            next_token,
        })
    }
}

impl DescribeSecurityGroups {
    /// The groups that `GroupName.N` means: those of the default VPC.
    async fn select_named(
        &self,
        call: &Call,
        groups: &[SecurityGroup],
        names: &[String],
    ) -> Result<Option<Vec<SecurityGroupId>>, AwsError> {
        if names.is_empty() {
            return Ok(None);
        }
        let vpcs = self.0.list::<Vpc>(call).await?;
        let default = vpcs.iter().find(|vpc| vpc.is_default);
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let group = groups
                .iter()
                .find(|group| group.name == *name && default.is_some_and(|vpc| vpc.id == group.vpc));
            let shown = default.map_or("none", |vpc| vpc.id.as_str());
            let group = group.ok_or_else(|| {
                catalogue::INVALID_GROUP_NOT_FOUND.error(format!(
                    "The security group '{name}' does not exist in default VPC '{shown}'"
                ))
            })?;
            found.push(group.id.clone());
        }
        Ok(Some(found))
    }
}

fn groups_absent(ids: &[String]) -> AwsError {
    match ids {
        [id] => crate::capability::launch::group_absent(id),
        _ => not_found(catalogue::INVALID_GROUP_NOT_FOUND, "security group", ids),
    }
}

fn with_rules(groups: Vec<SecurityGroup>, rules: Vec<SecurityGroupRule>) -> Vec<GroupRow> {
    let mut by_group: BTreeMap<SecurityGroupId, Vec<SecurityGroupRule>> = BTreeMap::new();
    for rule in rules {
        by_group.entry(rule.group.clone()).or_default().push(rule);
    }
    groups
        .into_iter()
        .map(|group| {
            let mut rules = by_group.remove(&group.id).unwrap_or_default();
            rules.sort_by_cached_key(|row| row.rule.canonical());
            GroupRow { group, rules }
        })
        .collect()
}

fn values<'a>(row: &'a GroupRow, name: &str, names: &'a BTreeMap<SecurityGroupId, String>) -> Values<'a> {
    let group = &row.group;
    if let Some(of_rule) = name.strip_prefix("ip-permission.") {
        return rule_values(row.of(Direction::Ingress), of_rule, names);
    }
    if let Some(of_rule) = name.strip_prefix("egress.ip-permission.") {
        return rule_values(row.of(Direction::Egress), of_rule, names);
    }
    match name {
        "description" => one(group.description.as_str()),
        "group-id" => one(group.id.as_str()),
        "group-name" => one(group.name.as_str()),
        "owner-id" => one(group.account.to_string()),
        "vpc-id" => one(group.vpc.as_str()),
        _ => Vec::new(),
    }
}

fn rule_values<'a>(
    rules: impl Iterator<Item = &'a SecurityGroupRule>,
    name: &str,
    names: &'a BTreeMap<SecurityGroupId, String>,
) -> Values<'a> {
    rules.filter_map(|rule| rule_value(rule, name, names)).collect()
}

fn rule_value<'a>(
    row: &'a SecurityGroupRule,
    name: &str,
    names: &'a BTreeMap<SecurityGroupId, String>,
) -> Option<Cow<'a, str>> {
    let traffic = row.rule.traffic;
    let (from, to) = traffic.port_pair();
    match (name, &row.rule.peer) {
        ("cidr", RulePeer::Ipv4 { block }) => Some(Cow::Owned(block.to_string())),
        ("ipv6-cidr", RulePeer::Ipv6 { block }) => Some(Cow::Owned(block.to_string())),
        ("group-id", RulePeer::Group { group, .. }) => Some(Cow::Borrowed(group.as_str())),
        ("group-name", RulePeer::Group { group, .. }) => {
            names.get(group).map(|name| Cow::Borrowed(name.as_str()))
        }
        ("user-id", RulePeer::Group { account, .. }) => Some(Cow::Owned(account.to_string())),
        ("protocol", _) => Some(Cow::Owned(traffic.protocol_name())),
        ("from-port", _) if traffic.has_ports() => Some(Cow::Owned(from.to_string())),
        ("to-port", _) if traffic.has_ports() => Some(Cow::Owned(to.to_string())),
        _ => None,
    }
}

fn render_group(network: &Network, row: &GroupRow, tags: &TagIndex) -> ec2::SecurityGroup {
    let group = &row.group;
    let arn = network.arn(group.account, tags::SECURITY_GROUP, group.id.as_str());
    ec2::SecurityGroup {
        group_id: Some(group.id.to_string()),
        group_name: Some(group.name.clone()),
        description: Some(group.description.clone()),
        owner_id: Some(group.account.to_string()),
        vpc_id: Some(group.vpc.to_string()),
        security_group_arn: Some(arn.to_string()),
        ip_permissions: render::permissions(row.of(Direction::Ingress)),
        ip_permissions_egress: render::permissions(row.of(Direction::Egress)),
        tags: wire_tags(tags.of(group.id.as_str())),
    }
}

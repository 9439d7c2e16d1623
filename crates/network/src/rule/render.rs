//! Writes rules as answers show them: one by one, or gathered into permissions by protocol and ports.

use super::{Rule, RulePeer, RuleTraffic};
use crate::records::{Direction, SecurityGroupRule};
use aws_shapes::ec2;
use aws_types::{AccountId, Arn, Region, Tags};

/// The permissions of one direction: rules with equal protocol and ports are one permission, in the order in which
/// the rules are given.
pub fn permissions<'a>(rules: impl IntoIterator<Item = &'a SecurityGroupRule>) -> Vec<ec2::IpPermission> {
    let mut permissions: Vec<(RuleTraffic, ec2::IpPermission)> = Vec::new();
    for row in rules {
        let at = match permissions
            .iter()
            .position(|(traffic, _)| *traffic == row.rule.traffic)
        {
            Some(at) => at,
            None => {
                permissions.push((row.rule.traffic, empty_permission(row.rule.traffic)));
                permissions.len() - 1
            }
        };
        add_peer(&mut permissions[at].1, &row.rule.peer, row.description.as_ref());
    }
    permissions
        .into_iter()
        .map(|(_, permission)| permission)
        .collect()
}

/// One rule as a permission, as `UnknownIpPermissions` echoes it.
pub fn permission(rule: &Rule) -> ec2::IpPermission {
    let mut permission = empty_permission(rule.traffic);
    add_peer(&mut permission, &rule.peer, None);
    permission
}

fn empty_permission(traffic: RuleTraffic) -> ec2::IpPermission {
    let (from, to) = traffic.port_pair();
    ec2::IpPermission {
        ip_protocol: Some(traffic.protocol_name()),
        from_port: traffic.has_ports().then_some(from),
        to_port: traffic.has_ports().then_some(to),
        ..ec2::IpPermission::default()
    }
}

fn add_peer(permission: &mut ec2::IpPermission, peer: &RulePeer, description: Option<&String>) {
    let description = description.cloned();
    match peer {
        RulePeer::Ipv4 { block } => {
            permission.ip_ranges.push(ec2::IpRange {
                cidr_ip: Some(block.to_string()),
                description,
            });
        }
        RulePeer::Ipv6 { block } => {
            permission.ipv6_ranges.push(ec2::Ipv6Range {
                cidr_ipv6: Some(block.to_string()),
                description,
            });
        }
        RulePeer::Group { group, account, .. } => {
            permission.user_id_group_pairs.push(ec2::UserIdGroupPair {
                group_id: Some(group.to_string()),
                user_id: Some(account.to_string()),
                description,
                ..ec2::UserIdGroupPair::default()
            });
        }
    }
}

/// ARN of a rule.
pub fn rule_arn(region: &Region, account: AccountId, id: &str) -> Arn {
    Arn::new("ec2", region, account, format_args!("security-group-rule/{id}"))
}

/// One rule.
pub fn rule(region: &Region, row: &SecurityGroupRule, tags: &Tags) -> ec2::SecurityGroupRule {
    let (from, to) = row.rule.traffic.port_pair();
    let mut shown = ec2::SecurityGroupRule {
        security_group_rule_id: Some(row.id.to_string()),
        group_id: Some(row.group.to_string()),
        group_owner_id: Some(row.account.to_string()),
        is_egress: Some(row.direction == Direction::Egress),
        ip_protocol: Some(row.rule.traffic.protocol_name()),
        from_port: Some(from),
        to_port: Some(to),
        description: row.description.clone(),
        tags: crate::ops::shared::wire_tags(tags),
        security_group_rule_arn: Some(rule_arn(region, row.account, row.id.as_str()).to_string()),
        ..ec2::SecurityGroupRule::default()
    };
    match &row.rule.peer {
        RulePeer::Ipv4 { block } => shown.cidr_ipv4 = Some(block.to_string()),
        RulePeer::Ipv6 { block } => shown.cidr_ipv6 = Some(block.to_string()),
        RulePeer::Group { group, account, .. } => {
            shown.referenced_group_info = Some(ec2::ReferencedSecurityGroup {
                group_id: Some(group.to_string()),
                user_id: Some(account.to_string()),
                ..ec2::ReferencedSecurityGroup::default()
            });
        }
    }
    shown
}

/// One rule that was revoked.
pub fn revoked(row: &SecurityGroupRule) -> ec2::RevokedSecurityGroupRule {
    let (from, to) = row.rule.traffic.port_pair();
    let mut shown = ec2::RevokedSecurityGroupRule {
        security_group_rule_id: Some(row.id.to_string()),
        group_id: Some(row.group.to_string()),
        is_egress: Some(row.direction == Direction::Egress),
        ip_protocol: Some(row.rule.traffic.protocol_name()),
        from_port: Some(from),
        to_port: Some(to),
        description: row.description.clone(),
        ..ec2::RevokedSecurityGroupRule::default()
    };
    match &row.rule.peer {
        RulePeer::Ipv4 { block } => shown.cidr_ipv4 = Some(block.to_string()),
        RulePeer::Ipv6 { block } => shown.cidr_ipv6 = Some(block.to_string()),
        RulePeer::Group { group, .. } => shown.referenced_group_id = Some(group.to_string()),
    }
    shown
}

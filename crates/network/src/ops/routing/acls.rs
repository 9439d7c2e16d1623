//! DescribeNetworkAcls.

use crate::kinds::acl_absent;
use crate::ops::Network;
use crate::ops::describe::{Asked, Described, PAGE_5_TO_1000, Query};
use crate::ops::shared::wire_tags;
use crate::records::{AclAction, AclEntry, NetworkAcl, NetworkAclAssociation};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, enums, operations};
use aws_types::filter::{Values, flag, one};
use aws_types::ids::NetworkAclId;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use std::borrow::Cow;

const FILTERS: &[&str] = &[
    "association.association-id",
    "association.network-acl-id",
    "association.subnet-id",
    "default",
    "entry.cidr",
    "entry.icmp.code",
    "entry.icmp.type",
    "entry.ipv6-cidr",
    "entry.port-range.from",
    "entry.port-range.to",
    "entry.protocol",
    "entry.rule-action",
    "entry.egress",
    "entry.rule-number",
    "network-acl-id",
    "owner-id",
    "vpc-id",
    "tag",
    "tag-key",
];

/// DescribeNetworkAcls.
pub(crate) struct DescribeNetworkAcls(pub Network);

struct AclRow {
    acl: NetworkAcl,
    associations: Vec<NetworkAclAssociation>,
}

#[async_trait]
impl Operation for DescribeNetworkAcls {
    type Shape = operations::DescribeNetworkAcls;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeNetworkAcls"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeNetworkAclsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeNetworkAcls").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeNetworkAclsRequest,
    ) -> Result<ec2::DescribeNetworkAclsResult, AwsError> {
        let network = &self.0;
        let described = Described {
            schema: operations::DescribeNetworkAcls::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: FILTERS,
            prefix: NetworkAclId::PREFIX,
            malformed: catalogue::INVALID_NETWORK_ACL_ID_MALFORMED,
            absent: acl_absent,
        };
        let asked = Asked {
            ids: &input.network_acl_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(network, call, &described, &asked)?;
        let acls = query.select(network.list::<NetworkAcl>(call).await?, |acl| acl.id.as_str())?;
        let associations = network.list::<NetworkAclAssociation>(call).await?;
        let rows: Vec<AclRow> = acls
            .into_iter()
            .map(|acl| AclRow {
                associations: associations
                    .iter()
                    .filter(|row| row.acl == acl.id)
                    .cloned()
                    .collect(),
                acl,
            })
            .collect();
        let tags = network.tags(call).await?;
        let (page, next_token) = query.page(network, &rows, |row| row.acl.id.as_str(), &tags, values);
        Ok(ec2::DescribeNetworkAclsResult {
            network_acls: page
                .into_iter()
                .map(|row| render(row, tags.of(row.acl.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

fn action(entry: &AclEntry) -> &'static str {
    match entry.action {
        AclAction::Allow => enums::rule_action::ALLOW,
        AclAction::Deny => enums::rule_action::DENY,
    }
}

fn values<'a>(row: &'a AclRow, name: &str) -> Values<'a> {
    let entries = &row.acl.entries;
    match name {
        "association.association-id" => row
            .associations
            .iter()
            .map(|association| Cow::Borrowed(association.id.as_str()))
            .collect(),
        "association.network-acl-id" => row
            .associations
            .iter()
            .map(|association| Cow::Borrowed(association.acl.as_str()))
            .collect(),
        "association.subnet-id" => row
            .associations
            .iter()
            .map(|association| Cow::Borrowed(association.subnet.as_str()))
            .collect(),
        "default" => flag(row.acl.is_default),
        "entry.cidr" => entries
            .iter()
            .map(|entry| Cow::Owned(entry.block.to_string()))
            .collect(),
        "entry.protocol" => entries
            .iter()
            .map(|entry| Cow::Owned(entry.protocol.to_string()))
            .collect(),
        "entry.rule-action" => entries.iter().map(|entry| Cow::Borrowed(action(entry))).collect(),
        "entry.egress" => entries.iter().flat_map(|entry| flag(entry.egress)).collect(),
        "entry.rule-number" => entries
            .iter()
            .map(|entry| Cow::Owned(entry.number.to_string()))
            .collect(),
        "network-acl-id" => one(row.acl.id.as_str()),
        "owner-id" => one(row.acl.account.to_string()),
        "vpc-id" => one(row.acl.vpc.as_str()),
        // Entries for ports, ICMP and IPv6 come with the operations that make them.
        _ => Vec::new(),
    }
}

fn render(row: &AclRow, tags: &Tags) -> ec2::NetworkAcl {
    ec2::NetworkAcl {
        network_acl_id: Some(row.acl.id.to_string()),
        vpc_id: Some(row.acl.vpc.to_string()),
        owner_id: Some(row.acl.account.to_string()),
        is_default: Some(row.acl.is_default),
        associations: row
            .associations
            .iter()
            .map(|association| ec2::NetworkAclAssociation {
                network_acl_association_id: Some(association.id.to_string()),
                network_acl_id: Some(association.acl.to_string()),
                subnet_id: Some(association.subnet.to_string()),
            })
            .collect(),
        entries: row
            .acl
            .entries
            .iter()
            .map(|entry| ec2::NetworkAclEntry {
                cidr_block: Some(entry.block.to_string()),
                egress: Some(entry.egress),
                protocol: Some(entry.protocol.to_string()),
                rule_action: Some(action(entry).to_owned()),
                rule_number: i32::try_from(entry.number).ok(),
                ..ec2::NetworkAclEntry::default()
            })
            .collect(),
        tags: wire_tags(tags),
    }
}

//! DescribeVpcs, DescribeVpcAttribute and DescribeSubnets.

use super::Network;
use super::describe::{Asked, Described, PAGE_5_TO_1000, Query};
use super::shared::{check_shape, on_resource, required, wire_tags};
use crate::addressing;
use crate::capability::{names, tags};
use crate::cidr;
use crate::error::store_error;
use crate::kinds::{subnet_absent, vpc_absent};
use crate::records::{Address, Subnet, Vpc};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, enums, operations};
use aws_types::filter::{Values, flag, one};
use aws_types::ids::{SubnetId, VpcId};
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use std::borrow::Cow;
use std::collections::BTreeMap;

const VPC_FILTERS: &[&str] = &[
    "cidr",
    "cidr-block",
    "cidr-block-association.cidr-block",
    "cidr-block-association.association-id",
    "cidr-block-association.state",
    "dhcp-options-id",
    "ipv6-cidr-block-association.ipv6-cidr-block",
    "ipv6-cidr-block-association.ipv6-pool",
    "ipv6-cidr-block-association.association-id",
    "ipv6-cidr-block-association.state",
    "is-default",
    "isDefault",
    "owner-id",
    "state",
    "vpc-id",
    "tag",
    "tag-key",
];

const SUBNET_FILTERS: &[&str] = &[
    "availability-zone",
    "availabilityZone",
    "availability-zone-id",
    "availabilityZoneId",
    "available-ip-address-count",
    "cidr-block",
    "cidr",
    "cidrBlock",
    "customer-owned-ipv4-pool",
    "default-for-az",
    "defaultForAz",
    "enable-dns64",
    "enable-lni-at-device-index",
    "ipv6-cidr-block-association.ipv6-cidr-block",
    "ipv6-cidr-block-association.association-id",
    "ipv6-cidr-block-association.state",
    "ipv6-native",
    "map-customer-owned-ip-on-launch",
    "map-public-ip-on-launch",
    "outpost-arn",
    "owner-id",
    "private-dns-name-options-on-launch.hostname-type",
    "private-dns-name-options-on-launch.enable-resource-name-dns-a-record",
    "private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record",
    "state",
    "subnet-arn",
    "subnet-id",
    "vpc-id",
    "tag",
    "tag-key",
];

/// DescribeVpcs.
pub(crate) struct DescribeVpcs(pub Network);

#[async_trait]
impl Operation for DescribeVpcs {
    type Shape = operations::DescribeVpcs;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeVpcs"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(&self, _: &Call, _: &ec2::DescribeVpcsRequest) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeVpcs").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeVpcsRequest,
    ) -> Result<ec2::DescribeVpcsResult, AwsError> {
        let described = Described {
            schema: operations::DescribeVpcs::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: VPC_FILTERS,
            prefix: VpcId::PREFIX,
            malformed: catalogue::INVALID_VPC_ID_MALFORMED,
            absent: vpc_absent,
        };
        let asked = Asked {
            ids: &input.vpc_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(&self.0, call, &described, &asked)?;
        let vpcs = query.select(self.0.list::<Vpc>(call).await?, |vpc| vpc.id.as_str())?;
        let tags = self.0.tags(call).await?;
        let (page, next_token) = query.page(&self.0, &vpcs, |vpc| vpc.id.as_str(), &tags, vpc_values);
        Ok(ec2::DescribeVpcsResult {
            vpcs: page
                .into_iter()
                .map(|vpc| render_vpc(vpc, tags.of(vpc.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

fn vpc_values<'a>(vpc: &'a Vpc, name: &str) -> Values<'a> {
    let primary = || {
        vpc.primary_block()
            .map(|block| Cow::Owned(block.to_string()))
            .into_iter()
            .collect()
    };
    match name {
        "cidr" | "cidr-block" => primary(),
        "cidr-block-association.cidr-block" => vpc
            .blocks
            .iter()
            .map(|block| Cow::Owned(block.block.to_string()))
            .collect(),
        "cidr-block-association.association-id" => vpc
            .blocks
            .iter()
            .map(|block| Cow::Borrowed(block.id.as_str()))
            .collect(),
        "cidr-block-association.state" => one("associated"),
        "dhcp-options-id" => one(vpc.dhcp_options.as_str()),
        "is-default" | "isDefault" => flag(vpc.is_default),
        "owner-id" => one(vpc.account.to_string()),
        "state" => one("available"),
        "vpc-id" => one(vpc.id.as_str()),
        // IPv6 blocks: no VPC has one yet.
        _ => Vec::new(),
    }
}

fn render_vpc(vpc: &Vpc, tags: &Tags) -> ec2::Vpc {
    ec2::Vpc {
        vpc_id: Some(vpc.id.to_string()),
        owner_id: Some(vpc.account.to_string()),
        state: Some(enums::vpc_state::AVAILABLE.to_owned()),
        cidr_block: vpc.primary_block().map(|block| block.to_string()),
        dhcp_options_id: Some(vpc.dhcp_options.to_string()),
        instance_tenancy: Some(enums::tenancy::DEFAULT.to_owned()),
        is_default: Some(vpc.is_default),
        cidr_block_association_set: vpc
            .blocks
            .iter()
            .map(|block| ec2::VpcCidrBlockAssociation {
                association_id: Some(block.id.to_string()),
                cidr_block: Some(block.block.to_string()),
                cidr_block_state: Some(ec2::VpcCidrBlockState {
                    state: Some("associated".to_owned()),
                    status_message: None,
                }),
            })
            .collect(),
        block_public_access_states: Some(public_access_not_blocked()),
        tags: wire_tags(tags),
        ..ec2::Vpc::default()
    }
}

fn public_access_not_blocked() -> ec2::BlockPublicAccessStates {
    ec2::BlockPublicAccessStates {
        internet_gateway_block_mode: Some("off".to_owned()),
    }
}

/// DescribeVpcAttribute.
pub(crate) struct DescribeVpcAttribute(pub Network);

#[async_trait]
impl Operation for DescribeVpcAttribute {
    type Shape = operations::DescribeVpcAttribute;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeVpcAttribute"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::DescribeVpcAttributeRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let id = input.vpc_id.as_deref().unwrap_or("*");
        let arn = self.0.arn(call.account(), tags::VPC, id);
        let tags = tags::of_resource(self.0.store(), call.account(), id).await?;
        Ok(on_resource("ec2:DescribeVpcAttribute", arn, &tags).into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeVpcAttributeRequest,
    ) -> Result<ec2::DescribeVpcAttributeResult, AwsError> {
        let id = required(&input.vpc_id, "vpcId")?;
        let attribute = required(&input.attribute, "attribute")?;
        check_shape(id, VpcId::PREFIX, catalogue::INVALID_VPC_ID_MALFORMED)?;
        if !enums::vpc_attribute_name::VALUES.contains(&attribute) {
            return Err(AwsError::invalid_value(
                attribute,
                "attribute",
                "Unknown attribute.",
            ));
        }
        call.finish_dry_run()?;
        let vpc = self
            .0
            .find::<Vpc>(call, id)
            .await?
            .ok_or_else(|| vpc_absent(&[id.to_owned()]))?;
        let shown = |value| Some(ec2::AttributeBooleanValue { value: Some(value) });
        let mut result = ec2::DescribeVpcAttributeResult {
            vpc_id: Some(id.to_owned()),
            ..Default::default()
        };
        match attribute {
            "enableDnsSupport" => result.enable_dns_support = shown(vpc.dns_support),
            "enableDnsHostnames" => result.enable_dns_hostnames = shown(vpc.dns_hostnames),
            _ => result.enable_network_address_usage_metrics = shown(false),
        }
        Ok(result)
    }
}

/// DescribeSubnets.
pub(crate) struct DescribeSubnets(pub Network);

/// A subnet with what is computed for it.
struct SubnetRow {
    subnet: Subnet,
    free: u32,
    arn: String,
    zone_id: String,
}

#[async_trait]
impl Operation for DescribeSubnets {
    type Shape = operations::DescribeSubnets;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeSubnets"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeSubnetsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeSubnets").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeSubnetsRequest,
    ) -> Result<ec2::DescribeSubnetsResult, AwsError> {
        let described = Described {
            schema: operations::DescribeSubnets::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: SUBNET_FILTERS,
            prefix: SubnetId::PREFIX,
            malformed: catalogue::INVALID_SUBNET_ID_MALFORMED,
            absent: subnet_absent,
        };
        let asked = Asked {
            ids: &input.subnet_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(&self.0, call, &described, &asked)?;
        let subnets = query.select(self.0.list::<Subnet>(call).await?, |subnet| subnet.id.as_str())?;
        let rows = self.rows(subnets).await?;
        let tags = self.0.tags(call).await?;
        let (page, next_token) =
            query.page(&self.0, &rows, |row| row.subnet.id.as_str(), &tags, subnet_values);
        Ok(ec2::DescribeSubnetsResult {
            subnets: page
                .into_iter()
                .map(|row| render_subnet(row, tags.of(row.subnet.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

impl DescribeSubnets {
    /// Counts the free addresses: capacity without the rows of taken ones.
    async fn rows(&self, subnets: Vec<Subnet>) -> Result<Vec<SubnetRow>, AwsError> {
        let mut taken: BTreeMap<SubnetId, u32> = BTreeMap::new();
        let mut vpcs: Vec<&VpcId> = subnets.iter().map(|subnet| &subnet.vpc).collect();
        vpcs.sort();
        vpcs.dedup();
        for vpc in vpcs {
            let addresses = self.0.store().list::<Address>(&Address::scope(vpc)).await;
            for address in addresses.map_err(|error| store_error(&error))? {
                *taken.entry(address.subnet).or_default() += 1;
            }
        }
        Ok(subnets
            .into_iter()
            .map(|subnet| SubnetRow {
                free: addressing::capacity(subnet.block)
                    .saturating_sub(taken.get(&subnet.id).copied().unwrap_or_default()),
                arn: self
                    .0
                    .arn(subnet.account, tags::SUBNET, subnet.id.as_str())
                    .to_string(),
                zone_id: names::zone_id(&subnet.zone),
                subnet,
            })
            .collect())
    }
}

fn subnet_values<'a>(row: &'a SubnetRow, name: &str) -> Values<'a> {
    let subnet = &row.subnet;
    match name {
        "availability-zone" | "availabilityZone" => one(subnet.zone.as_str()),
        "availability-zone-id" | "availabilityZoneId" => one(row.zone_id.as_str()),
        "available-ip-address-count" => one(row.free.to_string()),
        "cidr-block" | "cidr" | "cidrBlock" => one(subnet.block.to_string()),
        "default-for-az" | "defaultForAz" => flag(subnet.default_for_zone),
        "enable-dns64"
        | "ipv6-native"
        | "map-customer-owned-ip-on-launch"
        | "private-dns-name-options-on-launch.enable-resource-name-dns-a-record"
        | "private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record" => flag(false),
        "map-public-ip-on-launch" => flag(subnet.map_public_ip_on_launch),
        "owner-id" => one(subnet.account.to_string()),
        "private-dns-name-options-on-launch.hostname-type" => one(enums::hostname_type::IP_NAME),
        "state" => one(enums::subnet_state::AVAILABLE),
        "subnet-arn" => one(row.arn.as_str()),
        "subnet-id" => one(subnet.id.as_str()),
        "vpc-id" => one(subnet.vpc.as_str()),
        // Outposts, customer-owned pools, IPv6 blocks: no subnet has them.
        _ => Vec::new(),
    }
}

fn render_subnet(row: &SubnetRow, tags: &Tags) -> ec2::Subnet {
    let subnet = &row.subnet;
    debug_assert!(row.free <= cidr::size(subnet.block));
    ec2::Subnet {
        subnet_id: Some(subnet.id.to_string()),
        subnet_arn: Some(row.arn.clone()),
        vpc_id: Some(subnet.vpc.to_string()),
        owner_id: Some(subnet.account.to_string()),
        state: Some(enums::subnet_state::AVAILABLE.to_owned()),
        cidr_block: Some(subnet.block.to_string()),
        available_ip_address_count: Some(i32::try_from(row.free).unwrap_or(i32::MAX)),
        availability_zone: Some(subnet.zone.to_string()),
        availability_zone_id: Some(row.zone_id.clone()),
        default_for_az: Some(subnet.default_for_zone),
        map_public_ip_on_launch: Some(subnet.map_public_ip_on_launch),
        map_customer_owned_ip_on_launch: Some(false),
        assign_ipv6_address_on_creation: Some(false),
        enable_dns64: Some(false),
        ipv6_native: Some(false),
        private_dns_name_options_on_launch: Some(ec2::PrivateDnsNameOptionsOnLaunch {
            hostname_type: Some(enums::hostname_type::IP_NAME.to_owned()),
            enable_resource_name_dns_a_record: Some(false),
            enable_resource_name_dns_aaaa_record: Some(false),
        }),
        block_public_access_states: Some(public_access_not_blocked()),
        tags: wire_tags(tags),
        ..ec2::Subnet::default()
    }
}

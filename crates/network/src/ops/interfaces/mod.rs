//! DescribeNetworkInterfaces; DescribeAddresses is beside it in `addresses`.

pub(crate) mod addresses;

use super::Network;
use super::describe::{Asked, Described, PAGE_5_TO_1000, Query};
use super::shared::wire_tags;
use crate::capability::{facts, names};
use crate::kinds::interface_absent;
use crate::records::{Attachment, Interface};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, enums, operations};
use aws_types::filter::{Values, flag, one, optional};
use aws_types::ids::{NetworkInterfaceId, SecurityGroupId};
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use std::borrow::Cow;
use std::collections::BTreeMap;
use time::format_description::well_known::Rfc3339;

const FILTERS: &[&str] = &[
    "association.allocation-id",
    "association.association-id",
    "association.ip-owner-id",
    "association.public-ip",
    "association.public-dns-name",
    "addresses.association.owner-id",
    "addresses.association.public-ip",
    "addresses.primary",
    "addresses.private-ip-address",
    "attachment.attach-time",
    "attachment.attachment-id",
    "attachment.delete-on-termination",
    "attachment.device-index",
    "attachment.instance-id",
    "attachment.instance-owner-id",
    "attachment.status",
    "availability-zone",
    "availability-zone-id",
    "description",
    "group-id",
    "ipv6-addresses.ipv6-address",
    "interface-type",
    "mac-address",
    "network-interface-id",
    "operator.managed",
    "operator.principal",
    "owner-id",
    "private-dns-name",
    "private-ip-address",
    "requester-id",
    "requester-managed",
    "source-dest-check",
    "status",
    "subnet-id",
    "vpc-id",
    "tag",
    "tag-key",
];

/// Owner of addresses that are not an account's.
const AMAZON: &str = "amazon";

/// DescribeNetworkInterfaces.
pub(crate) struct DescribeNetworkInterfaces(pub Network);

/// An interface with what is computed for it.
struct InterfaceRow {
    interface: Interface,
    private_dns_name: String,
    public_dns_name: Option<String>,
    zone_id: String,
}

#[async_trait]
impl Operation for DescribeNetworkInterfaces {
    type Shape = operations::DescribeNetworkInterfaces;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeNetworkInterfaces"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeNetworkInterfacesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeNetworkInterfaces").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeNetworkInterfacesRequest,
    ) -> Result<ec2::DescribeNetworkInterfacesResult, AwsError> {
        let network = &self.0;
        let described = Described {
            schema: operations::DescribeNetworkInterfaces::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: FILTERS,
            prefix: NetworkInterfaceId::PREFIX,
            malformed: catalogue::INVALID_NETWORK_INTERFACE_ID_MALFORMED,
            absent: interface_absent,
        };
        let asked = Asked {
            ids: &input.network_interface_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(network, call, &described, &asked)?;
        let interfaces = query.select(network.list::<Interface>(call).await?, |row| row.id.as_str())?;
        let rows = self.rows(call, interfaces).await?;
        let tags = network.tags(call).await?;
        let groups = facts::group_names(network.store(), call.account()).await?;
        let (page, next_token) = query.page(network, &rows, |row| row.interface.id.as_str(), &tags, values);
        Ok(ec2::DescribeNetworkInterfacesResult {
            network_interfaces: page
                .into_iter()
                .map(|row| render(row, &groups, tags.of(row.interface.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

impl DescribeNetworkInterfaces {
    async fn rows(&self, call: &Call, interfaces: Vec<Interface>) -> Result<Vec<InterfaceRow>, AwsError> {
        let network = &self.0;
        let named = facts::vpcs_with_host_names(network.store(), call.account()).await?;
        Ok(interfaces
            .into_iter()
            .map(|interface| InterfaceRow {
                private_dns_name: names::private_dns_name(network.region(), interface.address),
                public_dns_name: interface
                    .public
                    .as_ref()
                    .filter(|_| named.contains(&interface.vpc))
                    .map(|mapping| {
                        names::public_dns_name(
                            network.region(),
                            mapping.address,
                            &network.settings().dns_suffix,
                        )
                    }),
                zone_id: names::zone_id(&interface.zone),
                interface,
            })
            .collect())
    }
}

/// Owner of an interface's public address.
fn ip_owner(interface: &Interface) -> Option<String> {
    interface.public.as_ref().map(|mapping| {
        if mapping.automatic {
            AMAZON.to_owned()
        } else {
            interface.account.to_string()
        }
    })
}

fn values<'a>(row: &'a InterfaceRow, name: &str) -> Values<'a> {
    let interface = &row.interface;
    let attachment = interface.attachment.as_ref();
    match name {
        "association.association-id" => optional(
            interface
                .public
                .as_ref()
                .filter(|mapping| !mapping.automatic)
                .map(|mapping| mapping.association.as_str()),
        ),
        "association.ip-owner-id" | "addresses.association.owner-id" => optional(ip_owner(interface)),
        "association.public-ip" | "addresses.association.public-ip" => optional(
            interface
                .public
                .as_ref()
                .map(|mapping| mapping.address.to_string()),
        ),
        "association.public-dns-name" => optional(row.public_dns_name.as_deref()),
        "addresses.primary" => flag(true),
        "addresses.private-ip-address" | "private-ip-address" => one(interface.address.to_string()),
        "availability-zone" => one(interface.zone.as_str()),
        "availability-zone-id" => one(row.zone_id.as_str()),
        "description" => one(interface.description.as_str()),
        "group-id" => interface
            .groups
            .iter()
            .map(|group| Cow::Borrowed(group.as_str()))
            .collect(),
        "interface-type" => one(enums::network_interface_type::INTERFACE),
        "mac-address" => one(interface.mac.as_str()),
        "network-interface-id" => one(interface.id.as_str()),
        "operator.managed" => flag(false),
        "owner-id" => one(interface.account.to_string()),
        "private-dns-name" => one(row.private_dns_name.as_str()),
        "requester-id" => optional(
            interface
                .requester
                .as_ref()
                .map(|requester| requester.id.as_str()),
        ),
        "requester-managed" => flag(is_managed(interface)),
        "source-dest-check" => flag(interface.source_dest_check),
        "status" => one(interface.status.as_str()),
        "subnet-id" => one(interface.subnet.as_str()),
        "vpc-id" => one(interface.vpc.as_str()),
        _ => attachment
            .map(|attachment| attachment_values(attachment, name))
            .unwrap_or_default(),
    }
}

fn attachment_values<'a>(attachment: &'a Attachment, name: &str) -> Values<'a> {
    match name {
        "attachment.attach-time" => attach_times(attachment),
        "attachment.attachment-id" => one(attachment.id.as_str()),
        "attachment.delete-on-termination" => flag(attachment.delete_on_termination),
        "attachment.device-index" => one(attachment.device_index.to_string()),
        "attachment.instance-id" => one(attachment.instance.as_str()),
        "attachment.instance-owner-id" => one(attachment.instance_account.to_string()),
        "attachment.status" => one(attachment.status.as_str()),
        // Allocations and IPv6 addresses: no interface has one yet.
        _ => Vec::new(),
    }
}

/// The time in both of AWS's spellings, without and with milliseconds.
fn attach_times(attachment: &Attachment) -> Values<'static> {
    let Ok(plain) = attachment.attached_at.format(&Rfc3339) else {
        return Vec::new();
    };
    let with_ms = format!("{}.000Z", plain.trim_end_matches('Z'));
    vec![Cow::Owned(plain), Cow::Owned(with_ms)]
}

fn is_managed(interface: &Interface) -> bool {
    interface
        .requester
        .as_ref()
        .is_some_and(|requester| requester.managed)
}

fn render(
    row: &InterfaceRow,
    groups: &BTreeMap<SecurityGroupId, String>,
    tags: &Tags,
) -> ec2::NetworkInterface {
    let interface = &row.interface;
    let association = render_association(row);
    ec2::NetworkInterface {
        network_interface_id: Some(interface.id.to_string()),
        subnet_id: Some(interface.subnet.to_string()),
        vpc_id: Some(interface.vpc.to_string()),
        availability_zone: Some(interface.zone.to_string()),
        availability_zone_id: Some(row.zone_id.clone()),
        description: Some(interface.description.clone()),
        owner_id: Some(interface.account.to_string()),
        requester_id: interface.requester.as_ref().map(|requester| requester.id.clone()),
        requester_managed: Some(is_managed(interface)),
        status: Some(interface.status.as_str().to_owned()),
        mac_address: Some(interface.mac.clone()),
        private_ip_address: Some(interface.address.to_string()),
        private_dns_name: Some(row.private_dns_name.clone()),
        public_dns_name: row.public_dns_name.clone(),
        source_dest_check: Some(interface.source_dest_check),
        interface_type: Some(enums::network_interface_type::INTERFACE.to_owned()),
        groups: interface
            .groups
            .iter()
            .map(|group| ec2::GroupIdentifier {
                group_id: Some(group.to_string()),
                group_name: groups.get(group).cloned(),
            })
            .collect(),
        attachment: interface.attachment.as_ref().map(render_attachment),
        private_ip_addresses: vec![ec2::NetworkInterfacePrivateIpAddress {
            primary: Some(true),
            private_ip_address: Some(interface.address.to_string()),
            private_dns_name: Some(row.private_dns_name.clone()),
            association: association.clone(),
        }],
        association,
        operator: Some(ec2::OperatorResponse {
            managed: Some(false),
            ..ec2::OperatorResponse::default()
        }),
        tag_set: wire_tags(tags),
        ..ec2::NetworkInterface::default()
    }
}

fn render_association(row: &InterfaceRow) -> Option<ec2::NetworkInterfaceAssociation> {
    let mapping = row.interface.public.as_ref()?;
    Some(ec2::NetworkInterfaceAssociation {
        public_ip: Some(mapping.address.to_string()),
        public_dns_name: row.public_dns_name.clone(),
        ip_owner_id: ip_owner(&row.interface),
        association_id: (!mapping.automatic).then(|| mapping.association.to_string()),
        ..ec2::NetworkInterfaceAssociation::default()
    })
}

fn render_attachment(attachment: &Attachment) -> ec2::NetworkInterfaceAttachment {
    ec2::NetworkInterfaceAttachment {
        attachment_id: Some(attachment.id.to_string()),
        instance_id: Some(attachment.instance.to_string()),
        instance_owner_id: Some(attachment.instance_account.to_string()),
        device_index: i32::try_from(attachment.device_index).ok(),
        network_card_index: Some(0),
        delete_on_termination: Some(attachment.delete_on_termination),
        status: Some(attachment.status.as_str().to_owned()),
        attach_time: Some(attachment.attached_at),
        ..ec2::NetworkInterfaceAttachment::default()
    }
}

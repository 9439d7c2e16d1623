//! DescribeAddresses: the account's Elastic IPs. Automatic public addresses are not among them (vpc.md R29).

use crate::error::store_error;
use crate::ops::Network;
use crate::ops::describe::raw_filters;
use crate::records::{PublicAddress, PublicAddressState};
use async_trait::async_trait;
use aws_shapes::ec2::{self, enums, operations};
use aws_types::filter::{Filters, Values, one, optional};
use aws_types::ids::NetworkInterfaceId;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::ops::shared::wire_tags;
use crate::records::Interface;

const FILTERS: &[&str] = &[
    "allocation-id",
    "association-id",
    "instance-id",
    "network-border-group",
    "network-interface-id",
    "network-interface-owner-id",
    "private-ip-address",
    "public-ip",
    "tag",
    "tag-key",
];

/// DescribeAddresses.
pub(crate) struct DescribeAddresses(pub Network);

/// An Elastic IP with the interface that shows it.
struct AddressRow {
    allocation: String,
    address: Ipv4Addr,
    pool: String,
    interface: Option<Interface>,
}

#[async_trait]
impl Operation for DescribeAddresses {
    type Shape = operations::DescribeAddresses;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeAddresses"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeAddressesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeAddresses").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeAddressesRequest,
    ) -> Result<ec2::DescribeAddressesResult, AwsError> {
        let filters = Filters::parse(raw_filters(&input.filters), FILTERS)?;
        let mut addresses = Vec::with_capacity(input.public_ips.len());
        for text in &input.public_ips {
            let address = text.parse::<Ipv4Addr>().map_err(|_| {
                catalogue::INVALID_PARAMETER_VALUE.error(format!(
                    "Value ({text}) for parameter PublicIp is invalid. Invalid IPv4 address"
                ))
            })?;
            addresses.push(address);
        }
        call.finish_dry_run()?;
        let rows = self.rows(call).await?;
        check_named(&rows, &addresses, &input.allocation_ids)?;
        let tags = self.0.tags(call).await?;
        let named = |row: &AddressRow| {
            (addresses.is_empty() || addresses.contains(&row.address))
                && (input.allocation_ids.is_empty() || input.allocation_ids.contains(&row.allocation))
        };
        let shown = rows
            .iter()
            .filter(|row| named(row))
            .filter(|row| {
                filters.matches(tags.of(&row.allocation), |name| {
                    values(row, name, self.0.region().as_str())
                })
            })
            .map(|row| render(row, tags.of(&row.allocation), self.0.region().as_str()))
            .collect();
        Ok(ec2::DescribeAddressesResult { addresses: shown })
    }
}

impl DescribeAddresses {
    async fn rows(&self, call: &Call) -> Result<Vec<AddressRow>, AwsError> {
        let account = call.account().to_string();
        let rows = self
            .0
            .store()
            .list_by_index::<PublicAddress>("account", &[&account])
            .await;
        let rows = rows.map_err(|error| store_error(&error))?;
        let mut interfaces: BTreeMap<NetworkInterfaceId, Interface> = BTreeMap::new();
        if !rows.is_empty() {
            let all = self.0.list::<Interface>(call).await?;
            interfaces = all.into_iter().map(|row| (row.id.clone(), row)).collect();
        }
        Ok(rows
            .into_iter()
            .filter_map(|row| match row.state {
                PublicAddressState::InUse {
                    interface,
                    allocation: Some(allocation),
                    ..
                } => Some(AddressRow {
                    allocation: allocation.id,
                    address: row.address,
                    pool: row.pool,
                    interface: interface.and_then(|id| interfaces.get(&id).cloned()),
                }),
                PublicAddressState::InUse { allocation: None, .. }
                | PublicAddressState::Quarantined { .. } => None,
            })
            .collect())
    }
}

fn check_named(rows: &[AddressRow], addresses: &[Ipv4Addr], allocations: &[String]) -> Result<(), AwsError> {
    for address in addresses {
        if rows.iter().all(|row| row.address != *address) {
            return Err(catalogue::INVALID_ADDRESS_NOT_FOUND.error(format!("Address '{address}' not found.")));
        }
    }
    for allocation in allocations {
        if rows.iter().all(|row| row.allocation != *allocation) {
            return Err(catalogue::INVALID_ALLOCATION_ID_NOT_FOUND
                .error(format!("The allocation ID '{allocation}' does not exist")));
        }
    }
    Ok(())
}

fn values<'a>(row: &'a AddressRow, name: &str, region: &'a str) -> Values<'a> {
    let interface = row.interface.as_ref();
    match name {
        "allocation-id" => one(row.allocation.as_str()),
        "association-id" => optional(association(row)),
        "instance-id" => optional(interface.and_then(Interface::instance).map(|id| id.as_str())),
        "network-border-group" => one(region),
        "network-interface-id" => optional(interface.map(|interface| interface.id.as_str())),
        "network-interface-owner-id" => optional(interface.map(|interface| interface.account.to_string())),
        "private-ip-address" => optional(interface.map(|interface| interface.address.to_string())),
        "public-ip" => one(row.address.to_string()),
        _ => Vec::new(),
    }
}

fn association(row: &AddressRow) -> Option<String> {
    let mapping = row.interface.as_ref()?.public.as_ref()?;
    (mapping.address == row.address).then(|| mapping.association.to_string())
}

fn render(row: &AddressRow, tags: &Tags, region: &str) -> ec2::Address {
    let interface = row.interface.as_ref();
    ec2::Address {
        allocation_id: Some(row.allocation.clone()),
        public_ip: Some(row.address.to_string()),
        public_ipv4_pool: Some(row.pool.clone()),
        domain: Some(enums::domain_type::VPC.to_owned()),
        network_border_group: Some(region.to_owned()),
        association_id: association(row),
        instance_id: interface.and_then(Interface::instance).map(ToString::to_string),
        network_interface_id: interface.map(|interface| interface.id.to_string()),
        network_interface_owner_id: interface.map(|interface| interface.account.to_string()),
        private_ip_address: interface.map(|interface| interface.address.to_string()),
        tags: wire_tags(tags),
        ..ec2::Address::default()
    }
}

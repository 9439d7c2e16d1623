//! Network interfaces of a launch: the list of the request, or the one that the top-level members describe (R15).
//!
//! An interface that exists already cannot be given to a launch yet; that is refused, not ignored.

use crate::error::{combination, unsupported};
use crate::instance_types::InstanceType;
use aws_shapes::ec2;
use aws_types::{AwsError, catalogue};
use network::capability::interfaces::DESCRIPTION_CHARS_MAX;
use network::capability::launch::LaunchNetworkRequest;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// One interface that each instance gets.
#[derive(Clone, Debug)]
pub(super) struct InterfaceWish {
    pub device_index: u32,
    pub network: LaunchNetworkRequest,
    /// None leaves it to the subnet.
    pub public: Option<bool>,
    pub address: Option<Ipv4Addr>,
    pub description: String,
    pub delete_on_termination: bool,
}

/// The members of the request that describe its one interface if it lists none.
pub(super) struct TopLevel {
    pub subnet_id: Option<String>,
    pub security_group_ids: Vec<String>,
    pub security_groups: Vec<String>,
    pub private_ip_address: Option<String>,
}

pub(super) fn interface_wishes(
    listed: Vec<ec2::InstanceNetworkInterfaceSpecification>,
    top: TopLevel,
    count_max: u32,
    kind: &InstanceType,
) -> Result<Vec<InterfaceWish>, AwsError> {
    if listed.is_empty() {
        let address = top
            .private_ip_address
            .map(|text| address(&text, count_max))
            .transpose()?;
        return Ok(vec![InterfaceWish {
            device_index: 0,
            network: LaunchNetworkRequest {
                subnet: top.subnet_id,
                zone: None,
                group_ids: top.security_group_ids,
                group_names: top.security_groups,
            },
            public: None,
            address,
            description: String::new(),
            delete_on_termination: true,
        }]);
    }
    for (given, what) in [
        (top.subnet_id.is_some(), "an instance-level subnet ID"),
        (
            !top.security_group_ids.is_empty() || !top.security_groups.is_empty(),
            "instance-level security groups",
        ),
        (
            top.private_ip_address.is_some(),
            "an instance-level private IP address",
        ),
    ] {
        if given {
            return Err(combination(format!(
                "Network interfaces and {what} may not be specified on the same request"
            )));
        }
    }
    if listed.len() > usize::try_from(kind.interfaces_max).unwrap_or(usize::MAX) {
        return Err(catalogue::ATTACHMENT_LIMIT_EXCEEDED.error(format!(
            "Interface count {} exceeds the limit for {}",
            listed.len(),
            kind.name
        )));
    }
    let alone = listed.len() == 1;
    let mut wishes = listed
        .into_iter()
        .map(|one| interface_wish(one, count_max))
        .collect::<Result<Vec<_>, _>>()?;
    if wishes.iter().any(|wish| wish.public.is_some()) && !(alone && wishes[0].device_index == 0) {
        return Err(combination(
            "The associatePublicIPAddress parameter can only be specified for the network interface with DeviceIndex 0 \
             of an instance with a single network interface.",
        ));
    }
    let indexes: BTreeSet<u32> = wishes.iter().map(|wish| wish.device_index).collect();
    if indexes.len() < wishes.len() {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error("Each network interface requires a unique device index."));
    }
    if !indexes.contains(&0) {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error("When specifying network interfaces, you must include a device at index 0."));
    }
    wishes.sort_by_key(|wish| wish.device_index);
    Ok(wishes)
}

fn interface_wish(
    given: ec2::InstanceNetworkInterfaceSpecification,
    count_max: u32,
) -> Result<InterfaceWish, AwsError> {
    let ec2::InstanceNetworkInterfaceSpecification {
        associate_public_ip_address,
        delete_on_termination,
        description,
        device_index,
        groups,
        ipv6_address_count,
        ipv6_addresses,
        network_interface_id,
        private_ip_address,
        private_ip_addresses,
        secondary_private_ip_address_count,
        subnet_id,
        associate_carrier_ip_address,
        interface_type,
        network_card_index,
        ipv4_prefixes,
        ipv4_prefix_count,
        ipv6_prefixes,
        ipv6_prefix_count,
        primary_ipv6,
        ena_srd_specification,
        connection_tracking_specification,
        ena_queue_count,
    } = given;
    let some = |count: Option<i32>| count.is_some_and(|count| count != 0);
    for (given, name) in [
        (network_interface_id.is_some(), "NetworkInterfaceId"),
        (
            some(ipv6_address_count) || !ipv6_addresses.is_empty(),
            "Ipv6Addresses",
        ),
        (
            some(secondary_private_ip_address_count),
            "SecondaryPrivateIpAddressCount",
        ),
        (private_ip_addresses.len() > 1, "PrivateIpAddresses"),
        (
            associate_carrier_ip_address == Some(true),
            "AssociateCarrierIpAddress",
        ),
        (
            interface_type.is_some_and(|kind| kind != "interface"),
            "InterfaceType",
        ),
        (some(network_card_index), "NetworkCardIndex"),
        (
            some(ipv4_prefix_count) || !ipv4_prefixes.is_empty(),
            "Ipv4Prefixes",
        ),
        (
            some(ipv6_prefix_count) || !ipv6_prefixes.is_empty(),
            "Ipv6Prefixes",
        ),
        (primary_ipv6 == Some(true), "PrimaryIpv6"),
        (ena_srd_specification.is_some(), "EnaSrdSpecification"),
        (
            connection_tracking_specification.is_some(),
            "ConnectionTrackingSpecification",
        ),
        (ena_queue_count.is_some(), "EnaQueueCount"),
    ] {
        if given {
            return Err(unsupported(&format!("NetworkInterface.{name}")));
        }
    }
    let description = description.unwrap_or_default();
    if description.chars().count() > DESCRIPTION_CHARS_MAX {
        return Err(AwsError::invalid_value(
            &description,
            "NetworkInterface.Description",
            "It must not be longer than 255 characters.",
        ));
    }
    let index = device_index.ok_or_else(|| AwsError::missing_parameter("NetworkInterface.DeviceIndex"))?;
    let device_index = u32::try_from(index).map_err(|_| {
        AwsError::invalid_value(
            &index.to_string(),
            "NetworkInterface.DeviceIndex",
            "It must not be negative.",
        )
    })?;
    let listed = private_ip_addresses
        .into_iter()
        .next()
        .and_then(|one| one.private_ip_address);
    let address = private_ip_address
        .or(listed)
        .map(|text| address(&text, count_max))
        .transpose()?;
    Ok(InterfaceWish {
        device_index,
        network: LaunchNetworkRequest {
            subnet: subnet_id,
            zone: None,
            group_ids: groups,
            group_names: Vec::new(),
        },
        public: associate_public_ip_address,
        address,
        description,
        delete_on_termination: delete_on_termination.unwrap_or(true),
    })
}

fn address(text: &str, count_max: u32) -> Result<Ipv4Addr, AwsError> {
    if count_max > 1 {
        return Err(combination(
            "A private IP address cannot be specified when launching more than one instance.",
        ));
    }
    text.parse()
        .map_err(|_| AwsError::invalid_value(text, "privateIpAddress", "It is not an IPv4 address."))
}

//! DescribeRegions, DescribeAvailabilityZones, DescribeAccountAttributes: where this cloud is and what an account has.
//!
//! There is one region; zones are those of the nodes (R35). A zone without a live node would be `unavailable`; liveness
//! comes with presence (a later issue), so every zone that has a node is `available` here.

use super::request::filters;
use crate::context::{Context, zones_of};
use crate::error::store_error;
use crate::limits;
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, one};
use aws_types::{AvailabilityZone, AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use network::capability::names::zone_id;
use network::records::Vpc;

const NOT_REQUIRED: &str = "opt-in-not-required";

/// DescribeRegions.
pub struct DescribeRegions(pub Context);

#[async_trait]
impl Operation for DescribeRegions {
    type Shape = operations::DescribeRegions;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeRegions"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeRegionsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeRegions").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeRegionsRequest,
    ) -> Result<ec2::DescribeRegionsResult, AwsError> {
        let own = call.region.as_str();
        if let Some(unknown) = input.region_names.iter().find(|name| *name != own) {
            return Err(
                catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid region provided: {unknown}"))
            );
        }
        let filters = filters(input.filters, &["endpoint", "opt-in-status", "region-name"])?;
        let matches = filters.matches(&Tags::new(), |name| match name {
            "endpoint" => one(self.0.endpoint.as_str()),
            "opt-in-status" => one(NOT_REQUIRED),
            "region-name" => one(own),
            _ => Values::new(),
        });
        let region = ec2::Region {
            region_name: Some(own.to_owned()),
            endpoint: Some(self.0.endpoint.clone()),
            opt_in_status: Some(NOT_REQUIRED.to_owned()),
            ..Default::default()
        };
        Ok(ec2::DescribeRegionsResult {
            regions: if matches { vec![region] } else { Vec::new() },
        })
    }
}

const ZONE_FILTERS: &[&str] = &[
    "group-long-name",
    "group-name",
    "message",
    "opt-in-status",
    "parent-zone-id",
    "parent-zone-name",
    "region-name",
    "state",
    "zone-id",
    "zone-name",
    "zone-type",
];

/// DescribeAvailabilityZones.
pub struct DescribeAvailabilityZones(pub Context);

#[async_trait]
impl Operation for DescribeAvailabilityZones {
    type Shape = operations::DescribeAvailabilityZones;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeAvailabilityZones"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeAvailabilityZonesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeAvailabilityZones").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeAvailabilityZonesRequest,
    ) -> Result<ec2::DescribeAvailabilityZonesResult, AwsError> {
        let zones = zones_of(&self.0.list_nodes().await?);
        let unknown = |label: &str, name: &str| {
            catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid {label}: [{name}]"))
        };
        if let Some(name) = input
            .zone_names
            .iter()
            .find(|name| !zones.iter().any(|zone| zone.as_str() == *name))
        {
            return Err(unknown("availability zone", name));
        }
        if let Some(id) = input
            .zone_ids
            .iter()
            .find(|id| !zones.iter().any(|zone| zone_id(zone) == **id))
        {
            return Err(unknown("availability zone-id", id));
        }
        let filters = filters(input.filters, ZONE_FILTERS)?;
        let region = call.region.as_str();
        let wanted = |zone: &&AvailabilityZone| {
            let named =
                input.zone_names.is_empty() || input.zone_names.iter().any(|name| name == zone.as_str());
            let identified = input.zone_ids.is_empty() || input.zone_ids.contains(&zone_id(zone));
            named
                && identified
                && filters.matches(&Tags::new(), |name| match name {
                    "group-name" | "region-name" => one(region),
                    "group-long-name" => one(group_long_name(region)),
                    "opt-in-status" => one(NOT_REQUIRED),
                    "state" => one("available"),
                    "zone-id" => one(zone_id(zone)),
                    "zone-name" => one(zone.as_str().to_owned()),
                    "zone-type" => one("availability-zone"),
                    _ => Values::new(),
                })
        };
        let availability_zones = zones
            .iter()
            .filter(wanted)
            .map(|zone| render_zone(zone, region))
            .collect();
        Ok(ec2::DescribeAvailabilityZonesResult { availability_zones })
    }
}

fn group_long_name(region: &str) -> String {
    format!("{region} 1")
}

fn render_zone(zone: &AvailabilityZone, region: &str) -> ec2::AvailabilityZone {
    ec2::AvailabilityZone {
        opt_in_status: Some(NOT_REQUIRED.to_owned()),
        region_name: Some(region.to_owned()),
        zone_name: Some(zone.to_string()),
        zone_id: Some(zone_id(zone)),
        group_name: Some(region.to_owned()),
        group_long_name: Some(group_long_name(region)),
        network_border_group: Some(region.to_owned()),
        zone_type: Some("availability-zone".to_owned()),
        state: Some("available".to_owned()),
        ..Default::default()
    }
}

/// DescribeAccountAttributes.
pub struct DescribeAccountAttributes(pub Context);

const ACCOUNT_ATTRIBUTES: &[&str] = &[
    "supported-platforms",
    "default-vpc",
    "max-instances",
    "vpc-max-security-groups-per-interface",
    "max-elastic-ips",
    "vpc-max-elastic-ips",
];

#[async_trait]
impl Operation for DescribeAccountAttributes {
    type Shape = operations::DescribeAccountAttributes;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeAccountAttributes"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeAccountAttributesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeAccountAttributes").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeAccountAttributesRequest,
    ) -> Result<ec2::DescribeAccountAttributesResult, AwsError> {
        if let Some(unknown) = input
            .attribute_names
            .iter()
            .find(|name| !ACCOUNT_ATTRIBUTES.contains(&name.as_str()))
        {
            return Err(AwsError::invalid_value(
                unknown,
                "attributeName",
                "It is not an account attribute.",
            ));
        }
        let account = call.account().to_string();
        let default_vpc = self
            .0
            .store
            .find_unique::<Vpc>("default", &[&account])
            .await
            .map_err(store_error)?;
        let value_of = |name: &str| match name {
            "supported-platforms" => "VPC".to_owned(),
            "default-vpc" => default_vpc
                .as_ref()
                .map_or_else(|| "none".to_owned(), |vpc| vpc.id.to_string()),
            "max-instances" => limits::INSTANCES_PER_LAUNCH_MAX.to_string(),
            "vpc-max-security-groups-per-interface" => network::limits::GROUPS_PER_INTERFACE_MAX.to_string(),
            // Elastic IPs are not built yet, so none can be allocated.
            _ => "0".to_owned(),
        };
        let account_attributes = ACCOUNT_ATTRIBUTES
            .iter()
            .filter(|name| {
                input.attribute_names.is_empty() || input.attribute_names.iter().any(|wanted| wanted == *name)
            })
            .map(|name| ec2::AccountAttribute {
                attribute_name: Some((*name).to_owned()),
                attribute_values: vec![ec2::AccountAttributeValue {
                    attribute_value: Some(value_of(name)),
                }],
            })
            .collect();
        Ok(ec2::DescribeAccountAttributesResult { account_attributes })
    }
}

//! DescribeInstanceTypes and DescribeInstanceTypeOfferings: what the nodes offer, from the one catalogue (R33, R34).
//!
//! What is not enforced is not shown: bandwidths and clock speeds are absent, and filters on them match nothing.

use super::request::{count, filters, number};
use crate::context::{Context, zones_of};
use crate::instance_types::{self, Class, InstanceType};
use crate::limits;
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, flag, one};
use aws_types::page::PageRequest;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use network::capability::names::zone_id;
use std::collections::BTreeSet;

const TYPE_FILTERS: &[&str] = &[
    "auto-recovery-supported",
    "bare-metal",
    "burstable-performance-supported",
    "current-generation",
    "dedicated-hosts-supported",
    "ebs-info.attachment-limit-type",
    "ebs-info.maximum-ebs-attachments",
    "ebs-info.ebs-optimized-info.baseline-bandwidth-in-mbps",
    "ebs-info.ebs-optimized-info.baseline-iops",
    "ebs-info.ebs-optimized-info.baseline-throughput-in-mbps",
    "ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps",
    "ebs-info.ebs-optimized-info.maximum-iops",
    "ebs-info.ebs-optimized-info.maximum-throughput-in-mbps",
    "ebs-info.ebs-optimized-support",
    "ebs-info.encryption-support",
    "ebs-info.nvme-support",
    "free-tier-eligible",
    "hibernation-supported",
    "hypervisor",
    "instance-storage-info.disk.count",
    "instance-storage-info.disk.size-in-gb",
    "instance-storage-info.disk.type",
    "instance-storage-info.encryption-support",
    "instance-storage-info.nvme-support",
    "instance-storage-info.total-size-in-gb",
    "instance-storage-supported",
    "instance-type",
    "memory-info.size-in-mib",
    "network-info.bandwidth-weightings",
    "network-info.efa-info.maximum-efa-interfaces",
    "network-info.efa-supported",
    "network-info.ena-support",
    "network-info.encryption-in-transit-supported",
    "network-info.flexible-ena-queues-support",
    "network-info.ipv4-addresses-per-interface",
    "network-info.ipv6-addresses-per-interface",
    "network-info.ipv6-supported",
    "network-info.maximum-network-cards",
    "network-info.maximum-network-interfaces",
    "network-info.network-performance",
    "nitro-enclaves-support",
    "nitro-tpm-support",
    "nitro-tpm-info.supported-versions",
    "processor-info.supported-architecture",
    "processor-info.supported-features",
    "processor-info.sustained-clock-speed-in-ghz",
    "reboot-migration-support",
    "supported-boot-mode",
    "supported-root-device-type",
    "supported-usage-class",
    "supported-virtualization-type",
    "vcpu-info.default-cores",
    "vcpu-info.default-threads-per-core",
    "vcpu-info.default-vcpus",
    "vcpu-info.valid-cores",
    "vcpu-info.valid-threads-per-core",
];

/// Types whose use costs nothing in AWS's free tier, which scripts select by.
const FREE_TIER: [&str; 2] = ["t2.micro", "t3.micro"];
const BOOT_MODES: [&str; 2] = ["legacy-bios", "uefi"];
const UNSUPPORTED: &str = "unsupported";

/// DescribeInstanceTypes.
pub struct DescribeInstanceTypes(pub Context);

#[async_trait]
impl Operation for DescribeInstanceTypes {
    type Shape = operations::DescribeInstanceTypes;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInstanceTypes"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeInstanceTypesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeInstanceTypes").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInstanceTypesRequest,
    ) -> Result<ec2::DescribeInstanceTypesResult, AwsError> {
        let binding = call.page_binding(<Self::Shape as OperationShape>::SCHEMA);
        let names = &input.instance_types;
        if names.len() > limits::TYPE_NAMES_PER_CALL_MAX {
            return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                "The maximum number of instance types is {}",
                limits::TYPE_NAMES_PER_CALL_MAX
            )));
        }
        let page = PageRequest::ec2(
            input.max_results,
            input.next_token.as_deref(),
            !names.is_empty(),
            limits::PAGE_ITEMS_MIN..=limits::TYPES_PER_PAGE_MAX,
            &self.0.page_key,
            &binding,
        )?;
        // One page holds at most a hundred types, also when the request names no size.
        let page = PageRequest {
            limit: page.limit.min(limits::TYPE_NAMES_PER_CALL_MAX),
            ..page
        };
        let filters = filters(input.filters, TYPE_FILTERS)?;
        let nodes = self.0.list_nodes().await?;
        let offered: Vec<&InstanceType> = instance_types::offered(&nodes).collect();
        let unknown: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !offered.iter().any(|kind| kind.name == *name))
            .collect();
        if !unknown.is_empty() {
            return Err(catalogue::INVALID_INSTANCE_TYPE.error(format!(
                "The following supplied instance types do not exist: [{}]",
                unknown.join(", ")
            )));
        }
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let matching = offered.into_iter().filter(|kind| {
            (wanted.is_empty() || wanted.contains(kind.name))
                && filters.matches(&Tags::new(), |name| type_values(kind, name))
        });
        let (kinds, next_token) = page.cut(matching, |kind| kind.name.to_owned(), &self.0.page_key, &binding);
        Ok(ec2::DescribeInstanceTypesResult {
            instance_types: kinds.into_iter().map(render_type).collect(),
            next_token,
        })
    }
}

fn type_values(kind: &InstanceType, name: &str) -> Values<'static> {
    let text = |value: u32| one(value.to_string());
    match name {
        "auto-recovery-supported"
        | "bare-metal"
        | "dedicated-hosts-supported"
        | "hibernation-supported"
        | "instance-storage-supported"
        | "network-info.efa-supported"
        | "network-info.encryption-in-transit-supported"
        | "network-info.ipv6-supported" => flag(false),
        "burstable-performance-supported" => flag(kind.class == Class::Burstable),
        "current-generation" => flag(kind.current),
        "ebs-info.attachment-limit-type" => one("shared"),
        "ebs-info.maximum-ebs-attachments" => one(limits::DEVICES_PER_INSTANCE_MAX.to_string()),
        "ebs-info.ebs-optimized-support"
        | "ebs-info.encryption-support"
        | "ebs-info.nvme-support"
        | "network-info.ena-support"
        | "network-info.flexible-ena-queues-support"
        | "nitro-enclaves-support"
        | "nitro-tpm-support"
        | "reboot-migration-support" => one(UNSUPPORTED),
        "free-tier-eligible" => flag(FREE_TIER.contains(&kind.name)),
        "hypervisor" => one(kind.hypervisor),
        "instance-type" => one(kind.name),
        "memory-info.size-in-mib" => one(kind.memory_mib.to_string()),
        "network-info.ipv4-addresses-per-interface" => text(kind.addresses_per_interface_max),
        "network-info.ipv6-addresses-per-interface" => text(0),
        "network-info.maximum-network-cards" => text(1),
        "network-info.maximum-network-interfaces" => text(kind.interfaces_max),
        "processor-info.supported-architecture" => one(kind.architecture),
        "supported-boot-mode" => BOOT_MODES.into_iter().map(Into::into).collect(),
        "supported-root-device-type" => one("ebs"),
        "supported-usage-class" => one("on-demand"),
        "supported-virtualization-type" => one("hvm"),
        "vcpu-info.default-cores" => text(kind.cores()),
        "vcpu-info.default-threads-per-core" => text(kind.threads_per_core),
        "vcpu-info.default-vcpus" => text(kind.vcpus),
        "vcpu-info.valid-cores" => valid_cores(kind).map(|cores| cores.to_string().into()).collect(),
        "vcpu-info.valid-threads-per-core" => valid_threads(kind)
            .map(|threads| threads.to_string().into())
            .collect(),
        _ => Values::new(),
    }
}

/// Core counts that CpuOptions may name for a type: any even number up to the type's, and one.
pub fn valid_cores(kind: &InstanceType) -> impl Iterator<Item = u32> {
    let cores = kind.cores();
    (1..=cores).filter(move |count| *count == cores || *count == 1 || count % 2 == 0)
}

/// Threads per core that CpuOptions may name for a type.
pub fn valid_threads(kind: &InstanceType) -> impl Iterator<Item = u32> {
    1..=kind.threads_per_core
}

fn render_type(kind: &'static InstanceType) -> ec2::InstanceTypeInfo {
    let text = |value: &str| Some(value.to_owned());
    ec2::InstanceTypeInfo {
        instance_type: text(kind.name),
        current_generation: Some(kind.current),
        free_tier_eligible: Some(FREE_TIER.contains(&kind.name)),
        supported_usage_classes: vec!["on-demand".to_owned()],
        supported_root_device_types: vec!["ebs".to_owned()],
        supported_virtualization_types: vec!["hvm".to_owned()],
        bare_metal: Some(false),
        hypervisor: text(kind.hypervisor),
        processor_info: Some(ec2::ProcessorInfo {
            supported_architectures: vec![kind.architecture.to_owned()],
            ..Default::default()
        }),
        v_cpu_info: Some(ec2::VCpuInfo {
            default_v_cpus: Some(number(kind.vcpus)),
            default_cores: Some(number(kind.cores())),
            default_threads_per_core: Some(number(kind.threads_per_core)),
            valid_cores: valid_cores(kind).map(number).collect(),
            valid_threads_per_core: valid_threads(kind).map(number).collect(),
        }),
        memory_info: Some(ec2::MemoryInfo {
            size_in_mi_b: i64::try_from(kind.memory_mib).ok(),
        }),
        instance_storage_supported: Some(false),
        ebs_info: Some(ec2::EbsInfo {
            ebs_optimized_support: text(UNSUPPORTED),
            encryption_support: text(UNSUPPORTED),
            nvme_support: text(UNSUPPORTED),
            maximum_ebs_attachments: Some(count(limits::DEVICES_PER_INSTANCE_MAX)),
            attachment_limit_type: text("shared"),
            ..Default::default()
        }),
        network_info: Some(ec2::NetworkInfo {
            maximum_network_interfaces: Some(number(kind.interfaces_max)),
            maximum_network_cards: Some(1),
            default_network_card_index: Some(0),
            network_cards: vec![ec2::NetworkCardInfo {
                network_card_index: Some(0),
                maximum_network_interfaces: Some(number(kind.interfaces_max)),
                ..Default::default()
            }],
            ipv4_addresses_per_interface: Some(number(kind.addresses_per_interface_max)),
            ipv6_addresses_per_interface: Some(0),
            ipv6_supported: Some(false),
            ena_support: text(UNSUPPORTED),
            efa_supported: Some(false),
            encryption_in_transit_supported: Some(false),
            ena_srd_supported: Some(false),
            ..Default::default()
        }),
        placement_group_info: Some(ec2::PlacementGroupInfo::default()),
        hibernation_supported: Some(false),
        burstable_performance_supported: Some(kind.class == Class::Burstable),
        dedicated_hosts_supported: Some(false),
        auto_recovery_supported: Some(false),
        supported_boot_modes: BOOT_MODES.map(str::to_owned).to_vec(),
        nitro_enclaves_support: text(UNSUPPORTED),
        nitro_tpm_support: text(UNSUPPORTED),
        reboot_migration_support: text(UNSUPPORTED),
        ..Default::default()
    }
}

/// DescribeInstanceTypeOfferings.
pub struct DescribeInstanceTypeOfferings(pub Context);

#[async_trait]
impl Operation for DescribeInstanceTypeOfferings {
    type Shape = operations::DescribeInstanceTypeOfferings;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInstanceTypeOfferings"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeInstanceTypeOfferingsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeInstanceTypeOfferings").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInstanceTypeOfferingsRequest,
    ) -> Result<ec2::DescribeInstanceTypeOfferingsResult, AwsError> {
        let binding = call.page_binding(<Self::Shape as OperationShape>::SCHEMA);
        let page = PageRequest::ec2(
            input.max_results,
            input.next_token.as_deref(),
            false,
            limits::PAGE_ITEMS_MIN..=limits::PAGE_ITEMS_MAX,
            &self.0.page_key,
            &binding,
        )?;
        let filters = filters(input.filters, &["instance-type", "location"])?;
        let kind = input.location_type.as_deref().unwrap_or("region");
        let nodes = self.0.list_nodes().await?;
        let mut offerings: BTreeSet<(&'static str, String)> = BTreeSet::new();
        for zone in zones_of(&nodes) {
            let location = match kind {
                "region" => call.region.to_string(),
                "availability-zone" => zone.to_string(),
                "availability-zone-id" => zone_id(&zone),
                other => {
                    return Err(catalogue::INVALID_PARAMETER_VALUE
                        .error(format!("The locationType '{other}' is not supported.")));
                }
            };
            let here: Vec<_> = nodes
                .iter()
                .filter(|node| node.zone == zone.as_str())
                .cloned()
                .collect();
            offerings.extend(instance_types::offered(&here).map(|offered| (offered.name, location.clone())));
        }
        let matching = offerings.into_iter().filter(|(name, location)| {
            filters.matches(&Tags::new(), |filter| match filter {
                "instance-type" => one(*name),
                "location" => one(location.clone()),
                _ => Values::new(),
            })
        });
        let key_of = |(name, location): &(&str, String)| format!("{name} {location}");
        let mut matching: Vec<_> = matching.collect();
        matching.sort_by_key(key_of);
        let (offerings, next_token) = page.cut(matching, key_of, &self.0.page_key, &binding);
        let instance_type_offerings = offerings
            .into_iter()
            .map(|(name, location)| ec2::InstanceTypeOffering {
                instance_type: Some(name.to_owned()),
                location_type: Some(kind.to_owned()),
                location: Some(location),
            })
            .collect();
        Ok(ec2::DescribeInstanceTypeOfferingsResult {
            instance_type_offerings,
            next_token,
        })
    }
}

//! RunInstances' input, checked and classified without the store.
//!
//! Every member of the input is named here by destructuring without `..`, so that a member that AWS adds cannot be
//! forgotten: it is honoured, or a value other than the default is refused with `UnsupportedOperation` (R7, R18). What
//! needs records (image, key, subnet, capacity) is judged in the transaction.

use super::devices::{DeviceWish, device_wishes};
use super::interfaces::{InterfaceWish, interface_wishes};
use crate::error::{combination, unsupported};
use crate::instance_types::{self, InstanceType};
use crate::limits;
use crate::ops::instance_types::{valid_cores, valid_threads};
use crate::ops::request::{choice, ids, switch};
use crate::records::{CreditMode, MetadataSettings, Protection, ShutdownBehaviour};
use aws_shapes::ec2;
use aws_types::ids::ImageId;
use aws_types::{AwsError, Tags, catalogue};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use network::capability::tags;
use std::collections::BTreeMap;

/// Resource types that TagSpecification may name.
const TAGGED: &[&str] = &[super::INSTANCE, super::VOLUME, tags::NETWORK_INTERFACE];

/// The type of a launch that names none (compute.md 2.5).
const TYPE_DEFAULT: &str = "t3.micro";

/// A launch as asked for, well formed.
#[derive(Clone, Debug)]
pub(super) struct LaunchRequest {
    pub image: ImageId,
    pub kind: &'static InstanceType,
    pub count_min: u32,
    pub count_max: u32,
    pub key_name: Option<String>,
    pub zone: ZoneWish,
    pub interfaces: Vec<InterfaceWish>,
    pub devices: Vec<DeviceWish>,
    /// Base64 without line breaks.
    pub user_data: Option<String>,
    pub tags: BTreeMap<String, Tags>,
    pub metadata: MetadataSettings,
    pub core_count: u32,
    pub threads_per_core: u32,
    pub credits: Option<CreditMode>,
    pub protection: Protection,
    pub shutdown_behaviour: ShutdownBehaviour,
    pub auto_recovery: bool,
    pub monitoring: bool,
    pub ebs_optimized: bool,
    pub client_token: Option<String>,
}

/// Where the launch should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneWish {
    Any,
    Name(String),
    Id(String),
}

impl LaunchRequest {
    /// Reads the input.
    pub(super) fn parse(input: ec2::RunInstancesRequest) -> Result<LaunchRequest, AwsError> {
        let ec2::RunInstancesRequest {
            block_device_mappings,
            image_id,
            instance_type,
            ipv6_address_count,
            ipv6_addresses,
            kernel_id,
            key_name,
            max_count,
            min_count,
            monitoring,
            placement,
            ramdisk_id,
            security_group_ids,
            security_groups,
            subnet_id,
            user_data,
            elastic_gpu_specification,
            elastic_inference_accelerators,
            tag_specifications,
            launch_template,
            instance_market_options,
            credit_specification,
            cpu_options,
            capacity_reservation_specification,
            hibernation_options,
            license_specifications,
            metadata_options,
            enclave_options,
            private_dns_name_options,
            maintenance_options,
            disable_api_stop,
            enable_primary_ipv6,
            network_performance_options,
            operator,
            secondary_interfaces,
            // The registry answers dry runs.
            dry_run: _,
            disable_api_termination,
            instance_initiated_shutdown_behavior,
            private_ip_address,
            client_token,
            additional_info,
            network_interfaces,
            iam_instance_profile,
            ebs_optimized,
        } = input;

        refuse(
            ipv6_address_count.is_some_and(|count| count != 0) || !ipv6_addresses.is_empty(),
            "Ipv6Addresses",
        )?;
        refuse(kernel_id.is_some(), "KernelId")?;
        refuse(ramdisk_id.is_some(), "RamdiskId")?;
        refuse(!elastic_gpu_specification.is_empty(), "ElasticGpuSpecification")?;
        refuse(
            !elastic_inference_accelerators.is_empty(),
            "ElasticInferenceAccelerators",
        )?;
        refuse(!license_specifications.is_empty(), "LicenseSpecifications")?;
        refuse(!secondary_interfaces.is_empty(), "SecondaryInterfaces")?;
        refuse(launch_template.is_some(), "LaunchTemplate")?;
        refuse(instance_market_options.is_some(), "InstanceMarketOptions")?;
        refuse(iam_instance_profile.is_some(), "IamInstanceProfile")?;
        refuse(operator.is_some(), "Operator")?;
        refuse(enable_primary_ipv6 == Some(true), "EnablePrimaryIpv6")?;
        refuse(
            additional_info.is_some_and(|info| !info.is_empty()),
            "AdditionalInfo",
        )?;
        refuse(
            enclave_options.and_then(|options| options.enabled) == Some(true),
            "EnclaveOptions",
        )?;
        refuse_options(
            capacity_reservation_specification,
            private_dns_name_options,
            network_performance_options,
        )?;
        if hibernation_options.and_then(|options| options.configured) == Some(true) {
            return Err(catalogue::UNSUPPORTED_HIBERNATION_CONFIGURATION
                .error("Hibernation is not supported for this instance."));
        }

        let image = image_id.ok_or_else(|| AwsError::missing_parameter("ImageId"))?;
        let image = ids(
            std::slice::from_ref(&image),
            1,
            catalogue::INVALID_AMI_ID_MALFORMED,
            ImageId::parse,
        )?
        .remove(0);
        let type_name = instance_type.unwrap_or_else(|| TYPE_DEFAULT.to_owned());
        let kind = instance_types::find(&type_name).ok_or_else(|| {
            catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid value '{type_name}' for InstanceType."))
        })?;
        let (count_min, count_max) = counts(min_count, max_count)?;
        let (core_count, threads_per_core) = cpus(kind, cpu_options)?;
        let interfaces = interface_wishes(
            network_interfaces,
            super::interfaces::TopLevel {
                subnet_id,
                security_group_ids,
                security_groups,
                private_ip_address,
            },
            count_max,
            kind,
        )?;
        Ok(LaunchRequest {
            image,
            kind,
            count_min,
            count_max,
            key_name,
            zone: zone_wish(placement)?,
            interfaces,
            devices: device_wishes(block_device_mappings)?,
            user_data: user_data.map(|text| check_user_data(&text)).transpose()?,
            tags: tags::from_specifications(&tag_specifications, TAGGED)?,
            metadata: metadata_settings(metadata_options)?,
            core_count,
            threads_per_core,
            credits: credits(kind, credit_specification)?,
            protection: Protection {
                termination: disable_api_termination.unwrap_or(false),
                stop: disable_api_stop.unwrap_or(false),
            },
            shutdown_behaviour: instance_initiated_shutdown_behavior
                .map(|value| shutdown_behaviour(&value))
                .transpose()?
                .unwrap_or_default(),
            auto_recovery: maintenance_options
                .and_then(|options| options.auto_recovery)
                .map(|value| {
                    choice(&value, "MaintenanceOptions.AutoRecovery", |value| match value {
                        "default" => Some(true),
                        "disabled" => Some(false),
                        _ => None,
                    })
                })
                .transpose()?
                .unwrap_or(true),
            monitoring: monitoring
                .and_then(|monitoring| monitoring.enabled)
                .unwrap_or(false),
            ebs_optimized: ebs_optimized.unwrap_or(false),
            client_token,
        })
    }
}

fn refuse(given: bool, parameter: &str) -> Result<(), AwsError> {
    if given {
        Err(unsupported(parameter))
    } else {
        Ok(())
    }
}

fn refuse_options(
    reservation: Option<ec2::CapacityReservationSpecification>,
    dns: Option<ec2::PrivateDnsNameOptionsRequest>,
    performance: Option<ec2::InstanceNetworkPerformanceOptionsRequest>,
) -> Result<(), AwsError> {
    if let Some(ec2::CapacityReservationSpecification {
        capacity_reservation_preference,
        capacity_reservation_target,
    }) = reservation
    {
        refuse(
            capacity_reservation_target.is_some(),
            "CapacityReservationSpecification.CapacityReservationTarget",
        )?;
        let preference = capacity_reservation_preference.unwrap_or_else(|| "open".to_owned());
        refuse(
            !matches!(preference.as_str(), "open" | "none"),
            "CapacityReservationSpecification.CapacityReservationPreference",
        )?;
    }
    if let Some(ec2::PrivateDnsNameOptionsRequest {
        hostname_type,
        enable_resource_name_dns_a_record,
        enable_resource_name_dns_aaaa_record,
    }) = dns
    {
        refuse(
            hostname_type.is_some_and(|kind| kind != "ip-name"),
            "PrivateDnsNameOptions.HostnameType",
        )?;
        refuse(
            enable_resource_name_dns_a_record == Some(true)
                || enable_resource_name_dns_aaaa_record == Some(true),
            "PrivateDnsNameOptions",
        )?;
    }
    if let Some(ec2::InstanceNetworkPerformanceOptionsRequest { bandwidth_weighting }) = performance {
        refuse(
            bandwidth_weighting.is_some_and(|weighting| weighting != "default"),
            "NetworkPerformanceOptions.BandwidthWeighting",
        )?;
    }
    Ok(())
}

/// R13: `MaxCount` may be any positive number; what a launch creates is bounded later.
fn counts(min: Option<i32>, max: Option<i32>) -> Result<(u32, u32), AwsError> {
    let positive = |value: Option<i32>, name: &str| {
        let value = value.ok_or_else(|| AwsError::missing_parameter(name))?;
        u32::try_from(value)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| AwsError::invalid_value(&value.to_string(), name, "It must be a positive number."))
    };
    let (min, max) = (positive(min, "MinCount")?, positive(max, "MaxCount")?);
    if max < min {
        return Err(AwsError::invalid_value(
            &max.to_string(),
            "MaxCount",
            "It must not be less than MinCount.",
        ));
    }
    Ok((min, max))
}

fn cpus(kind: &InstanceType, options: Option<ec2::CpuOptionsRequest>) -> Result<(u32, u32), AwsError> {
    let Some(ec2::CpuOptionsRequest {
        core_count,
        threads_per_core,
        amd_sev_snp,
        nested_virtualization,
    }) = options
    else {
        return Ok((kind.cores(), kind.threads_per_core));
    };
    refuse(
        amd_sev_snp.is_some_and(|value| value != "disabled"),
        "CpuOptions.AmdSevSnp",
    )?;
    refuse(
        nested_virtualization.is_some_and(|value| value != "disabled"),
        "CpuOptions.NestedVirtualization",
    )?;
    let given =
        |value: Option<i32>, default: u32| value.map_or(Some(default), |value| u32::try_from(value).ok());
    let cores =
        given(core_count, kind.cores()).filter(|count| valid_cores(kind).any(|valid| valid == *count));
    let threads = given(threads_per_core, kind.threads_per_core)
        .filter(|count| valid_threads(kind).any(|valid| valid == *count));
    match (cores, threads) {
        (Some(cores), Some(threads)) => Ok((cores, threads)),
        _ => Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "The CPU options are not valid for the instance type {}.",
            kind.name
        ))),
    }
}

fn credits(
    kind: &InstanceType,
    specification: Option<ec2::CreditSpecificationRequest>,
) -> Result<Option<CreditMode>, AwsError> {
    let Some(asked) = specification.and_then(|specification| specification.cpu_credits) else {
        return Ok(kind.credits_default());
    };
    if kind.credits_default().is_none() {
        return Err(combination(format!(
            "CreditSpecification cannot be used with the instance type {}.",
            kind.name
        )));
    }
    choice(&asked, "CreditSpecification.CpuCredits", |value| match value {
        "standard" => Some(CreditMode::Standard),
        "unlimited" => Some(CreditMode::Unlimited),
        _ => None,
    })
    .map(Some)
}

/// `stop` or `terminate`.
///
/// # Errors
/// `InvalidParameterValue`.
pub(in crate::ops) fn shutdown_behaviour(value: &str) -> Result<ShutdownBehaviour, AwsError> {
    choice(value, "InstanceInitiatedShutdownBehavior", |value| match value {
        "stop" => Some(ShutdownBehaviour::Stop),
        "terminate" => Some(ShutdownBehaviour::Terminate),
        _ => None,
    })
}

fn metadata_settings(
    options: Option<ec2::InstanceMetadataOptionsRequest>,
) -> Result<MetadataSettings, AwsError> {
    let mut settings = MetadataSettings::default();
    let Some(ec2::InstanceMetadataOptionsRequest {
        http_tokens,
        http_put_response_hop_limit,
        http_endpoint,
        http_protocol_ipv6,
        instance_metadata_tags,
    }) = options
    else {
        return Ok(settings);
    };
    if let Some(value) = http_tokens {
        settings.tokens_required = choice(&value, "MetadataOptions.HttpTokens", |value| match value {
            "required" => Some(true),
            "optional" => Some(false),
            _ => None,
        })?;
    }
    if let Some(value) = http_put_response_hop_limit {
        settings.hop_limit = u8::try_from(value)
            .ok()
            .filter(|hops| (1..=64).contains(hops))
            .ok_or_else(|| {
                AwsError::invalid_value(
                    &value.to_string(),
                    "MetadataOptions.HttpPutResponseHopLimit",
                    "It must be between 1 and 64.",
                )
            })?;
    }
    if let Some(value) = http_endpoint {
        settings.endpoint_enabled = choice(&value, "MetadataOptions.HttpEndpoint", switch)?;
    }
    if let Some(value) = instance_metadata_tags {
        settings.tags_enabled = choice(&value, "MetadataOptions.InstanceMetadataTags", switch)?;
    }
    if let Some(value) = http_protocol_ipv6 {
        refuse(
            choice(&value, "MetadataOptions.HttpProtocolIpv6", switch)?,
            "MetadataOptions.HttpProtocolIpv6",
        )?;
    }
    Ok(settings)
}

fn zone_wish(placement: Option<ec2::Placement>) -> Result<ZoneWish, AwsError> {
    let Some(ec2::Placement {
        availability_zone_id,
        affinity,
        group_name,
        partition_number,
        host_id,
        tenancy,
        spread_domain,
        host_resource_group_arn,
        group_id,
        availability_zone,
    }) = placement
    else {
        return Ok(ZoneWish::Any);
    };
    let is_given = |value: &Option<String>| value.as_ref().is_some_and(|text| !text.is_empty());
    refuse(is_given(&affinity), "Placement.Affinity")?;
    refuse(is_given(&host_id), "Placement.HostId")?;
    refuse(is_given(&spread_domain), "Placement.SpreadDomain")?;
    refuse(
        is_given(&host_resource_group_arn),
        "Placement.HostResourceGroupArn",
    )?;
    if let Some(tenancy) = tenancy.filter(|value| !value.is_empty()) {
        let default = choice(&tenancy, "Placement.Tenancy", |value| match value {
            "default" => Some(true),
            "dedicated" | "host" => Some(false),
            _ => None,
        })?;
        refuse(!default, "Placement.Tenancy")?;
    }
    // There are no placement groups yet, so none is known.
    if let Some(group) = group_name.or(group_id).filter(|group| !group.is_empty()) {
        return Err(catalogue::INVALID_PLACEMENT_GROUP_UNKNOWN
            .error(format!("The Placement Group '{group}' is unknown.")));
    }
    refuse(partition_number.is_some(), "Placement.PartitionNumber")?;
    match (
        availability_zone.filter(|zone| !zone.is_empty()),
        availability_zone_id.filter(|id| !id.is_empty()),
    ) {
        (Some(_), Some(_)) => Err(combination(
            "The parameter availabilityZone cannot be used with the parameter availabilityZoneId",
        )),
        (Some(name), None) => Ok(ZoneWish::Name(name)),
        (None, Some(id)) => Ok(ZoneWish::Id(id)),
        (None, None) => Ok(ZoneWish::Any),
    }
}

/// Checks user data and answers it as base64 without line breaks (R17).
///
/// # Errors
/// `InvalidUserData.Malformed`; `InvalidParameterValue` above 16 KiB decoded.
pub(in crate::ops) fn check_user_data(text: &str) -> Result<String, AwsError> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = LENIENT
        .decode(&compact)
        .map_err(|_| catalogue::INVALID_USER_DATA_MALFORMED.error("Invalid BASE64 encoding of user data."))?;
    encode_user_data(&bytes)
}

/// User data as base64.
///
/// # Errors
/// `InvalidParameterValue` above 16 KiB.
pub(in crate::ops) fn encode_user_data(bytes: &[u8]) -> Result<String, AwsError> {
    if bytes.len() > limits::USER_DATA_BYTES_MAX {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "User data is limited to {} bytes",
            limits::USER_DATA_BYTES_MAX
        )));
    }
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

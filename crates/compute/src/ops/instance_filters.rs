//! The filters of DescribeInstances (compute.md 2.7): every name AWS documents, and an instance's values for it.
//!
//! A name whose property this cloud never sets is known and yields nothing, so that it matches nothing.

use super::images::{HYPERVISOR, PLATFORM_DETAILS, ROOT_DEVICE_TYPE, USAGE_OPERATION, VIRTUALIZATION};
use super::instance_view::{InstanceView, auto_recovery, tokens};
use crate::records::Attachment;
use aws_types::filter::{Values, flag, one, optional};
use network::capability::names::zone_id;
use network::records::{Attachment as InterfaceAttachment, Interface};
use std::borrow::Cow;
use time::OffsetDateTime;
use time::macros::format_description;

pub(super) const INSTANCE_FILTERS: &[&str] = &[
    "affinity",
    "architecture",
    "availability-zone",
    "availability-zone-id",
    "block-device-mapping.attach-time",
    "block-device-mapping.delete-on-termination",
    "block-device-mapping.device-name",
    "block-device-mapping.status",
    "block-device-mapping.volume-id",
    "boot-mode",
    "capacity-reservation-id",
    "capacity-reservation-specification.capacity-reservation-preference",
    "capacity-reservation-specification.capacity-reservation-target.capacity-reservation-id",
    "capacity-reservation-specification.capacity-reservation-target.capacity-reservation-resource-group-arn",
    "client-token",
    "current-instance-boot-mode",
    "dns-name",
    "ebs-optimized",
    "ena-support",
    "enclave-options.enabled",
    "hibernation-options.configured",
    "host-id",
    "hypervisor",
    "iam-instance-profile.arn",
    "iam-instance-profile.id",
    "image-id",
    "instance-id",
    "instance-lifecycle",
    "instance-state-code",
    "instance-state-name",
    "instance-type",
    "instance.group-id",
    "instance.group-name",
    "ip-address",
    "ipv6-address",
    "kernel-id",
    "key-name",
    "launch-index",
    "launch-time",
    "maintenance-options.auto-recovery",
    "metadata-options.http-endpoint",
    "metadata-options.http-protocol-ipv4",
    "metadata-options.http-protocol-ipv6",
    "metadata-options.http-put-response-hop-limit",
    "metadata-options.http-tokens",
    "metadata-options.instance-metadata-tags",
    "metadata-options.state",
    "monitoring-state",
    "network-interface.addresses.association.allocation-id",
    "network-interface.addresses.association.association-id",
    "network-interface.addresses.association.carrier-ip",
    "network-interface.addresses.association.customer-owned-ip",
    "network-interface.addresses.association.ip-owner-id",
    "network-interface.addresses.association.public-dns-name",
    "network-interface.addresses.association.public-ip",
    "network-interface.addresses.primary",
    "network-interface.addresses.private-dns-name",
    "network-interface.addresses.private-ip-address",
    "network-interface.association.allocation-id",
    "network-interface.association.association-id",
    "network-interface.association.carrier-ip",
    "network-interface.association.customer-owned-ip",
    "network-interface.association.ip-owner-id",
    "network-interface.association.public-dns-name",
    "network-interface.association.public-ip",
    "network-interface.attachment.attach-time",
    "network-interface.attachment.attachment-id",
    "network-interface.attachment.delete-on-termination",
    "network-interface.attachment.device-index",
    "network-interface.attachment.instance-id",
    "network-interface.attachment.instance-owner-id",
    "network-interface.attachment.network-card-index",
    "network-interface.attachment.status",
    "network-interface.availability-zone",
    "network-interface.deny-all-igw-traffic",
    "network-interface.description",
    "network-interface.group-id",
    "network-interface.group-name",
    "network-interface.ipv4-prefixes.ipv4-prefix",
    "network-interface.ipv6-address",
    "network-interface.ipv6-addresses.ipv6-address",
    "network-interface.ipv6-addresses.is-primary-ipv6",
    "network-interface.ipv6-native",
    "network-interface.ipv6-prefixes.ipv6-prefix",
    "network-interface.mac-address",
    "network-interface.network-interface-id",
    "network-interface.operator.managed",
    "network-interface.operator.principal",
    "network-interface.outpost-arn",
    "network-interface.owner-id",
    "network-interface.private-dns-name",
    "network-interface.private-ip-address",
    "network-interface.public-dns-name",
    "network-interface.requester-id",
    "network-interface.requester-managed",
    "network-interface.source-dest-check",
    "network-interface.status",
    "network-interface.subnet-id",
    "network-interface.tag-key",
    "network-interface.tag-value",
    "network-interface.vpc-id",
    "network-performance-options.bandwidth-weighting",
    "operator.managed",
    "operator.principal",
    "outpost-arn",
    "owner-id",
    "placement-group-name",
    "placement-partition-number",
    "platform",
    "platform-details",
    "private-dns-name",
    "private-dns-name-options.enable-resource-name-dns-a-record",
    "private-dns-name-options.enable-resource-name-dns-aaaa-record",
    "private-dns-name-options.hostname-type",
    "private-ip-address",
    "product-code",
    "product-code.type",
    "ramdisk-id",
    "reason",
    "requester-id",
    "reservation-id",
    "root-device-name",
    "root-device-type",
    "source-dest-check",
    "spot-instance-request-id",
    "state-reason-code",
    "state-reason-message",
    "subnet-id",
    "tag",
    "tag-key",
    "tenancy",
    "tpm-support",
    "usage-operation",
    "usage-operation-update-time",
    "virtualization-type",
    "vpc-id",
];

/// `2026-01-02T03:04:05.000Z`, as answers show times and filters compare them.
pub(super) fn wire_time(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(format)
        .unwrap_or_default()
}

fn switch(on: bool) -> &'static str {
    if on { "enabled" } else { "disabled" }
}

impl<'a> InstanceView<'a> {
    /// What the instance answers for a filter.
    pub(super) fn values(&self, name: &str) -> Values<'a> {
        if let Some(rest) = name.strip_prefix("network-interface.") {
            return self
                .interfaces
                .iter()
                .flat_map(|interface| self.interface_values(interface, rest))
                .collect();
        }
        if let Some(rest) = name.strip_prefix("block-device-mapping.") {
            return self
                .attachments
                .iter()
                .map(|attachment| self.device_value(attachment, rest))
                .collect();
        }
        if let Some(rest) = name.strip_prefix("metadata-options.") {
            return self.metadata_values(rest);
        }
        let instance = self.instance;
        let primary = self.primary();
        match name {
            "architecture" => one(instance.image.architecture.as_str()),
            "availability-zone" => one(instance.zone.as_str()),
            "availability-zone-id" => one(zone_id(&instance.zone)),
            "boot-mode" => optional(instance.image.boot_mode.map(|mode| mode.name())),
            "capacity-reservation-specification.capacity-reservation-preference" => one("open"),
            "client-token" => optional(instance.client_token.as_deref()),
            "current-instance-boot-mode" => one(self.current_boot_mode()),
            "dns-name" => optional(primary.and_then(|one| self.world.public_name(one))),
            "ebs-optimized" => flag(instance.ebs_optimized),
            "ena-support"
            | "enclave-options.enabled"
            | "hibernation-options.configured"
            | "operator.managed"
            | "private-dns-name-options.enable-resource-name-dns-a-record"
            | "private-dns-name-options.enable-resource-name-dns-aaaa-record" => flag(false),
            "hypervisor" => one(HYPERVISOR),
            "image-id" => one(instance.image.image.as_str()),
            "instance-id" => one(instance.id.as_str()),
            "instance-state-code" => one(instance.lifecycle.phase.state().code().to_string()),
            "instance-state-name" => one(instance.lifecycle.phase.state().name()),
            "instance-type" => one(instance.instance_type.as_str()),
            "instance.group-id" => primary.map(group_ids).unwrap_or_default(),
            "instance.group-name" => primary.map(|one| self.group_names(one)).unwrap_or_default(),
            "ip-address" => optional(primary.and_then(public_address)),
            "key-name" => optional(instance.key_name.as_deref()),
            "launch-index" => one(instance.launch_index.to_string()),
            "launch-time" | "usage-operation-update-time" => one(wire_time(instance.launched_at)),
            "maintenance-options.auto-recovery" => one(auto_recovery(instance)),
            "monitoring-state" => one(self.monitoring_state()),
            "owner-id" => one(instance.account.to_string()),
            "platform-details" => one(PLATFORM_DETAILS),
            "private-dns-name" => optional(primary.map(|one| self.private_name(one))),
            "private-dns-name-options.hostname-type" => one("ip-name"),
            "private-ip-address" => optional(primary.map(|one| one.address.to_string())),
            "reason" => optional(non_empty(&instance.lifecycle.transition_reason)),
            "reservation-id" => one(instance.reservation.as_str()),
            "root-device-name" => one(instance.image.root_device_name.as_str()),
            "root-device-type" => one(ROOT_DEVICE_TYPE),
            "source-dest-check" => primary.map(|one| flag(one.source_dest_check)).unwrap_or_default(),
            "state-reason-code" => optional(instance.lifecycle.reason.map(|reason| reason.code())),
            "state-reason-message" => optional(instance.lifecycle.reason.map(|reason| reason.message())),
            "subnet-id" => optional(primary.map(|one| one.subnet.as_str())),
            "tenancy" => one("default"),
            "usage-operation" => one(USAGE_OPERATION),
            "virtualization-type" => one(VIRTUALIZATION),
            "vpc-id" => optional(primary.map(|one| one.vpc.as_str())),
            _ => Values::new(),
        }
    }

    fn group_names(&self, interface: &Interface) -> Values<'a> {
        interface
            .groups
            .iter()
            .filter_map(|id| self.world.group_name(id))
            .map(|name| Cow::Owned(name.to_owned()))
            .collect()
    }

    fn metadata_values(&self, name: &str) -> Values<'a> {
        let settings = &self.instance.metadata;
        match name {
            "http-endpoint" => one(switch(settings.endpoint_enabled)),
            "http-protocol-ipv4" => one(switch(true)),
            "http-protocol-ipv6" => one(switch(false)),
            "http-put-response-hop-limit" => one(settings.hop_limit.to_string()),
            "http-tokens" => one(tokens(settings.tokens_required)),
            "instance-metadata-tags" => one(switch(settings.tags_enabled)),
            "state" => one(self.metadata_state()),
            _ => Values::new(),
        }
    }

    fn device_value(&self, attachment: &'a Attachment, name: &str) -> Cow<'a, str> {
        match name {
            "attach-time" => Cow::Owned(wire_time(attachment.attached_at)),
            "delete-on-termination" => Cow::Owned(attachment.delete_on_termination.to_string()),
            "device-name" => Cow::Borrowed(attachment.device_name.as_str()),
            "status" => Cow::Borrowed(self.attachment_status()),
            _ => Cow::Borrowed(attachment.volume.as_str()),
        }
    }

    fn interface_values(&self, interface: &'a Interface, name: &str) -> Values<'a> {
        if let Some(rest) = name.strip_prefix("attachment.") {
            return interface
                .attachment
                .as_ref()
                .map(|attachment| attachment_values(attachment, rest))
                .unwrap_or_default();
        }
        let association = name
            .strip_prefix("association.")
            .or_else(|| name.strip_prefix("addresses.association."));
        if let Some(rest) = association {
            return self.association_values(interface, rest);
        }
        match name {
            "addresses.primary" => flag(true),
            "addresses.private-dns-name" | "private-dns-name" => one(self.private_name(interface)),
            "addresses.private-ip-address" | "private-ip-address" => one(interface.address.to_string()),
            "availability-zone" => one(interface.zone.as_str()),
            "description" => one(interface.description.as_str()),
            "group-id" => group_ids(interface),
            "group-name" => self.group_names(interface),
            "ipv6-native" | "operator.managed" => flag(false),
            "mac-address" => one(interface.mac.as_str()),
            "network-interface-id" => one(interface.id.as_str()),
            "owner-id" => one(interface.account.to_string()),
            "public-dns-name" => optional(self.world.public_name(interface)),
            "requester-id" => optional(
                interface
                    .requester
                    .as_ref()
                    .map(|requester| requester.id.as_str()),
            ),
            "requester-managed" => flag(
                interface
                    .requester
                    .as_ref()
                    .is_some_and(|requester| requester.managed),
            ),
            "source-dest-check" => flag(interface.source_dest_check),
            "status" => one(interface.status.as_str()),
            "subnet-id" => one(interface.subnet.as_str()),
            "tag-key" => self
                .joined_tags(interface)
                .map(|(key, _)| Cow::Owned(key))
                .collect(),
            "tag-value" => self
                .joined_tags(interface)
                .map(|(_, value)| Cow::Owned(value))
                .collect(),
            "vpc-id" => one(interface.vpc.as_str()),
            _ => Values::new(),
        }
    }

    fn joined_tags(&self, interface: &Interface) -> impl Iterator<Item = (String, String)> {
        self.all_tags.of(interface.id.as_str()).clone().into_iter()
    }

    fn association_values(&self, interface: &'a Interface, name: &str) -> Values<'a> {
        let Some(mapping) = &interface.public else {
            return Values::new();
        };
        match name {
            "association-id" => one(mapping.association.as_str()),
            "ip-owner-id" => one("amazon"),
            "public-dns-name" => optional(self.world.public_name(interface)),
            "public-ip" => one(mapping.address.to_string()),
            _ => Values::new(),
        }
    }
}

fn attachment_values<'a>(attachment: &'a InterfaceAttachment, name: &str) -> Values<'a> {
    match name {
        "attach-time" => one(wire_time(attachment.attached_at)),
        "attachment-id" => one(attachment.id.as_str()),
        "delete-on-termination" => flag(attachment.delete_on_termination),
        "device-index" => one(attachment.device_index.to_string()),
        "instance-id" => one(attachment.instance.as_str()),
        "instance-owner-id" => one(attachment.instance_account.to_string()),
        "network-card-index" => one("0"),
        "status" => one(attachment.status.as_str()),
        _ => Values::new(),
    }
}

fn group_ids(interface: &Interface) -> Values<'_> {
    interface
        .groups
        .iter()
        .map(|id| Cow::Borrowed(id.as_str()))
        .collect()
}

fn public_address(interface: &Interface) -> Option<String> {
    interface
        .public
        .as_ref()
        .map(|mapping| mapping.address.to_string())
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

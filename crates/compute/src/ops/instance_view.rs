//! An instance with everything that hangs on it, and its two readings: the answer's shape, and the values filters see.
//!
//! A page of instances is ordered by id, and so are attachments; what hangs on a page is read in a few ranges, never
//! instance by instance (compute.md §6). Terminated instances have nothing left to show but themselves.

use super::images::{HYPERVISOR, PLATFORM_DETAILS, ROOT_DEVICE_TYPE, USAGE_OPERATION, VIRTUALIZATION};
use super::request::number;
use crate::context::Context;
use crate::error::store_error;
use crate::records::{Attachment, BootMode, Instance, InstanceState, Phase, account_scope};
use aws_shapes::ec2;
use aws_types::ids::{InstanceId, SecurityGroupId, VpcId};
use aws_types::{AccountId, AwsError, Region, Tags};
use aws_wire::call::Call;
use network::capability::facts;
use network::capability::names::{private_dns_name, public_dns_name, zone_id};
use network::capability::tags::{self, TagIndex};
use network::records::Interface;
use node_spec::Firmware;
use state::{PageRequest, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Up to so many instances, what hangs on them is read one by one; more are read in ranges.
const READ_SINGLY_MAX: usize = 8;

/// Facts that all instances of an answer share.
pub(super) struct World {
    pub region: Region,
    dns_suffix: String,
    groups: BTreeMap<SecurityGroupId, String>,
    vpcs_with_host_names: BTreeSet<VpcId>,
}

impl World {
    pub(super) async fn load(context: &Context, call: &Call) -> Result<World, AwsError> {
        let account = call.account();
        Ok(World {
            region: call.region.clone(),
            dns_suffix: context.dns_suffix.clone(),
            groups: facts::group_names(&context.store, account).await?,
            vpcs_with_host_names: facts::vpcs_with_host_names(&context.store, account).await?,
        })
    }

    pub(super) fn group_name(&self, id: &SecurityGroupId) -> Option<&str> {
        self.groups.get(id).map(String::as_str)
    }

    pub(super) fn public_name(&self, interface: &Interface) -> Option<String> {
        let mapping = interface.public.as_ref()?;
        self.vpcs_with_host_names
            .contains(&interface.vpc)
            .then(|| public_dns_name(&self.region, mapping.address, &self.dns_suffix))
    }
}

/// What hangs on some instances.
pub(super) struct Joined {
    interfaces: BTreeMap<InstanceId, Vec<Interface>>,
    attachments: BTreeMap<InstanceId, Vec<Attachment>>,
    tags: TagIndex,
}

impl Joined {
    /// Reads what hangs on `instances`, which are ordered by id.
    pub(super) async fn load(
        store: &Store,
        account: AccountId,
        instances: &[Instance],
    ) -> Result<Joined, AwsError> {
        let ids: Vec<InstanceId> = instances.iter().map(|instance| instance.id.clone()).collect();
        let interfaces = facts::interfaces_of_instances(store, account, &ids).await?;
        let shown = interfaces
            .values()
            .flatten()
            .map(|interface| interface.id.as_str());
        let tagged = ids.iter().map(InstanceId::as_str).chain(shown);
        let tags = TagIndex::load_of(store, account, tagged).await?;
        Ok(Joined {
            attachments: attachments_of(store, account, &ids).await?,
            interfaces,
            tags,
        })
    }

    pub(super) fn view<'a>(&'a self, instance: &'a Instance, world: &'a World) -> InstanceView<'a> {
        InstanceView {
            instance,
            interfaces: self.interfaces.get(&instance.id).map_or(&[], Vec::as_slice),
            attachments: self.attachments.get(&instance.id).map_or(&[], Vec::as_slice),
            tags: self.tags.of(instance.id.as_str()),
            all_tags: &self.tags,
            world,
        }
    }
}

/// Attachments of instances, by instance and device name.
async fn attachments_of(
    store: &Store,
    account: AccountId,
    ids: &[InstanceId],
) -> Result<BTreeMap<InstanceId, Vec<Attachment>>, AwsError> {
    let mut by_instance: BTreeMap<InstanceId, Vec<Attachment>> = BTreeMap::new();
    let mut keep = |row: Attachment| by_instance.entry(row.instance.clone()).or_default().push(row);
    if ids.len() <= READ_SINGLY_MAX {
        for id in ids {
            let rows = store
                .list_by_index::<Attachment>("instance", &[id.as_str()])
                .await
                .map_err(store_error)?;
            rows.into_iter().for_each(&mut keep);
        }
    } else if let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) {
        let wanted: BTreeSet<&InstanceId> = ids.iter().collect();
        let scope = account_scope(account);
        let mut request = PageRequest {
            after: Some(state::key_of::<Attachment>(&scope, first.as_str())),
            ..PageRequest::default()
        };
        'pages: loop {
            let page = store
                .page::<Attachment>(&scope, request)
                .await
                .map_err(store_error)?;
            for row in page.rows {
                if row.record.instance > *last {
                    break 'pages;
                }
                if wanted.contains(&row.record.instance) {
                    keep(row.record);
                }
            }
            match page.next {
                Some(next) => {
                    request = PageRequest {
                        after: Some(next),
                        at: Some(page.revision),
                        ..PageRequest::default()
                    };
                }
                None => break,
            }
        }
    }
    for rows in by_instance.values_mut() {
        rows.sort_by(|a, b| a.device_name.cmp(&b.device_name));
    }
    Ok(by_instance)
}

/// An instance with everything that hangs on it.
pub(super) struct InstanceView<'a> {
    pub instance: &'a Instance,
    pub interfaces: &'a [Interface],
    pub attachments: &'a [Attachment],
    pub tags: &'a Tags,
    /// Tags of the instances of the page and of their interfaces.
    pub all_tags: &'a TagIndex,
    pub world: &'a World,
}

impl<'a> InstanceView<'a> {
    /// The interface at device index 0, which the instance's own network members repeat.
    pub(super) fn primary(&self) -> Option<&'a Interface> {
        self.interfaces.first()
    }

    /// `HttpTokens` and the like are applied as soon as the node was told; a stopped instance is told when it starts.
    pub(super) fn metadata_state(&self) -> &'static str {
        if self.instance.lifecycle.phase.is_pending() {
            "pending"
        } else {
            "applied"
        }
    }

    pub(super) fn attachment_status(&self) -> &'static str {
        if self.instance.lifecycle.phase.is_pending() && !self.instance.lifecycle.ever_ran {
            "attaching"
        } else {
            "attached"
        }
    }

    pub(super) fn current_boot_mode(&self) -> &'static str {
        match BootMode::firmware(self.instance.image.boot_mode) {
            Firmware::Bios => "legacy-bios",
            Firmware::Uefi => "uefi",
        }
    }

    pub(super) fn private_name(&self, interface: &Interface) -> String {
        private_dns_name(&self.world.region, interface.address)
    }

    pub(super) fn monitoring_state(&self) -> &'static str {
        match (self.instance.monitoring, self.instance.lifecycle.phase) {
            (false, _) => "disabled",
            (true, phase) if phase.is_pending() => "pending",
            (true, _) => "enabled",
        }
    }

    fn groups_of(&self, interface: &Interface) -> Vec<ec2::GroupIdentifier> {
        interface
            .groups
            .iter()
            .map(|id| ec2::GroupIdentifier {
                group_id: Some(id.to_string()),
                group_name: self.world.group_name(id).map(str::to_owned),
            })
            .collect()
    }

    /// The answer's shape. Fields are true or absent (R46).
    pub(super) fn render(&self) -> ec2::Instance {
        let instance = self.instance;
        let text = |value: &str| Some(value.to_owned());
        let state = instance.lifecycle.phase.state();
        let is_gone = instance.lifecycle.phase == Phase::Terminated;
        let primary = self.primary();
        ec2::Instance {
            architecture: text(&instance.image.architecture),
            block_device_mappings: self
                .attachments
                .iter()
                .map(|one| self.render_attachment(one))
                .collect(),
            client_token: Some(instance.client_token.clone().unwrap_or_default()),
            ebs_optimized: Some(instance.ebs_optimized),
            ena_support: Some(false),
            hypervisor: text(HYPERVISOR),
            network_interfaces: self
                .interfaces
                .iter()
                .map(|one| self.render_interface(one))
                .collect(),
            root_device_name: text(&instance.image.root_device_name),
            root_device_type: text(ROOT_DEVICE_TYPE),
            security_groups: primary.map(|one| self.groups_of(one)).unwrap_or_default(),
            source_dest_check: primary.map(|one| one.source_dest_check),
            state_reason: instance.lifecycle.reason.map(|reason| ec2::StateReason {
                code: text(reason.code()),
                message: text(reason.message()),
            }),
            tags: tags::to_wire(self.tags),
            virtualization_type: text(VIRTUALIZATION),
            cpu_options: Some(ec2::CpuOptions {
                core_count: Some(number(instance.core_count)),
                threads_per_core: Some(number(instance.threads_per_core)),
                ..Default::default()
            }),
            capacity_reservation_specification: Some(ec2::CapacityReservationSpecificationResponse {
                capacity_reservation_preference: text("open"),
                ..Default::default()
            }),
            hibernation_options: Some(ec2::HibernationOptions {
                configured: Some(false),
            }),
            metadata_options: Some(self.render_metadata_options()),
            enclave_options: Some(ec2::EnclaveOptions { enabled: Some(false) }),
            boot_mode: instance.image.boot_mode.map(|mode| mode.name().to_owned()),
            platform_details: text(PLATFORM_DETAILS),
            usage_operation: text(USAGE_OPERATION),
            usage_operation_update_time: Some(instance.launched_at),
            private_dns_name_options: Some(ec2::PrivateDnsNameOptionsResponse {
                hostname_type: text("ip-name"),
                enable_resource_name_dns_a_record: Some(false),
                enable_resource_name_dns_aaaa_record: Some(false),
            }),
            maintenance_options: Some(ec2::InstanceMaintenanceOptions {
                auto_recovery: text(auto_recovery(instance)),
                ..Default::default()
            }),
            current_instance_boot_mode: text(self.current_boot_mode()),
            operator: Some(ec2::OperatorResponse {
                managed: Some(false),
                ..Default::default()
            }),
            instance_id: text(instance.id.as_str()),
            image_id: text(instance.image.image.as_str()),
            state: Some(render_state(state)),
            private_dns_name: Some(primary.map(|one| self.private_name(one)).unwrap_or_default()),
            public_dns_name: Some(
                primary
                    .and_then(|one| self.world.public_name(one))
                    .unwrap_or_default(),
            ),
            state_transition_reason: text(&instance.lifecycle.transition_reason),
            key_name: instance.key_name.clone(),
            ami_launch_index: Some(number(instance.launch_index)),
            instance_type: text(&instance.instance_type),
            launch_time: Some(instance.launched_at),
            placement: Some(ec2::Placement {
                availability_zone: text(instance.zone.as_str()),
                availability_zone_id: Some(zone_id(&instance.zone)),
                group_name: text(""),
                tenancy: text("default"),
                ..Default::default()
            }),
            monitoring: Some(ec2::Monitoring {
                state: text(self.monitoring_state()),
            }),
            subnet_id: primary.filter(|_| !is_gone).map(|one| one.subnet.to_string()),
            vpc_id: primary.filter(|_| !is_gone).map(|one| one.vpc.to_string()),
            private_ip_address: primary.map(|one| one.address.to_string()),
            public_ip_address: primary
                .and_then(|one| one.public.as_ref())
                .map(|mapping| mapping.address.to_string()),
            ..Default::default()
        }
    }

    fn render_metadata_options(&self) -> ec2::InstanceMetadataOptionsResponse {
        let switch = |on: bool| Some(if on { "enabled" } else { "disabled" }.to_owned());
        let settings = &self.instance.metadata;
        ec2::InstanceMetadataOptionsResponse {
            state: Some(self.metadata_state().to_owned()),
            http_tokens: Some(tokens(settings.tokens_required).to_owned()),
            http_put_response_hop_limit: Some(i32::from(settings.hop_limit)),
            http_endpoint: switch(settings.endpoint_enabled),
            http_protocol_ipv6: switch(false),
            instance_metadata_tags: switch(settings.tags_enabled),
        }
    }

    fn render_attachment(&self, attachment: &Attachment) -> ec2::InstanceBlockDeviceMapping {
        ec2::InstanceBlockDeviceMapping {
            device_name: Some(attachment.device_name.clone()),
            ebs: Some(ec2::EbsInstanceBlockDevice {
                attach_time: Some(attachment.attached_at),
                delete_on_termination: Some(attachment.delete_on_termination),
                status: Some(self.attachment_status().to_owned()),
                volume_id: Some(attachment.volume.to_string()),
                ..Default::default()
            }),
        }
    }

    fn render_interface(&self, interface: &Interface) -> ec2::InstanceNetworkInterface {
        let private_name = self.private_name(interface);
        let association = interface
            .public
            .as_ref()
            .map(|mapping| ec2::InstanceNetworkInterfaceAssociation {
                // Automatic addresses are the provider's, as AWS writes it.
                ip_owner_id: Some("amazon".to_owned()),
                public_dns_name: Some(self.world.public_name(interface).unwrap_or_default()),
                public_ip: Some(mapping.address.to_string()),
                ..Default::default()
            });
        ec2::InstanceNetworkInterface {
            attachment: interface.attachment.as_ref().map(|attachment| {
                ec2::InstanceNetworkInterfaceAttachment {
                    attach_time: Some(attachment.attached_at),
                    attachment_id: Some(attachment.id.to_string()),
                    delete_on_termination: Some(attachment.delete_on_termination),
                    device_index: Some(number(attachment.device_index)),
                    status: Some(attachment.status.as_str().to_owned()),
                    network_card_index: Some(0),
                    ..Default::default()
                }
            }),
            description: Some(interface.description.clone()),
            groups: self.groups_of(interface),
            mac_address: Some(interface.mac.clone()),
            network_interface_id: Some(interface.id.to_string()),
            owner_id: Some(interface.account.to_string()),
            private_dns_name: Some(private_name.clone()),
            private_ip_address: Some(interface.address.to_string()),
            private_ip_addresses: vec![ec2::InstancePrivateIpAddress {
                association: association.clone(),
                primary: Some(true),
                private_dns_name: Some(private_name),
                private_ip_address: Some(interface.address.to_string()),
            }],
            association,
            source_dest_check: Some(interface.source_dest_check),
            status: Some(interface.status.as_str().to_owned()),
            subnet_id: Some(interface.subnet.to_string()),
            vpc_id: Some(interface.vpc.to_string()),
            interface_type: Some("interface".to_owned()),
            operator: Some(ec2::OperatorResponse {
                managed: Some(false),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

pub(super) fn tokens(required: bool) -> &'static str {
    if required { "required" } else { "optional" }
}

pub(super) fn auto_recovery(instance: &Instance) -> &'static str {
    if instance.auto_recovery {
        "default"
    } else {
        "disabled"
    }
}

pub(super) fn render_state(state: InstanceState) -> ec2::InstanceState {
    ec2::InstanceState {
        code: Some(state.code()),
        name: Some(state.name().to_owned()),
    }
}

/// Views grouped by launch, as DescribeInstances answers them, in the order in which launches first appear.
pub(super) fn group_by_reservation(views: &[InstanceView<'_>]) -> Vec<ec2::Reservation> {
    let mut reservations: Vec<ec2::Reservation> = Vec::new();
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    for view in views {
        let id = view.instance.reservation.as_str();
        let index = *place.entry(id).or_insert_with(|| {
            reservations.push(ec2::Reservation {
                reservation_id: Some(id.to_owned()),
                owner_id: Some(view.instance.account.to_string()),
                ..Default::default()
            });
            reservations.len() - 1
        });
        reservations[index].instances.push(view.render());
    }
    for reservation in &mut reservations {
        reservation
            .instances
            .sort_by_key(|instance| instance.ami_launch_index);
    }
    reservations
}

/// The reservations of these instances, complete, as an answer.
pub(super) async fn load_reservations(
    context: &Context,
    call: &Call,
    ids: &[InstanceId],
) -> Result<Vec<ec2::Reservation>, AwsError> {
    let account = call.account();
    let mut instances = find_instances(&context.store, account, ids).await?;
    instances.sort_by(|a, b| a.id.cmp(&b.id));
    let joined = Joined::load(&context.store, account, &instances).await?;
    let world = World::load(context, call).await?;
    let views: Vec<_> = instances
        .iter()
        .map(|instance| joined.view(instance, &world))
        .collect();
    Ok(group_by_reservation(&views))
}

/// Those of these instances that exist.
pub(super) async fn find_instances(
    store: &Store,
    account: AccountId,
    ids: &[InstanceId],
) -> Result<Vec<Instance>, AwsError> {
    let keys: Vec<_> = ids
        .iter()
        .map(|id| state::RecordKey::account(account, id))
        .collect();
    let found = store.find_many::<Instance>(&keys).await.map_err(store_error)?;
    Ok(found.into_iter().flatten().collect())
}

/// Where the page of instances after `id` starts.
pub(super) fn position_after(account: AccountId, id: &str) -> state::Key {
    state::key_of::<Instance>(&account_scope(account), id)
}

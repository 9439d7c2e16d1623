//! DescribeVolumes (ebs.md R26): volumes with what uses them.
//!
//! `in-use` is derived from the attachment each time. One list of volumes and one of attachments at most, whatever the
//! number of volumes; with explicit ids only theirs are read.

use super::instance_filters::wire_time;
use super::request::{filters, ids, number};
use crate::context::Context;
use crate::error::store_error;
use crate::limits;
use crate::records::{Attachment, Volume, VolumeState, account_scope};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, flag, one, optional};
use aws_types::ids::VolumeId;
use aws_types::page::PageRequest;
use aws_types::{AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use network::capability::names::zone_id;
use network::capability::tags::{self, TagIndex};
use std::collections::BTreeMap;

const VOLUME_FILTERS: &[&str] = &[
    "attachment.attach-time",
    "attachment.delete-on-termination",
    "attachment.device",
    "attachment.instance-id",
    "attachment.status",
    "availability-zone",
    "availability-zone-id",
    "create-time",
    "encrypted",
    "fast-restored",
    "multi-attach-enabled",
    "operator.managed",
    "operator.principal",
    "size",
    "snapshot-id",
    "status",
    "tag",
    "tag-key",
    "volume-id",
    "volume-type",
];

/// DescribeVolumes.
pub struct DescribeVolumes(pub Context);

#[async_trait]
impl Operation for DescribeVolumes {
    type Shape = operations::DescribeVolumes;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeVolumes"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeVolumesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeVolumes").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeVolumesRequest,
    ) -> Result<ec2::DescribeVolumesResult, AwsError> {
        let ec2::DescribeVolumesRequest {
            volume_ids,
            include_managed_resources: _,
            dry_run: _,
            filters: raw,
            next_token,
            max_results,
        } = input;
        let binding = call.page_binding(<Self::Shape as OperationShape>::SCHEMA);
        let named = ids(
            &volume_ids,
            limits::IDS_PER_CALL_MAX,
            catalogue::INVALID_VOLUME_ID_MALFORMED,
            VolumeId::parse,
        )?;
        let page = PageRequest::ec2(
            max_results,
            next_token.as_deref(),
            !named.is_empty(),
            limits::PAGE_ITEMS_MIN..=limits::PAGE_ITEMS_MAX,
            &self.0.page_key,
            &binding,
        )?;
        // AWS serves larger pages as 500, but the default page holds a thousand (ebs.md, limits).
        let limit = if max_results.is_some() {
            page.limit.min(limits::VOLUMES_PER_PAGE_MAX)
        } else {
            page.limit
        };
        let page = PageRequest { limit, ..page };
        let filters = filters(raw, VOLUME_FILTERS)?;
        let (volumes, attachments) = self.load(call, &named).await?;
        let tags = TagIndex::load(&self.0.store, call.account()).await?;
        let view = |volume: &Volume| attachments.get(&volume.id);
        let matching = volumes.iter().filter(|volume| {
            filters.matches(tags.of(volume.id.as_str()), |name| {
                volume_values(volume, view(volume), name)
            })
        });
        let (shown, next_token) = page.cut(
            matching,
            |volume| volume.id.to_string(),
            &self.0.page_key,
            &binding,
        );
        let volumes = shown
            .into_iter()
            .map(|volume| render(volume, view(volume), &tags))
            .collect();
        Ok(ec2::DescribeVolumesResult { next_token, volumes })
    }
}

impl DescribeVolumes {
    async fn load(
        &self,
        call: &Call,
        named: &[VolumeId],
    ) -> Result<(Vec<Volume>, BTreeMap<VolumeId, Attachment>), AwsError> {
        let (store, scope) = (&self.0.store, account_scope(call.account()));
        let mut attachments = BTreeMap::new();
        if named.is_empty() {
            let volumes = store.list::<Volume>(&scope).await.map_err(store_error)?;
            for row in store.list::<Attachment>(&scope).await.map_err(store_error)? {
                attachments.insert(row.volume.clone(), row);
            }
            return Ok((volumes, attachments));
        }
        let keys: Vec<_> = named
            .iter()
            .map(|id| state::RecordKey::account(call.account(), id))
            .collect();
        let found = store.find_many::<Volume>(&keys).await.map_err(store_error)?;
        let missing: Vec<&VolumeId> = named
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(id, _)| id)
            .collect();
        if let Some(id) = missing.first() {
            return Err(
                catalogue::INVALID_VOLUME_NOT_FOUND.error(format!("The volume '{id}' does not exist."))
            );
        }
        let mut volumes: Vec<Volume> = found.into_iter().flatten().collect();
        volumes.sort_by(|a, b| a.id.cmp(&b.id));
        for volume in &volumes {
            let row = store
                .find_unique::<Attachment>("volume", &[volume.id.as_str()])
                .await
                .map_err(store_error)?;
            attachments.extend(row.map(|row| (row.volume.clone(), row)));
        }
        Ok((volumes, attachments))
    }
}

/// The state the API shows.
fn status(volume: &Volume, attachment: Option<&Attachment>) -> &'static str {
    match (volume.state, attachment) {
        (VolumeState::Creating, _) => "creating",
        (VolumeState::Available, Some(_)) => "in-use",
        (VolumeState::Available, None) => "available",
        (VolumeState::Deleting, _) => "deleting",
        (VolumeState::Error, _) => "error",
    }
}

fn attachment_status(volume: &Volume) -> &'static str {
    match volume.state {
        VolumeState::Creating => "attaching",
        VolumeState::Available | VolumeState::Error => "attached",
        VolumeState::Deleting => "detaching",
    }
}

fn volume_values<'a>(volume: &'a Volume, attachment: Option<&'a Attachment>, name: &str) -> Values<'a> {
    match name {
        "attachment.attach-time" => optional(attachment.map(|one| wire_time(one.attached_at))),
        "attachment.delete-on-termination" => {
            optional(attachment.map(|one| one.delete_on_termination.to_string()))
        }
        "attachment.device" => optional(attachment.map(|one| one.device_name.as_str())),
        "attachment.instance-id" => optional(attachment.map(|one| one.instance.as_str())),
        "attachment.status" => optional(attachment.map(|_| attachment_status(volume))),
        "availability-zone" => one(volume.zone.as_str()),
        "availability-zone-id" => one(zone_id(&volume.zone)),
        "create-time" => one(wire_time(volume.created_at)),
        "encrypted" | "fast-restored" | "multi-attach-enabled" | "operator.managed" => flag(false),
        "size" => one(volume.size_gib.to_string()),
        "snapshot-id" => optional(volume.snapshot.as_ref().map(|id| id.as_str())),
        "status" => one(status(volume, attachment)),
        "volume-id" => one(volume.id.as_str()),
        "volume-type" => one(volume.volume_type.as_str()),
        _ => Values::new(),
    }
}

fn render(volume: &Volume, attachment: Option<&Attachment>, tags: &TagIndex) -> ec2::Volume {
    ec2::Volume {
        availability_zone_id: Some(zone_id(&volume.zone)),
        iops: volume.iops.map(number),
        tags: tags::to_wire(tags.of(volume.id.as_str())),
        volume_type: Some(volume.volume_type.clone()),
        multi_attach_enabled: Some(false),
        throughput: volume.throughput.map(number),
        operator: Some(ec2::OperatorResponse {
            managed: Some(false),
            ..Default::default()
        }),
        volume_id: Some(volume.id.to_string()),
        size: Some(number(volume.size_gib)),
        snapshot_id: Some(
            volume
                .snapshot
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
        availability_zone: Some(volume.zone.to_string()),
        state: Some(status(volume, attachment).to_owned()),
        create_time: Some(volume.created_at),
        attachments: attachment
            .map(|one| ec2::VolumeAttachment {
                delete_on_termination: Some(one.delete_on_termination),
                volume_id: Some(one.volume.to_string()),
                instance_id: Some(one.instance.to_string()),
                device: Some(one.device_name.clone()),
                state: Some(attachment_status(volume).to_owned()),
                attach_time: Some(one.attached_at),
                ..Default::default()
            })
            .into_iter()
            .collect(),
        encrypted: Some(false),
        ..Default::default()
    }
}

//! DescribeImages and DeregisterImage (R104, R107).
//!
//! Own and public images are visible. Public images of the platform account carry the alias `amazon`, which scripts and
//! Terraform select by. Deregistering leaves instances and snapshots alone.

use super::access::{owner, public_arn};
use super::request::{filters, ids, number};
use crate::context::Context;
use crate::error::{ComputeError, not_found, store_error, update_error};
use crate::limits;
use crate::records::{BootMode, Image, ImageDevice, ImageState};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, flag, one, optional};
use aws_types::ids::ImageId;
use aws_types::page::PageRequest;
use aws_types::{AccountId, AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use network::capability::tags::{self, TagIndex};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::macros::format_description;

/// Resource type of images.
pub const IMAGE: &str = "image";
/// The owner alias of the platform's public images.
const PLATFORM_ALIAS: &str = "amazon";
/// What every image of this cloud is.
pub(super) const PLATFORM_DETAILS: &str = "Linux/UNIX";
pub(super) const USAGE_OPERATION: &str = "RunInstances";
pub(super) const VIRTUALIZATION: &str = "hvm";
pub(super) const HYPERVISOR: &str = "xen";
pub(super) const ROOT_DEVICE_TYPE: &str = "ebs";

const IMAGE_FILTERS: &[&str] = &[
    "architecture",
    "block-device-mapping.delete-on-termination",
    "block-device-mapping.device-name",
    "block-device-mapping.encrypted",
    "block-device-mapping.snapshot-id",
    "block-device-mapping.volume-size",
    "block-device-mapping.volume-type",
    "creation-date",
    "description",
    "ena-support",
    "free-tier-eligible",
    "hypervisor",
    "image-allowed",
    "image-id",
    "image-type",
    "is-public",
    "kernel-id",
    "manifest-location",
    "name",
    "owner-alias",
    "owner-id",
    "platform",
    "product-code",
    "product-code.type",
    "ramdisk-id",
    "root-device-name",
    "root-device-type",
    "source-image-id",
    "source-image-region",
    "source-instance-id",
    "sriov-net-support",
    "state",
    "state-reason-code",
    "state-reason-message",
    "tag",
    "tag-key",
    "virtualization-type",
];

/// The image of this id, whoever owns it.
///
/// # Errors
/// `Unavailable` if the store could not be read.
pub(super) async fn find_image(context: &Context, id: &ImageId) -> Result<Option<Image>, AwsError> {
    context
        .store
        .find_unique::<Image>("id", &[id.as_str()])
        .await
        .map_err(store_error)
}

/// `InvalidAMIID.NotFound` in EC2's words.
pub(crate) fn absent(ids: &[String]) -> AwsError {
    match ids {
        [id] => catalogue::INVALID_AMI_ID_NOT_FOUND.error(format!("The image id '[{id}]' does not exist")),
        _ => catalogue::INVALID_AMI_ID_NOT_FOUND
            .error(format!("The image ids '[{}]' do not exist", ids.join(", "))),
    }
}

/// DescribeImages.
pub struct DescribeImages(pub Context);

#[async_trait]
impl Operation for DescribeImages {
    type Shape = operations::DescribeImages;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeImages"];

    async fn access(&self, _: &Call, _: &ec2::DescribeImagesRequest) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeImages").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeImagesRequest,
    ) -> Result<ec2::DescribeImagesResult, AwsError> {
        let binding = call.page_binding(<Self::Shape as OperationShape>::SCHEMA);
        let named = ids(
            &input.image_ids,
            limits::IDS_PER_CALL_MAX,
            catalogue::INVALID_AMI_ID_MALFORMED,
            ImageId::parse,
        )?;
        let page = PageRequest::ec2(
            input.max_results,
            input.next_token.as_deref(),
            !named.is_empty(),
            1..=limits::PAGE_ITEMS_MAX,
            &self.0.page_key,
            &binding,
        )?;
        let filters = filters(input.filters, IMAGE_FILTERS)?;
        let account = call.account();
        let owners = Owners::parse(&input.owners, account)?;
        let mut images = self.0.store.list_all::<Image>().await.map_err(store_error)?;
        images.retain(|image| image.is_visible_to(account));
        let absent_ids: Vec<String> = named
            .iter()
            .filter(|id| !images.iter().any(|image| image.id == **id))
            .map(ToString::to_string)
            .collect();
        if !absent_ids.is_empty() {
            return Err(absent(&absent_ids));
        }
        let tags = TagIndex::load(&self.0.store, account).await?;
        images.retain(|image| {
            (named.is_empty() || named.contains(&image.id))
                && owners.include(image)
                && is_executable_by(image, &input.executable_users)
                && filters.matches(tags.of(image.id.as_str()), |name| image_values(image, name))
        });
        images.sort_by(|a, b| a.id.cmp(&b.id));
        let (images, next_token) = page.cut(images, |image| image.id.to_string(), &self.0.page_key, &binding);
        let images = images.iter().map(|image| render_image(image, &tags)).collect();
        Ok(ec2::DescribeImagesResult { images, next_token })
    }
}

/// `Owner.N`: none means everybody.
struct Owners(Vec<Owner>);

enum Owner {
    Account(AccountId),
    Platform,
    /// An alias that owns nothing here.
    Nobody,
}

impl Owners {
    fn parse(named: &[String], own: AccountId) -> Result<Owners, AwsError> {
        let one = |name: &String| match name.as_str() {
            "self" => Ok(Owner::Account(own)),
            PLATFORM_ALIAS => Ok(Owner::Platform),
            "aws-marketplace" | "aws-backup-vault" => Ok(Owner::Nobody),
            id => AccountId::parse(id).map(Owner::Account).map_err(|_| {
                AwsError::invalid_value(
                    id,
                    "owner",
                    "It must be an account id, self, amazon or aws-marketplace.",
                )
            }),
        };
        Ok(Owners(named.iter().map(one).collect::<Result<_, _>>()?))
    }

    fn include(&self, image: &Image) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|owner| match owner {
                Owner::Account(account) => image.account == *account,
                Owner::Platform => alias(image).is_some(),
                Owner::Nobody => false,
            })
    }
}

/// `ExecutableBy.N`: `all` selects public images, `self` and an account those shared with it explicitly, which the
/// first slice cannot do; the owner of an image is not among its launch permissions.
fn is_executable_by(image: &Image, users: &[String]) -> bool {
    users.is_empty() || users.iter().any(|user| user == "all" && image.public)
}

fn alias(image: &Image) -> Option<&'static str> {
    (image.public && image.account == AccountId::SYSTEM).then_some(PLATFORM_ALIAS)
}

/// `2026-01-02T03:04:05.000Z`, as AWS writes dates inside of text.
fn creation_date(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(format)
        .unwrap_or_default()
}

fn location(image: &Image) -> String {
    let owner = alias(image).map_or_else(|| image.account.to_string(), str::to_owned);
    format!("{owner}/{}", image.name)
}

fn image_values<'a>(image: &'a Image, name: &str) -> Values<'a> {
    let devices = |value: fn(&'a ImageDevice) -> Option<String>| {
        image.devices.iter().filter_map(value).map(Into::into).collect()
    };
    match name {
        "architecture" => one(image.architecture.as_str()),
        "block-device-mapping.delete-on-termination" => {
            devices(|d| Some(d.delete_on_termination.to_string()))
        }
        "block-device-mapping.device-name" => devices(|d| Some(d.device_name.clone())),
        "block-device-mapping.encrypted" => devices(|_| Some("false".to_owned())),
        "block-device-mapping.snapshot-id" => devices(|d| d.snapshot.as_ref().map(ToString::to_string)),
        "block-device-mapping.volume-size" => devices(|d| Some(d.size_gib.to_string())),
        "block-device-mapping.volume-type" => devices(|d| Some(d.volume_type.clone())),
        "creation-date" => one(creation_date(image.created_at)),
        "description" => optional((!image.description.is_empty()).then_some(image.description.as_str())),
        "ena-support" => flag(image.ena_support),
        "free-tier-eligible" | "image-allowed" => flag(true),
        "hypervisor" => one(HYPERVISOR),
        "image-id" => one(image.id.as_str()),
        "image-type" => one("machine"),
        "is-public" => flag(image.public),
        "manifest-location" => one(location(image)),
        "name" => one(image.name.as_str()),
        "owner-alias" => optional(alias(image)),
        "owner-id" => one(image.account.to_string()),
        "root-device-name" => one(image.root_device_name.as_str()),
        "root-device-type" => one(ROOT_DEVICE_TYPE),
        "state" => one(image.state.name()),
        "virtualization-type" => one(VIRTUALIZATION),
        _ => Values::new(),
    }
}

fn render_image(image: &Image, tags: &TagIndex) -> ec2::Image {
    let text = |value: &str| Some(value.to_owned());
    ec2::Image {
        platform_details: text(PLATFORM_DETAILS),
        usage_operation: text(USAGE_OPERATION),
        block_device_mappings: image.devices.iter().map(render_device).collect(),
        description: (!image.description.is_empty()).then(|| image.description.clone()),
        ena_support: Some(image.ena_support),
        hypervisor: text(HYPERVISOR),
        image_owner_alias: alias(image).map(str::to_owned),
        name: text(&image.name),
        root_device_name: text(&image.root_device_name),
        root_device_type: text(ROOT_DEVICE_TYPE),
        tags: tags::to_wire(tags.of(image.id.as_str())),
        virtualization_type: text(VIRTUALIZATION),
        boot_mode: image.boot_mode.map(BootMode::name).map(str::to_owned),
        image_id: text(image.id.as_str()),
        image_location: Some(location(image)),
        state: text(image.state.name()),
        owner_id: owner(image.account),
        creation_date: Some(creation_date(image.created_at)),
        public: Some(image.public),
        architecture: text(&image.architecture),
        image_type: text("machine"),
        ..Default::default()
    }
}

fn render_device(device: &ImageDevice) -> ec2::BlockDeviceMapping {
    ec2::BlockDeviceMapping {
        device_name: Some(device.device_name.clone()),
        ebs: Some(ec2::EbsBlockDevice {
            delete_on_termination: Some(device.delete_on_termination),
            snapshot_id: device.snapshot.as_ref().map(ToString::to_string),
            volume_size: Some(number(device.size_gib)),
            volume_type: Some(device.volume_type.clone()),
            encrypted: Some(false),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// DeregisterImage.
pub struct DeregisterImage(pub Context);

#[async_trait]
impl Operation for DeregisterImage {
    type Shape = operations::DeregisterImage;
    const ACTIONS: &'static [&'static str] = &["ec2:DeregisterImage"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::DeregisterImageRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let id = input.image_id.as_deref().unwrap_or("*");
        let request = AccessRequest::on("ec2:DeregisterImage", public_arn(&call.region, IMAGE, id));
        let found = match ImageId::parse(id) {
            Some(id) => find_image(&self.0, &id).await?,
            None => None,
        };
        let tags = match &found {
            Some(image) if image.account == call.account() => {
                tags::of_resource(&self.0.store, image.account, image.id.as_str()).await?
            }
            _ => BTreeMap::new(),
        };
        Ok(request.owned_by(call.account()).with_resource_tags(&tags).into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DeregisterImageRequest,
    ) -> Result<ec2::DeregisterImageResult, AwsError> {
        let text = input
            .image_id
            .ok_or_else(|| AwsError::missing_parameter("ImageId"))?;
        if input.delete_associated_snapshots == Some(true) {
            return Err(crate::error::unsupported("DeleteAssociatedSnapshots"));
        }
        let named = ids(
            std::slice::from_ref(&text),
            1,
            catalogue::INVALID_AMI_ID_MALFORMED,
            ImageId::parse,
        )?;
        let Some(id) = named.first() else {
            return Err(not_found(catalogue::INVALID_AMI_ID_NOT_FOUND, "image", &[text]));
        };
        let account = call.account();
        self.0
            .store
            .update(|tx| async move { deregister(&tx, account, id).await })
            .await
            .map_err(update_error)?;
        Ok(ec2::DeregisterImageResult {
            r#return: Some(true),
            delete_snapshot_results: Vec::new(),
        })
    }
}

/// Takes an image of `account` out of use; its name is free again.
///
/// # Errors
/// `InvalidAMIID.NotFound`, `AuthFailure` for somebody else's visible image, `InvalidAMIID.Unavailable` the second time.
pub(crate) async fn deregister(tx: &state::Tx, account: AccountId, id: &ImageId) -> Result<(), ComputeError> {
    let found = tx.find_unique::<Image>("id", &[id.as_str()]).await?;
    let mut image = match found {
        Some(image) if image.account == account => image,
        Some(image) if image.is_visible_to(account) => {
            return Err(catalogue::AUTH_FAILURE
                .error(format!("Not authorized for image:{id}"))
                .into());
        }
        _ => return Err(absent(&[id.to_string()]).into()),
    };
    if image.state == ImageState::Deregistered {
        return Err(catalogue::INVALID_AMI_ID_UNAVAILABLE
            .error(format!("The image ID '{id}' is no longer available"))
            .into());
    }
    image.state = ImageState::Deregistered;
    tx.put(&image)?;
    tags::remove_all(tx, account, id.as_str()).await?;
    Ok(())
}

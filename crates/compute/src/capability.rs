//! The only door of this room for others: images of the operator, and the kinds of resources that may have tags.
//!
//! `spx image build` and `import` put bytes into a node's pool as a provider snapshot and register it here as an image;
//! the registration is the last step, so an interrupted import leaves no image.

use crate::error::{ComputeError, store_error, update_error};
use crate::limits;
use crate::ops::{IMAGE, INSTANCE, KEY_PAIR, VOLUME, images};
use crate::records::{BootMode, GIB, Image, ImageDevice, ImageState, Instance, KeyPair, Snapshot, Volume};
use aws_types::ids::{ImageId, InstanceId, KeyPairId, NodeId, SnapshotId, VolumeId};
use aws_types::{AccountId, AwsError, catalogue};
use network::capability::tags::TagKinds;
use state::{Store, UpdateError};
use time::OffsetDateTime;

/// Device name of the root volume of imported images.
pub const ROOT_DEVICE_NAME: &str = "/dev/xvda";
/// Volume type of the root volume of imported images.
const ROOT_VOLUME_TYPE: &str = "gp3";

/// Adds this room's kinds of taggable resources.
pub fn register_tag_kinds(kinds: &mut TagKinds) {
    kinds.register::<Instance>(InstanceId::PREFIX, INSTANCE, |id| {
        crate::error::not_found(
            catalogue::INVALID_INSTANCE_ID_NOT_FOUND,
            "instance",
            &[id.to_owned()],
        )
    });
    kinds.register::<Volume>(VolumeId::PREFIX, VOLUME, |id| {
        catalogue::INVALID_VOLUME_NOT_FOUND.error(format!("The volume '{id}' does not exist."))
    });
    kinds.register::<Image>(ImageId::PREFIX, IMAGE, |id| images::absent(&[id.to_owned()]));
    kinds.register::<Snapshot>(SnapshotId::PREFIX, "snapshot", |id| {
        catalogue::INVALID_SNAPSHOT_NOT_FOUND.error(format!("The snapshot '{id}' does not exist."))
    });
    kinds.register::<KeyPair>(KeyPairId::PREFIX, KEY_PAIR, |id| {
        catalogue::INVALID_KEY_PAIR_NOT_FOUND.error(format!("The key pair '{id}' does not exist"))
    });
}

/// An image whose bytes are in a node's pool.
#[derive(Clone, Debug)]
pub struct ImportedImage {
    /// Owner; [`AccountId::SYSTEM`] and `public` make it an image of `amazon`.
    pub account: AccountId,
    /// Name, unique among the owner's images.
    pub name: String,
    /// Description; empty if none.
    pub description: String,
    /// Size of the disk in bytes; rounded up to whole GiB.
    pub size_bytes: u64,
    /// What the disk boots with.
    pub boot_mode: BootMode,
    /// `x86_64`
    pub architecture: String,
    /// Id of the snapshot, by which the provider made it: [`SnapshotId::random`] of the importer.
    pub snapshot: SnapshotId,
    /// The provider's handle of the snapshot, 32 hex digits.
    pub handle: String,
    /// The node whose pool holds it.
    pub node: NodeId,
    /// Everybody may launch it.
    pub public: bool,
}

/// Registers an imported image with its snapshot. It is `available` at once.
///
/// # Errors
/// `InvalidAMIName.Malformed`; `InvalidAMIName.Duplicate`; `Unavailable`.
pub async fn register_imported_image(
    store: &Store,
    imported: ImportedImage,
    now: OffsetDateTime,
) -> Result<Image, AwsError> {
    check_image_name(&imported.name)?;
    if imported.description.chars().count() > limits::IMAGE_DESCRIPTION_CHARS_MAX {
        return Err(AwsError::invalid_value(
            &imported.description,
            "description",
            "It is too long.",
        ));
    }
    let now = now.replace_nanosecond(0).unwrap_or(now);
    let snapshot = Snapshot {
        account: imported.account,
        id: imported.snapshot,
        size_bytes: imported.size_bytes.div_ceil(GIB).max(1) * GIB,
        handle: imported.handle,
        node: imported.node,
        description: format!("Created for image {}", imported.name),
        created_at: now,
    };
    let image = Image {
        account: imported.account,
        id: ImageId::random(),
        name: imported.name,
        description: imported.description,
        architecture: imported.architecture,
        boot_mode: Some(imported.boot_mode),
        root_device_name: ROOT_DEVICE_NAME.to_owned(),
        devices: vec![ImageDevice {
            device_name: ROOT_DEVICE_NAME.to_owned(),
            snapshot: Some(snapshot.id.clone()),
            size_gib: snapshot.size_gib(),
            volume_type: ROOT_VOLUME_TYPE.to_owned(),
            delete_on_termination: true,
        }],
        public: imported.public,
        state: ImageState::Available,
        created_at: now,
        ena_support: true,
    };
    let (image, snapshot) = (&image, &snapshot);
    let committed = store
        .update(|tx| async move {
            tx.insert(snapshot)?;
            tx.insert(image)?;
            Ok::<(), ComputeError>(())
        })
        .await;
    match committed {
        Ok(()) => Ok(image.clone()),
        Err(UpdateError::UniqueTaken { index: "name", .. }) => Err(catalogue::INVALID_AMI_NAME_DUPLICATE
            .error(format!(
                "AMI name {} is already in use by an AMI of account {}",
                image.name, image.account
            ))),
        Err(error) => Err(update_error(error)),
    }
}

/// Letters, digits and `()[] ./-'@_`, 3 to 128 of them.
fn check_image_name(name: &str) -> Result<(), AwsError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "()[] ./-'@_".contains(c);
    if limits::IMAGE_NAME_CHARS.contains(&name.chars().count()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(catalogue::INVALID_AMI_NAME_MALFORMED.error(
        "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '.', '-', \
         '/' and '_'",
    ))
}

/// Every available image, by name.
///
/// # Errors
/// `Unavailable` if the store could not be read.
pub async fn list_images(store: &Store) -> Result<Vec<Image>, AwsError> {
    let mut images = store.list_all::<Image>().await.map_err(store_error)?;
    images.retain(|image| image.state == ImageState::Available);
    images.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(images)
}

/// Takes an image out of use. Its snapshot stays: instances and the operator's pool may need it.
///
/// # Errors
/// `InvalidAMIID.NotFound`, `InvalidAMIID.Unavailable`, `Unavailable`.
pub async fn remove_image(store: &Store, account: AccountId, id: &ImageId) -> Result<(), AwsError> {
    store
        .update(|tx| async move { images::deregister(&tx, account, id).await })
        .await
        .map_err(update_error)
}

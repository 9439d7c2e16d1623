//! Block devices of a launch: what the request says, laid over what the image says (R22–R25).
//!
//! The root is the mapping named like the image's root device, wherever it stands. Reading the request needs no store;
//! [`lay_over`] joins it with the image.

use crate::error::unsupported;
use crate::limits;
use crate::records::{Image, ImageDevice};
use aws_shapes::ec2;
use aws_types::ids::SnapshotId;
use aws_types::{AwsError, catalogue};
use std::collections::BTreeSet;

/// Type of a volume whose mapping names none (AWS: the default of CreateVolume).
const TYPE_DEFAULT: &str = "gp2";
/// Operations per second and MiB/s that every gp3 volume has.
const GP3_IOPS: u32 = 3000;
const GP3_THROUGHPUT: u32 = 125;

/// One mapping of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceWish {
    pub name: String,
    pub wish: Wish,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// `NoDevice`: the image's mapping is left out.
    Suppress,
    Volume(VolumeWish),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeWish {
    pub size_gib: Option<u32>,
    pub snapshot: Option<SnapshotId>,
    pub volume_type: Option<String>,
    pub delete_on_termination: Option<bool>,
    pub iops: Option<u32>,
    pub throughput: Option<u32>,
}

/// A volume that each instance of the launch gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub name: String,
    pub size_gib: u32,
    pub snapshot: Option<SnapshotId>,
    pub volume_type: String,
    pub delete_on_termination: bool,
    pub iops: Option<u32>,
    pub throughput: Option<u32>,
}

fn invalid(message: impl Into<String>) -> AwsError {
    catalogue::INVALID_BLOCK_DEVICE_MAPPING.error(message)
}

pub(super) fn device_wishes(mappings: Vec<ec2::BlockDeviceMapping>) -> Result<Vec<DeviceWish>, AwsError> {
    let mut wishes = Vec::with_capacity(mappings.len());
    let mut names = BTreeSet::new();
    for ec2::BlockDeviceMapping {
        ebs,
        no_device,
        device_name,
        virtual_name,
    } in mappings
    {
        if ebs.is_none() && no_device.is_none() && virtual_name.is_some() {
            // Instance store, which no type here has: AWS ignores it for such types.
            continue;
        }
        let name = device_name
            .filter(|name| !name.is_empty())
            .ok_or_else(|| invalid("A block device mapping must name its device"))?;
        if !names.insert(name.clone()) {
            return Err(invalid(format!(
                "The device '{name}' is used in more than one block-device mapping"
            )));
        }
        let wish = match (no_device, ebs) {
            (Some(_), _) => Wish::Suppress,
            (None, Some(ebs)) => Wish::Volume(volume_wish(ebs)?),
            (None, None) => Wish::Volume(VolumeWish::default()),
        };
        wishes.push(DeviceWish { name, wish });
    }
    Ok(wishes)
}

fn volume_wish(ebs: ec2::EbsBlockDevice) -> Result<VolumeWish, AwsError> {
    let ec2::EbsBlockDevice {
        delete_on_termination,
        iops,
        snapshot_id,
        volume_size,
        volume_type,
        kms_key_id,
        throughput,
        outpost_arn,
        availability_zone,
        encrypted,
        volume_initialization_rate,
        availability_zone_id,
        ebs_card_index,
    } = ebs;
    for (given, name) in [
        (kms_key_id.is_some(), "KmsKeyId"),
        (outpost_arn.is_some(), "OutpostArn"),
        (availability_zone.is_some(), "AvailabilityZone"),
        (availability_zone_id.is_some(), "AvailabilityZoneId"),
        (encrypted == Some(true), "Encrypted"),
        (volume_initialization_rate.is_some(), "VolumeInitializationRate"),
        (ebs_card_index.is_some_and(|index| index != 0), "EbsCardIndex"),
    ] {
        if given {
            return Err(unsupported(&format!("BlockDeviceMapping.Ebs.{name}")));
        }
    }
    let size_gib = volume_size.map(check_size).transpose()?;
    let snapshot = match snapshot_id {
        None => None,
        Some(text) => Some(SnapshotId::parse(&text).ok_or_else(|| {
            catalogue::INVALID_SNAPSHOT_ID_MALFORMED.error(format!("Invalid id: \"{text}\""))
        })?),
    };
    let unsigned = |value: Option<i32>, name: &str| match value.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => Err(AwsError::invalid_value("-1", name, "It must not be negative.")),
    };
    Ok(VolumeWish {
        size_gib,
        snapshot,
        volume_type,
        delete_on_termination,
        iops: unsigned(iops, "iops")?,
        throughput: unsigned(throughput, "throughput")?,
    })
}

fn check_size(size: i32) -> Result<u32, AwsError> {
    match u32::try_from(size) {
        Ok(size) if limits::VOLUME_SIZE_GIB.contains(&size) => Ok(size),
        Ok(size) if size > *limits::VOLUME_SIZE_GIB.end() => {
            Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                "Volume of {size} GiB is too large; maximum is {} GiB.",
                limits::VOLUME_SIZE_GIB.end()
            )))
        }
        _ => Err(catalogue::INVALID_PARAMETER_VALUE
            .error(format!("Volume of {size} GiB is too small; minimum is 1 GiB."))),
    }
}

/// The volumes of an instance: the image's, changed and suppressed by the request, then the request's own. The root
/// comes first. Sizes below a snapshot's are refused by the caller, who knows the snapshots.
pub(super) fn lay_over(image: &Image, wishes: &[DeviceWish]) -> Result<Vec<Device>, AwsError> {
    let mut devices: Vec<Device> = Vec::new();
    for own in &image.devices {
        let wish = wishes
            .iter()
            .find(|wish| wish.name == own.device_name)
            .map(|wish| &wish.wish);
        let is_root = own.device_name == image.root_device_name;
        match wish {
            Some(Wish::Suppress) if is_root => {
                return Err(invalid(format!(
                    "The root device '{}' cannot be left out",
                    own.device_name
                )));
            }
            Some(Wish::Suppress) => {}
            Some(Wish::Volume(wish)) => devices.push(device(&own.device_name, Some(own), wish)?),
            None => devices.push(device(&own.device_name, Some(own), &VolumeWish::default())?),
        }
    }
    for DeviceWish { name, wish } in wishes {
        let is_images = image.devices.iter().any(|own| own.device_name == *name);
        if let (Wish::Volume(wish), false) = (wish, is_images) {
            devices.push(device(name, None, wish)?);
        }
    }
    devices.sort_by_key(|device| device.name != image.root_device_name);
    Ok(devices)
}

fn device(name: &str, of_image: Option<&ImageDevice>, wish: &VolumeWish) -> Result<Device, AwsError> {
    let snapshot = wish
        .snapshot
        .clone()
        .or_else(|| of_image.and_then(|own| own.snapshot.clone()));
    let is_images_snapshot = of_image.is_some_and(|own| own.snapshot == snapshot);
    // A size of 0 stands for the snapshot's, which the caller fills in.
    let size_gib = match (wish.size_gib, of_image, &snapshot) {
        (Some(size), _, _) => size,
        (None, Some(own), _) if is_images_snapshot => own.size_gib,
        (None, _, Some(_)) => 0,
        (None, _, None) => return Err(AwsError::missing_parameter("size or snapshotId")),
    };
    let volume_type = wish
        .volume_type
        .clone()
        .or_else(|| of_image.map(|own| own.volume_type.clone()))
        .unwrap_or_else(|| TYPE_DEFAULT.to_owned());
    let (iops, throughput) = performance(&volume_type, size_gib, wish)?;
    Ok(Device {
        name: name.to_owned(),
        size_gib,
        snapshot,
        volume_type,
        delete_on_termination: wish
            .delete_on_termination
            .or_else(|| of_image.map(|own| own.delete_on_termination))
            .unwrap_or(true),
        iops,
        throughput,
    })
}

/// What a volume of this type reports. Performance is not throttled yet (ebs.md), so only a type's own base is accepted.
fn performance(
    volume_type: &str,
    size_gib: u32,
    wish: &VolumeWish,
) -> Result<(Option<u32>, Option<u32>), AwsError> {
    let not_for = |name: &str| {
        catalogue::INVALID_PARAMETER_COMBINATION.error(format!(
            "The parameter {name} is not supported for {volume_type} volumes."
        ))
    };
    match volume_type {
        "gp3" => {
            if wish.iops.is_some_and(|iops| iops != GP3_IOPS) {
                return Err(unsupported("BlockDeviceMapping.Ebs.Iops"));
            }
            if wish
                .throughput
                .is_some_and(|throughput| throughput != GP3_THROUGHPUT)
            {
                return Err(unsupported("BlockDeviceMapping.Ebs.Throughput"));
            }
            Ok((Some(GP3_IOPS), Some(GP3_THROUGHPUT)))
        }
        "gp2" | "standard" => {
            if wish.iops.is_some() {
                return Err(not_for("iops"));
            }
            if wish.throughput.is_some() {
                return Err(not_for("throughput"));
            }
            Ok((
                (volume_type == "gp2").then(|| (size_gib * 3).clamp(100, 16_000)),
                None,
            ))
        }
        "io1" | "io2" | "st1" | "sc1" => Err(unsupported("BlockDeviceMapping.Ebs.VolumeType")),
        other => {
            Err(catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid value '{other}' for VolumeType.")))
        }
    }
}

impl Device {
    /// Takes the snapshot's size where none was asked for.
    ///
    /// # Errors
    /// `InvalidBlockDeviceMapping` if the volume would be smaller than its snapshot.
    pub(super) fn fit_to_snapshot(
        &mut self,
        snapshot: &SnapshotId,
        snapshot_gib: u32,
    ) -> Result<(), AwsError> {
        if self.size_gib == 0 {
            self.size_gib = snapshot_gib;
            if self.volume_type == "gp2" {
                self.iops = Some((snapshot_gib * 3).clamp(100, 16_000));
            }
        }
        if self.size_gib < snapshot_gib {
            return Err(invalid(format!(
                "Volume of size {}GB is smaller than snapshot '{snapshot}', expect size>= {snapshot_gib}GB",
                self.size_gib
            )));
        }
        Ok(())
    }
}

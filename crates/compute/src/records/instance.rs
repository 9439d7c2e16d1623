//! An instance: what the user asked for, where it is placed, and where it is in its life.
//!
//! Volumes hang on it by [`super::Attachment`] rows and interfaces by the network's attachment, so neither is named
//! here except for its PCI slot. What only the boot needs (user data, public key) is in [`InstanceBoot`], so that a list
//! of instances does not read it.

use super::lifecycle::{Lifecycle, ShutdownBehaviour};
use aws_types::ids::{ImageId, InstanceId, NodeId, ReservationId};
use aws_types::{AccountId, AvailabilityZone};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use time::OffsetDateTime;

/// Firmware an image may ask for (`BootMode` of an image).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootMode {
    /// BIOS.
    LegacyBios,
    /// UEFI, without fallback.
    Uefi,
    /// UEFI where the type has it, which is everywhere.
    UefiPreferred,
}

impl BootMode {
    /// The API's word.
    pub fn name(self) -> &'static str {
        match self {
            BootMode::LegacyBios => "legacy-bios",
            BootMode::Uefi => "uefi",
            BootMode::UefiPreferred => "uefi-preferred",
        }
    }

    /// Parses the API's word.
    pub fn parse(name: &str) -> Option<BootMode> {
        [BootMode::LegacyBios, BootMode::Uefi, BootMode::UefiPreferred]
            .into_iter()
            .find(|mode| mode.name() == name)
    }

    /// What the guest boots with: BIOS if the image says nothing.
    pub fn firmware(mode: Option<BootMode>) -> node_spec::Firmware {
        match mode {
            None | Some(BootMode::LegacyBios) => node_spec::Firmware::Bios,
            Some(BootMode::Uefi | BootMode::UefiPreferred) => node_spec::Firmware::Uefi,
        }
    }
}

/// CPU credits of a burstable type. Shown and kept; credits are not metered yet (R72).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CreditMode {
    /// `standard`
    Standard,
    /// `unlimited`
    Unlimited,
}

impl CreditMode {
    /// The API's word.
    pub fn name(self) -> &'static str {
        match self {
            CreditMode::Standard => "standard",
            CreditMode::Unlimited => "unlimited",
        }
    }
}

/// `MetadataOptions`: how the instance metadata service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataSettings {
    /// The endpoint answers at all.
    pub endpoint_enabled: bool,
    /// Only session tokens are accepted.
    pub tokens_required: bool,
    /// IP TTL of answers, 1 to 64.
    pub hop_limit: u8,
    /// Instance tags are served.
    pub tags_enabled: bool,
}

impl Default for MetadataSettings {
    /// The platform's defaults (compute.md 2.5).
    fn default() -> Self {
        MetadataSettings {
            endpoint_enabled: true,
            tokens_required: true,
            hop_limit: 1,
            tags_enabled: false,
        }
    }
}

/// Protection against one's own mistakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// `disableApiTermination`
    pub termination: bool,
    /// `disableApiStop`
    pub stop: bool,
}

/// The facts of the image that the instance keeps when the image goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// The image.
    pub image: ImageId,
    /// `x86_64`
    pub architecture: String,
    /// The image's boot mode, if it names one.
    pub boot_mode: Option<BootMode>,
    /// Device name of the root volume.
    pub root_device_name: String,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Owner.
    pub account: AccountId,
    /// Id. Those of one launch share their first digits, so that a launch is adjacent in the table.
    pub id: InstanceId,
    /// The launch it came with.
    pub reservation: ReservationId,
    /// Its index in the launch.
    pub launch_index: u32,
    /// `ClientToken` of the launch.
    pub client_token: Option<String>,
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
    /// Time of the launch or of the last start.
    #[serde(with = "time::serde::rfc3339")]
    pub launched_at: OffsetDateTime,
    /// Type name.
    pub instance_type: String,
    /// The image's facts.
    pub image: ImageFacts,
    /// Key pair named at launch.
    pub key_name: Option<String>,
    /// Zone.
    pub zone: AvailabilityZone,
    /// The node that holds its capacity and its volumes.
    pub node: NodeId,
    /// Cores of its CPU, as its type or the launch said.
    pub core_count: u32,
    /// Threads of each core.
    pub threads_per_core: u32,
    /// CPU credits; only of burstable types.
    pub credits: Option<CreditMode>,
    /// Metadata service.
    pub metadata: MetadataSettings,
    /// Protection.
    pub protection: Protection,
    /// What a power-off from inside does.
    pub shutdown_behaviour: ShutdownBehaviour,
    /// A lost guest is started again.
    pub auto_recovery: bool,
    /// Detailed monitoring.
    pub monitoring: bool,
    /// Stored and shown; the device model does not change.
    pub ebs_optimized: bool,
    /// PCI slot of each attached volume and interface, by its id. A slot stays with its device.
    pub slots: BTreeMap<String, u8>,
    /// A process is started once for each rise.
    pub start_generation: u64,
    /// The guest is rebooted once for each rise.
    pub reboot_generation: u64,
    /// When its running guest was lost, within the last [`crate::limits::RECOVERY_WINDOW`] only.
    #[serde(with = "rfc3339_list")]
    pub losses: Vec<OffsetDateTime>,
}

impl Instance {
    /// Virtual CPUs.
    pub fn vcpus(&self) -> u32 {
        self.core_count * self.threads_per_core
    }
}

/// A list of times as RFC 3339 texts.
mod rfc3339_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use time::OffsetDateTime;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Rfc3339(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

    pub(super) fn serialize<S: Serializer>(times: &[OffsetDateTime], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(times.iter().map(|at| Rfc3339(*at)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OffsetDateTime>, D::Error> {
        Ok(Vec::<Rfc3339>::deserialize(from)?
            .into_iter()
            .map(|at| at.0)
            .collect())
    }
}

/// What the guest reads when it boots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceBoot {
    /// Owner.
    pub account: AccountId,
    /// The instance.
    pub instance: InstanceId,
    /// User data, base64; at most [`crate::limits::USER_DATA_BYTES_MAX`] decoded.
    pub user_data: Option<String>,
    /// The key pair's public key in OpenSSH form, as it was at launch; later changes of the pair do not reach it.
    pub public_key: Option<String>,
}

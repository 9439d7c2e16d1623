//! A launch that is too large for one transaction, while it is under way (R14).
//!
//! The first transaction commits this record with the client token and the room for everything; each following one makes
//! some of the instances, and the last removes it. Whoever finds it (the call, a repeat of the call, the reconciler) goes
//! on where it stands. A launch that fits one transaction never stores it, but is made from the same value.

use super::instance::{CreditMode, ImageFacts, MetadataSettings, Protection};
use super::lifecycle::ShutdownBehaviour;
use aws_types::ids::{InstanceId, NodeId, ReservationId, SecurityGroupId, SnapshotId, SubnetId};
use aws_types::{AccountId, AvailabilityZone, Tags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// A volume that each instance gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchVolume {
    /// Device name.
    pub device_name: String,
    /// Size in GiB.
    pub size_gib: u32,
    /// Snapshot it is made from.
    pub snapshot: Option<SnapshotId>,
    /// Volume type.
    pub volume_type: String,
    /// It goes with the instance.
    pub delete_on_termination: bool,
    /// Operations per second that are shown.
    pub iops: Option<u32>,
    /// Throughput in MiB/s that is shown.
    pub throughput: Option<u32>,
}

/// An interface that each instance gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchInterface {
    /// Device index.
    pub device_index: u32,
    /// Subnet.
    pub subnet: SubnetId,
    /// Groups.
    pub groups: Vec<SecurityGroupId>,
    /// With an automatic public address.
    pub public: bool,
    /// The address asked for.
    pub address: Option<Ipv4Addr>,
    /// Description.
    pub description: String,
    /// It goes with the instance.
    pub delete_on_termination: bool,
}

/// A launch, resolved: nothing in it depends on other records any more but on the room it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Owner.
    pub account: AccountId,
    /// Reservation.
    pub reservation: ReservationId,
    /// `ClientToken`, as the instances show it.
    pub client_token: Option<String>,
    /// The instances and their nodes, by launch index.
    pub instances: Vec<(InstanceId, NodeId)>,
    /// How many of them are made.
    pub made: usize,
    /// Time of the launch.
    #[serde(with = "time::serde::rfc3339")]
    pub launched_at: OffsetDateTime,
    /// Type name.
    pub instance_type: String,
    /// The image's facts.
    pub image: ImageFacts,
    /// Key pair: its name and its public key.
    pub key: Option<(String, String)>,
    /// User data, base64.
    pub user_data: Option<String>,
    /// Zone.
    pub zone: AvailabilityZone,
    /// Volumes, the root first.
    pub volumes: Vec<LaunchVolume>,
    /// Interfaces by device index.
    pub interfaces: Vec<LaunchInterface>,
    /// Tags by resource type.
    pub tags: BTreeMap<String, Tags>,
    /// Cores.
    pub core_count: u32,
    /// Threads per core.
    pub threads_per_core: u32,
    /// Credits.
    pub credits: Option<CreditMode>,
    /// Metadata service.
    pub metadata: MetadataSettings,
    /// Protection.
    pub protection: Protection,
    /// Shutdown behaviour.
    pub shutdown_behaviour: ShutdownBehaviour,
    /// A lost guest is started again.
    pub auto_recovery: bool,
    /// Detailed monitoring.
    pub monitoring: bool,
    /// As asked.
    pub ebs_optimized: bool,
}

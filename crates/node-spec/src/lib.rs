//! The contract between the control plane and the agents: specs that services write, observations that nodes write.
//!
//! What crosses this border has its type here and nowhere else; services and `node` both depend on it and never on
//! each other. Every record is scoped by the node it is for, so that one agent watches one prefix. A spec is
//! complete and carries a generation; an observation names the generation that it made true. The absence of a spec
//! is never an order.

pub mod guest;
pub mod metadata;
pub mod network;
pub mod node;
pub mod process;
mod records;
pub mod volume;

pub use guest::{
    ExitCause, Firmware, GuestDisk, GuestFailure, GuestNic, GuestObservation, GuestSpec, GuestState,
    RunIntent,
};
pub use metadata::{GuestMetadata, MetadataInterface, MetadataOptions};
pub use network::{
    GroupPlan, InterfacePlan, Ipv4Block, NetworkObservation, NetworkSpec, Peer, RulePlan, SubnetPlan, Traffic,
};
pub use node::{Accelerator, ConsoleTail, NodeQueries, NodeRecord, QueryError};
pub use process::ProcessIdentity;
pub use volume::{SnapshotSource, VolumeFailure, VolumeIntent, VolumeObservation, VolumeSpec, VolumeState};

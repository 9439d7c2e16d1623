//! Everything `compute` stores: one file per kind of record, versioned, scoped by account.
//!
//! A fact is in one record: a volume is in use iff an [`Attachment`] says so, capacity is taken iff a [`CapacityHold`]
//! says so, tags live in `network`'s table. [`tables`] gives each record its key, indexes and unique names; phases of an
//! instance are moved only by [`lifecycle::Lifecycle::step`].

pub mod capacity;
pub mod image;
pub mod instance;
pub mod key_pair;
pub mod launch;
pub mod lifecycle;
mod tables;
#[cfg(test)]
mod tests;
pub mod volume;

pub use capacity::{CapacityHold, NodeUsage, Room};
pub use image::{GIB, Image, ImageDevice, ImageState, Snapshot};
pub use instance::{BootMode, CreditMode, ImageFacts, Instance, InstanceBoot, MetadataSettings, Protection};
pub use key_pair::{KeyPair, KeyType};
pub use launch::{Launch, LaunchInterface, LaunchVolume};
pub use lifecycle::{
    Desired, Effect, Event, InstanceState, Lifecycle, Phase, ShutdownBehaviour, StateReason, Step,
};
pub use tables::{ATTENTION, BUSY, TERMINATED, account_scope, sortable};
pub use volume::{Attachment, Volume, VolumeState};

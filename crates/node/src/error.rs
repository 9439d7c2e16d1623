//! What can go wrong in the agent: each error says what was attempted and for what.

use crate::guest::record::RecordError;
use aws_types::ids::{VolumeId, VpcId};
use node_spec::VolumeFailure;
use std::path::PathBuf;
use thiserror::Error;

/// The agent could not start.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The hypervisor is not usable.
    #[error("finding the hypervisor")]
    Hypervisor(#[from] vmm::HypervisorError),
    /// The accelerator could not be probed.
    #[error("probing the accelerator")]
    Probe(#[from] vmm::ProbeError),
    /// The virtual network could not be opened.
    #[error("opening the virtual network")]
    Network(#[from] vnet::VnetError),
    /// Exports could not be looked at.
    #[error("opening the exports")]
    Exports(#[from] block::export::ExportError),
    /// The guests' directory could not be used.
    #[error("opening the guests' records")]
    Records(#[from] RecordError),
    /// The store could not be read or written.
    #[error("reading the specs of this node")]
    Store(#[from] state::StoreError),
    /// The node could not be registered.
    #[error("registering the node")]
    Register(#[source] Box<state::UpdateError<state::StoreError>>),
    /// Facts of the machine could not be read.
    #[error("reading {path}")]
    Facts {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another agent uses the same data directory.
    #[error("another agent holds {path}")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
}

/// A volume could not be made, published or released.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The volume is definitely not there, and its spec's making failed.
    #[error("volume {volume} was not made: {message}")]
    NotMade {
        /// The volume.
        volume: VolumeId,
        /// The class.
        failure: VolumeFailure,
        /// What the node said of it.
        message: String,
    },
    /// An id is not one that the provider takes.
    #[error("naming {volume} at the provider")]
    Name {
        /// The volume.
        volume: VolumeId,
        /// Why.
        #[source]
        source: block::id::ParseIdError,
    },
    /// The provider could not do it.
    #[error("volume {volume}: {attempt}")]
    Provider {
        /// The volume.
        volume: VolumeId,
        /// What was attempted.
        attempt: &'static str,
        /// Why.
        #[source]
        source: block::provider::ProviderError,
    },
    /// The export could not be started or stopped.
    #[error("volume {volume}: {attempt} its export")]
    Export {
        /// The volume.
        volume: VolumeId,
        /// What was attempted.
        attempt: &'static str,
        /// Why.
        #[source]
        source: block::export::ExportError,
    },
}

/// A network spec could not be made true.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// A value of the spec is not one that the engine takes.
    #[error("network {vpc}: {what} {value:?} is malformed")]
    Malformed {
        /// The VPC.
        vpc: VpcId,
        /// Which value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// The engine could not apply it.
    #[error("network {vpc}: {attempt}")]
    Engine {
        /// The VPC.
        vpc: VpcId,
        /// What was attempted.
        attempt: &'static str,
        /// Why.
        #[source]
        source: vnet::VnetError,
    },
}

/// The text of an error and all its causes, for observations and logs.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

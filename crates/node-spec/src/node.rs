//! What a node says of itself, and the questions only it can answer.

use async_trait::async_trait;
use aws_types::ids::{InstanceId, NodeId};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use time::OffsetDateTime;

/// How guests are executed, as a boot of a tiny guest showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// Hardware virtualisation.
    Kvm,
    /// Emulation.
    Tcg,
}

/// A node, as its agent registered it at its last start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Id, minted once in the node's data directory.
    pub id: NodeId,
    /// Host name.
    pub name: String,
    /// Region.
    pub region: String,
    /// Zone.
    pub zone: String,
    /// Kernel boot id of the machine.
    pub boot_id: String,
    /// Hardware threads.
    pub cpu_threads: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Memory the host keeps for itself, in MiB.
    pub memory_reserve_mib: u64,
    /// Accelerator, once probed.
    pub accelerator: Option<Accelerator>,
    /// `GenuineIntel` or `AuthenticAMD`.
    pub cpu_vendor: String,
    /// Version of the binary.
    pub version: String,
    /// Start of the agent.
    pub started_at: OffsetDateTime,
}

/// A question only the owning node can answer, and what came of asking.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The node did not answer in time, or could not be reached.
    #[error("node {0} could not be asked")]
    Unreachable(NodeId),
    /// The node answered that it could not read its own file.
    #[error("node {node} could not read the console of {instance}")]
    Unreadable {
        /// The node.
        node: NodeId,
        /// The guest.
        instance: InstanceId,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Answers that live on one node. Never used to list anything.
#[async_trait]
pub trait NodeQueries: Send + Sync {
    /// The last `bytes_max` bytes of the guest's serial console and when it last grew; nothing if it has none yet.
    ///
    /// # Errors
    /// The node could not be asked or could not read.
    async fn find_console_tail(
        &self,
        node: &NodeId,
        instance: &InstanceId,
        bytes_max: usize,
    ) -> Result<Option<ConsoleTail>, QueryError>;
}

/// The end of a serial console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleTail {
    /// Raw bytes.
    pub bytes: Vec<u8>,
    /// Last growth.
    pub modified_at: OffsetDateTime,
}

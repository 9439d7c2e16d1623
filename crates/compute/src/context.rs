//! What every operation and reconciler of this room is given: the store and a few facts of the cloud.
//!
//! Cheap to clone. Nodes, and with them zones and types, are read from the store at each use, never kept.

use crate::error::store_error;
use aws_types::page::PageKey;
use aws_types::{AvailabilityZone, AwsError};
use node_spec::{NodeQueries, NodeRecord};
use state::Store;
use std::sync::Arc;

/// Facts of the cloud that configuration or wiring decides.
#[derive(Clone)]
pub struct Context {
    /// The store.
    pub store: Store,
    /// Authenticates page tokens.
    pub page_key: PageKey,
    /// Answers only nodes have.
    pub queries: Arc<dyn NodeQueries>,
    /// Host and port of the API, as DescribeRegions names it.
    pub endpoint: String,
    /// Domain of public names, as `network` has it.
    pub dns_suffix: String,
}

impl Context {
    /// Every node.
    ///
    /// # Errors
    /// `Unavailable` if the store could not be read.
    pub async fn list_nodes(&self) -> Result<Vec<NodeRecord>, AwsError> {
        self.store.list_all::<NodeRecord>().await.map_err(store_error)
    }
}

/// The zones of some nodes, in order.
pub fn zones_of(nodes: &[NodeRecord]) -> Vec<AvailabilityZone> {
    let mut zones: Vec<AvailabilityZone> = nodes
        .iter()
        .map(|node| AvailabilityZone(node.zone.clone()))
        .collect();
    zones.sort();
    zones.dedup();
    zones
}

//! Answers that only this node can give: the tail of a guest's serial console.

use crate::guest::record::GuestDirs;
use crate::limits;
use async_trait::async_trait;
use aws_types::ids::{InstanceId, NodeId};
use node_spec::{ConsoleTail, NodeQueries, QueryError};
use std::io;
use time::OffsetDateTime;

/// Consoles of the guests of this node.
pub struct Consoles {
    node: NodeId,
    dirs: GuestDirs,
}

impl Consoles {
    /// Consoles of the guests below `dirs`.
    pub fn new(node: NodeId, dirs: GuestDirs) -> Consoles {
        Consoles { node, dirs }
    }
}

#[async_trait]
impl NodeQueries for Consoles {
    async fn find_console_tail(
        &self,
        node: &NodeId,
        instance: &InstanceId,
        bytes_max: usize,
    ) -> Result<Option<ConsoleTail>, QueryError> {
        if *node != self.node {
            return Err(QueryError::Unreachable(node.clone()));
        }
        let log = self.dirs.files(instance).console.log;
        let unreadable = |source| QueryError::Unreadable {
            node: node.clone(),
            instance: instance.clone(),
            source,
        };
        let modified = match std::fs::metadata(&log).and_then(|m| m.modified()) {
            Ok(modified) => modified,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let bytes_max = bytes_max.min(limits::CONSOLE_TAIL_BYTES_MAX) as u64;
        let read = tokio::task::spawn_blocking(move || vmm::console::find_tail(&log, bytes_max)).await;
        match read {
            Ok(Ok(bytes)) => Ok(Some(ConsoleTail {
                bytes,
                modified_at: OffsetDateTime::from(modified),
            })),
            Ok(Err(error)) => Err(unreadable(io::Error::other(error))),
            Err(error) => Err(unreadable(io::Error::other(error))),
        }
    }
}

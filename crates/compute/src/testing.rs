//! Facts for this crate's own tests.

use aws_types::ids::NodeId;
use node_spec::{Accelerator, NodeRecord};
use time::OffsetDateTime;

/// A node of zone `eu-central-1a` with so many threads and so much memory for guests.
pub(crate) fn node(cpu_threads: u32, memory_mib: u64) -> NodeRecord {
    NodeRecord {
        id: NodeId::random(),
        name: "test".into(),
        region: "eu-central-1".into(),
        zone: "eu-central-1a".into(),
        boot_id: "boot".into(),
        cpu_threads,
        memory_mib,
        memory_reserve_mib: 0,
        accelerator: Some(Accelerator::Kvm),
        cpu_vendor: "GenuineIntel".into(),
        version: "0".into(),
        started_at: OffsetDateTime::UNIX_EPOCH,
    }
}

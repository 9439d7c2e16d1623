//! The identity of a process: what makes "this pid" mean one process and no other.

use serde::{Deserialize, Serialize};

/// A process of one boot of one machine. Equal identities are the same process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Kernel boot id (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start_ticks: u64,
}

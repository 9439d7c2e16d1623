//! Capacity: what each holder takes of a node, and the sum per node.
//!
//! Invariant of every transaction: a node's usage row equals the sum of its hold rows, and is at most the node's capacity
//! when a hold is added (R31). Both are written together, and only by the functions of `crate::capacity`; reading the
//! usage row in the transaction is what makes two launches on one node see each other.

use aws_types::AccountId;
use aws_types::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// An amount of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Thousandths of a hardware thread.
    pub millithreads: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
}

impl Room {
    /// True if `self` fits into `free`.
    pub fn fits(self, free: Room) -> bool {
        self.millithreads <= free.millithreads && self.memory_mib <= free.memory_mib
    }

    /// What is left of `self` without `other`; nothing rather than less than nothing.
    pub fn saturating_sub(self, other: Room) -> Room {
        Room {
            millithreads: self.millithreads.saturating_sub(other.millithreads),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
        }
    }
}

impl Add for Room {
    type Output = Room;
    fn add(self, other: Room) -> Room {
        Room {
            millithreads: self.millithreads + other.millithreads,
            memory_mib: self.memory_mib + other.memory_mib,
        }
    }
}
impl Room {
    /// `self` so many times.
    pub fn times(self, count: u64) -> Room {
        Room {
            millithreads: self.millithreads * count,
            memory_mib: self.memory_mib * count,
        }
    }
}
impl AddAssign for Room {
    fn add_assign(&mut self, other: Room) {
        *self = *self + other;
    }
}
impl Sub for Room {
    type Output = Room;
    /// Panics below zero: a sum of holds smaller than one of them is a broken store, not a value.
    fn sub(self, other: Room) -> Room {
        Room {
            millithreads: self
                .millithreads
                .checked_sub(other.millithreads)
                .expect("usage covers every hold"),
            memory_mib: self
                .memory_mib
                .checked_sub(other.memory_mib)
                .expect("usage covers every hold"),
        }
    }
}

/// What one holder holds of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityHold {
    /// Whose it is.
    pub account: AccountId,
    /// The holder: an instance, or the reservation of a launch under way, for the instances it has yet to make.
    pub holder: String,
    /// The node.
    pub node: NodeId,
    /// How much.
    pub room: Room,
}

/// The sum of a node's holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// The node.
    pub node: NodeId,
    /// Sum of its holds.
    pub held: Room,
    /// Number of its holds.
    pub holders: u64,
}

//! The planner: what a node must do for one instance, as a pure function of records.
//!
//! [`plan_instance`] makes the guest's spec and metadata, [`plan_volume`] a volume's spec. Nothing here reads, writes or
//! knows the time. A generation rises exactly when the content differs from the previous spec, so planning twice
//! changes nothing and the node never confuses a fact with the answer to a newer wish.

mod decide;
mod guest;
mod slots;
mod volume;

pub use decide::{Seen, Verdict, decide};
pub use guest::{Nic, Placement, PlannedInstance, plan_instance, run_intent};
pub use slots::{NoSlot, assign_slot};
pub use volume::plan_volume;

#[cfg(test)]
mod tests;

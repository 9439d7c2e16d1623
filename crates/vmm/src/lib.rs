//! Engine: hypervisor drivers. Turns a [`GuestPlan`] into a running QEMU guest and tells its owner what happens
//! to it. Knows no AWS word: every name that a guest can see comes in with the plan.
//!
//! The map: [`plan`] is what a guest consists of; [`devices`] builds each device once, for the command line and
//! for hot-plug; [`command`] is the whole command line; [`guest`] starts, adopts and steers one guest; [`process`]
//! is the identity of the process behind it; [`qmp`] speaks to its monitor; [`event`] names what a guest does;
//! [`console`] keeps its serial log bounded; [`accelerator`] finds out what this machine can really run;
//! [`hypervisor`] finds QEMU and its firmware.
//!
//! Invariants: a guest outlives its driver (own session, no pipe to us); a process is only ever signalled through
//! a pidfd whose start time was compared; nothing is found by name. Deciding what a guest *should* do is `node`'s.

pub mod accelerator;
pub mod command;
pub mod console;
pub mod devices;
pub mod error;
pub mod event;
pub mod guest;
pub mod hypervisor;
pub mod limits;
pub mod plan;
pub mod process;
pub mod qmp;
mod sys;

pub use accelerator::{Accelerator, AcceleratorProbe, ProbeOutcome, probe_accelerator, try_boot};
pub use error::{AdoptError, ProbeError, ProcessError, QmpError, SpawnError};
pub use event::{GuestEvent, RunState};
pub use guest::{Adoption, Guest, adopt, find_unrecorded, kill_recorded, spawn};
pub use hypervisor::{Hypervisor, HypervisorError, Ovmf};
pub use plan::{
    ConsoleFiles, CpuTopology, Disk, Firmware, GuestFiles, GuestPlan, Machine, Nic, PciSlot, PlanError,
    Smbios,
};
pub use process::{ExitStatus, ProcessIdentity};

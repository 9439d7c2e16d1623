//! Test only: fault injection, the reconciler harness, and a process harness. Never a dependency of product code.
//!
//! | file | what |
//! |---|---|
//! | `faults` | [`Faults`]: one numbered sequence of steps, inside the store and outside, one of which is made to fail |
//! | `fault_engine` | [`FaultEngine`]: any store engine, each of whose calls is such a step |
//! | `harness` | [`run_reconciler_with_faults`]: every reconciler with every fault at every step, and a restart at each |
//!
//! Crash points inside real processes are `state::fault_point!`, compiled in by the feature `fault-points` of `state`.

mod fault_engine;
mod faults;
mod harness;
pub mod limits;

pub use fault_engine::FaultEngine;
pub use faults::{Fault, Faults, InjectedFault};
pub use harness::{Coverage, Scenario, Violation, run_reconciler_with_faults};

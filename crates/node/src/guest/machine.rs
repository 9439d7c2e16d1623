//! What to do next with one guest: a pure function from what should be and what is to one step.
//!
//! ```text
//!                      start_generation risen
//!      NoProcess ───────────────────────────────▶ Launch ──▶ Running
//!          ▲                                                   │ run ≠ Run      │ reboot risen   │ guest powers off
//!          │                                                   ▼                ▼                ▼
//!          └──────────── End (kill, release) ◀── PoweredOff ◀─ AskPowerOff   AskReboot       End, unless a reboot is
//!                              ▲                                │ grace over    │ powered off    under way: Reset
//!                              └────────────────────────────────┘               ▼
//!                                                                             Reset
//! ```
//!
//! The owner task (`owner`) does the step and asks again; every step is idempotent, so a task that was killed between
//! any two of them goes on from what it finds. Nothing here does I/O or reads a clock.

use node_spec::{ExitCause, GuestSpec, RunIntent};

/// The guest's process, as known now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// There is certainly none.
    None,
    /// It lives and its CPUs run, or are about to.
    Running,
    /// It lives; the guest has powered itself off and waits.
    PoweredOff,
}

/// A power-off or reboot that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// The guest was asked to power off, to be stopped.
    PowerOff {
        /// Its grace is over.
        overdue: bool,
    },
    /// The guest was asked to power off, to be reset.
    Reboot {
        /// Its grace is over.
        overdue: bool,
    },
}

/// Everything a decision depends on but the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The process.
    pub process: Process,
    /// What was asked of the guest and not answered yet.
    pub asked: Asked,
    /// The newest start that led to a process or definitely failed.
    pub applied_start: u64,
    /// The newest reboot that was done.
    pub applied_reboot: u64,
    /// Exports, taps or files of the guest may still be there.
    pub holds_resources: bool,
    /// The host is being drained: guests are stopped and start again with the agent.
    pub draining: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do until something changes.
    Rest,
    /// Make disks, network and process, then let the CPUs run.
    Launch,
    /// Press the power button and give the guest its grace, to stop it.
    AskPowerOff,
    /// Press the power button and give the guest its grace, to reset it.
    AskReboot,
    /// Reset the machine and let the CPUs run.
    Reset,
    /// End the process, then release what it held.
    End {
        /// Why, for the observation.
        cause: ExitCause,
    },
    /// Release what a process that is gone held.
    Release,
    /// Release everything and remove the guest's files.
    Remove,
}

/// Decides the next step.
pub fn decide(spec: &GuestSpec, view: &View) -> Step {
    let run = if view.draining && spec.run == RunIntent::Run {
        RunIntent::Stop
    } else {
        spec.run
    };
    match (&view.process, run) {
        (Process::None, RunIntent::Gone) => Step::Remove,
        (Process::None, _) if view.holds_resources && !wants_launch(spec, view, run) => Step::Release,
        (Process::None, RunIntent::Run) if wants_launch(spec, view, run) => Step::Launch,
        (Process::None, RunIntent::Run | RunIntent::Stop | RunIntent::ForceStop) => Step::Rest,

        (_, RunIntent::Gone | RunIntent::ForceStop) => Step::End {
            cause: ExitCause::Intent,
        },

        (Process::PoweredOff, RunIntent::Stop) => Step::End {
            cause: ExitCause::Intent,
        },
        (Process::Running, RunIntent::Stop) => match view.asked {
            Asked::PowerOff { overdue: false } => Step::Rest,
            Asked::PowerOff { overdue: true } => Step::End {
                cause: ExitCause::Intent,
            },
            // A reboot that is under way has pressed the button already, but a second press harms nobody.
            Asked::Nothing | Asked::Reboot { .. } => Step::AskPowerOff,
        },

        (Process::PoweredOff, RunIntent::Run) => match view.asked {
            Asked::Reboot { .. } => Step::Reset,
            // Asked to stop, then told to run again before it was off: the stop is moot, the power-off is ours.
            Asked::PowerOff { .. } => Step::Reset,
            Asked::Nothing => Step::End {
                cause: ExitCause::GuestPowerOff,
            },
        },
        (Process::Running, RunIntent::Run) => match view.asked {
            Asked::Reboot { overdue: true } => Step::Reset,
            Asked::Reboot { overdue: false } | Asked::PowerOff { .. } => Step::Rest,
            Asked::Nothing if spec.reboot_generation > view.applied_reboot => Step::AskReboot,
            Asked::Nothing => Step::Rest,
        },
    }
}

fn wants_launch(spec: &GuestSpec, view: &View, run: RunIntent) -> bool {
    run == RunIntent::Run && spec.start_generation > view.applied_start
}

#[cfg(test)]
mod tests {
    use super::{Asked, Process, Step, View, decide};
    use aws_types::AccountId;
    use aws_types::ids::{InstanceId, NodeId};
    use node_spec::{ExitCause, Firmware, GuestSpec, RunIntent};

    fn spec(run: RunIntent) -> GuestSpec {
        GuestSpec {
            node: NodeId::random(),
            instance: InstanceId::random(),
            account: AccountId::FIRST_TENANT,
            generation: 1,
            run,
            start_generation: 1,
            reboot_generation: 0,
            instance_type: "t3.micro".into(),
            vcpus: 1,
            memory_mib: 512,
            firmware: Firmware::Bios,
            disks: Vec::new(),
            nics: Vec::new(),
        }
    }

    fn view(process: Process) -> View {
        View {
            process,
            asked: Asked::Nothing,
            applied_start: 1,
            applied_reboot: 0,
            holds_resources: false,
            draining: false,
        }
    }

    #[test]
    fn a_guest_starts_once_for_each_start() {
        let spec = spec(RunIntent::Run);
        let fresh = View {
            applied_start: 0,
            ..view(Process::None)
        };
        assert_eq!(decide(&spec, &fresh), Step::Launch);
        assert_eq!(
            decide(
                &spec,
                &View {
                    holds_resources: true,
                    ..fresh
                }
            ),
            Step::Launch
        );
        assert_eq!(decide(&spec, &view(Process::None)), Step::Rest);
        assert_eq!(
            decide(
                &spec,
                &View {
                    holds_resources: true,
                    ..view(Process::None)
                }
            ),
            Step::Release
        );
    }

    #[test]
    fn a_guest_that_powers_itself_off_is_ended_and_stays_off() {
        let spec = spec(RunIntent::Run);
        assert_eq!(
            decide(&spec, &view(Process::PoweredOff)),
            Step::End {
                cause: ExitCause::GuestPowerOff
            }
        );
    }

    #[test]
    fn a_stop_asks_waits_and_then_ends() {
        let spec = spec(RunIntent::Stop);
        let asked = |overdue| View {
            asked: Asked::PowerOff { overdue },
            ..view(Process::Running)
        };
        assert_eq!(decide(&spec, &view(Process::Running)), Step::AskPowerOff);
        assert_eq!(decide(&spec, &asked(false)), Step::Rest);
        assert_eq!(
            decide(&spec, &asked(true)),
            Step::End {
                cause: ExitCause::Intent
            }
        );
        assert_eq!(
            decide(&spec, &view(Process::PoweredOff)),
            Step::End {
                cause: ExitCause::Intent
            }
        );
    }

    #[test]
    fn a_reboot_asks_waits_and_then_resets_in_the_same_process() {
        let spec = GuestSpec {
            reboot_generation: 1,
            ..spec(RunIntent::Run)
        };
        let asked = |process, overdue| View {
            asked: Asked::Reboot { overdue },
            ..view(process)
        };
        assert_eq!(decide(&spec, &view(Process::Running)), Step::AskReboot);
        assert_eq!(decide(&spec, &asked(Process::Running, false)), Step::Rest);
        assert_eq!(decide(&spec, &asked(Process::Running, true)), Step::Reset);
        assert_eq!(decide(&spec, &asked(Process::PoweredOff, false)), Step::Reset);
    }

    #[test]
    fn every_pair_ends_where_its_intent_says() {
        for run in [
            RunIntent::Run,
            RunIntent::Stop,
            RunIntent::ForceStop,
            RunIntent::Gone,
        ] {
            for process in [Process::None, Process::Running, Process::PoweredOff] {
                for draining in [false, true] {
                    let step = decide(
                        &spec(run),
                        &View {
                            draining,
                            ..view(process.clone())
                        },
                    );
                    let ends = matches!(step, Step::End { .. });
                    match (run, &process) {
                        (RunIntent::Gone, Process::None) => assert_eq!(step, Step::Remove),
                        (_, Process::None) => assert_eq!(step, Step::Rest, "{run:?} {draining}"),
                        (RunIntent::Gone | RunIntent::ForceStop, _) => assert!(ends, "{run:?} {process:?}"),
                        (_, Process::PoweredOff) => assert!(ends, "{run:?} {draining}"),
                        (RunIntent::Run, Process::Running) if !draining => assert_eq!(step, Step::Rest),
                        (_, Process::Running) => assert_eq!(step, Step::AskPowerOff),
                    }
                }
            }
        }
    }
}

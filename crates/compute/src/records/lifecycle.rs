//! The life of an instance: phases, events, and the one function that moves between them.
//!
//! Invariant: nothing outside [`Lifecycle::step`] changes a phase. It is synchronous and does no I/O; what must happen
//! besides is answered as [`Effect`]s and done in the same transaction. Operations feed what the user asked,
//! the reconciler feeds what a node saw. Model: compute.md 2.3.

use serde::{Deserialize, Serialize};
use std::fmt;
use time::OffsetDateTime;
use time::macros::format_description;

/// Where an instance is in its life.
///
/// ```text
///            start                                              guest lost
///   stopped ───────▶ placed ─▶ building ─▶ starting ─▶ running ────────────▶ recovering
///      ▲               │          │           │          │  ▲                  │  │
///      │               └──────────┴─────┬─────┘          │  └──── running ─────┘  │
///      │    stop, power-off (once ran)  │                │ stop, power-off        │
///   stopping ◀───────────────────────────────────────────┴────────────────────────┤
///      │                                │ failed, ran before                      │ cannot
///      │                                ▼                                        ▼
///      │                              failed ◀──────────────────────────────────────
///      │ terminate     terminate        │ terminate        (failed starts again like stopped)
///      ▼                                ▼
///   shutting-down ◀── any but terminated: terminate, launch failed before it ever ran
///      │ released
///      ▼
///   terminated ─▶ purged after an hour
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// A node is chosen and its capacity held.
    Placed,
    /// The node makes volumes.
    Building,
    /// Volumes exist; the node starts the guest.
    Starting,
    /// The guest's CPUs run.
    Running,
    /// The process is lost while it should run.
    Recovering,
    /// Being stopped.
    Stopping,
    /// No process; everything else kept.
    Stopped,
    /// Ran once, cannot run now; shown as `stopped` with a reason.
    Failed,
    /// Being terminated; dependents are given back.
    ShuttingDown,
    /// Nothing is left but this record.
    Terminated,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 10] = [
        Phase::Placed,
        Phase::Building,
        Phase::Starting,
        Phase::Running,
        Phase::Recovering,
        Phase::Stopping,
        Phase::Stopped,
        Phase::Failed,
        Phase::ShuttingDown,
        Phase::Terminated,
    ];

    /// The state as the API shows it.
    pub fn state(self) -> InstanceState {
        match self {
            Phase::Placed | Phase::Building | Phase::Starting => InstanceState::Pending,
            Phase::Running | Phase::Recovering => InstanceState::Running,
            Phase::Stopping => InstanceState::Stopping,
            Phase::Stopped | Phase::Failed => InstanceState::Stopped,
            Phase::ShuttingDown => InstanceState::ShuttingDown,
            Phase::Terminated => InstanceState::Terminated,
        }
    }

    /// Capacity is held in this phase (R31).
    pub fn holds_capacity(self) -> bool {
        !matches!(self, Phase::Stopped | Phase::Failed | Phase::Terminated)
    }

    /// The reconciler has something to bring about.
    pub fn is_transitional(self) -> bool {
        !matches!(
            self,
            Phase::Running | Phase::Stopped | Phase::Failed | Phase::Terminated
        )
    }

    /// On the way to running.
    pub fn is_pending(self) -> bool {
        matches!(self, Phase::Placed | Phase::Building | Phase::Starting)
    }

    /// True if an instance may go from this phase to `next` (compute.md 2.3).
    pub fn may_become(self, next: Phase, ever_ran: bool) -> bool {
        use Phase::{
            Building, Failed, Placed, Recovering, Running, ShuttingDown, Starting, Stopped, Stopping,
            Terminated,
        };
        match (self, next) {
            (Placed, Building | Starting) | (Building, Starting) => true,
            (Placed | Building | Starting, Running | ShuttingDown) => true,
            (Placed | Building | Starting, Stopping | Failed) => ever_ran,
            (Placed | Building | Starting, Terminated) => !ever_ran,
            (Running, Stopping | ShuttingDown | Recovering) => true,
            (Recovering, Running | Failed | Stopping | ShuttingDown) => true,
            (Stopping, Stopped | ShuttingDown) => true,
            (Stopped | Failed, Placed | ShuttingDown) => true,
            (ShuttingDown, Terminated) => true,
            _ => false,
        }
    }
}

/// `InstanceState` of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// 0
    Pending,
    /// 16
    Running,
    /// 32
    ShuttingDown,
    /// 48
    Terminated,
    /// 64
    Stopping,
    /// 80
    Stopped,
}

impl InstanceState {
    /// The number clients compare.
    pub fn code(self) -> i32 {
        match self {
            InstanceState::Pending => 0,
            InstanceState::Running => 16,
            InstanceState::ShuttingDown => 32,
            InstanceState::Terminated => 48,
            InstanceState::Stopping => 64,
            InstanceState::Stopped => 80,
        }
    }

    /// The name clients compare.
    pub fn name(self) -> &'static str {
        match self {
            InstanceState::Pending => "pending",
            InstanceState::Running => "running",
            InstanceState::ShuttingDown => "shutting-down",
            InstanceState::Terminated => "terminated",
            InstanceState::Stopping => "stopping",
            InstanceState::Stopped => "stopped",
        }
    }
}

impl fmt::Display for InstanceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What should be true of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Desired {
    /// It runs.
    Run,
    /// It is stopped; everything but the process is kept.
    Stop,
    /// It is terminated.
    Terminate,
}

/// Why an instance is in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StateReason {
    /// Set at launch and start, cleared on running.
    #[serde(rename = "pending")]
    Pending,
    /// StopInstances, TerminateInstances.
    #[serde(rename = "Client.UserInitiatedShutdown")]
    UserInitiatedShutdown,
    /// The guest powered itself off.
    #[serde(rename = "Client.InstanceInitiatedShutdown")]
    InstanceInitiatedShutdown,
    /// The snapshot behind a volume is not there.
    #[serde(rename = "Client.InvalidSnapshot.NotFound")]
    SnapshotNotFound,
    /// The pool has no room for a volume.
    #[serde(rename = "Client.VolumeLimitExceeded")]
    VolumeLimitExceeded,
    /// Capacity held at accept time was lost before the guest ever ran.
    #[serde(rename = "Server.InsufficientInstanceCapacity")]
    InsufficientInstanceCapacity,
    /// The launch failed, definitely, or the guest was lost.
    #[serde(rename = "Server.InternalError")]
    InternalError,
}

impl StateReason {
    /// `StateReason.Code`.
    pub fn code(self) -> &'static str {
        match self {
            StateReason::Pending => "pending",
            StateReason::UserInitiatedShutdown => "Client.UserInitiatedShutdown",
            StateReason::InstanceInitiatedShutdown => "Client.InstanceInitiatedShutdown",
            StateReason::SnapshotNotFound => "Client.InvalidSnapshot.NotFound",
            StateReason::VolumeLimitExceeded => "Client.VolumeLimitExceeded",
            StateReason::InsufficientInstanceCapacity => "Server.InsufficientInstanceCapacity",
            StateReason::InternalError => "Server.InternalError",
        }
    }

    /// `StateReason.Message`: the code, repeated as AWS does, and a text.
    pub fn message(self) -> &'static str {
        match self {
            StateReason::Pending => "pending",
            StateReason::UserInitiatedShutdown => "Client.UserInitiatedShutdown: User initiated shutdown",
            StateReason::InstanceInitiatedShutdown => {
                "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
            }
            StateReason::SnapshotNotFound => {
                "Client.InvalidSnapshot.NotFound: The snapshot of a volume does not exist"
            }
            StateReason::VolumeLimitExceeded => "Client.VolumeLimitExceeded: Volume limit exceeded",
            StateReason::InsufficientInstanceCapacity => {
                "Server.InsufficientInstanceCapacity: Insufficient capacity to launch the instance"
            }
            StateReason::InternalError => "Server.InternalError: Internal error on launch",
        }
    }
}

/// What a guest that powers itself off becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShutdownBehaviour {
    /// Stopped.
    #[default]
    Stop,
    /// Terminated, whatever its protection says (R47).
    Terminate,
}

impl ShutdownBehaviour {
    /// The API's word.
    pub fn name(self) -> &'static str {
        match self {
            ShutdownBehaviour::Stop => "stop",
            ShutdownBehaviour::Terminate => "terminate",
        }
    }
}

/// Something that was asked for or seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// StartInstances, admitted.
    StartRequested,
    /// StopInstances.
    StopRequested {
        /// Do not ask the guest for long.
        force: bool,
    },
    /// TerminateInstances.
    TerminateRequested,
    /// The node's specs are committed.
    SpecsWritten,
    /// Every volume of the guest exists.
    VolumesReady,
    /// The guest's CPUs run.
    GuestRunning,
    /// The guest powered itself off.
    GuestPoweredOff(ShutdownBehaviour),
    /// The process ended though it should run, and not by the guest's will.
    GuestLost,
    /// The process is ended as the spec asked.
    GuestStopped,
    /// The guest could not be started, definitely.
    LaunchFailed(StateReason),
    /// A lost guest will not be started again.
    RecoveryRefused,
    /// Every dependent is given back.
    Released,
}

/// What must be committed together with a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The capacity hold is removed.
    ReleaseCapacity,
    /// The automatic public address goes back to its pool.
    ReleasePublicAddress,
}

/// What came of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The lifecycle changed; commit it with the effects.
    Moved(Vec<Effect>),
    /// The event changes nothing here (repeats, late observations).
    Unchanged,
    /// The event is a request that this phase refuses: `IncorrectInstanceState`.
    Refused,
}

/// The part of an instance that events change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// What should be true.
    pub desired: Desired,
    /// Where it is.
    pub phase: Phase,
    /// When it got there; watchdogs read this and nothing else.
    #[serde(with = "time::serde::rfc3339")]
    pub phase_since: OffsetDateTime,
    /// The guest's first instruction was executed at some time.
    pub ever_ran: bool,
    /// A stop skips the grace.
    pub stop_force: bool,
    /// `StateReason`.
    pub reason: Option<StateReason>,
    /// `StateTransitionReason`; empty if there is none.
    pub transition_reason: String,
}

impl Lifecycle {
    /// The life of an instance that was just launched.
    pub fn launched(now: OffsetDateTime) -> Lifecycle {
        Lifecycle {
            desired: Desired::Run,
            phase: Phase::Placed,
            phase_since: now,
            ever_ran: false,
            stop_force: false,
            reason: Some(StateReason::Pending),
            transition_reason: String::new(),
        }
    }

    /// Applies one event.
    pub fn step(&mut self, event: Event, now: OffsetDateTime) -> Step {
        match event {
            Event::StartRequested => self.start(now),
            Event::StopRequested { force } => self.stop(force, now),
            Event::TerminateRequested => self.terminate(now),
            Event::SpecsWritten => match self.phase {
                Phase::Placed => self.enter(Phase::Building, now),
                _ => Step::Unchanged,
            },
            Event::VolumesReady => match self.phase {
                Phase::Placed | Phase::Building => self.enter(Phase::Starting, now),
                _ => Step::Unchanged,
            },
            Event::GuestRunning => self.guest_running(now),
            Event::GuestPoweredOff(behaviour) => self.guest_powered_off(behaviour, now),
            Event::GuestLost => match self.phase {
                Phase::Running => self.enter(Phase::Recovering, now),
                Phase::Placed | Phase::Building | Phase::Starting => {
                    // The process existed and died between two observations: it ran, so it may not be terminated.
                    self.ever_ran = true;
                    self.fail(StateReason::InternalError, now)
                }
                _ => Step::Unchanged,
            },
            Event::GuestStopped => match self.phase {
                Phase::Stopping => self.enter(Phase::Stopped, now),
                _ => Step::Unchanged,
            },
            Event::LaunchFailed(reason) => self.launch_failed(reason, now),
            Event::RecoveryRefused => match self.phase {
                Phase::Recovering => self.fail(StateReason::InternalError, now),
                _ => Step::Unchanged,
            },
            Event::Released => match self.phase {
                Phase::ShuttingDown => self.enter(Phase::Terminated, now),
                _ => Step::Unchanged,
            },
        }
    }

    fn start(&mut self, now: OffsetDateTime) -> Step {
        match self.phase {
            Phase::Stopped | Phase::Failed => {
                self.desired = Desired::Run;
                self.stop_force = false;
                self.reason = Some(StateReason::Pending);
                self.transition_reason.clear();
                self.enter(Phase::Placed, now)
            }
            Phase::Placed | Phase::Building | Phase::Starting | Phase::Running | Phase::Recovering => {
                Step::Unchanged
            }
            Phase::Stopping | Phase::ShuttingDown | Phase::Terminated => Step::Refused,
        }
    }

    fn stop(&mut self, force: bool, now: OffsetDateTime) -> Step {
        match self.phase {
            Phase::Running | Phase::Recovering => self.stop_for_user(force, now),
            Phase::Placed | Phase::Building | Phase::Starting if self.ever_ran => {
                self.stop_for_user(force, now)
            }
            Phase::Stopping if force && !self.stop_force => {
                self.stop_force = true;
                Step::Moved(Vec::new())
            }
            Phase::Stopping | Phase::Stopped | Phase::Failed => Step::Unchanged,
            Phase::Placed | Phase::Building | Phase::Starting | Phase::ShuttingDown | Phase::Terminated => {
                Step::Refused
            }
        }
    }

    fn stop_for_user(&mut self, force: bool, now: OffsetDateTime) -> Step {
        self.desired = Desired::Stop;
        self.stop_force = force;
        self.reason = Some(StateReason::UserInitiatedShutdown);
        self.transition_reason = user_initiated(now);
        self.enter(Phase::Stopping, now)
    }

    fn terminate(&mut self, now: OffsetDateTime) -> Step {
        match self.phase {
            Phase::ShuttingDown | Phase::Terminated => Step::Unchanged,
            Phase::Placed
            | Phase::Building
            | Phase::Starting
            | Phase::Running
            | Phase::Recovering
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Failed => {
                self.desired = Desired::Terminate;
                self.reason = Some(StateReason::UserInitiatedShutdown);
                self.transition_reason = user_initiated(now);
                self.enter(Phase::ShuttingDown, now)
            }
        }
    }

    fn guest_running(&mut self, now: OffsetDateTime) -> Step {
        match self.phase {
            Phase::Placed | Phase::Building | Phase::Starting | Phase::Recovering => {
                self.ever_ran = true;
                self.reason = None;
                self.transition_reason.clear();
                self.enter(Phase::Running, now)
            }
            // A guest that is being stopped or terminated may have run in between; that it did is remembered.
            Phase::Stopping | Phase::ShuttingDown if !self.ever_ran => {
                self.ever_ran = true;
                Step::Moved(Vec::new())
            }
            Phase::Running
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Failed
            | Phase::ShuttingDown
            | Phase::Terminated => Step::Unchanged,
        }
    }

    fn guest_powered_off(&mut self, behaviour: ShutdownBehaviour, now: OffsetDateTime) -> Step {
        if !(self.phase.is_pending() || matches!(self.phase, Phase::Running | Phase::Recovering)) {
            return Step::Unchanged;
        }
        self.ever_ran = true;
        self.reason = Some(StateReason::InstanceInitiatedShutdown);
        self.transition_reason.clear();
        match behaviour {
            ShutdownBehaviour::Stop => {
                self.desired = Desired::Stop;
                self.stop_force = false;
                self.enter(Phase::Stopping, now)
            }
            ShutdownBehaviour::Terminate => {
                self.desired = Desired::Terminate;
                self.enter(Phase::ShuttingDown, now)
            }
        }
    }

    fn launch_failed(&mut self, reason: StateReason, now: OffsetDateTime) -> Step {
        match self.phase {
            Phase::Placed | Phase::Building | Phase::Starting if self.ever_ran => self.fail(reason, now),
            // Terminated only after what this launch made is given back, so by way of shutting-down (R21, R44).
            Phase::Placed | Phase::Building | Phase::Starting => {
                self.desired = Desired::Terminate;
                self.reason = Some(reason);
                self.transition_reason = reason.message().to_owned();
                self.enter(Phase::ShuttingDown, now)
            }
            Phase::Recovering => self.fail(reason, now),
            Phase::Running
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Failed
            | Phase::ShuttingDown
            | Phase::Terminated => Step::Unchanged,
        }
    }

    fn fail(&mut self, reason: StateReason, now: OffsetDateTime) -> Step {
        self.desired = Desired::Stop;
        self.stop_force = true;
        self.reason = Some(reason);
        self.transition_reason = reason.message().to_owned();
        self.enter(Phase::Failed, now)
    }

    fn enter(&mut self, next: Phase, now: OffsetDateTime) -> Step {
        assert!(
            self.phase.may_become(next, self.ever_ran),
            "illegal move from {:?} to {next:?}",
            self.phase
        );
        self.phase = next;
        self.phase_since = now;
        let mut effects = Vec::new();
        if !next.holds_capacity() {
            effects.push(Effect::ReleaseCapacity);
            effects.push(Effect::ReleasePublicAddress);
        }
        Step::Moved(effects)
    }
}

/// `User initiated (2026-01-02 03:04:05 GMT)`.
fn user_initiated(now: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] GMT");
    match now.to_offset(time::UtcOffset::UTC).format(format) {
        Ok(date) => format!("User initiated ({date})"),
        Err(_) => "User initiated".to_owned(),
    }
}

#[cfg(test)]
mod tests;

//! What the observations of a node mean for an instance, as events of its lifecycle. Pure.
//!
//! An observation counts only for the wish it answers: a start by its start generation, a stop by the spec's generation.
//! Nothing is concluded from an observation that is absent, so a silent node changes nothing (DESIGN §1.3).

use crate::limits;
use crate::records::{Event, Instance, Phase, StateReason};
use node_spec::{
    ExitCause, GuestFailure, GuestObservation, GuestSpec, GuestState, VolumeFailure, VolumeObservation,
    VolumeState,
};
use time::OffsetDateTime;

/// What was seen that concerns one instance.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The guest's spec, as stored.
    pub spec: Option<&'a GuestSpec>,
    /// The guest's observation.
    pub guest: Option<&'a GuestObservation>,
    /// Observations of the attached volumes, one each; absent ones are not yet observed.
    pub volumes: &'a [Option<VolumeObservation>],
}

/// What to tell the lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An event happened.
    Happened(Event),
    /// A running guest was lost and is to be started again.
    Relaunch,
    /// Nothing of the guest is left on its node.
    GuestGone,
}

/// What `seen` means for `instance`; nothing if it means nothing new.
pub fn decide(instance: &Instance, seen: Seen<'_>, now: OffsetDateTime) -> Option<Verdict> {
    let happened = |event| Some(Verdict::Happened(event));
    match instance.lifecycle.phase {
        Phase::Placed if seen.spec.is_none() => happened(Event::SpecsWritten),
        Phase::Placed | Phase::Building | Phase::Starting => pending(instance, seen, now),
        Phase::Running | Phase::Recovering => match answered_start(seen)? {
            GuestState::Running if instance.lifecycle.phase == Phase::Recovering => {
                happened(Event::GuestRunning)
            }
            GuestState::Stopped { cause } => ended(instance, cause, now),
            GuestState::Failed { .. } => happened(Event::LaunchFailed(StateReason::InternalError)),
            GuestState::Preparing | GuestState::Running | GuestState::Stopping | GuestState::Gone => None,
        },
        Phase::Stopping => {
            let (spec, guest) = (seen.spec?, seen.guest?);
            let acknowledged = guest.applied_generation >= spec.generation
                && spec.run == super::run_intent(Phase::Stopping, instance.lifecycle.stop_force);
            let is_off = matches!(
                guest.state,
                GuestState::Stopped { .. } | GuestState::Failed { .. }
            );
            (acknowledged && is_off).then_some(Verdict::Happened(Event::GuestStopped))
        }
        Phase::ShuttingDown => match (seen.spec, seen.guest) {
            // No node was ever told of it.
            (None, _) => Some(Verdict::GuestGone),
            (Some(_), Some(guest)) if guest.state == GuestState::Gone => Some(Verdict::GuestGone),
            _ => None,
        },
        Phase::Stopped | Phase::Failed | Phase::Terminated => None,
    }
}

/// The guest's state, if it answers the newest start.
fn answered_start<'a>(seen: Seen<'a>) -> Option<&'a GuestState> {
    let (spec, guest) = (seen.spec?, seen.guest?);
    (guest.applied_start_generation >= spec.start_generation).then_some(&guest.state)
}

fn pending(instance: &Instance, seen: Seen<'_>, now: OffsetDateTime) -> Option<Verdict> {
    let happened = |event| Some(Verdict::Happened(event));
    let failed = seen
        .volumes
        .iter()
        .flatten()
        .find_map(|volume| match &volume.state {
            VolumeState::Error { failure, .. } => Some(match failure {
                VolumeFailure::NoSpace => StateReason::VolumeLimitExceeded,
                VolumeFailure::SourceMissing => StateReason::SnapshotNotFound,
                VolumeFailure::Provider => StateReason::InternalError,
            }),
            VolumeState::Ready { .. } | VolumeState::Deleted => None,
        });
    if let Some(reason) = failed {
        return happened(Event::LaunchFailed(reason));
    }
    // A spec from before this start says nothing about it.
    let is_current = seen
        .spec
        .is_some_and(|spec| spec.start_generation == instance.start_generation);
    match answered_start(seen).filter(|_| is_current) {
        Some(GuestState::Running) => return happened(Event::GuestRunning),
        Some(GuestState::Stopped { cause }) => return ended(instance, cause, now),
        Some(GuestState::Failed { failure, .. }) => {
            return happened(Event::LaunchFailed(match failure {
                GuestFailure::Host => StateReason::InsufficientInstanceCapacity,
                GuestFailure::Volume | GuestFailure::Network | GuestFailure::Hypervisor => {
                    StateReason::InternalError
                }
            }));
        }
        Some(GuestState::Preparing | GuestState::Stopping | GuestState::Gone) | None => {}
    }
    let ready = |volume: &Option<VolumeObservation>| {
        volume
            .as_ref()
            .is_some_and(|volume| matches!(volume.state, VolumeState::Ready { .. }))
    };
    match instance.lifecycle.phase {
        Phase::Placed if is_current => happened(Event::SpecsWritten),
        Phase::Building if seen.volumes.iter().all(ready) => happened(Event::VolumesReady),
        _ => None,
    }
}

/// A process that should run has ended.
fn ended(instance: &Instance, cause: &ExitCause, now: OffsetDateTime) -> Option<Verdict> {
    let happened = |event| Some(Verdict::Happened(event));
    match cause {
        ExitCause::GuestPowerOff => happened(Event::GuestPoweredOff(instance.shutdown_behaviour)),
        // Its node ended it while the intent was to run: the host is drained, and its agent starts it again (R57).
        ExitCause::Intent => None,
        // The process went with the machine, or while nobody looked.
        ExitCause::Unknown if may_recover(instance, now) => Some(Verdict::Relaunch),
        ExitCause::Unknown
        | ExitCause::DiskError { .. }
        | ExitCause::Signal { .. }
        | ExitCause::ExitCode { .. } => match instance.lifecycle.phase {
            Phase::Recovering => happened(Event::RecoveryRefused),
            _ => happened(Event::GuestLost),
        },
    }
}

fn may_recover(instance: &Instance, now: OffsetDateTime) -> bool {
    let recent = instance
        .losses
        .iter()
        .filter(|at| now - **at < limits::RECOVERY_WINDOW)
        .count();
    instance.auto_recovery && recent < limits::RECOVERIES_MAX
}

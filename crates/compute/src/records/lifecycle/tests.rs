//! The moves of an instance: every pair of phases against the requirements, every event in every phase.

use super::{Desired, Effect, Event, Lifecycle, Phase, ShutdownBehaviour, StateReason, Step};
use time::OffsetDateTime;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

const EVENTS: [Event; 15] = [
    Event::StartRequested,
    Event::StopRequested { force: false },
    Event::StopRequested { force: true },
    Event::TerminateRequested,
    Event::SpecsWritten,
    Event::VolumesReady,
    Event::GuestRunning,
    Event::GuestPoweredOff(ShutdownBehaviour::Stop),
    Event::GuestPoweredOff(ShutdownBehaviour::Terminate),
    Event::GuestLost,
    Event::GuestStopped,
    Event::LaunchFailed(StateReason::InternalError),
    Event::LaunchFailed(StateReason::SnapshotNotFound),
    Event::RecoveryRefused,
    Event::Released,
];

fn at(phase: Phase, ever_ran: bool) -> Lifecycle {
    Lifecycle {
        phase,
        ever_ran,
        ..Lifecycle::launched(NOW)
    }
}

/// The table of compute.md 2.3, written out once more, against `may_become` for every pair.
#[test]
fn every_pair_of_phases_is_legal_or_not_as_the_requirements_say() {
    use Phase::{
        Building, Failed, Placed, Recovering, Running, ShuttingDown, Starting, Stopped, Stopping, Terminated,
    };
    for from in Phase::ALL {
        for to in Phase::ALL {
            for ever_ran in [false, true] {
                let legal: &[Phase] = match (from, ever_ran) {
                    (Placed, false) => &[Building, Starting, Running, ShuttingDown, Terminated],
                    (Placed, true) => &[Building, Starting, Running, ShuttingDown, Stopping, Failed],
                    (Building, false) => &[Starting, Running, ShuttingDown, Terminated],
                    (Building, true) => &[Starting, Running, ShuttingDown, Stopping, Failed],
                    (Starting, false) => &[Running, ShuttingDown, Terminated],
                    (Starting, true) => &[Running, ShuttingDown, Stopping, Failed],
                    (Running, _) => &[Stopping, ShuttingDown, Recovering],
                    (Recovering, _) => &[Running, Failed, Stopping, ShuttingDown],
                    (Stopping, _) => &[Stopped, ShuttingDown],
                    (Stopped | Failed, _) => &[Placed, ShuttingDown],
                    (ShuttingDown, _) => &[Terminated],
                    (Terminated, _) => &[],
                };
                assert_eq!(
                    from.may_become(to, ever_ran),
                    legal.contains(&to),
                    "{from:?} {to:?} {ever_ran}"
                );
            }
        }
    }
}

/// `enter` asserts legality, so that no event panics in any phase proves that every move made is legal.
#[test]
fn every_event_in_every_phase_makes_a_legal_move_and_repeating_it_changes_nothing() {
    for phase in Phase::ALL {
        for ever_ran in [false, true] {
            for event in EVENTS {
                let before = at(phase, ever_ran);
                let mut after = before.clone();
                let step = after.step(event, NOW);
                match step {
                    Step::Moved(effects) => {
                        let releases = effects.contains(&Effect::ReleaseCapacity);
                        let released = phase.holds_capacity() && !after.phase.holds_capacity();
                        assert_eq!(releases, released, "{phase:?} {event:?}");
                        let mut again = after.clone();
                        if event == Event::GuestLost {
                            assert_eq!(again.step(event, NOW), Step::Unchanged, "{phase:?} {event:?}");
                        } else if !matches!(event, Event::StopRequested { force: true }) {
                            assert_ne!(again.step(event, NOW), Step::Refused, "{phase:?} {event:?}");
                            assert_eq!(again.phase, after.phase, "{phase:?} {event:?}");
                        }
                    }
                    Step::Unchanged | Step::Refused => assert_eq!(before, after, "{phase:?} {event:?}"),
                }
            }
        }
    }
}

#[test]
fn a_failure_terminates_only_what_never_ran() {
    let mut fresh = at(Phase::Building, false);
    fresh.step(Event::LaunchFailed(StateReason::VolumeLimitExceeded), NOW);
    assert_eq!(fresh.phase, Phase::ShuttingDown);
    assert_eq!(fresh.desired, Desired::Terminate);
    assert_eq!(
        fresh.step(Event::Released, NOW),
        Step::Moved(vec![Effect::ReleaseCapacity, Effect::ReleasePublicAddress])
    );
    assert_eq!(fresh.reason, Some(StateReason::VolumeLimitExceeded));
    let mut old = at(Phase::Building, true);
    old.step(Event::LaunchFailed(StateReason::InternalError), NOW);
    assert_eq!(old.phase, Phase::Failed);
}

#[test]
fn a_power_off_obeys_the_shutdown_behaviour_and_says_so() {
    let mut instance = at(Phase::Running, true);
    instance.step(Event::GuestPoweredOff(ShutdownBehaviour::Stop), NOW);
    assert_eq!(instance.phase, Phase::Stopping);
    instance.step(Event::GuestStopped, NOW);
    assert_eq!(instance.phase, Phase::Stopped);
    assert_eq!(
        instance.reason.map(StateReason::code),
        Some("Client.InstanceInitiatedShutdown")
    );
    let mut instance = at(Phase::Running, true);
    instance.step(Event::GuestPoweredOff(ShutdownBehaviour::Terminate), NOW);
    assert_eq!(instance.phase, Phase::ShuttingDown);
}

#[test]
fn requests_are_refused_where_aws_refuses_them() {
    for (phase, ever_ran, start, stop) in [
        (Phase::Placed, false, Step::Unchanged, Step::Refused),
        (Phase::Running, true, Step::Unchanged, Step::Moved(vec![])),
        (Phase::Stopping, true, Step::Refused, Step::Unchanged),
        (Phase::Stopped, true, Step::Moved(vec![]), Step::Unchanged),
        (Phase::ShuttingDown, true, Step::Refused, Step::Refused),
        (Phase::Terminated, true, Step::Refused, Step::Refused),
    ] {
        assert_eq!(
            at(phase, ever_ran).step(Event::StartRequested, NOW),
            start,
            "{phase:?}"
        );
        assert_eq!(
            at(phase, ever_ran).step(Event::StopRequested { force: false }, NOW),
            stop,
            "{phase:?}"
        );
    }
}

#[test]
fn the_transition_reason_of_a_user_has_the_date() {
    let mut instance = at(Phase::Running, true);
    instance.step(Event::TerminateRequested, NOW);
    assert_eq!(
        instance.transition_reason,
        "User initiated (1970-01-01 00:00:00 GMT)"
    );
}

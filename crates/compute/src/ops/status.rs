//! The status checks of an instance, from its node's observation (R50, R51).
//!
//! What was not measured is not claimed: reachability of the guest is not probed yet, so a running guest that its node
//! sees running passes its checks, one whose kernel panicked does not, and one without an observation is
//! `insufficient-data`.

use super::instance_view::render_state;
use crate::limits;
use crate::records::{Instance, InstanceState, Phase};
use aws_shapes::ec2;
use aws_types::filter::{Values, flag, optional};
use network::capability::names::zone_id;
use node_spec::{GuestObservation, GuestState};
use time::OffsetDateTime;

pub(super) const STATUS_FILTERS: &[&str] = &[
    "attached-ebs-status.status",
    "availability-zone",
    "availability-zone-id",
    "event.code",
    "event.description",
    "event.instance-event-id",
    "event.not-after",
    "event.not-before",
    "event.not-before-deadline",
    "instance-state-code",
    "instance-state-name",
    "instance-status.reachability",
    "instance-status.status",
    "operator.managed",
    "operator.principal",
    "system-status.reachability",
    "system-status.status",
];

/// A check, as one of AWS's words for summary and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Passed,
    Failed(Option<OffsetDateTime>),
    Initializing,
    Unknown,
    NotApplicable,
}

impl Check {
    fn summary(self) -> &'static str {
        match self {
            Check::Passed => "ok",
            Check::Failed(_) => "impaired",
            Check::Initializing => "initializing",
            Check::Unknown => "insufficient-data",
            Check::NotApplicable => "not-applicable",
        }
    }

    fn detail(self) -> Option<&'static str> {
        match self {
            Check::Passed => Some("passed"),
            Check::Failed(_) => Some("failed"),
            Check::Initializing => Some("initializing"),
            Check::Unknown => Some("insufficient-data"),
            Check::NotApplicable => None,
        }
    }

    fn impaired_since(self) -> Option<OffsetDateTime> {
        match self {
            Check::Failed(since) => since,
            Check::Passed | Check::Initializing | Check::Unknown | Check::NotApplicable => None,
        }
    }
}

fn checks(instance: &Instance, guest: Option<&GuestObservation>, now: OffsetDateTime) -> (Check, Check) {
    if instance.lifecycle.phase.state() != InstanceState::Running {
        return (Check::NotApplicable, Check::NotApplicable);
    }
    if instance.lifecycle.phase == Phase::Recovering {
        let since = Check::Failed(Some(instance.lifecycle.phase_since));
        return (since, since);
    }
    let Some(guest) = guest else {
        return (Check::Unknown, Check::Unknown);
    };
    if let Some(panicked_at) = guest.panicked_at {
        return (Check::Failed(Some(panicked_at)), Check::Passed);
    }
    match guest.state {
        GuestState::Running if now - guest.since < limits::CHECKS_INITIALIZING => {
            (Check::Initializing, Check::Initializing)
        }
        GuestState::Running => (Check::Passed, Check::Passed),
        GuestState::Preparing
        | GuestState::Stopping
        | GuestState::Stopped { .. }
        | GuestState::Failed { .. }
        | GuestState::Gone => (Check::Failed(Some(guest.since)), Check::Failed(Some(guest.since))),
    }
}

pub(super) fn render_status(
    instance: &Instance,
    guest: Option<&GuestObservation>,
    now: OffsetDateTime,
) -> ec2::InstanceStatus {
    let (of_instance, of_system) = checks(instance, guest, now);
    let summary = |check: Check| ec2::InstanceStatusSummary {
        status: Some(check.summary().to_owned()),
        details: check
            .detail()
            .map(|detail| ec2::InstanceStatusDetails {
                impaired_since: check.impaired_since(),
                name: Some("reachability".to_owned()),
                status: Some(detail.to_owned()),
            })
            .into_iter()
            .collect(),
    };
    ec2::InstanceStatus {
        availability_zone: Some(instance.zone.to_string()),
        availability_zone_id: Some(zone_id(&instance.zone)),
        operator: Some(ec2::OperatorResponse {
            managed: Some(false),
            ..Default::default()
        }),
        instance_id: Some(instance.id.to_string()),
        instance_state: Some(render_state(instance.lifecycle.phase.state())),
        instance_status: Some(summary(of_instance)),
        system_status: Some(summary(of_system)),
        attached_ebs_status: Some(ec2::EbsStatusSummary {
            status: Some(of_system.summary().to_owned()),
            details: of_system
                .detail()
                .map(|detail| ec2::EbsStatusDetails {
                    impaired_since: of_system.impaired_since(),
                    name: Some("reachability".to_owned()),
                    status: Some(detail.to_owned()),
                })
                .into_iter()
                .collect(),
        }),
        ..Default::default()
    }
}

pub(super) fn status_values(status: &ec2::InstanceStatus, name: &str) -> Values<'static> {
    let word = |summary: &Option<ec2::InstanceStatusSummary>| {
        optional(summary.as_ref().and_then(|summary| summary.status.clone()))
    };
    let reachability = |summary: &Option<ec2::InstanceStatusSummary>| {
        let details = summary.iter().flat_map(|summary| &summary.details);
        details
            .filter_map(|detail| detail.status.clone())
            .map(Into::into)
            .collect()
    };
    match name {
        "attached-ebs-status.status" => optional(
            status
                .attached_ebs_status
                .as_ref()
                .and_then(|summary| summary.status.clone()),
        ),
        "availability-zone" => optional(status.availability_zone.clone()),
        "availability-zone-id" => optional(status.availability_zone_id.clone()),
        "instance-state-code" => optional(
            status
                .instance_state
                .as_ref()
                .and_then(|state| state.code)
                .map(|code| code.to_string()),
        ),
        "instance-state-name" => optional(
            status
                .instance_state
                .as_ref()
                .and_then(|state| state.name.clone()),
        ),
        "instance-status.reachability" => reachability(&status.instance_status),
        "instance-status.status" => word(&status.instance_status),
        "operator.managed" => flag(false),
        "system-status.reachability" => reachability(&status.system_status),
        "system-status.status" => word(&status.system_status),
        _ => Values::new(),
    }
}

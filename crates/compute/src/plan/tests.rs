//! The planner: generations rise exactly with content, devices keep their places, observations mean what they should.

use super::{Nic, Placement, Seen, Verdict, assign_slot, decide, plan_instance, plan_volume};
use crate::records::{
    Attachment, Event, ImageFacts, Instance, InstanceBoot, Lifecycle, MetadataSettings, Phase, Protection,
    ShutdownBehaviour, StateReason, Volume, VolumeState,
};
use aws_types::ids::{
    ImageId, InstanceId, NetworkInterfaceId, NodeId, ReservationId, SubnetId, VolumeId, VpcId,
};
use aws_types::{AccountId, AvailabilityZone, Tags};
use node_spec::{
    ExitCause, GuestFailure, GuestObservation, GuestSpec, GuestState, MetadataInterface, RunIntent,
    VolumeFailure, VolumeIntent, VolumeObservation, VolumeState as ObservedVolume,
};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn instance() -> Instance {
    Instance {
        account: AccountId::FIRST_TENANT,
        id: InstanceId::random(),
        reservation: ReservationId::random(),
        launch_index: 0,
        client_token: None,
        lifecycle: Lifecycle::launched(NOW),
        launched_at: NOW,
        instance_type: "t3.micro".into(),
        image: ImageFacts {
            image: ImageId::random(),
            architecture: "x86_64".into(),
            boot_mode: None,
            root_device_name: "/dev/xvda".into(),
        },
        key_name: Some("web".into()),
        zone: AvailabilityZone("eu-central-1a".into()),
        node: NodeId::random(),
        core_count: 1,
        threads_per_core: 2,
        credits: None,
        metadata: MetadataSettings::default(),
        protection: Protection::default(),
        shutdown_behaviour: ShutdownBehaviour::Stop,
        auto_recovery: true,
        monitoring: false,
        ebs_optimized: false,
        slots: BTreeMap::new(),
        start_generation: 1,
        reboot_generation: 0,
        losses: Vec::new(),
    }
}

fn boot(instance: &Instance) -> InstanceBoot {
    InstanceBoot {
        account: instance.account,
        instance: instance.id.clone(),
        user_data: Some("QUFB".into()),
        public_key: Some("ssh-ed25519 AAAA web".into()),
    }
}

fn attach(instance: &mut Instance, device_name: &str) -> Attachment {
    let volume = VolumeId::random();
    assign_slot(&mut instance.slots, volume.as_str()).expect("a slot");
    Attachment {
        account: instance.account,
        instance: instance.id.clone(),
        volume,
        device_name: device_name.into(),
        delete_on_termination: true,
        attached_at: NOW,
    }
}

fn nic(instance: &mut Instance) -> Nic {
    let interface = NetworkInterfaceId::random();
    assign_slot(&mut instance.slots, interface.as_str()).expect("a slot");
    Nic {
        facts: MetadataInterface {
            interface,
            device_index: 0,
            mac: "02:00:00:00:00:01".into(),
            vpc: VpcId::random(),
            vpc_cidr: "172.31.0.0/16".into(),
            subnet: SubnetId::random(),
            subnet_cidr: "172.31.0.0/20".into(),
            address: "172.31.0.5".parse().expect("an address"),
            public_address: None,
            private_dns_name: "ip-172-31-0-5.eu-central-1.compute.internal".into(),
            public_dns_name: None,
            group_names: vec!["default".into()],
            group_ids: vec!["sg-12345678".into()],
        },
    }
}

fn placement() -> Placement {
    Placement {
        region: "eu-central-1".into(),
        zone_id: "euc1-az1".into(),
    }
}

#[test]
fn a_generation_rises_exactly_when_the_content_changes() {
    let mut instance = instance();
    let data = attach(&mut instance, "/dev/sdf");
    let root = attach(&mut instance, "/dev/xvda");
    let nics = [nic(&mut instance)];
    let (boot, tags, place) = (boot(&instance), Tags::new(), placement());
    let disks = [data, root.clone()];
    let first = plan_instance(&instance, &boot, &disks, &nics, &tags, &place, None);
    assert_eq!(first.guest.generation, 1);
    assert_eq!(first.guest.run, RunIntent::Run);
    assert_eq!((first.guest.vcpus, first.guest.memory_mib), (2, 1024));
    assert_eq!(
        first.guest.disks[0].volume, root.volume,
        "the boot disk comes first"
    );
    assert!(first.guest.disks[0].boot && !first.guest.disks[1].boot);
    assert_eq!(
        first.metadata.public_keys,
        [("web".to_owned(), "ssh-ed25519 AAAA web".to_owned())]
    );
    let again = plan_instance(&instance, &boot, &disks, &nics, &tags, &place, Some(&first.guest));
    assert_eq!(again, first);
    instance.reboot_generation += 1;
    let rebooted = plan_instance(&instance, &boot, &disks, &nics, &tags, &place, Some(&first.guest));
    assert_eq!(rebooted.guest.generation, 2);
    assert_eq!(rebooted.guest.disks, first.guest.disks, "slots stay");
    instance.lifecycle.ever_ran = true;
    instance
        .lifecycle
        .step(Event::StopRequested { force: false }, NOW);
    let stopped = plan_instance(
        &instance,
        &boot,
        &disks,
        &nics,
        &tags,
        &place,
        Some(&rebooted.guest),
    );
    assert_eq!(
        (stopped.guest.generation, stopped.guest.run),
        (3, RunIntent::Stop)
    );
}

#[test]
fn tags_of_aws_are_not_shown_to_the_guest() {
    let instance = instance();
    let tags = Tags::from([("Name".into(), "web".into()), ("aws:x".into(), "y".into())]);
    let planned = plan_instance(&instance, &boot(&instance), &[], &[], &tags, &placement(), None);
    assert_eq!(planned.metadata.tags.keys().collect::<Vec<_>>(), ["Name"]);
}

#[test]
fn slots_are_given_lowest_first_kept_and_reused() {
    let mut slots = BTreeMap::new();
    for (device, slot) in [("a", 0), ("b", 1), ("c", 2), ("b", 1)] {
        assert_eq!(assign_slot(&mut slots, device), Ok(slot));
    }
    slots.remove("a");
    assert_eq!(assign_slot(&mut slots, "d"), Ok(0));
    for number in 0..25 {
        assign_slot(&mut slots, &format!("x{number}")).expect("28 in all");
    }
    assert!(assign_slot(&mut slots, "one too many").is_err());
}

#[test]
fn a_volume_is_only_to_be_deleted_if_its_state_says_so() {
    let mut volume = Volume {
        account: AccountId::FIRST_TENANT,
        id: VolumeId::random(),
        size_gib: 8,
        volume_type: "gp3".into(),
        iops: None,
        throughput: None,
        snapshot: None,
        zone: AvailabilityZone("eu-central-1a".into()),
        node: NodeId::random(),
        state: VolumeState::Creating,
        created_at: NOW,
    };
    let first = plan_volume(&volume, None, None);
    assert_eq!(
        first.intent,
        VolumeIntent::Present {
            size_bytes: 8 << 30,
            source: None
        }
    );
    for state in [VolumeState::Available, VolumeState::Error] {
        volume.state = state;
        assert_eq!(plan_volume(&volume, None, Some(&first)), first);
    }
    volume.state = VolumeState::Deleting;
    let last = plan_volume(&volume, None, Some(&first));
    assert_eq!((last.intent.clone(), last.generation), (VolumeIntent::Deleted, 2));
    assert_eq!(plan_volume(&volume, None, Some(&last)), last);
}

fn spec(instance: &Instance) -> GuestSpec {
    plan_instance(
        instance,
        &boot(instance),
        &[],
        &[],
        &Tags::new(),
        &placement(),
        None,
    )
    .guest
}

fn observed(instance: &Instance, spec: &GuestSpec, state: GuestState) -> GuestObservation {
    GuestObservation {
        node: instance.node.clone(),
        instance: instance.id.clone(),
        applied_generation: spec.generation,
        applied_start_generation: spec.start_generation,
        applied_reboot_generation: spec.reboot_generation,
        state,
        process: None,
        since: NOW,
        panicked_at: None,
        starts: 1,
    }
}

fn verdict(instance: &Instance, spec: &GuestSpec, guest: Option<&GuestObservation>) -> Option<Verdict> {
    decide(
        instance,
        Seen {
            spec: Some(spec),
            guest,
            volumes: &[],
        },
        NOW,
    )
}

#[test]
fn absence_decides_nothing() {
    for phase in Phase::ALL
        .into_iter()
        .filter(|phase| !matches!(phase, Phase::Placed | Phase::Building))
    {
        let mut instance = instance();
        instance.lifecycle.phase = phase;
        instance.lifecycle.ever_ran = true;
        let spec = spec(&instance);
        assert_eq!(verdict(&instance, &spec, None), None, "{phase:?}");
    }
}

#[test]
fn an_observation_of_an_earlier_start_decides_nothing() {
    let mut instance = instance();
    let spec = spec(&instance);
    let old = observed(
        &instance,
        &spec,
        GuestState::Stopped {
            cause: ExitCause::GuestPowerOff,
        },
    );
    instance.start_generation = 2;
    instance.lifecycle.phase = Phase::Starting;
    assert_eq!(
        verdict(&instance, &spec, Some(&old)),
        None,
        "the spec is older than the start"
    );
    let newer = GuestSpec {
        start_generation: 2,
        generation: 2,
        ..spec
    };
    assert_eq!(
        verdict(&instance, &newer, Some(&old)),
        None,
        "the observation is older than the start"
    );
}

#[test]
fn what_ends_a_running_guest_decides_what_it_becomes() {
    let mut instance = instance();
    instance.lifecycle.phase = Phase::Running;
    instance.lifecycle.ever_ran = true;
    let spec = spec(&instance);
    let stopped = |cause| observed(&instance, &spec, GuestState::Stopped { cause });
    let case = |cause| verdict(&instance, &spec, Some(&stopped(cause)));
    assert_eq!(
        case(ExitCause::GuestPowerOff),
        Some(Verdict::Happened(Event::GuestPoweredOff(ShutdownBehaviour::Stop)))
    );
    assert_eq!(
        case(ExitCause::Signal { signal: 9 }),
        Some(Verdict::Happened(Event::GuestLost))
    );
    assert_eq!(case(ExitCause::Unknown), Some(Verdict::Relaunch));
    assert_eq!(
        case(ExitCause::Intent),
        None,
        "a drained guest is its agent's to start"
    );
    let mut worn = instance.clone();
    worn.losses = vec![NOW; 3];
    assert_eq!(
        verdict(&worn, &spec, Some(&stopped(ExitCause::Unknown))),
        Some(Verdict::Happened(Event::GuestLost))
    );
    worn.losses = vec![NOW - Duration::hours(1); 3];
    assert_eq!(
        verdict(&worn, &spec, Some(&stopped(ExitCause::Unknown))),
        Some(Verdict::Relaunch)
    );
}

#[test]
fn a_stop_is_done_when_its_own_spec_is_applied() {
    let mut instance = instance();
    instance.lifecycle.ever_ran = true;
    let running = spec(&instance);
    instance
        .lifecycle
        .step(Event::StopRequested { force: false }, NOW);
    let off = GuestState::Stopped {
        cause: ExitCause::Intent,
    };
    assert_eq!(
        verdict(
            &instance,
            &running,
            Some(&observed(&instance, &running, off.clone()))
        ),
        None
    );
    let stop = GuestSpec {
        run: RunIntent::Stop,
        generation: 2,
        ..running.clone()
    };
    assert_eq!(
        verdict(
            &instance,
            &stop,
            Some(&observed(&instance, &running, off.clone()))
        ),
        None
    );
    assert_eq!(
        verdict(&instance, &stop, Some(&observed(&instance, &stop, off))),
        Some(Verdict::Happened(Event::GuestStopped))
    );
}

#[test]
fn a_launch_failure_names_its_reason() {
    let mut instance = instance();
    instance.lifecycle.phase = Phase::Building;
    let spec = spec(&instance);
    let volume = |failure| {
        Some(VolumeObservation {
            node: instance.node.clone(),
            volume: VolumeId::random(),
            applied_generation: 1,
            state: ObservedVolume::Error {
                failure,
                message: String::new(),
            },
            since: NOW,
        })
    };
    for (failure, reason) in [
        (VolumeFailure::NoSpace, StateReason::VolumeLimitExceeded),
        (VolumeFailure::SourceMissing, StateReason::SnapshotNotFound),
        (VolumeFailure::Provider, StateReason::InternalError),
    ] {
        let seen = Seen {
            spec: Some(&spec),
            guest: None,
            volumes: &[volume(failure)],
        };
        assert_eq!(
            decide(&instance, seen, NOW),
            Some(Verdict::Happened(Event::LaunchFailed(reason)))
        );
    }
    let failed = GuestState::Failed {
        failure: GuestFailure::Hypervisor,
        message: String::new(),
    };
    assert_eq!(
        verdict(&instance, &spec, Some(&observed(&instance, &spec, failed))),
        Some(Verdict::Happened(Event::LaunchFailed(StateReason::InternalError)))
    );
}

//! The life of an instance from launch to purge, by what its node says.

use crate::cloud::{Cloud, node_record};
use crate::node::Trouble;
use aws_shapes::ec2::{self, operations};
use compute::records::{Instance, Phase};
use node_spec::{ExitCause, GuestFailure, GuestMetadata, GuestSpec, RunIntent, VolumeFailure};
use state::Scope;

#[tokio::test]
async fn an_instance_runs_stops_starts_and_ends() {
    let cloud = Cloud::new().await;
    let request = cloud.launch(1);
    let reservation = cloud
        .call::<operations::RunInstances>(request)
        .await
        .expect("launched");
    let launched = &reservation.instances[0];
    let id = launched.instance_id.clone().expect("an id");
    assert_eq!(
        launched.state.as_ref().and_then(|state| state.name.as_deref()),
        Some("pending")
    );
    let address = launched.private_ip_address.clone().expect("a private address");
    assert_eq!(launched.block_device_mappings.len(), 1);
    assert_eq!(launched.security_groups[0].group_name.as_deref(), Some("default"));

    cloud.settle().await;
    let running = cloud.describe(&id).await;
    assert_eq!(running.state.as_ref().and_then(|state| state.code), Some(16));
    assert_eq!(running.state_reason, None);
    assert_eq!(running.state_transition_reason.as_deref(), Some(""));
    let public = running
        .public_ip_address
        .clone()
        .expect("default subnets give public addresses");
    let attachment = running.network_interfaces[0]
        .attachment
        .as_ref()
        .expect("attached");
    assert_eq!(attachment.status.as_deref(), Some("attached"));

    cloud.stop(&id).await;
    assert_eq!(cloud.state(&id).await, "stopping");
    cloud.settle().await;
    let stopped = cloud.describe(&id).await;
    assert_eq!(
        stopped.state.as_ref().and_then(|state| state.name.as_deref()),
        Some("stopped")
    );
    assert_eq!(stopped.public_ip_address, None);
    assert_eq!(stopped.private_ip_address.as_deref(), Some(address.as_str()));
    let reason = stopped.state_reason.expect("a reason");
    assert_eq!(reason.code.as_deref(), Some("Client.UserInitiatedShutdown"));
    assert!(
        stopped
            .state_transition_reason
            .is_some_and(|text| text.starts_with("User initiated ("))
    );

    cloud.start(&id).await;
    assert_eq!(cloud.state(&id).await, "pending");
    cloud.settle().await;
    let again = cloud.describe(&id).await;
    assert_eq!(
        again.state.as_ref().and_then(|state| state.name.as_deref()),
        Some("running")
    );
    assert_eq!(again.private_ip_address.as_deref(), Some(address.as_str()));
    assert_ne!(again.public_ip_address, None);
    assert_ne!(again.public_ip_address, Some(public));

    cloud.terminate(std::slice::from_ref(&id)).await;
    assert_eq!(cloud.state(&id).await, "shutting-down");
    cloud.settle().await;
    let gone = cloud.describe(&id).await;
    assert_eq!(gone.state.as_ref().and_then(|state| state.code), Some(48));
    assert_eq!((gone.private_ip_address, gone.subnet_id), (None, None));
    assert!(gone.block_device_mappings.is_empty() && gone.network_interfaces.is_empty());
    cloud.assert_nothing_leaked().await;
    // A second terminate succeeds, a start does not.
    cloud.terminate(std::slice::from_ref(&id)).await;
    let request = ec2::StartInstancesRequest {
        instance_ids: vec![id],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::StartInstances>(request)
        .await
        .expect_err("over");
    assert_eq!(error.code, "IncorrectInstanceState");
}

#[tokio::test]
async fn a_power_off_from_inside_stops_or_terminates() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    cloud.node.end(&id, ExitCause::GuestPowerOff);
    cloud.settle().await;
    let stopped = cloud.describe(&id).await;
    assert_eq!(
        stopped.state.and_then(|state| state.name).as_deref(),
        Some("stopped")
    );
    let reason = stopped.state_reason.expect("a reason");
    assert_eq!(reason.code.as_deref(), Some("Client.InstanceInitiatedShutdown"));
    assert_eq!(
        reason.message.as_deref(),
        Some("Client.InstanceInitiatedShutdown: Instance initiated shutdown")
    );

    let mut request = cloud.launch(1);
    request.instance_initiated_shutdown_behavior = Some("terminate".into());
    request.disable_api_termination = Some(true);
    let id = cloud.run(request).await.remove(0);
    cloud.node.end(&id, ExitCause::GuestPowerOff);
    cloud.settle().await;
    assert_eq!(cloud.state(&id).await, "terminated");
    cloud.assert_nothing_leaked().await;
}

#[tokio::test]
async fn a_dead_guest_fails_and_can_be_started_and_a_vanished_one_comes_back() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    cloud.node.end(&id, ExitCause::Signal { signal: 11 });
    cloud.settle().await;
    let failed = cloud.describe(&id).await;
    assert_eq!(
        failed.state.and_then(|state| state.name).as_deref(),
        Some("stopped")
    );
    assert_eq!(
        failed.state_reason.and_then(|reason| reason.code).as_deref(),
        Some("Server.InternalError")
    );
    cloud.start(&id).await;
    cloud.settle().await;
    assert_eq!(cloud.state(&id).await, "running");

    for _ in 0..3 {
        cloud.node.end(&id, ExitCause::Unknown);
        cloud.settle().await;
        assert_eq!(cloud.state(&id).await, "running");
    }
    cloud.node.end(&id, ExitCause::Unknown);
    cloud.settle().await;
    assert_eq!(cloud.state(&id).await, "stopped", "the budget is spent");
    cloud.assert_nothing_leaked().await;
}

#[tokio::test]
async fn a_launch_that_fails_definitely_ends_terminated_with_its_reason() {
    for (trouble, code) in [
        (
            Trouble {
                volumes: Some(VolumeFailure::NoSpace),
                ..Trouble::default()
            },
            "Client.VolumeLimitExceeded",
        ),
        (
            Trouble {
                volumes: Some(VolumeFailure::SourceMissing),
                ..Trouble::default()
            },
            "Client.InvalidSnapshot.NotFound",
        ),
        (
            Trouble {
                guests: Some(GuestFailure::Hypervisor),
                ..Trouble::default()
            },
            "Server.InternalError",
        ),
    ] {
        let cloud = Cloud::new().await;
        cloud.node.set_trouble(trouble);
        let id = cloud.run(cloud.launch(1)).await.remove(0);
        let ended = cloud.describe(&id).await;
        assert_eq!(
            ended.state.and_then(|state| state.name).as_deref(),
            Some("terminated")
        );
        assert_eq!(
            ended.state_reason.and_then(|reason| reason.code).as_deref(),
            Some(code)
        );
        cloud.assert_nothing_leaked().await;
    }
}

#[tokio::test]
async fn a_start_that_fails_leaves_what_ran_before_stopped() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    cloud.stop(&id).await;
    cloud.settle().await;
    cloud.node.set_trouble(Trouble {
        guests: Some(GuestFailure::Hypervisor),
        ..Trouble::default()
    });
    cloud.start(&id).await;
    cloud.settle().await;
    let failed = cloud.describe(&id).await;
    assert_eq!(
        failed.state.and_then(|state| state.name).as_deref(),
        Some("stopped")
    );
    assert_eq!(failed.block_device_mappings.len(), 1);
    cloud.assert_nothing_leaked().await;
}

#[tokio::test]
async fn a_silent_node_changes_nothing() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    cloud.node.set_trouble(Trouble {
        silent: true,
        ..Trouble::default()
    });
    cloud.terminate(std::slice::from_ref(&id)).await;
    cloud.settle().await;
    assert_eq!(cloud.state(&id).await, "shutting-down");
    cloud.node.set_trouble(Trouble::default());
    cloud.settle().await;
    assert_eq!(cloud.state(&id).await, "terminated");
    cloud.assert_nothing_leaked().await;
}

#[tokio::test]
async fn an_instance_terminated_before_its_node_heard_of_it_is_just_given_back() {
    let cloud = Cloud::new().await;
    let reservation = cloud
        .call::<operations::RunInstances>(cloud.launch(1))
        .await
        .expect("launched");
    let id = reservation.instances[0].instance_id.clone().expect("an id");
    cloud.terminate(std::slice::from_ref(&id)).await;
    cloud.settle().await;
    assert_eq!(cloud.state(&id).await, "terminated");
    cloud.assert_nothing_leaked().await;
}

#[tokio::test]
async fn a_reboot_raises_the_generation_once_for_each_request() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    let scope = Scope::node(&cloud.node.id);
    let before = cloud.store.fetch::<GuestSpec>(&scope, &id).await.expect("a spec");
    let request = ec2::RebootInstancesRequest {
        instance_ids: vec![id.clone(), id.clone()],
        ..Default::default()
    };
    cloud
        .call::<operations::RebootInstances>(request)
        .await
        .expect("rebooting");
    cloud.settle().await;
    let after = cloud.store.fetch::<GuestSpec>(&scope, &id).await.expect("a spec");
    assert_eq!(after.reboot_generation, before.reboot_generation + 1);
    assert_eq!(after.run, RunIntent::Run);
    assert_eq!(cloud.state(&id).await, "running");
}

#[tokio::test]
async fn volumes_that_are_not_to_go_stay_when_the_instance_ends() {
    let cloud = Cloud::new().await;
    let mut request = cloud.launch(1);
    request.block_device_mappings = vec![ec2::BlockDeviceMapping {
        device_name: Some("/dev/sdf".into()),
        ebs: Some(ec2::EbsBlockDevice {
            volume_size: Some(3),
            delete_on_termination: Some(false),
            ..Default::default()
        }),
        ..Default::default()
    }];
    let id = cloud.run(request).await.remove(0);
    let volumes = cloud
        .call::<operations::DescribeVolumes>(Default::default())
        .await
        .expect("listed")
        .volumes;
    assert_eq!(volumes.len(), 2);
    assert!(
        volumes
            .iter()
            .all(|volume| volume.state.as_deref() == Some("in-use"))
    );
    cloud.terminate(&[id]).await;
    cloud.settle().await;
    let volumes = cloud
        .call::<operations::DescribeVolumes>(Default::default())
        .await
        .expect("listed")
        .volumes;
    assert_eq!(volumes.len(), 1);
    assert_eq!(
        (volumes[0].size, volumes[0].state.as_deref()),
        (Some(3), Some("available"))
    );
    assert!(volumes[0].attachments.is_empty());
}

#[tokio::test]
async fn capacity_is_held_while_running_and_judged_again_at_start() {
    // Two threads carry four burstable instances of two vCPUs.
    let cloud = Cloud::with(node_record(2, 64 * 1024)).await;
    let ids = cloud.run(cloud.launch(4)).await;
    let error = cloud
        .call::<operations::RunInstances>(cloud.launch(1))
        .await
        .expect_err("full");
    assert_eq!(
        (error.code.as_ref(), error.status),
        ("InsufficientInstanceCapacity", 500)
    );
    cloud.stop(&ids[0]).await;
    cloud.settle().await;
    let other = cloud.run(cloud.launch(1)).await.remove(0);
    let request = ec2::StartInstancesRequest {
        instance_ids: vec![ids[0].clone()],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::StartInstances>(request)
        .await
        .expect_err("full");
    assert_eq!(error.code, "InsufficientInstanceCapacity");
    assert_eq!(cloud.state(&ids[0]).await, "stopped");
    cloud.terminate(&[other]).await;
    cloud.settle().await;
    cloud.start(&ids[0]).await;
    cloud.settle().await;
    assert_eq!(cloud.state(&ids[0]).await, "running");
    cloud.assert_nothing_leaked().await;
}

#[tokio::test]
async fn what_a_running_guest_reads_follows_its_tags() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    let scope = Scope::node(&cloud.node.id);
    let tags = aws_types::Tags::from([("Name".to_owned(), "web".to_owned())]);
    let (id_ref, tags_ref) = (&id, &tags);
    let write = cloud.store.update(|tx| async move {
        network::capability::tags::put(&tx, crate::cloud::TENANT, "instance", id_ref, tags_ref).await
    });
    write.await.expect("tagged");
    cloud.settle().await;
    let metadata = cloud
        .store
        .fetch::<GuestMetadata>(&scope, &id)
        .await
        .expect("metadata");
    assert_eq!(metadata.tags.get("Name").map(String::as_str), Some("web"));
    assert_eq!(metadata.interfaces.len(), 1);
}

#[tokio::test]
async fn a_terminated_instance_is_purged_after_an_hour() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    cloud.terminate(std::slice::from_ref(&id)).await;
    cloud.settle().await;
    let scope = Scope::account(crate::cloud::TENANT);
    let mut instance = cloud.store.fetch::<Instance>(&scope, &id).await.expect("there");
    assert_eq!(instance.lifecycle.phase, Phase::Terminated);
    instance.lifecycle.phase_since -= time::Duration::minutes(61);
    let row = &instance;
    cloud
        .store
        .update(|tx| async move { tx.put(row) })
        .await
        .expect("aged");
    cloud.settle().await;
    let request = ec2::DescribeInstancesRequest {
        instance_ids: vec![id],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::DescribeInstances>(request)
        .await
        .expect_err("purged");
    assert_eq!(error.code, "InvalidInstanceID.NotFound");
}

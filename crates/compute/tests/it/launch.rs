//! RunInstances: what a launch carries to its node, client tokens, and launches in parts.

use crate::cloud::{Cloud, TENANT, node_record};
use aws_shapes::ec2::{self, operations};
use compute::records::{CapacityHold, Instance, Launch, Volume};
use node_spec::{GuestMetadata, GuestSpec, VolumeIntent, VolumeSpec};
use state::Scope;
use std::collections::BTreeSet;

fn tags(resource_type: &str, key: &str, value: &str) -> ec2::TagSpecification {
    ec2::TagSpecification {
        resource_type: Some(resource_type.into()),
        tags: vec![ec2::Tag {
            key: Some(key.into()),
            value: Some(value.into()),
        }],
    }
}

#[tokio::test]
async fn everything_asked_for_reaches_the_node_and_the_answer() {
    let cloud = Cloud::new().await;
    let key = ec2::CreateKeyPairRequest {
        key_name: Some("web".into()),
        key_type: Some("ed25519".into()),
        ..Default::default()
    };
    cloud.call::<operations::CreateKeyPair>(key).await.expect("a key");
    let mut request = cloud.launch(1);
    request.key_name = Some("web".into());
    request.user_data = Some("IyEvYmluL3NoCg==".into());
    request.disable_api_termination = Some(true);
    request.monitoring = Some(ec2::RunInstancesMonitoringEnabled { enabled: Some(true) });
    request.credit_specification = Some(ec2::CreditSpecificationRequest {
        cpu_credits: Some("standard".into()),
    });
    request.cpu_options = Some(ec2::CpuOptionsRequest {
        core_count: Some(1),
        threads_per_core: Some(1),
        ..Default::default()
    });
    request.metadata_options = Some(ec2::InstanceMetadataOptionsRequest {
        http_tokens: Some("optional".into()),
        http_put_response_hop_limit: Some(3),
        instance_metadata_tags: Some("enabled".into()),
        ..Default::default()
    });
    request.tag_specifications = vec![
        tags("instance", "Name", "web"),
        tags("volume", "Kind", "root"),
        tags("network-interface", "Net", "1"),
    ];
    request.block_device_mappings = vec![ec2::BlockDeviceMapping {
        device_name: Some("/dev/xvda".into()),
        ebs: Some(ec2::EbsBlockDevice {
            volume_size: Some(12),
            ..Default::default()
        }),
        ..Default::default()
    }];
    request.network_interfaces = vec![ec2::InstanceNetworkInterfaceSpecification {
        device_index: Some(0),
        associate_public_ip_address: Some(false),
        description: Some("front".into()),
        private_ip_address: Some("172.31.0.77".into()),
        ..Default::default()
    }];
    let id = cloud.run(request).await.remove(0);
    let shown = cloud.describe(&id).await;
    assert_eq!(shown.key_name.as_deref(), Some("web"));
    assert_eq!(shown.private_ip_address.as_deref(), Some("172.31.0.77"));
    assert_eq!(shown.public_ip_address, None);
    assert_eq!(shown.tags[0].value.as_deref(), Some("web"));
    assert_eq!(
        shown.monitoring.and_then(|one| one.state).as_deref(),
        Some("enabled")
    );
    assert_eq!(shown.network_interfaces[0].description.as_deref(), Some("front"));
    let options = shown.metadata_options.expect("options");
    assert_eq!(options.http_tokens.as_deref(), Some("optional"));
    assert_eq!(
        (options.http_put_response_hop_limit, options.state.as_deref()),
        (Some(3), Some("applied"))
    );

    let scope = Scope::node(&cloud.node.id);
    let spec = cloud.store.fetch::<GuestSpec>(&scope, &id).await.expect("a spec");
    assert_eq!(
        (spec.vcpus, spec.memory_mib, spec.disks.len(), spec.nics.len()),
        (1, 1024, 1, 1)
    );
    let slots: BTreeSet<u8> = spec
        .disks
        .iter()
        .map(|disk| disk.slot)
        .chain(spec.nics.iter().map(|nic| nic.slot))
        .collect();
    assert_eq!(slots.len(), 2, "no slot twice");
    let volume = cloud
        .store
        .fetch::<VolumeSpec>(&scope, &spec.disks[0].volume)
        .await
        .expect("a spec");
    let VolumeIntent::Present { size_bytes, source } = volume.intent else {
        panic!("to be present")
    };
    assert_eq!(size_bytes, 12 << 30);
    assert_eq!(source.expect("made from the image").handle, "00".repeat(16));
    let metadata = cloud
        .store
        .fetch::<GuestMetadata>(&scope, &id)
        .await
        .expect("metadata");
    assert_eq!(metadata.user_data.as_deref(), Some("IyEvYmluL3NoCg=="));
    assert_eq!(metadata.public_keys[0].0, "web");
    assert!(metadata.public_keys[0].1.starts_with("ssh-ed25519 "));
    assert_eq!(
        (metadata.options.tokens_required, metadata.options.hop_limit),
        (false, 3)
    );
    assert_eq!(metadata.interfaces[0].address.to_string(), "172.31.0.77");

    let credits = cloud
        .call::<operations::DescribeInstanceCreditSpecifications>(Default::default())
        .await
        .expect("credits");
    assert_eq!(
        credits.instance_credit_specifications[0].cpu_credits.as_deref(),
        Some("standard")
    );
    let request = ec2::TerminateInstancesRequest {
        instance_ids: vec![id],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::TerminateInstances>(request)
        .await
        .expect_err("protected");
    assert_eq!(error.code, "OperationNotPermitted");
    assert!(
        error.message.contains("disableApiTermination"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn one_token_launches_once() {
    let cloud = Cloud::new().await;
    let mut request = cloud.launch(2);
    request.client_token = Some("once".into());
    let (first, second) = tokio::join!(
        cloud.call::<operations::RunInstances>(request.clone()),
        cloud.call::<operations::RunInstances>(request.clone())
    );
    let ids = |reservation: &ec2::Reservation| -> Vec<_> {
        reservation
            .instances
            .iter()
            .map(|one| one.instance_id.clone())
            .collect()
    };
    let first = first.expect("launched");
    assert_eq!(ids(&first), ids(&second.expect("the same")));
    assert_eq!(cloud.store.list_all::<Instance>().await.expect("listed").len(), 2);
    let mut other = request.clone();
    other.instance_type = Some("t3.small".into());
    let error = cloud
        .call::<operations::RunInstances>(other)
        .await
        .expect_err("other parameters");
    assert_eq!(error.code, "IdempotentParameterMismatch");
    let ids: Vec<String> = ids(&first).into_iter().flatten().collect();
    cloud.terminate(&ids).await;
    cloud.settle().await;
    let error = cloud
        .call::<operations::RunInstances>(request)
        .await
        .expect_err("terminated");
    assert_eq!(error.code, "IdempotentInstanceTerminated");
}

#[tokio::test]
async fn a_launch_takes_what_fits_between_minimum_and_maximum() {
    let cloud = Cloud::with(node_record(2, 64 * 1024)).await;
    let mut request = cloud.launch(1);
    request.max_count = Some(i32::MAX);
    let reservation = cloud
        .call::<operations::RunInstances>(request)
        .await
        .expect("launched");
    assert_eq!(reservation.instances.len(), 4);
    let indexes: Vec<_> = reservation
        .instances
        .iter()
        .filter_map(|one| one.ami_launch_index)
        .collect();
    assert_eq!(indexes, [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_large_launch_goes_in_parts_and_answers_whole() {
    let cloud = Cloud::with(node_record(128, 1024 * 1024)).await;
    let mut request = cloud.launch(150);
    request.client_token = Some("large".into());
    let reservation = cloud
        .call::<operations::RunInstances>(request.clone())
        .await
        .expect("launched");
    assert_eq!(reservation.instances.len(), 150);
    assert!(cloud.store.list_all::<Launch>().await.expect("listed").is_empty());
    let holds = cloud.store.list_all::<CapacityHold>().await.expect("listed");
    assert_eq!(holds.len(), 150, "the launch's own hold is gone");
    cloud.settle().await;
    cloud.assert_nothing_leaked().await;
    let again = cloud
        .call::<operations::RunInstances>(request)
        .await
        .expect("the same");
    assert_eq!(again.reservation_id, reservation.reservation_id);
    assert_eq!(again.instances.len(), 150);
    let ids: Vec<String> = again
        .instances
        .into_iter()
        .filter_map(|one| one.instance_id)
        .collect();
    cloud.terminate(&ids).await;
    cloud.settle().await;
    cloud.assert_nothing_leaked().await;
    assert!(cloud.store.list_all::<Volume>().await.expect("listed").is_empty());
}

#[tokio::test]
async fn instances_of_a_launch_are_neighbours() {
    let cloud = Cloud::new().await;
    cloud.run(cloud.launch(3)).await;
    cloud.run(cloud.launch(3)).await;
    let rows = cloud
        .store
        .list::<Instance>(&Scope::account(TENANT))
        .await
        .expect("listed");
    let reservations: Vec<_> = rows.iter().map(|one| one.reservation.clone()).collect();
    assert!(reservations[..3].iter().all(|one| *one == reservations[0]));
    assert!(reservations[3..].iter().all(|one| *one == reservations[3]));
}

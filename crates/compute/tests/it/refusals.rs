//! Bad input gets AWS's error and changes nothing: one row per call.

use crate::cloud::Cloud;
use aws_shapes::ec2::{self, operations};
use aws_types::AwsError;
use compute::records::{CapacityHold, Instance, Volume};
use network::records::Interface;

fn filter(name: &str) -> Vec<ec2::Filter> {
    vec![ec2::Filter {
        name: Some(name.into()),
        values: vec!["x".into()],
    }]
}

#[tokio::test]
async fn launches_that_need_what_is_not_there_are_refused_and_leave_nothing() {
    let cloud = Cloud::new().await;
    type Edit = fn(&mut ec2::RunInstancesRequest);
    let cases: &[(Edit, &str, u16)] = &[
        (
            |r| r.image_id = Some("ami-0123456789abcdef0".into()),
            "InvalidAMIID.NotFound",
            400,
        ),
        (
            |r| r.image_id = Some("ami-".into()),
            "InvalidAMIID.Malformed",
            400,
        ),
        (
            |r| r.instance_type = Some("x9.tiny".into()),
            "InvalidParameterValue",
            400,
        ),
        (
            |r| r.instance_type = Some("m7g.medium".into()),
            "InvalidParameterValue",
            400,
        ),
        (
            |r| r.instance_type = Some("m5.24xlarge".into()),
            "Unsupported",
            400,
        ),
        (
            |r| r.key_name = Some("absent".into()),
            "InvalidKeyPair.NotFound",
            400,
        ),
        (
            |r| r.subnet_id = Some("subnet-0123456789abcdef0".into()),
            "InvalidSubnetID.NotFound",
            400,
        ),
        (
            |r| r.subnet_id = Some("subnet-x".into()),
            "InvalidSubnetID.Malformed",
            400,
        ),
        (
            |r| r.security_group_ids = vec!["sg-0123456789abcdef0".into()],
            "InvalidGroup.NotFound",
            400,
        ),
        (
            |r| r.security_group_ids = vec!["web".into()],
            "InvalidGroupId.Malformed",
            400,
        ),
        (
            |r| r.security_groups = vec!["absent".into()],
            "InvalidGroup.NotFound",
            400,
        ),
        (
            |r| {
                r.placement = Some(ec2::Placement {
                    availability_zone: Some("mars-1a".into()),
                    ..Default::default()
                })
            },
            "InvalidParameterValue",
            400,
        ),
        (
            |r| {
                r.placement = Some(ec2::Placement {
                    availability_zone_id: Some("mars-az1".into()),
                    ..Default::default()
                })
            },
            "InvalidParameterValue",
            400,
        ),
        (
            |r| {
                r.min_count = Some(1000);
                r.max_count = Some(1000);
            },
            "InsufficientInstanceCapacity",
            500,
        ),
        (
            |r| r.private_ip_address = Some("10.9.9.9".into()),
            "InvalidParameterValue",
            400,
        ),
        (
            |r| r.private_ip_address = Some("not an address".into()),
            "InvalidParameterValue",
            400,
        ),
        (
            |r| r.client_token = Some("x".repeat(65)),
            "InvalidParameterValue",
            400,
        ),
        (
            |r| {
                r.block_device_mappings = vec![ec2::BlockDeviceMapping {
                    device_name: Some("/dev/sdf".into()),
                    ebs: Some(ec2::EbsBlockDevice {
                        snapshot_id: Some("snap-12345678".into()),
                        ..Default::default()
                    }),
                    ..Default::default()
                }];
            },
            "InvalidSnapshot.NotFound",
            400,
        ),
        (
            |r| {
                let device = |index: u8| ec2::BlockDeviceMapping {
                    device_name: Some(format!("/dev/sd{}", char::from(b'b' + index))),
                    ebs: Some(ec2::EbsBlockDevice {
                        volume_size: Some(1),
                        ..Default::default()
                    }),
                    ..Default::default()
                };
                r.block_device_mappings = (0..24)
                    .map(device)
                    .chain((0..4).map(|index| ec2::BlockDeviceMapping {
                        device_name: Some(format!("/dev/xvd{}", char::from(b'e' + index))),
                        ..device(index)
                    }))
                    .collect();
            },
            "AttachmentLimitExceeded",
            400,
        ),
        (
            |r| r.user_data = Some("A".repeat(1 << 20)),
            "InvalidParameterValue",
            400,
        ),
        (
            |r| {
                let interface = |index| ec2::InstanceNetworkInterfaceSpecification {
                    device_index: Some(index),
                    ..Default::default()
                };
                r.network_interfaces = vec![interface(0), interface(1), interface(2)];
            },
            "AttachmentLimitExceeded",
            400,
        ),
        (
            |r| {
                r.tag_specifications = vec![ec2::TagSpecification {
                    resource_type: Some("instance".into()),
                    tags: vec![ec2::Tag {
                        key: Some("aws:x".into()),
                        value: None,
                    }],
                }];
            },
            "InvalidParameterValue",
            400,
        ),
    ];
    for (index, (edit, code, status)) in cases.iter().enumerate() {
        let mut request = cloud.launch(1);
        edit(&mut request);
        let error = cloud
            .call::<operations::RunInstances>(request)
            .await
            .expect_err("refused");
        assert_eq!(
            (error.code.as_ref(), error.status),
            (*code, *status),
            "case {index}: {error}"
        );
    }
    assert!(
        cloud
            .store
            .list_all::<Instance>()
            .await
            .expect("listed")
            .is_empty()
    );
    assert!(cloud.store.list_all::<Volume>().await.expect("listed").is_empty());
    assert!(
        cloud
            .store
            .list_all::<Interface>()
            .await
            .expect("listed")
            .is_empty()
    );
    assert!(
        cloud
            .store
            .list_all::<CapacityHold>()
            .await
            .expect("listed")
            .is_empty()
    );
}

fn code<T: std::fmt::Debug>(result: Result<T, AwsError>) -> String {
    result.expect_err("refused").code.into_owned()
}

#[tokio::test]
async fn ids_filters_and_pages_are_checked_everywhere() {
    let cloud = Cloud::new().await;
    let absent = "i-0123456789abcdef0".to_owned();
    for (ids, expected) in [
        (vec!["i-x".to_owned()], "InvalidInstanceID.Malformed"),
        (vec!["vol-12345678".to_owned()], "InvalidInstanceID.Malformed"),
        (vec![absent.clone()], "InvalidInstanceID.NotFound"),
    ] {
        macro_rules! refuses {
            ($($operation:ident, $request:ident;)*) => {$(
                let request = ec2::$request { instance_ids: ids.clone(), ..Default::default() };
                assert_eq!(code(cloud.call::<operations::$operation>(request).await), expected, stringify!($operation));
            )*};
        }
        refuses! {
            DescribeInstances, DescribeInstancesRequest;
            DescribeInstanceStatus, DescribeInstanceStatusRequest;
            DescribeInstanceCreditSpecifications, DescribeInstanceCreditSpecificationsRequest;
            StartInstances, StartInstancesRequest;
            StopInstances, StopInstancesRequest;
            RebootInstances, RebootInstancesRequest;
            TerminateInstances, TerminateInstancesRequest;
        }
        let request = ec2::GetConsoleOutputRequest {
            instance_id: Some(ids[0].clone()),
            ..Default::default()
        };
        assert_eq!(
            code(cloud.call::<operations::GetConsoleOutput>(request).await),
            expected
        );
    }
    macro_rules! unknown_filter {
        ($($operation:ident, $request:ident;)*) => {$(
            let request = ec2::$request { filters: filter("color"), ..Default::default() };
            let error = cloud.call::<operations::$operation>(request).await.expect_err("refused");
            assert_eq!(error.code, "InvalidParameterValue", stringify!($operation));
            assert_eq!(error.message, "The filter 'color' is invalid", stringify!($operation));
        )*};
    }
    unknown_filter! {
        DescribeInstances, DescribeInstancesRequest;
        DescribeInstanceStatus, DescribeInstanceStatusRequest;
        DescribeInstanceTypes, DescribeInstanceTypesRequest;
        DescribeInstanceTypeOfferings, DescribeInstanceTypeOfferingsRequest;
        DescribeInstanceCreditSpecifications, DescribeInstanceCreditSpecificationsRequest;
        DescribeImages, DescribeImagesRequest;
        DescribeKeyPairs, DescribeKeyPairsRequest;
        DescribeVolumes, DescribeVolumesRequest;
        DescribeAvailabilityZones, DescribeAvailabilityZonesRequest;
        DescribeRegions, DescribeRegionsRequest;
    }
    macro_rules! page_size {
        ($($operation:ident, $request:ident, $size:expr;)*) => {$(
            let request = ec2::$request { max_results: Some($size), ..Default::default() };
            assert_eq!(code(cloud.call::<operations::$operation>(request).await), "InvalidParameterValue");
            let request = ec2::$request { next_token: Some("bogus".into()), ..Default::default() };
            assert_eq!(code(cloud.call::<operations::$operation>(request).await), "InvalidParameterValue");
        )*};
    }
    page_size! {
        DescribeInstances, DescribeInstancesRequest, 4;
        DescribeInstanceStatus, DescribeInstanceStatusRequest, 1001;
        DescribeInstanceTypes, DescribeInstanceTypesRequest, 101;
        DescribeImages, DescribeImagesRequest, 0;
        DescribeVolumes, DescribeVolumesRequest, 1;
    }
    let request = ec2::DescribeInstancesRequest {
        instance_ids: vec![absent.clone()],
        max_results: Some(5),
        ..Default::default()
    };
    assert_eq!(
        code(cloud.call::<operations::DescribeInstances>(request).await),
        "InvalidParameterCombination"
    );
    let request = ec2::DescribeVolumesRequest {
        volume_ids: vec!["vol-12345678".into()],
        ..Default::default()
    };
    assert_eq!(
        code(cloud.call::<operations::DescribeVolumes>(request).await),
        "InvalidVolume.NotFound"
    );
    let request = ec2::DescribeImagesRequest {
        image_ids: vec!["ami-12345678".into()],
        ..Default::default()
    };
    assert_eq!(
        code(cloud.call::<operations::DescribeImages>(request).await),
        "InvalidAMIID.NotFound"
    );
    let request = ec2::DescribeAvailabilityZonesRequest {
        zone_names: vec!["mars-1a".into()],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::DescribeAvailabilityZones>(request)
        .await
        .expect_err("unknown");
    assert_eq!(error.message, "Invalid availability zone: [mars-1a]");
    let request = ec2::DescribeInstanceTypeOfferingsRequest {
        location_type: Some("outpost".into()),
        ..Default::default()
    };
    assert_eq!(
        code(
            cloud
                .call::<operations::DescribeInstanceTypeOfferings>(request)
                .await
        ),
        "InvalidParameterValue"
    );
}

#[tokio::test]
async fn one_bad_id_changes_none_and_states_are_respected() {
    let cloud = Cloud::new().await;
    let ids = cloud.run(cloud.launch(2)).await;
    let mut named = ids.clone();
    named.push("i-0123456789abcdef0".into());
    let request = ec2::TerminateInstancesRequest {
        instance_ids: named,
        ..Default::default()
    };
    let error = cloud
        .call::<operations::TerminateInstances>(request)
        .await
        .expect_err("one is absent");
    assert_eq!(
        error.message,
        "The instance ID 'i-0123456789abcdef0' does not exist"
    );
    assert_eq!(cloud.state(&ids[0]).await, "running");

    let fresh = cloud
        .call::<operations::RunInstances>(cloud.launch(1))
        .await
        .expect("launched");
    let fresh = fresh.instances[0].instance_id.clone().expect("an id");
    let request = ec2::StopInstancesRequest {
        instance_ids: vec![ids[0].clone(), fresh.clone()],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::StopInstances>(request)
        .await
        .expect_err("one never ran");
    assert_eq!(error.code, "IncorrectInstanceState");
    assert!(
        error.message.contains("never reached the 'running' state"),
        "{}",
        error.message
    );
    assert_eq!(cloud.state(&ids[0]).await, "running");
    let request = ec2::RebootInstancesRequest {
        instance_ids: vec![fresh],
        ..Default::default()
    };
    assert_eq!(
        code(cloud.call::<operations::RebootInstances>(request).await),
        "IncorrectInstanceState"
    );
    let request = ec2::StopInstancesRequest {
        instance_ids: ids,
        hibernate: Some(true),
        ..Default::default()
    };
    assert_eq!(
        code(cloud.call::<operations::StopInstances>(request).await),
        "UnsupportedHibernationConfiguration"
    );
    let request = ec2::StartInstancesRequest::default();
    assert_eq!(
        code(cloud.call::<operations::StartInstances>(request).await),
        "MissingParameter"
    );
}

#[tokio::test]
async fn a_dry_run_validates_and_changes_nothing() {
    let cloud = Cloud::new().await;
    let good = cloud
        .call_as::<operations::RunInstances>(cloud.launch(1), true)
        .await;
    assert_eq!(code(good), "DryRunOperation");
    let mut bad = cloud.launch(1);
    bad.key_name = Some("absent".into());
    assert_eq!(
        code(cloud.call_as::<operations::RunInstances>(bad, true).await),
        "InvalidKeyPair.NotFound"
    );
    assert!(
        cloud
            .store
            .list_all::<Instance>()
            .await
            .expect("listed")
            .is_empty()
    );
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    let terminate = |id: &str| ec2::TerminateInstancesRequest {
        instance_ids: vec![id.to_owned()],
        ..Default::default()
    };
    let good = cloud
        .call_as::<operations::TerminateInstances>(terminate(&id), true)
        .await;
    assert_eq!(code(good), "DryRunOperation");
    let bad = cloud
        .call_as::<operations::TerminateInstances>(terminate("i-0123456789abcdef0"), true)
        .await;
    assert_eq!(code(bad), "InvalidInstanceID.NotFound");
    assert_eq!(cloud.state(&id).await, "running");
    let volumes = cloud
        .call_as::<operations::DescribeVolumes>(Default::default(), true)
        .await;
    assert_eq!(code(volumes), "DryRunOperation");
}

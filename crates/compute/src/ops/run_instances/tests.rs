//! Block devices laid over an image's, and requests refused before any record is read.

use super::devices::{device_wishes, lay_over};
use super::request::LaunchRequest;
use crate::records::{Image, ImageDevice, ImageState};
use aws_shapes::ec2;
use aws_types::AccountId;
use aws_types::ids::{ImageId, SnapshotId};
use time::OffsetDateTime;

fn image() -> Image {
    Image {
        account: AccountId::SYSTEM,
        id: ImageId::random(),
        name: "tiny".into(),
        description: String::new(),
        architecture: "x86_64".into(),
        boot_mode: None,
        root_device_name: "/dev/xvda".into(),
        devices: vec![device("/dev/xvda", 8, true), device("/dev/sdf", 4, false)],
        public: true,
        state: ImageState::Available,
        created_at: OffsetDateTime::UNIX_EPOCH,
        ena_support: true,
    }
}

fn device(name: &str, size_gib: u32, snapshot: bool) -> ImageDevice {
    ImageDevice {
        device_name: name.into(),
        snapshot: snapshot.then(SnapshotId::random),
        size_gib,
        volume_type: "gp3".into(),
        delete_on_termination: true,
    }
}

fn mapping(name: &str, size: Option<i32>) -> ec2::BlockDeviceMapping {
    ec2::BlockDeviceMapping {
        device_name: Some(name.into()),
        ebs: Some(ec2::EbsBlockDevice {
            volume_size: size,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn shape(mappings: Vec<ec2::BlockDeviceMapping>) -> Result<Vec<(String, u32)>, String> {
    let wishes = device_wishes(mappings).map_err(|error| error.code.into_owned())?;
    let devices = lay_over(&image(), &wishes).map_err(|error| error.code.into_owned())?;
    Ok(devices
        .into_iter()
        .map(|device| (device.name, device.size_gib))
        .collect())
}

#[test]
fn the_root_is_found_by_name_at_any_position() {
    let own = |devices: &[(&str, u32)]| {
        Ok(devices
            .iter()
            .map(|(name, size)| ((*name).to_owned(), *size))
            .collect())
    };
    assert_eq!(shape(vec![]), own(&[("/dev/xvda", 8), ("/dev/sdf", 4)]));
    assert_eq!(
        shape(vec![mapping("/dev/sdg", Some(2)), mapping("/dev/xvda", Some(20))]),
        own(&[("/dev/xvda", 20), ("/dev/sdf", 4), ("/dev/sdg", 2)])
    );
    let suppress = ec2::BlockDeviceMapping {
        device_name: Some("/dev/sdf".into()),
        no_device: Some(String::new()),
        ..Default::default()
    };
    assert_eq!(shape(vec![suppress.clone()]), own(&[("/dev/xvda", 8)]));
    let root = ec2::BlockDeviceMapping {
        device_name: Some("/dev/xvda".into()),
        ..suppress
    };
    assert_eq!(shape(vec![root]), Err("InvalidBlockDeviceMapping".into()));
}

#[test]
fn bad_mappings_get_their_codes() {
    let nameless = ec2::BlockDeviceMapping {
        ebs: Some(ec2::EbsBlockDevice::default()),
        ..Default::default()
    };
    let typed = |kind: &str, iops: Option<i32>| ec2::BlockDeviceMapping {
        device_name: Some("/dev/sdg".into()),
        ebs: Some(ec2::EbsBlockDevice {
            volume_size: Some(8),
            volume_type: Some(kind.into()),
            iops,
            ..Default::default()
        }),
        ..Default::default()
    };
    for (mappings, code) in [
        (vec![nameless], "InvalidBlockDeviceMapping"),
        (
            vec![mapping("/dev/sdg", Some(1)), mapping("/dev/sdg", Some(1))],
            "InvalidBlockDeviceMapping",
        ),
        (vec![mapping("/dev/sdg", None)], "MissingParameter"),
        (vec![mapping("/dev/sdg", Some(0))], "InvalidParameterValue"),
        (vec![mapping("/dev/sdg", Some(99_999))], "InvalidParameterValue"),
        (vec![typed("floppy", None)], "InvalidParameterValue"),
        (vec![typed("io2", Some(1000))], "UnsupportedOperation"),
        (vec![typed("gp2", Some(1000))], "InvalidParameterCombination"),
        (vec![typed("gp3", Some(9000))], "UnsupportedOperation"),
    ] {
        assert_eq!(shape(mappings.clone()).unwrap_err(), code, "{mappings:?}");
    }
    assert!(shape(vec![typed("gp3", Some(3000))]).is_ok());
}

/// A request that is well formed.
fn request() -> ec2::RunInstancesRequest {
    ec2::RunInstancesRequest {
        image_id: Some("ami-12345678".into()),
        instance_type: Some("t3.micro".into()),
        min_count: Some(1),
        max_count: Some(1),
        ..Default::default()
    }
}

#[test]
fn what_is_not_honoured_is_refused_and_defaults_are_not() {
    type Edit = fn(&mut ec2::RunInstancesRequest);
    let refused: &[Edit] = &[
        |r| r.kernel_id = Some("aki-1".into()),
        |r| r.ramdisk_id = Some("ari-1".into()),
        |r| r.ipv6_address_count = Some(1),
        |r| r.launch_template = Some(Default::default()),
        |r| r.instance_market_options = Some(Default::default()),
        |r| r.iam_instance_profile = Some(Default::default()),
        |r| {
            r.placement = Some(ec2::Placement {
                tenancy: Some("dedicated".into()),
                ..Default::default()
            })
        },
        |r| r.enclave_options = Some(ec2::EnclaveOptionsRequest { enabled: Some(true) }),
        |r| r.additional_info = Some("x".into()),
    ];
    for edit in refused {
        let mut request = request();
        edit(&mut request);
        let error = LaunchRequest::parse(request).expect_err("refused");
        assert_eq!(error.code, "UnsupportedOperation", "{error}");
    }
    let accepted: &[Edit] = &[
        |r| {
            r.placement = Some(ec2::Placement {
                tenancy: Some("default".into()),
                ..Default::default()
            })
        },
        |r| r.enclave_options = Some(ec2::EnclaveOptionsRequest { enabled: Some(false) }),
        |r| {
            r.hibernation_options = Some(ec2::HibernationOptionsRequest {
                configured: Some(false),
            })
        },
        |r| r.ipv6_address_count = Some(0),
        |r| r.max_count = Some(i32::MAX),
    ];
    for edit in accepted {
        let mut request = request();
        edit(&mut request);
        LaunchRequest::parse(request).expect("accepted");
    }
}

#[test]
fn malformed_requests_get_their_codes() {
    type Edit = fn(&mut ec2::RunInstancesRequest);
    let cases: &[(Edit, &str)] = &[
        (|r| r.image_id = None, "MissingParameter"),
        (|r| r.image_id = Some("ami-xyz".into()), "InvalidAMIID.Malformed"),
        (
            |r| r.instance_type = Some("t9.huge".into()),
            "InvalidParameterValue",
        ),
        (|r| r.min_count = Some(0), "InvalidParameterValue"),
        (|r| r.min_count = Some(2), "InvalidParameterValue"),
        (|r| r.max_count = Some(-1), "InvalidParameterValue"),
        (|r| r.user_data = Some("!!!".into()), "InvalidUserData.Malformed"),
        (
            |r| r.user_data = Some("QUFB".repeat(5462)),
            "InvalidParameterValue",
        ),
        (
            |r| r.instance_initiated_shutdown_behavior = Some("explode".into()),
            "InvalidParameterValue",
        ),
        (
            |r| {
                r.metadata_options = Some(ec2::InstanceMetadataOptionsRequest {
                    http_put_response_hop_limit: Some(65),
                    ..Default::default()
                })
            },
            "InvalidParameterValue",
        ),
        (
            |r| {
                r.placement = Some(ec2::Placement {
                    group_name: Some("g".into()),
                    ..Default::default()
                })
            },
            "InvalidPlacementGroup.Unknown",
        ),
        (
            |r| {
                r.hibernation_options = Some(ec2::HibernationOptionsRequest {
                    configured: Some(true),
                })
            },
            "UnsupportedHibernationConfiguration",
        ),
        (
            |r| {
                r.cpu_options = Some(ec2::CpuOptionsRequest {
                    core_count: Some(7),
                    ..Default::default()
                })
            },
            "InvalidParameterValue",
        ),
        (
            |r| {
                r.subnet_id = Some("subnet-12345678".into());
                r.network_interfaces = vec![Default::default()];
            },
            "InvalidParameterCombination",
        ),
        (
            |r| {
                r.network_interfaces = vec![ec2::InstanceNetworkInterfaceSpecification {
                    device_index: Some(1),
                    ..Default::default()
                }]
            },
            "InvalidParameterValue",
        ),
        (
            |r| {
                r.max_count = Some(2);
                r.private_ip_address = Some("172.31.0.9".into());
            },
            "InvalidParameterCombination",
        ),
        (
            |r| {
                r.instance_type = Some("m5.large".into());
                r.credit_specification = Some(ec2::CreditSpecificationRequest {
                    cpu_credits: Some("standard".into()),
                });
            },
            "InvalidParameterCombination",
        ),
        (
            |r| {
                r.tag_specifications = vec![ec2::TagSpecification {
                    resource_type: Some("vpc".into()),
                    tags: vec![],
                }]
            },
            "InvalidParameterValue",
        ),
    ];
    for (index, (edit, code)) in cases.iter().enumerate() {
        let mut request = request();
        edit(&mut request);
        let error = LaunchRequest::parse(request).expect_err("refused");
        assert_eq!(error.code, *code, "case {index}: {error}");
    }
    let mut request = request();
    request.user_data = Some("QUFB".repeat(5461));
    LaunchRequest::parse(request).expect("16,383 bytes are accepted");
}

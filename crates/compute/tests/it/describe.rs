//! Lists: filters, pages, types, zones, attributes.

use crate::cloud::{Cloud, REGION, ZONE, node_record};
use aws_shapes::ec2::{self, operations};
use std::collections::BTreeSet;

fn filter(name: &str, values: &[&str]) -> ec2::Filter {
    ec2::Filter {
        name: Some(name.into()),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}

async fn count(cloud: &Cloud, filters: Vec<ec2::Filter>) -> usize {
    let request = ec2::DescribeInstancesRequest {
        filters,
        ..Default::default()
    };
    let result = cloud
        .call::<operations::DescribeInstances>(request)
        .await
        .expect("described");
    result.reservations.iter().map(|one| one.instances.len()).sum()
}

#[tokio::test]
async fn every_filter_matches_its_property_and_not_another() {
    let cloud = Cloud::new().await;
    let mut request = cloud.launch(1);
    request.client_token = Some("mine".into());
    request.tag_specifications = vec![
        ec2::TagSpecification {
            resource_type: Some("instance".into()),
            tags: vec![ec2::Tag {
                key: Some("Name".into()),
                value: Some("web-1".into()),
            }],
        },
        ec2::TagSpecification {
            resource_type: Some("network-interface".into()),
            tags: vec![ec2::Tag {
                key: Some("Net".into()),
                value: Some("front".into()),
            }],
        },
    ];
    let id = cloud.run(request).await.remove(0);
    let shown = cloud.describe(&id).await;
    let interface = &shown.network_interfaces[0];
    let text = |value: &Option<String>| value.clone().expect("present");
    let association = interface.association.clone().expect("public");
    let attachment = interface.attachment.clone().expect("attached");
    let device = shown.block_device_mappings[0].ebs.clone().expect("a volume");
    let cases: Vec<(&str, String)> = vec![
        ("architecture", "x86_64".into()),
        ("availability-zone", ZONE.into()),
        ("availability-zone-id", "euc1-az1".into()),
        ("block-device-mapping.delete-on-termination", "true".into()),
        ("block-device-mapping.device-name", "/dev/xvda".into()),
        ("block-device-mapping.status", "attached".into()),
        ("block-device-mapping.volume-id", text(&device.volume_id)),
        ("boot-mode", "legacy-bios".into()),
        (
            "capacity-reservation-specification.capacity-reservation-preference",
            "open".into(),
        ),
        ("client-token", "mine".into()),
        ("current-instance-boot-mode", "legacy-bios".into()),
        ("dns-name", text(&shown.public_dns_name)),
        ("ebs-optimized", "false".into()),
        ("ena-support", "false".into()),
        ("enclave-options.enabled", "false".into()),
        ("hibernation-options.configured", "false".into()),
        ("hypervisor", "xen".into()),
        ("image-id", cloud.image.to_string()),
        ("instance-id", id.clone()),
        ("instance-state-code", "16".into()),
        ("instance-state-name", "running".into()),
        ("instance-type", "t3.micro".into()),
        ("instance.group-id", text(&shown.security_groups[0].group_id)),
        ("instance.group-name", "default".into()),
        ("ip-address", text(&shown.public_ip_address)),
        ("launch-index", "0".into()),
        ("maintenance-options.auto-recovery", "default".into()),
        ("metadata-options.http-endpoint", "enabled".into()),
        ("metadata-options.http-put-response-hop-limit", "1".into()),
        ("metadata-options.http-tokens", "required".into()),
        ("metadata-options.instance-metadata-tags", "disabled".into()),
        ("metadata-options.state", "applied".into()),
        ("monitoring-state", "disabled".into()),
        (
            "network-interface.addresses.association.public-ip",
            text(&association.public_ip),
        ),
        ("network-interface.addresses.primary", "true".into()),
        (
            "network-interface.addresses.private-ip-address",
            text(&interface.private_ip_address),
        ),
        (
            "network-interface.association.public-ip",
            text(&association.public_ip),
        ),
        ("network-interface.association.ip-owner-id", "amazon".into()),
        (
            "network-interface.attachment.attachment-id",
            text(&attachment.attachment_id),
        ),
        ("network-interface.attachment.device-index", "0".into()),
        ("network-interface.attachment.instance-id", id.clone()),
        ("network-interface.attachment.status", "attached".into()),
        ("network-interface.availability-zone", ZONE.into()),
        ("network-interface.group-name", "default".into()),
        ("network-interface.mac-address", text(&interface.mac_address)),
        (
            "network-interface.network-interface-id",
            text(&interface.network_interface_id),
        ),
        (
            "network-interface.private-dns-name",
            text(&interface.private_dns_name),
        ),
        ("network-interface.source-dest-check", "true".into()),
        ("network-interface.status", "in-use".into()),
        ("network-interface.subnet-id", text(&interface.subnet_id)),
        ("network-interface.tag-key", "Net".into()),
        ("network-interface.tag-value", "front".into()),
        ("network-interface.vpc-id", text(&interface.vpc_id)),
        ("operator.managed", "false".into()),
        ("owner-id", "000000000002".into()),
        ("platform-details", "Linux/UNIX".into()),
        ("private-dns-name", text(&shown.private_dns_name)),
        ("private-dns-name-options.hostname-type", "ip-name".into()),
        ("private-ip-address", text(&shown.private_ip_address)),
        ("root-device-name", "/dev/xvda".into()),
        ("root-device-type", "ebs".into()),
        ("source-dest-check", "true".into()),
        ("subnet-id", text(&shown.subnet_id)),
        ("tag-key", "Name".into()),
        ("tag:Name", "web-?".into()),
        ("tenancy", "default".into()),
        ("usage-operation", "RunInstances".into()),
        ("virtualization-type", "hvm".into()),
        ("vpc-id", text(&shown.vpc_id)),
    ];
    for (name, value) in cases {
        assert_eq!(
            count(&cloud, vec![filter(name, &["no-such", &value])]).await,
            1,
            "{name}={value}"
        );
        assert_eq!(count(&cloud, vec![filter(name, &["no-such"])]).await, 0, "{name}");
    }
    for never in [
        "affinity",
        "host-id",
        "kernel-id",
        "spot-instance-request-id",
        "iam-instance-profile.arn",
        "reason",
    ] {
        assert_eq!(count(&cloud, vec![filter(never, &["*"])]).await, 0, "{never}");
    }
    let both = vec![
        filter("instance-type", &["t3.*"]),
        filter("instance-state-name", &["stopped"]),
    ];
    assert_eq!(count(&cloud, both).await, 0);
}

#[tokio::test]
async fn any_page_size_walks_over_each_instance_once() {
    let cloud = Cloud::with(node_record(512, 1024 * 1024)).await;
    let mut all = BTreeSet::new();
    for size in [1, 7, 3, 12, 1] {
        all.extend(cloud.run(cloud.launch(size)).await);
    }
    for size in [5, 6, 7, 11, 24, 1000] {
        let (mut seen, mut token, mut pages) = (Vec::new(), None, 0);
        loop {
            let request = ec2::DescribeInstancesRequest {
                max_results: Some(size),
                next_token: token,
                filters: vec![filter("instance-state-name", &["running"])],
                ..Default::default()
            };
            let page = cloud
                .call::<operations::DescribeInstances>(request)
                .await
                .expect("a page");
            let on_page: usize = page.reservations.iter().map(|one| one.instances.len()).sum();
            assert!(on_page <= usize::try_from(size).expect("small"));
            seen.extend(
                page.reservations
                    .into_iter()
                    .flat_map(|one| one.instances)
                    .filter_map(|one| one.instance_id),
            );
            pages += 1;
            token = page.next_token;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), all.len(), "size {size}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), all);
        assert_eq!(pages, all.len().div_ceil(usize::try_from(size).expect("small")));
    }
    let request = ec2::DescribeInstancesRequest {
        max_results: Some(5),
        ..Default::default()
    };
    let token = cloud
        .call::<operations::DescribeInstances>(request)
        .await
        .expect("a page")
        .next_token;
    let foreign = ec2::DescribeInstancesRequest {
        next_token: token,
        filters: vec![filter("instance-type", &["t3.micro"])],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::DescribeInstances>(foreign)
        .await
        .expect_err("another query");
    assert_eq!(error.code, "InvalidParameterValue");
}

#[tokio::test]
async fn status_is_of_running_instances_unless_all_are_wanted() {
    let cloud = Cloud::new().await;
    let ids = cloud.run(cloud.launch(2)).await;
    cloud.stop(&ids[0]).await;
    cloud.settle().await;
    let running = cloud
        .call::<operations::DescribeInstanceStatus>(Default::default())
        .await
        .expect("status");
    assert_eq!(running.instance_statuses.len(), 1);
    let status = running.instance_statuses[0]
        .instance_status
        .clone()
        .expect("a summary");
    assert!(
        matches!(status.status.as_deref(), Some("ok" | "initializing")),
        "{status:?}"
    );
    let request = ec2::DescribeInstanceStatusRequest {
        include_all_instances: Some(true),
        ..Default::default()
    };
    let all = cloud
        .call::<operations::DescribeInstanceStatus>(request)
        .await
        .expect("status");
    let words: BTreeSet<_> = all
        .instance_statuses
        .iter()
        .filter_map(|one| {
            one.instance_status
                .as_ref()
                .and_then(|summary| summary.status.clone())
        })
        .collect();
    assert!(words.contains("not-applicable") && words.len() == 2, "{words:?}");
}

#[tokio::test]
async fn the_console_is_asked_of_the_node() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    let request = ec2::GetConsoleOutputRequest {
        instance_id: Some(id.clone()),
        ..Default::default()
    };
    let output = cloud
        .call::<operations::GetConsoleOutput>(request)
        .await
        .expect("a console");
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD
        .decode(output.output.expect("text"))
        .expect("base64");
    assert_eq!(
        String::from_utf8(text).expect("text"),
        format!("SPX-READY {id}\n")
    );
}

#[tokio::test]
async fn types_offerings_zones_and_regions_come_from_the_nodes() {
    let cloud = Cloud::with(node_record(2, 4096)).await;
    let types = cloud
        .call::<operations::DescribeInstanceTypes>(Default::default())
        .await
        .expect("types");
    let names: Vec<_> = types
        .instance_types
        .iter()
        .filter_map(|one| one.instance_type.as_deref())
        .collect();
    assert!(
        names.contains(&"t3.micro") && !names.contains(&"m5.xlarge"),
        "{names:?}"
    );
    let request = ec2::DescribeInstanceTypesRequest {
        filters: vec![
            filter("memory-info.size-in-mib", &["1024"]),
            filter("vcpu-info.default-vcpus", &["2"]),
        ],
        ..Default::default()
    };
    let types = cloud
        .call::<operations::DescribeInstanceTypes>(request)
        .await
        .expect("types")
        .instance_types;
    assert_eq!(types.len(), 2, "t3.micro and t3a.micro");
    let request = ec2::DescribeInstanceTypesRequest {
        instance_types: vec!["m5.24xlarge".into()],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::DescribeInstanceTypes>(request)
        .await
        .expect_err("not offered");
    assert_eq!(error.code, "InvalidInstanceType");
    for (kind, location) in [
        ("region", REGION),
        ("availability-zone", ZONE),
        ("availability-zone-id", "euc1-az1"),
    ] {
        let request = ec2::DescribeInstanceTypeOfferingsRequest {
            location_type: Some(kind.into()),
            filters: vec![filter("instance-type", &["t3.micro"])],
            ..Default::default()
        };
        let found = cloud
            .call::<operations::DescribeInstanceTypeOfferings>(request)
            .await
            .expect("offerings");
        assert_eq!(found.instance_type_offerings.len(), 1);
        assert_eq!(
            found.instance_type_offerings[0].location.as_deref(),
            Some(location)
        );
    }
    let zones = cloud
        .call::<operations::DescribeAvailabilityZones>(Default::default())
        .await
        .expect("zones");
    assert_eq!(zones.availability_zones.len(), 1);
    assert_eq!(zones.availability_zones[0].zone_name.as_deref(), Some(ZONE));
    let regions = cloud
        .call::<operations::DescribeRegions>(Default::default())
        .await
        .expect("regions");
    assert_eq!(regions.regions[0].region_name.as_deref(), Some(REGION));
    let attributes = cloud
        .call::<operations::DescribeAccountAttributes>(Default::default())
        .await
        .expect("attributes");
    let vpc = attributes
        .account_attributes
        .iter()
        .find(|one| one.attribute_name.as_deref() == Some("default-vpc"));
    let value = vpc
        .and_then(|one| one.attribute_values[0].attribute_value.clone())
        .expect("a value");
    assert!(value.starts_with("vpc-"), "{value}");
}

#[tokio::test]
async fn attributes_are_shown_and_modified_in_their_states() {
    let cloud = Cloud::new().await;
    let id = cloud.run(cloud.launch(1)).await.remove(0);
    let modify = |edit: fn(&mut ec2::ModifyInstanceAttributeRequest)| {
        let mut request = ec2::ModifyInstanceAttributeRequest {
            instance_id: Some(id.clone()),
            ..Default::default()
        };
        edit(&mut request);
        cloud.call::<operations::ModifyInstanceAttribute>(request)
    };
    let show = |name: &str| {
        let request = ec2::DescribeInstanceAttributeRequest {
            instance_id: Some(id.clone()),
            attribute: Some(name.into()),
            ..Default::default()
        };
        cloud.call::<operations::DescribeInstanceAttribute>(request)
    };
    let truth = |value| Some(ec2::AttributeBooleanValue { value: Some(value) });
    modify(|r| r.disable_api_termination = Some(ec2::AttributeBooleanValue { value: Some(true) }))
        .await
        .expect("set");
    assert_eq!(
        show("disableApiTermination")
            .await
            .expect("shown")
            .disable_api_termination,
        truth(true)
    );
    modify(|r| {
        r.attribute = Some("disableApiTermination".into());
        r.value = Some("false".into());
    })
    .await
    .expect("set by name");
    assert_eq!(
        show("disableApiTermination")
            .await
            .expect("shown")
            .disable_api_termination,
        truth(false)
    );
    modify(|r| r.source_dest_check = Some(ec2::AttributeBooleanValue { value: Some(false) }))
        .await
        .expect("set");
    assert_eq!(cloud.describe(&id).await.source_dest_check, Some(false));
    assert_eq!(show("groupSet").await.expect("shown").groups.len(), 1);
    assert_eq!(
        show("blockDeviceMapping")
            .await
            .expect("shown")
            .block_device_mappings
            .len(),
        1
    );

    let small = |r: &mut ec2::ModifyInstanceAttributeRequest| {
        r.instance_type = Some(ec2::AttributeValue {
            value: Some("t3.small".into()),
        });
    };
    assert_eq!(
        modify(small).await.expect_err("running").code,
        "IncorrectInstanceState"
    );
    cloud.stop(&id).await;
    cloud.settle().await;
    modify(small).await.expect("retyped");
    modify(|r| {
        r.user_data = Some(ec2::BlobAttributeValue {
            value: Some("#!/bin/sh".into()),
        })
    })
    .await
    .expect("set");
    let shown = show("userData")
        .await
        .expect("shown")
        .user_data
        .and_then(|one| one.value);
    assert_eq!(shown.as_deref(), Some("IyEvYmluL3No"));
    cloud.start(&id).await;
    cloud.settle().await;
    let scope = state::Scope::node(&cloud.node.id);
    let spec = cloud
        .store
        .fetch::<node_spec::GuestSpec>(&scope, &id)
        .await
        .expect("a spec");
    assert_eq!((spec.memory_mib, spec.instance_type.as_str()), (2048, "t3.small"));
    cloud.assert_nothing_leaked().await;
    for (edit, code) in [
        (
            (|_| {}) as fn(&mut ec2::ModifyInstanceAttributeRequest),
            "MissingParameter",
        ),
        (
            |r| {
                r.disable_api_stop = Some(Default::default());
                r.ebs_optimized = Some(Default::default());
            },
            "InvalidParameterCombination",
        ),
        (|r| r.kernel = Some(Default::default()), "UnsupportedOperation"),
        (|r| r.groups = vec!["sg-12345678".into()], "InvalidGroup.NotFound"),
        (|r| r.attribute = Some("color".into()), "MissingParameter"),
    ] {
        assert_eq!(modify(edit).await.expect_err("refused").code, code);
    }
}

//! Security groups as the CLI and Terraform drive them.

use crate::cloud::{Cloud, everything, filter, tag, tcp};
use aws_shapes::ec2::{self, operations};
use network::records::{SecurityGroup, SecurityGroupRule, TagRow};

async fn shown(cloud: &Cloud, id: &str) -> ec2::SecurityGroup {
    let input = ec2::DescribeSecurityGroupsRequest {
        group_ids: vec![id.into()],
        ..Default::default()
    };
    cloud
        .ok::<operations::DescribeSecurityGroups>(input)
        .await
        .security_groups
        .remove(0)
}

/// The calls of Terraform's aws_security_group with inline rules: create, take the default egress away, add its own.
#[tokio::test]
async fn terraform_security_group_with_inline_rules() {
    let cloud = Cloud::new().await;
    let (other, _) = cloud.other_vpc("10.9.0.0/16", 24).await;
    for vpc in [None, Some(&other)] {
        let id = cloud.make_group("tf-inline", vpc).await;
        assert_eq!(shown(&cloud, &id).await.ip_permissions_egress.len(), 1);
        let revoke = ec2::RevokeSecurityGroupEgressRequest {
            group_id: Some(id.clone()),
            ip_permissions: vec![ec2::IpPermission {
                from_port: Some(0),
                to_port: Some(0),
                ..everything("0.0.0.0/0")
            }],
            ..Default::default()
        };
        let revoked = cloud.ok::<operations::RevokeSecurityGroupEgress>(revoke).await;
        assert_eq!(revoked.revoked_security_group_rules.len(), 1);
        let ipv6 = ec2::RevokeSecurityGroupEgressRequest {
            group_id: Some(id.clone()),
            ip_permissions: vec![ec2::IpPermission {
                ip_protocol: Some("-1".into()),
                ipv6_ranges: vec![ec2::Ipv6Range {
                    cidr_ipv6: Some("::/0".into()),
                    description: None,
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        match cloud.run::<operations::RevokeSecurityGroupEgress>(ipv6).await {
            Ok(answer) => assert!(vpc.is_none() && answer.unknown_ip_permissions.len() == 1),
            Err(error) => assert_eq!(
                (vpc.is_some(), error.code.as_ref()),
                (true, "InvalidPermission.NotFound")
            ),
        }
        let mut described = tcp(22, "10.0.0.0/8");
        described.ip_ranges[0].description = Some("ssh from inside".into());
        let authorize = ec2::AuthorizeSecurityGroupIngressRequest {
            group_id: Some(id.clone()),
            ip_permissions: vec![tcp(80, "0.0.0.0/0"), described],
            ..Default::default()
        };
        cloud
            .ok::<operations::AuthorizeSecurityGroupIngress>(authorize)
            .await;
        let egress = ec2::AuthorizeSecurityGroupEgressRequest {
            group_id: Some(id.clone()),
            ip_permissions: vec![everything("0.0.0.0/0")],
            ..Default::default()
        };
        cloud.ok::<operations::AuthorizeSecurityGroupEgress>(egress).await;
        let group = shown(&cloud, &id).await;
        assert_eq!(group.ip_permissions.len(), 2);
        let ssh = group
            .ip_permissions
            .iter()
            .find(|permission| permission.from_port == Some(22))
            .expect("ssh");
        assert_eq!(ssh.ip_ranges[0].description.as_deref(), Some("ssh from inside"));
        assert_eq!(group.ip_permissions_egress.len(), 1);
        let delete = ec2::DeleteSecurityGroupRequest {
            group_id: Some(id.clone()),
            ..Default::default()
        };
        assert_eq!(
            cloud.ok::<operations::DeleteSecurityGroup>(delete).await.r#return,
            Some(true)
        );
    }
    assert!(
        cloud
            .list::<SecurityGroup>()
            .await
            .iter()
            .all(|group| group.is_default)
    );
}

/// The calls of Terraform's aws_vpc_security_group_ingress_rule: one rule with tags, read and removed by its id.
#[tokio::test]
async fn terraform_one_rule_a_resource() {
    let cloud = Cloud::new().await;
    let id = cloud.make_group("tf-rules", None).await;
    let authorize = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: vec![tcp(443, "10.1.2.3/16")],
        tag_specifications: vec![ec2::TagSpecification {
            resource_type: Some("security-group-rule".into()),
            tags: vec![tag("Name", "https")],
        }],
        ..Default::default()
    };
    let made = cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(authorize)
        .await;
    assert_eq!(made.r#return, Some(true));
    let rule = &made.security_group_rules[0];
    assert_eq!(rule.cidr_ipv4.as_deref(), Some("10.1.0.0/16"));
    assert_eq!(
        (rule.from_port, rule.to_port, rule.is_egress),
        (Some(443), Some(443), Some(false))
    );
    assert_eq!(rule.tags, [tag("Name", "https")]);
    let rule_id = rule.security_group_rule_id.clone().expect("an id");
    let arn = format!("arn:aws:ec2:eu-central-1:000000000002:security-group-rule/{rule_id}");
    assert_eq!(rule.security_group_rule_arn.as_deref(), Some(arn.as_str()));

    let read = ec2::DescribeSecurityGroupRulesRequest {
        security_group_rule_ids: vec![rule_id.clone()],
        ..Default::default()
    };
    let read = cloud.ok::<operations::DescribeSecurityGroupRules>(read).await;
    assert_eq!(&read.security_group_rules[0], rule);

    for (name, value, hits) in [
        ("group-id", id.as_str(), 2),
        ("group-id", "sg-none", 0),
        ("security-group-rule-id", rule_id.as_str(), 1),
        ("tag:Name", "htt*", 1),
        ("tag:Name", "x", 0),
    ] {
        let input = ec2::DescribeSecurityGroupRulesRequest {
            filters: vec![filter(name, &[value])],
            ..Default::default()
        };
        let found = cloud
            .ok::<operations::DescribeSecurityGroupRules>(input)
            .await
            .security_group_rules;
        assert_eq!(found.len(), hits, "{name}={value}");
    }

    let revoke = ec2::RevokeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        security_group_rule_ids: vec![rule_id.clone()],
        ..Default::default()
    };
    let revoked = cloud.ok::<operations::RevokeSecurityGroupIngress>(revoke).await;
    assert_eq!(
        revoked.revoked_security_group_rules[0].security_group_rule_id,
        Some(rule_id)
    );
    assert!(shown(&cloud, &id).await.ip_permissions.is_empty());
    assert!(
        cloud.list::<TagRow>().await.is_empty(),
        "the rule's tags went with it"
    );
}

#[tokio::test]
async fn the_scalar_form_is_the_same_rule() {
    let cloud = Cloud::new().await;
    let id = cloud.make_group("scalar", None).await;
    let scalar = |port| ec2::AuthorizeSecurityGroupIngressRequest {
        group_name: Some("scalar".into()),
        ip_protocol: Some("tcp".into()),
        from_port: Some(port),
        to_port: Some(port),
        cidr_ip: Some("0.0.0.0/0".into()),
        ..Default::default()
    };
    cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(scalar(22))
        .await;
    let again = cloud
        .run::<operations::AuthorizeSecurityGroupIngress>(scalar(22))
        .await
        .expect_err("twice");
    assert_eq!(again.code, "InvalidPermission.Duplicate");
    assert_eq!(
        again.message,
        "the specified rule \"peer: 0.0.0.0/0, TCP, from port: 22, to port: 22, ALLOW\" already exists"
    );
    let group = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        source_security_group_name: Some("default".into()),
        ..Default::default()
    };
    let made = cloud.ok::<operations::AuthorizeSecurityGroupIngress>(group).await;
    assert_eq!(made.security_group_rules.len(), 3);
    let revoke = ec2::RevokeSecurityGroupIngressRequest {
        group_name: Some("scalar".into()),
        ip_protocol: Some("6".into()),
        from_port: Some(22),
        to_port: Some(22),
        cidr_ip: Some("0.0.0.0/0".into()),
        ..Default::default()
    };
    let revoked = cloud.ok::<operations::RevokeSecurityGroupIngress>(revoke).await;
    assert_eq!(revoked.revoked_security_group_rules.len(), 1);
}

#[tokio::test]
async fn rules_of_every_kind_come_back_as_they_were_given() {
    let cloud = Cloud::new().await;
    let id = cloud.make_group("kinds", None).await;
    let default = cloud.default_group().await.id.to_string();
    let permission = |protocol: &str, from, to| ec2::IpPermission {
        ip_protocol: Some(protocol.into()),
        from_port: from,
        to_port: to,
        ip_ranges: vec![ec2::IpRange {
            cidr_ip: Some("10.0.0.0/8".into()),
            description: None,
        }],
        ipv6_ranges: vec![ec2::Ipv6Range {
            cidr_ipv6: Some("2001:db8::/32".into()),
            description: None,
        }],
        user_id_group_pairs: vec![ec2::UserIdGroupPair {
            group_id: Some(default.clone()),
            user_id: Some("000000000002".into()),
            ..Default::default()
        }],
        ..Default::default()
    };
    let given = vec![
        permission("tcp", Some(0), Some(0)),
        permission("udp", Some(53), Some(53)),
        permission("icmp", Some(8), Some(-1)),
        permission("icmpv6", Some(-1), Some(-1)),
        permission("50", None, None),
        permission("-1", None, None),
    ];
    let authorize = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: given.clone(),
        ..Default::default()
    };
    let made = cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(authorize)
        .await;
    assert_eq!(made.security_group_rules.len(), given.len() * 3);
    let esp = made
        .security_group_rules
        .iter()
        .find(|rule| rule.ip_protocol.as_deref() == Some("50"));
    assert_eq!(
        esp.map(|rule| (rule.from_port, rule.to_port)),
        Some((Some(-1), Some(-1)))
    );
    let back = shown(&cloud, &id).await.ip_permissions;
    assert_eq!(back.len(), given.len());
    for permission in &given {
        assert!(back.contains(permission), "{permission:?} is not among {back:?}");
    }
    let revoke = ec2::RevokeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: back,
        ..Default::default()
    };
    let revoked = cloud.ok::<operations::RevokeSecurityGroupIngress>(revoke).await;
    assert_eq!(revoked.revoked_security_group_rules.len(), given.len() * 3);
    assert!(revoked.unknown_ip_permissions.is_empty());
}

#[tokio::test]
async fn limits_bind_per_direction_and_family() {
    let cloud = Cloud::new().await;
    let id = cloud.make_group("full", None).await;
    let rules = |ports: std::ops::Range<i32>, cidr: &str| ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: ports.map(|port| tcp(port, cidr)).collect(),
        ..Default::default()
    };
    cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(rules(0..60, "10.0.0.0/8"))
        .await;
    let over = cloud
        .run::<operations::AuthorizeSecurityGroupIngress>(rules(60..61, "10.0.0.0/8"))
        .await;
    assert_eq!(over.expect_err("61").code, "RulesPerSecurityGroupLimitExceeded");
    let ipv6 = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: (0..60)
            .map(|port| ec2::IpPermission {
                ip_ranges: Vec::new(),
                ipv6_ranges: vec![ec2::Ipv6Range {
                    cidr_ipv6: Some("::/0".into()),
                    description: None,
                }],
                ..tcp(port, "")
            })
            .collect(),
        ..Default::default()
    };
    cloud.ok::<operations::AuthorizeSecurityGroupIngress>(ipv6).await;
    let group = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        source_security_group_name: Some("default".into()),
        ..Default::default()
    };
    let over = cloud
        .run::<operations::AuthorizeSecurityGroupIngress>(group)
        .await;
    assert_eq!(
        over.expect_err("a group counts for both").code,
        "RulesPerSecurityGroupLimitExceeded"
    );
    let egress = ec2::AuthorizeSecurityGroupEgressRequest {
        group_id: Some(id.clone()),
        ip_permissions: (0..59).map(|port| tcp(port, "10.0.0.0/8")).collect(),
        ..Default::default()
    };
    cloud.ok::<operations::AuthorizeSecurityGroupEgress>(egress).await;
    // The worst deletion of a group fits one transaction.
    let delete = ec2::DeleteSecurityGroupRequest {
        group_id: Some(id),
        ..Default::default()
    };
    cloud.ok::<operations::DeleteSecurityGroup>(delete).await;
    assert_eq!(cloud.list::<SecurityGroupRule>().await.len(), 2);
}

#[tokio::test]
async fn groups_in_use_are_not_deleted() {
    let cloud = Cloud::new().await;
    let (used, user) = (
        cloud.make_group("used", None).await,
        cloud.make_group("user", None).await,
    );
    let reference = |group: &str, peer: &str| ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(group.into()),
        ip_permissions: vec![ec2::IpPermission {
            ip_protocol: Some("-1".into()),
            user_id_group_pairs: vec![ec2::UserIdGroupPair {
                group_id: Some(peer.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(reference(&user, &used))
        .await;
    cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(reference(&used, &used))
        .await;
    let delete = |id: &str| ec2::DeleteSecurityGroupRequest {
        group_id: Some(id.into()),
        ..Default::default()
    };
    let error = cloud
        .run::<operations::DeleteSecurityGroup>(delete(&used))
        .await
        .expect_err("referenced");
    assert_eq!(error.code, "DependencyViolation");
    assert_eq!(error.message, format!("resource {used} has a dependent object"));
    cloud.ok::<operations::DeleteSecurityGroup>(delete(&user)).await;
    cloud.ok::<operations::DeleteSecurityGroup>(delete(&used)).await;
    let default = cloud.default_group().await;
    let error = cloud
        .run::<operations::DeleteSecurityGroup>(delete(default.id.as_str()))
        .await;
    assert_eq!(error.expect_err("default").code, "CannotDelete");
}

#[tokio::test]
async fn a_retry_of_the_sdk_gets_the_first_answer() {
    let cloud = Cloud::new().await;
    let mut call = cloud.call().await;
    call.invocation_id = Some("6a9f3c1e-0000-4000-8000-000000000001".into());
    let input = ec2::CreateSecurityGroupRequest {
        group_name: Some("once".into()),
        description: Some("made once".into()),
        ..Default::default()
    };
    let first = cloud
        .run_as::<operations::CreateSecurityGroup>(&call, input.clone())
        .await
        .expect("made");
    let second = cloud
        .run_as::<operations::CreateSecurityGroup>(&call, input)
        .await
        .expect("the same");
    assert_eq!(first.group_id, second.group_id);
    call.invocation_id = Some("6a9f3c1e-0000-4000-8000-000000000002".into());
    let authorize = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: first.group_id,
        ip_permissions: vec![tcp(1, "10.0.0.0/8"), tcp(2, "10.0.0.0/8")],
        ..Default::default()
    };
    let one = cloud
        .run_as::<operations::AuthorizeSecurityGroupIngress>(&call, authorize.clone())
        .await;
    let two = cloud
        .run_as::<operations::AuthorizeSecurityGroupIngress>(&call, authorize)
        .await;
    assert_eq!(
        one.expect("made").security_group_rules,
        two.expect("the same").security_group_rules
    );
}

#[tokio::test]
async fn a_dry_run_decides_and_changes_nothing() {
    let cloud = Cloud::new().await;
    let id = cloud.make_group("dry", None).await;
    let mut call = cloud.call().await;
    call.dry_run = true;
    let before = cloud.store.revision().await.expect("revision");
    let create = ec2::CreateSecurityGroupRequest {
        group_name: Some("never".into()),
        description: Some("never made".into()),
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::CreateSecurityGroup>(&call, create)
        .await
        .expect_err("dry");
    assert_eq!((error.code.as_ref(), error.status), ("DryRunOperation", 412));
    let authorize = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: vec![tcp(1, "10.0.0.0/8")],
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::AuthorizeSecurityGroupIngress>(&call, authorize)
        .await;
    assert_eq!(error.expect_err("dry").code, "DryRunOperation");
    let revoke = ec2::RevokeSecurityGroupEgressRequest {
        group_id: Some(id.clone()),
        ip_permissions: vec![everything("0.0.0.0/0")],
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::RevokeSecurityGroupEgress>(&call, revoke)
        .await;
    assert_eq!(error.expect_err("dry").code, "DryRunOperation");
    let delete = ec2::DeleteSecurityGroupRequest {
        group_id: Some(id.clone()),
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::DeleteSecurityGroup>(&call, delete)
        .await;
    assert_eq!(error.expect_err("dry").code, "DryRunOperation");
    let tags = ec2::CreateTagsRequest {
        resources: vec![id],
        tags: vec![tag("a", "b")],
        ..Default::default()
    };
    let error = cloud.run_as::<operations::CreateTags>(&call, tags).await;
    assert_eq!(error.expect_err("dry").code, "DryRunOperation");
    let wrong = ec2::DeleteSecurityGroupRequest {
        group_id: Some("sg-12345678".into()),
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::DeleteSecurityGroup>(&call, wrong)
        .await;
    assert_eq!(error.expect_err("validated").code, "InvalidGroup.NotFound");
    assert_eq!(cloud.store.revision().await.expect("revision"), before);
}

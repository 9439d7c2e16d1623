//! Two writers: exactly one wins, the other gets the exact code, limits hold (vpc.md R2, section 4).

use crate::cloud::{Cloud, TENANT, tcp};
use aws_shapes::ec2::{self, operations};
use network::records::{SecurityGroup, SecurityGroupRule};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_creators_of_one_name_one_wins() {
    let cloud = Arc::new(Cloud::new().await);
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let cloud = cloud.clone();
        tasks.spawn(async move {
            let input = ec2::CreateSecurityGroupRequest {
                group_name: Some(if n % 2 == 0 { "Web".into() } else { "web".into() }),
                description: Some("a group".into()),
                ..Default::default()
            };
            match cloud.run::<operations::CreateSecurityGroup>(input).await {
                Ok(_) => "made".to_owned(),
                Err(error) => error.code.into_owned(),
            }
        });
    }
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    while let Some(outcome) = tasks.join_next().await {
        *outcomes.entry(outcome.expect("no panic")).or_default() += 1;
    }
    assert_eq!(outcomes.remove("made"), Some(1), "{outcomes:?}");
    assert!(
        outcomes.keys().all(|code| code == "InvalidGroup.Duplicate"),
        "{outcomes:?}"
    );
    assert_eq!(cloud.list::<SecurityGroup>().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_rules_are_all_there_and_the_limit_is_never_exceeded() {
    let cloud = Arc::new(Cloud::new().await);
    let id = cloud.make_group("busy", None).await;
    let mut tasks = JoinSet::new();
    for port in 0..64 {
        let (cloud, id) = (cloud.clone(), id.clone());
        tasks.spawn(async move {
            loop {
                let input = ec2::AuthorizeSecurityGroupIngressRequest {
                    group_id: Some(id.clone()),
                    ip_permissions: vec![tcp(port, "10.0.0.0/8")],
                    ..Default::default()
                };
                match cloud
                    .run::<operations::AuthorizeSecurityGroupIngress>(input)
                    .await
                {
                    Ok(_) => return true,
                    Err(error) if error.code == "Unavailable" => {}
                    Err(error) => {
                        assert_eq!(error.code, "RulesPerSecurityGroupLimitExceeded");
                        return false;
                    }
                }
            }
        });
    }
    let mut made = 0;
    while let Some(outcome) = tasks.join_next().await {
        made += usize::from(outcome.expect("no panic"));
    }
    assert_eq!(made, 60);
    let rows = cloud.list::<SecurityGroupRule>().await;
    assert_eq!(
        rows.iter()
            .filter(|row| row.group.as_str() == id && row.account == TENANT)
            .count(),
        61
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_never_outlives_the_group_it_names() {
    for _ in 0..20 {
        let cloud = Arc::new(Cloud::new().await);
        let (named, other) = (
            cloud.make_group("named", None).await,
            cloud.make_group("other", None).await,
        );
        let delete = {
            let (cloud, id) = (cloud.clone(), named.clone());
            tokio::spawn(async move {
                let input = ec2::DeleteSecurityGroupRequest {
                    group_id: Some(id),
                    ..Default::default()
                };
                cloud
                    .run::<operations::DeleteSecurityGroup>(input)
                    .await
                    .map(|_| ())
            })
        };
        let input = ec2::AuthorizeSecurityGroupIngressRequest {
            group_id: Some(other),
            ip_permissions: vec![ec2::IpPermission {
                ip_protocol: Some("-1".into()),
                user_id_group_pairs: vec![ec2::UserIdGroupPair {
                    group_id: Some(named),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let authorized = cloud
            .run::<operations::AuthorizeSecurityGroupIngress>(input)
            .await
            .map(|_| ());
        let deleted = delete.await.expect("no panic");
        match (authorized, deleted) {
            (Ok(()), Err(error)) => assert_eq!(error.code, "DependencyViolation"),
            (Err(error), Ok(())) => assert_eq!(error.code, "InvalidGroup.NotFound"),
            both => panic!("{both:?}"),
        }
    }
}

//! CreateTags, DeleteTags, DescribeTags.

use crate::cloud::{Cloud, filter, tag};
use aws_shapes::ec2::{self, operations};
use network::records::TagRow;

async fn add(cloud: &Cloud, resources: &[&str], tags: Vec<ec2::Tag>) {
    let resources = resources.iter().map(|id| (*id).to_owned()).collect();
    cloud
        .ok::<operations::CreateTags>(ec2::CreateTagsRequest {
            resources,
            tags,
            ..Default::default()
        })
        .await;
}

async fn remove(cloud: &Cloud, resource: &str, tags: Vec<ec2::Tag>) {
    let input = ec2::DeleteTagsRequest {
        resources: vec![resource.into()],
        tags,
        ..Default::default()
    };
    cloud.ok::<operations::DeleteTags>(input).await;
}

async fn found(cloud: &Cloud, filters: Vec<ec2::Filter>) -> Vec<(String, String)> {
    let input = ec2::DescribeTagsRequest {
        filters,
        ..Default::default()
    };
    let tags = cloud.ok::<operations::DescribeTags>(input).await.tags;
    tags.into_iter()
        .map(|tag| (tag.key.expect("key"), tag.value.expect("value")))
        .collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn tags_are_written_shown_filtered_and_removed() {
    let cloud = Cloud::new().await;
    let vpc = cloud.default_vpc().await.id.to_string();
    let group = cloud.make_group("tagged", None).await;
    add(
        &cloud,
        &[&vpc, &group, &vpc],
        vec![tag("Name", "one"), tag("env", "test"), tag("empty", "")],
    )
    .await;
    add(&cloud, &[&vpc], vec![tag("Name", "two")]).await;

    let shown = cloud
        .ok::<operations::DescribeVpcs>(Default::default())
        .await
        .vpcs
        .remove(0);
    assert_eq!(
        shown.tags,
        [tag("Name", "two"), tag("empty", ""), tag("env", "test")]
    );
    for (filters, hits) in [
        (vec![], 6),
        (vec![filter("key", &["Name"])], 2),
        (vec![filter("value", &["t*"])], 3),
        (vec![filter("resource-id", &[&vpc])], 3),
        (vec![filter("resource-type", &["security-group"])], 3),
        (vec![filter("tag:Name", &["one", "two"])], 2),
        (
            vec![filter("key", &["Name"]), filter("resource-type", &["vpc"])],
            1,
        ),
        (vec![filter("resource-type", &["instance"])], 0),
    ] {
        assert_eq!(found(&cloud, filters.clone()).await.len(), hits, "{filters:?}");
    }

    remove(&cloud, &vpc, vec![tag("Name", "one")]).await;
    remove(&cloud, &vpc, vec![tag("absent", "x")]).await;
    let of_vpc = || vec![filter("resource-id", &[&vpc])];
    assert_eq!(
        found(&cloud, of_vpc()).await.len(),
        3,
        "another value is left alone"
    );
    remove(
        &cloud,
        &vpc,
        vec![
            tag("Name", "two"),
            ec2::Tag {
                key: Some("env".into()),
                value: None,
            },
        ],
    )
    .await;
    assert_eq!(found(&cloud, of_vpc()).await, pairs(&[("empty", "")]));
    remove(&cloud, &vpc, Vec::new()).await;
    assert!(found(&cloud, of_vpc()).await.is_empty());

    let delete = ec2::DeleteSecurityGroupRequest {
        group_id: Some(group),
        ..Default::default()
    };
    cloud.ok::<operations::DeleteSecurityGroup>(delete).await;
    assert!(
        cloud.list::<TagRow>().await.is_empty(),
        "tags went with the group"
    );
}

#[tokio::test]
async fn fifty_tags_fit_and_replacing_is_not_adding() {
    let cloud = Cloud::new().await;
    let vpc = cloud.default_vpc().await.id.to_string();
    add(
        &cloud,
        &[&vpc],
        (0..50).map(|n| tag(&format!("k{n:02}"), "a")).collect(),
    )
    .await;
    add(&cloud, &[&vpc], vec![tag("k00", "b")]).await;
    let input = ec2::CreateTagsRequest {
        resources: vec![vpc],
        tags: vec![tag("one-more", "c")],
        ..Default::default()
    };
    let error = cloud.run::<operations::CreateTags>(input).await.expect_err("51");
    assert_eq!(error.code, "TagLimitExceeded");
}

#[tokio::test]
async fn a_thousand_resources_are_tagged_in_one_call() {
    let cloud = Cloud::new().await;
    let (vpc, _) = cloud.other_vpc("10.9.0.0/16", 24).await;
    let mut ids = Vec::new();
    for n in 0..1000 {
        ids.push(cloud.make_group(&format!("g{n}"), Some(&vpc)).await);
    }
    let resources: Vec<&str> = ids.iter().map(String::as_str).collect();
    add(&cloud, &resources, vec![tag("batch", "yes")]).await;
    assert_eq!(cloud.list::<TagRow>().await.len(), 1000);

    let mut with_unknown = ids.clone();
    with_unknown.push("sg-0".to_owned() + "1234567");
    let input = ec2::CreateTagsRequest {
        resources: with_unknown[1..].to_vec(),
        tags: vec![tag("second", "no")],
        ..Default::default()
    };
    let error = cloud
        .run::<operations::CreateTags>(input)
        .await
        .expect_err("one is unknown");
    assert_eq!(error.code, "InvalidGroup.NotFound");
    assert_eq!(cloud.list::<TagRow>().await.len(), 1000, "nothing was written");
}

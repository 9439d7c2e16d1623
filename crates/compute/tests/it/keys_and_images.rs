//! Key pairs and images.

use crate::cloud::{Cloud, TENANT, register_image};
use aws_shapes::ec2::{self, operations};
use aws_types::AccountId;
use aws_types::ids::SnapshotId;
use compute::capability::{ImportedImage, list_images, register_imported_image, remove_image};
use compute::records::BootMode;
use time::OffsetDateTime;

const PUBLIC: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE3ZRuQtbWDC0PKA6eJDQoLWuC4AMT5u9t0ZTzT9hF4J me@host";

#[tokio::test]
async fn key_pairs_are_made_imported_shown_and_deleted() {
    let cloud = Cloud::new().await;
    let create = ec2::CreateKeyPairRequest {
        key_name: Some("made".into()),
        ..Default::default()
    };
    let made = cloud
        .call::<operations::CreateKeyPair>(create.clone())
        .await
        .expect("made");
    assert!(
        made.key_material
            .expect("a key")
            .starts_with("-----BEGIN RSA PRIVATE KEY-----")
    );
    assert_eq!(
        made.key_fingerprint.as_ref().map(String::len),
        Some(59),
        "SHA-1 in colon hex"
    );
    let error = cloud
        .call::<operations::CreateKeyPair>(create)
        .await
        .expect_err("duplicate");
    assert_eq!(error.code, "InvalidKeyPair.Duplicate");
    let import = |name: &str, material: &str| {
        cloud.call::<operations::ImportKeyPair>(ec2::ImportKeyPairRequest {
            key_name: Some(name.into()),
            public_key_material: Some(material.to_owned().into()),
            ..Default::default()
        })
    };
    import("brought", PUBLIC).await.expect("imported");
    assert_eq!(
        import("bad", "hello").await.expect_err("no key").code,
        "InvalidKey.Format"
    );
    assert_eq!(
        import("made", PUBLIC).await.expect_err("taken").code,
        "InvalidKeyPair.Duplicate"
    );

    let request = ec2::DescribeKeyPairsRequest {
        include_public_key: Some(true),
        ..Default::default()
    };
    let shown = cloud
        .call::<operations::DescribeKeyPairs>(request)
        .await
        .expect("shown")
        .key_pairs;
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0].key_name.as_deref(), Some("brought"));
    assert!(
        shown[0]
            .public_key
            .as_ref()
            .is_some_and(|line| line.ends_with(" brought"))
    );
    let request = ec2::DescribeKeyPairsRequest {
        key_names: vec!["absent".into()],
        ..Default::default()
    };
    let error = cloud
        .call::<operations::DescribeKeyPairs>(request)
        .await
        .expect_err("absent");
    assert_eq!(error.code, "InvalidKeyPair.NotFound");

    let delete = ec2::DeleteKeyPairRequest {
        key_pair_id: made.key_pair_id.clone(),
        ..Default::default()
    };
    let gone = cloud
        .call::<operations::DeleteKeyPair>(delete.clone())
        .await
        .expect("deleted");
    assert_eq!(gone.key_pair_id, made.key_pair_id);
    let again = cloud
        .call::<operations::DeleteKeyPair>(delete)
        .await
        .expect("absent is success");
    assert_eq!((again.r#return, again.key_pair_id), (Some(true), None));
}

#[tokio::test]
async fn images_are_found_by_owner_name_and_filter() {
    let cloud = Cloud::new().await;
    let own = ImportedImage {
        account: TENANT,
        name: "mine".into(),
        description: "a disk".into(),
        size_bytes: (3 << 30) + 1,
        boot_mode: BootMode::Uefi,
        architecture: "x86_64".into(),
        snapshot: SnapshotId::random(),
        handle: "22".repeat(16),
        node: cloud.node.id.clone(),
        public: false,
    };
    let now = OffsetDateTime::now_utc();
    let mine = register_imported_image(&cloud.store, own.clone(), now)
        .await
        .expect("registered");
    let twice = ImportedImage {
        snapshot: SnapshotId::random(),
        ..own.clone()
    };
    let error = register_imported_image(&cloud.store, twice, now)
        .await
        .expect_err("taken");
    assert_eq!(error.code, "InvalidAMIName.Duplicate");
    let bad = ImportedImage {
        name: "a*".into(),
        snapshot: SnapshotId::random(),
        ..own
    };
    let error = register_imported_image(&cloud.store, bad, now)
        .await
        .expect_err("malformed");
    assert_eq!(error.code, "InvalidAMIName.Malformed");

    let names = |owners: &[&str], filters: Vec<ec2::Filter>| {
        let request = ec2::DescribeImagesRequest {
            owners: owners.iter().map(|owner| (*owner).to_owned()).collect(),
            filters,
            ..Default::default()
        };
        async {
            let result = cloud
                .call::<operations::DescribeImages>(request)
                .await
                .expect("described");
            let mut names: Vec<_> = result.images.into_iter().filter_map(|image| image.name).collect();
            names.sort();
            names
        }
    };
    assert_eq!(names(&[], vec![]).await, ["mine", "tiny"]);
    assert_eq!(names(&["self"], vec![]).await, ["mine"]);
    assert_eq!(names(&["amazon"], vec![]).await, ["tiny"]);
    assert_eq!(names(&["000000000000"], vec![]).await, ["tiny"]);
    let by = |name: &str, value: &str| {
        vec![ec2::Filter {
            name: Some(name.into()),
            values: vec![value.into()],
        }]
    };
    assert_eq!(names(&[], by("name", "t?ny*")).await, ["tiny"]);
    assert_eq!(
        names(&[], by("block-device-mapping.volume-size", "4")).await,
        ["mine"]
    );
    assert_eq!(names(&[], by("is-public", "true")).await, ["tiny"]);

    let request = ec2::DeregisterImageRequest {
        image_id: Some(cloud.image.to_string()),
        ..Default::default()
    };
    let error = cloud
        .call::<operations::DeregisterImage>(request)
        .await
        .expect_err("not ours");
    assert_eq!(error.code, "AuthFailure");
    let request = ec2::DeregisterImageRequest {
        image_id: Some(mine.id.to_string()),
        ..Default::default()
    };
    cloud
        .call::<operations::DeregisterImage>(request.clone())
        .await
        .expect("deregistered");
    let error = cloud
        .call::<operations::DeregisterImage>(request)
        .await
        .expect_err("twice");
    assert_eq!(error.code, "InvalidAMIID.Unavailable");
    assert_eq!(names(&["self"], vec![]).await, Vec::<String>::new());

    remove_image(&cloud.store, AccountId::SYSTEM, &cloud.image)
        .await
        .expect("removed");
    assert!(list_images(&cloud.store).await.expect("listed").is_empty());
    register_image(&cloud.store, &cloud.node.id, "tiny").await;
}

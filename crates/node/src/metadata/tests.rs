//! The service as a guest sees it, without packets: tokens, options, paths.

use super::token::TokenMint;
use super::{answer, tree};
use aws_types::AccountId;
use aws_types::ids::{ImageId, InstanceId, NetworkInterfaceId, NodeId, ReservationId, SubnetId, VpcId};
use http::Request;
use node_spec::{GuestMetadata, MetadataInterface, MetadataOptions};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use time::{Duration, OffsetDateTime};
use tree::Answer;

fn guest() -> GuestMetadata {
    GuestMetadata {
        node: NodeId::random(),
        instance: InstanceId::random(),
        account: AccountId::FIRST_TENANT,
        image: ImageId::random(),
        instance_type: "t3.micro".into(),
        reservation: ReservationId::random(),
        launch_index: 0,
        pending_time: OffsetDateTime::UNIX_EPOCH,
        region: "eu-central-1".into(),
        zone: "eu-central-1a".into(),
        zone_id: "euc1-az2".into(),
        architecture: "x86_64".into(),
        public_keys: vec![("my-key".into(), "ssh-ed25519 AAAA my-key".into())],
        user_data: Some("IyEvYmluL3NoCg==".into()),
        tags: BTreeMap::from([("Name".into(), "web".into())]),
        options: MetadataOptions {
            endpoint_enabled: true,
            tokens_required: true,
            hop_limit: 1,
            tags_enabled: false,
        },
        interfaces: vec![MetadataInterface {
            interface: NetworkInterfaceId::random(),
            device_index: 0,
            mac: "02:00:00:00:00:01".into(),
            vpc: VpcId::random(),
            vpc_cidr: "172.31.0.0/16".into(),
            subnet: SubnetId::random(),
            subnet_cidr: "172.31.0.0/20".into(),
            address: Ipv4Addr::new(172, 31, 0, 5),
            public_address: Some(Ipv4Addr::new(198, 18, 0, 5)),
            private_dns_name: "ip-172-31-0-5.eu-central-1.compute.internal".into(),
            public_dns_name: None,
            group_names: vec!["default".into()],
            group_ids: vec!["sg-1".into()],
        }],
    }
}

fn now() -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::days(20_000)
}

fn status(metadata: &GuestMetadata, mint: &TokenMint, request: http::request::Builder) -> u16 {
    answer(metadata, mint, &request.body(()).expect("request builds"), now())
        .status()
        .as_u16()
}

#[test]
fn version_2_wants_a_token_and_version_1_only_what_the_options_say() {
    let mint = TokenMint::new([1; 32]);
    let mut metadata = guest();
    let path = "/latest/meta-data/instance-id";
    assert_eq!(status(&metadata, &mint, Request::get(path)), 401);
    let token = mint.issue(&metadata.instance, now(), 60);
    assert_eq!(
        status(
            &metadata,
            &mint,
            Request::get(path).header("X-aws-ec2-metadata-token", &token)
        ),
        200
    );
    assert_eq!(
        status(
            &metadata,
            &mint,
            Request::get(path).header("X-aws-ec2-metadata-token", "x")
        ),
        401
    );
    metadata.options.tokens_required = false;
    assert_eq!(status(&metadata, &mint, Request::get(path)), 200);
    assert_eq!(
        status(
            &metadata,
            &mint,
            Request::get(path).header("X-aws-ec2-metadata-token", "x")
        ),
        401
    );
    metadata.options.endpoint_enabled = false;
    assert_eq!(status(&metadata, &mint, Request::get(path)), 403);
}

#[test]
fn tokens_are_issued_as_aws_does() {
    let mint = TokenMint::new([1; 32]);
    let metadata = guest();
    let put = || Request::put("/latest/api/token");
    let ttl = "X-aws-ec2-metadata-token-ttl-seconds";
    assert_eq!(status(&metadata, &mint, put().header(ttl, "21600")), 200);
    for bad in ["0", "21601", "-1", "x"] {
        assert_eq!(status(&metadata, &mint, put().header(ttl, bad)), 400, "{bad}");
    }
    assert_eq!(status(&metadata, &mint, put()), 400);
    assert_eq!(
        status(
            &metadata,
            &mint,
            put().header(ttl, "60").header("X-Forwarded-For", "10.0.0.1")
        ),
        403
    );
    assert_eq!(status(&metadata, &mint, Request::get("/latest/api/token")), 405);
    assert_eq!(status(&metadata, &mint, Request::post("/latest/meta-data/")), 405);
}

#[test]
fn the_tree_lists_and_answers_as_aws_does() {
    let mut metadata = guest();
    let text = |metadata: &GuestMetadata, path: &str| match tree::lookup(metadata, path) {
        Answer::Text(text) => text,
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(
        text(&metadata, "/latest/meta-data/instance-id"),
        metadata.instance.to_string()
    );
    assert_eq!(text(&metadata, "/2021-03-23/meta-data/public-keys/"), "0=my-key");
    assert_eq!(text(&metadata, "/latest/meta-data/public-keys/0/"), "openssh-key");
    assert_eq!(
        text(&metadata, "/latest/meta-data/public-keys/0/openssh-key"),
        "ssh-ed25519 AAAA my-key"
    );
    assert_eq!(
        text(&metadata, "/latest/meta-data/network/interfaces/macs/"),
        "02:00:00:00:00:01/"
    );
    assert_eq!(
        text(&metadata, "/latest/meta-data/placement/region"),
        "eu-central-1"
    );
    let listing = text(&metadata, "/latest/meta-data/");
    assert!(listing.lines().any(|l| l == "placement/"), "{listing}");
    assert!(listing.lines().any(|l| l == "public-keys/"), "{listing}");
    assert!(!listing.contains("tags/"), "{listing}");
    assert_eq!(
        tree::lookup(&metadata, "/latest/user-data"),
        Answer::Bytes(b"#!/bin/sh\n".to_vec())
    );
    metadata.options.tags_enabled = true;
    assert_eq!(text(&metadata, "/latest/meta-data/tags/instance/Name"), "web");
    metadata.user_data = None;
    for absent in [
        "/latest/user-data",
        "/latest/meta-data/iam/",
        "/1999-01-01/",
        "/latest/meta-data/x",
    ] {
        assert_eq!(tree::lookup(&metadata, absent), Answer::NotFound, "{absent}");
    }
    let Answer::Json(document) = tree::lookup(&metadata, "/latest/dynamic/instance-identity/document") else {
        panic!("no document");
    };
    let document: serde_json::Value = serde_json::from_str(&document).expect("the document is JSON");
    assert_eq!(document["privateIp"], "172.31.0.5");
    assert_eq!(document["accountId"], "000000000002");
}

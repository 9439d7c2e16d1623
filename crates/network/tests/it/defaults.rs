//! The default network of an account.

use crate::cloud::{Cloud, TENANT, zones};
use aws_shapes::ec2::{self, operations};
use aws_types::AccountId;
use network::ensure_public_pool;
use network::records::{
    DhcpOptions, InternetGateway, NetworkAcl, NetworkAclAssociation, RouteTable, SecurityGroup, Subnet, Vpc,
};
use state::Scope;

#[tokio::test]
async fn every_account_is_born_with_a_whole_network() {
    let cloud = Cloud::new().await;
    let vpcs = cloud
        .ok::<operations::DescribeVpcs>(Default::default())
        .await
        .vpcs;
    assert_eq!(vpcs.len(), 1);
    assert_eq!(vpcs[0].cidr_block.as_deref(), Some("172.31.0.0/16"));
    assert_eq!(
        (vpcs[0].is_default, vpcs[0].state.as_deref()),
        (Some(true), Some("available"))
    );

    let subnets = cloud
        .ok::<operations::DescribeSubnets>(Default::default())
        .await
        .subnets;
    let mut shown: Vec<_> = subnets
        .iter()
        .map(|subnet| {
            assert_eq!(subnet.map_public_ip_on_launch, Some(true));
            assert_eq!(subnet.available_ip_address_count, Some(4091));
            (
                subnet.availability_zone.clone().expect("zone"),
                subnet.cidr_block.clone().expect("block"),
            )
        })
        .collect();
    shown.sort();
    let wanted = [
        ("eu-central-1a", "172.31.0.0/20"),
        ("eu-central-1b", "172.31.16.0/20"),
    ];
    assert_eq!(
        shown,
        wanted.map(|(zone, block)| (zone.to_owned(), block.to_owned()))
    );

    let gateways = cloud
        .ok::<operations::DescribeInternetGateways>(Default::default())
        .await;
    let gateway = &gateways.internet_gateways[0];
    assert_eq!(gateway.attachments[0].vpc_id, vpcs[0].vpc_id);
    assert_eq!(gateway.attachments[0].state.as_deref(), Some("available"));

    let tables = cloud
        .ok::<operations::DescribeRouteTables>(Default::default())
        .await
        .route_tables;
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].associations[0].main, Some(true));
    let routes: Vec<_> = tables[0]
        .routes
        .iter()
        .map(|route| {
            (
                route.destination_cidr_block.as_deref(),
                route.gateway_id.as_deref(),
                route.state.as_deref(),
            )
        })
        .collect();
    let gateway_id = gateway.internet_gateway_id.as_deref();
    assert_eq!(
        routes,
        [
            (Some("172.31.0.0/16"), Some("local"), Some("active")),
            (Some("0.0.0.0/0"), gateway_id, Some("active"))
        ]
    );

    let acls = cloud
        .ok::<operations::DescribeNetworkAcls>(Default::default())
        .await
        .network_acls;
    assert_eq!(
        (acls.len(), acls[0].is_default, acls[0].entries.len()),
        (1, Some(true), 4)
    );
    assert_eq!(acls[0].associations.len(), zones().len());

    let groups = cloud
        .ok::<operations::DescribeSecurityGroups>(Default::default())
        .await
        .security_groups;
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].group_name.as_deref(), Some("default"));
    let itself = &groups[0].ip_permissions[0];
    assert_eq!(itself.ip_protocol.as_deref(), Some("-1"));
    assert_eq!(itself.from_port, None);
    assert_eq!(itself.user_id_group_pairs[0].group_id, groups[0].group_id);
    assert_eq!(
        groups[0].ip_permissions_egress[0].ip_ranges[0].cidr_ip.as_deref(),
        Some("0.0.0.0/0")
    );

    assert!(
        cloud
            .ok::<operations::DescribeAddresses>(Default::default())
            .await
            .addresses
            .is_empty()
    );
    assert!(
        cloud
            .ok::<operations::DescribeTags>(Default::default())
            .await
            .tags
            .is_empty()
    );
    assert_eq!(cloud.list::<DhcpOptions>().await.len(), 1);
}

#[tokio::test]
async fn a_second_start_writes_nothing() {
    let cloud = Cloud::new().await;
    let before = cloud.store.revision().await.expect("revision");
    cloud.boot_again().await;
    ensure_public_pool(&cloud.store, crate::cloud::POOL.parse().expect("block"))
        .await
        .expect("known");
    assert_eq!(cloud.store.revision().await.expect("revision"), before);
}

#[tokio::test]
async fn accounts_have_networks_of_their_own_and_the_system_has_none() {
    let cloud = Cloud::new().await;
    let of = |account| {
        let store = cloud.store.clone();
        async move {
            store
                .list::<Vpc>(&Scope::account(account))
                .await
                .expect("readable")
        }
    };
    let (tenant, operator) = (of(TENANT).await, of(AccountId::OPERATOR).await);
    assert_ne!(tenant[0].id, operator[0].id);
    assert_ne!(tenant[0].number, operator[0].number);
    assert_eq!(tenant[0].blocks[0].block, operator[0].blocks[0].block);
    assert!(of(AccountId::SYSTEM).await.is_empty());
}

#[tokio::test]
async fn a_network_once_deleted_does_not_come_back() {
    let cloud = Cloud::new().await;
    let vpc = cloud.default_vpc().await;
    let deleted = cloud.store.update(|tx: state::Tx| {
        let id = vpc.id.clone();
        async move { Ok::<_, network::NetworkError>(tx.delete::<Vpc>(&Scope::account(TENANT), &id)?) }
    });
    deleted.await.expect("deleted");
    cloud.boot_again().await;
    assert!(cloud.list::<Vpc>().await.is_empty());
}

#[tokio::test]
async fn pools_may_not_overlap() {
    let cloud = Cloud::new().await;
    for bad in ["198.18.0.0/16", "198.18.0.128/25", "10.0.0.0/8", "192.0.2.0/31"] {
        let error = ensure_public_pool(&cloud.store, bad.parse().expect("block"))
            .await
            .expect_err(bad);
        assert_eq!(error.code, "InvalidParameterValue", "{bad}");
    }
    ensure_public_pool(&cloud.store, "198.19.0.0/24".parse().expect("block"))
        .await
        .expect("beside it");
}

#[tokio::test]
async fn the_default_network_survives_a_restart_on_disk() {
    let cloud = Cloud::on_disk().await;
    cloud.make_group("web", None).await;
    let input = ec2::DescribeSecurityGroupsRequest {
        group_names: vec!["web".into()],
        ..Default::default()
    };
    assert_eq!(
        cloud
            .ok::<operations::DescribeSecurityGroups>(input)
            .await
            .security_groups
            .len(),
        1
    );
    cloud.boot_again().await;
    assert_eq!(cloud.list::<Vpc>().await.len(), 1);
    assert_eq!(cloud.list::<Subnet>().await.len(), 2);
    assert_eq!(cloud.list::<SecurityGroup>().await.len(), 2);
    assert_eq!(cloud.list::<InternetGateway>().await.len(), 1);
    assert_eq!(cloud.list::<RouteTable>().await.len(), 1);
    assert_eq!(cloud.list::<NetworkAcl>().await.len(), 1);
    assert_eq!(cloud.list::<NetworkAclAssociation>().await.len(), 2);
}

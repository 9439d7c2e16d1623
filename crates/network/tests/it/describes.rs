//! Describes: every filter finds and excludes, every page size gives the same list.

use crate::cloud::{Cloud, TENANT, filter, tag, tcp, with_form};
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::ids::{InstanceId, NodeId};
use network::NetworkError;
use network::capability::interfaces::{AttachmentSpec, InterfaceSpec, create_interface};
use network::records::{
    Allocation, Interface, InternetGateway, NetworkAcl, NetworkAclAssociation, PublicAddress,
    PublicAddressState, RouteTable, RouteTableAssociation,
};
use state::Tx;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Runs a Describe with one filter and answers how many items it showed.
macro_rules! hits {
    ($cloud:expr, $operation:ident, $request:ident, $items:ident, $name:expr, $value:expr) => {{
        let input = ec2::$request {
            filters: vec![filter($name, &[$value])],
            ..Default::default()
        };
        $cloud.ok::<operations::$operation>(input).await.$items.len()
    }};
}

/// Checks a table of filters: each finds `found` items with its value and none with a wrong one; names that match
/// nothing here have no value. Every filter of the requirement's table must be named.
macro_rules! filters {
    ($cloud:expr, $operation:ident, $request:ident, $items:ident, $count:expr, $rows:expr) => {{
        let rows: Vec<(&str, Option<String>, usize)> = $rows;
        for (name, value, found) in &rows {
            match value {
                Some(value) => {
                    let hits = hits!($cloud, $operation, $request, $items, name, value.as_str());
                    assert_eq!(
                        hits,
                        *found,
                        "{} {name}={value}",
                        operations::$operation::SCHEMA.name
                    );
                    let miss = hits!($cloud, $operation, $request, $items, name, "no-such-value");
                    assert_eq!(miss, 0, "{} {name}", operations::$operation::SCHEMA.name);
                }
                None => {
                    let hits = hits!($cloud, $operation, $request, $items, name, "*");
                    assert_eq!(hits, 0, "{} {name}", operations::$operation::SCHEMA.name);
                }
            }
        }
        assert_eq!(rows.len(), $count, "{}", operations::$operation::SCHEMA.name);
    }};
}

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

async fn tag_it(cloud: &Cloud, id: &str) {
    let input = ec2::CreateTagsRequest {
        resources: vec![id.into()],
        tags: vec![tag("Name", "it")],
        ..Default::default()
    };
    cloud.ok::<operations::CreateTags>(input).await;
}

#[tokio::test]
async fn vpcs_and_subnets() {
    let cloud = Cloud::new().await;
    cloud.other_vpc("10.9.0.0/16", 24).await;
    let (vpc, subnet) = (cloud.default_vpc().await, cloud.default_subnet().await);
    tag_it(&cloud, vpc.id.as_str()).await;
    tag_it(&cloud, subnet.id.as_str()).await;
    filters!(
        cloud,
        DescribeVpcs,
        DescribeVpcsRequest,
        vpcs,
        17,
        vec![
            ("cidr", some("172.31.0.0/16"), 1),
            ("cidr-block", some("172.31.*"), 1),
            ("cidr-block-association.cidr-block", some("172.31.0.0/16"), 1),
            (
                "cidr-block-association.association-id",
                some(&vpc.blocks[0].id),
                2
            ),
            ("cidr-block-association.state", some("associated"), 2),
            ("dhcp-options-id", some(&vpc.dhcp_options), 2),
            ("ipv6-cidr-block-association.ipv6-cidr-block", None, 0),
            ("ipv6-cidr-block-association.ipv6-pool", None, 0),
            ("ipv6-cidr-block-association.association-id", None, 0),
            ("ipv6-cidr-block-association.state", None, 0),
            ("is-default", some("true"), 1),
            ("isDefault", some("false"), 1),
            ("owner-id", some(TENANT), 2),
            ("state", some("available"), 2),
            ("vpc-id", some(&vpc.id), 1),
            ("tag:Name", some("i?"), 1),
            ("tag-key", some("Name"), 1),
        ]
    );
    let arn = format!("arn:aws:ec2:eu-central-1:{TENANT}:subnet/{}", subnet.id);
    filters!(
        cloud,
        DescribeSubnets,
        DescribeSubnetsRequest,
        subnets,
        30,
        vec![
            ("availability-zone", some("eu-central-1a"), 2),
            ("availabilityZone", some("eu-central-1b"), 1),
            ("availability-zone-id", some("euc1-az1"), 2),
            ("availabilityZoneId", some("euc1-az2"), 1),
            ("available-ip-address-count", some("4091"), 2),
            ("cidr-block", some("172.31.0.0/20"), 1),
            ("cidr", some("10.9.0.0/24"), 1),
            ("cidrBlock", some("172.31.16.0/20"), 1),
            ("customer-owned-ipv4-pool", None, 0),
            ("default-for-az", some("true"), 2),
            ("defaultForAz", some("false"), 1),
            ("enable-dns64", some("false"), 3),
            ("enable-lni-at-device-index", None, 0),
            ("ipv6-cidr-block-association.ipv6-cidr-block", None, 0),
            ("ipv6-cidr-block-association.association-id", None, 0),
            ("ipv6-cidr-block-association.state", None, 0),
            ("ipv6-native", some("false"), 3),
            ("map-customer-owned-ip-on-launch", some("false"), 3),
            ("map-public-ip-on-launch", some("true"), 2),
            ("outpost-arn", None, 0),
            ("owner-id", some(TENANT), 3),
            (
                "private-dns-name-options-on-launch.hostname-type",
                some("ip-name"),
                3
            ),
            (
                "private-dns-name-options-on-launch.enable-resource-name-dns-a-record",
                some("false"),
                3
            ),
            (
                "private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record",
                some("false"),
                3
            ),
            ("state", some("available"), 3),
            ("subnet-arn", some(arn), 1),
            ("subnet-id", some(&subnet.id), 1),
            ("vpc-id", some(&vpc.id), 2),
            ("tag:Name", some("it"), 1),
            ("tag-key", some("Na*"), 1),
        ]
    );
    for (name, wanted) in [
        ("enableDnsSupport", [Some(true), None, None]),
        ("enableDnsHostnames", [None, Some(true), None]),
        ("enableNetworkAddressUsageMetrics", [None, None, Some(false)]),
    ] {
        let input = ec2::DescribeVpcAttributeRequest {
            vpc_id: Some(vpc.id.to_string()),
            attribute: Some(name.into()),
            ..Default::default()
        };
        let shown = cloud.ok::<operations::DescribeVpcAttribute>(input).await;
        let value = |attribute: &Option<ec2::AttributeBooleanValue>| attribute.as_ref().and_then(|a| a.value);
        let got = [
            value(&shown.enable_dns_support),
            value(&shown.enable_dns_hostnames),
            value(&shown.enable_network_address_usage_metrics),
        ];
        assert_eq!(got, wanted, "{name}");
    }
}

#[tokio::test]
async fn tables_gateways_and_lists() {
    let cloud = Cloud::new().await;
    let table = cloud.list::<RouteTable>().await.remove(0);
    let main = cloud.list::<RouteTableAssociation>().await.remove(0);
    let gateway = cloud.list::<InternetGateway>().await.remove(0);
    let acl = cloud.list::<NetworkAcl>().await.remove(0);
    let of_subnet = cloud.list::<NetworkAclAssociation>().await.remove(0);
    let vpc = cloud.default_vpc().await.id;
    for id in [table.id.as_str(), gateway.id.as_str(), acl.id.as_str()] {
        tag_it(&cloud, id).await;
    }
    filters!(
        cloud,
        DescribeRouteTables,
        DescribeRouteTablesRequest,
        route_tables,
        21,
        vec![
            ("association.gateway-id", None, 0),
            ("association.route-table-association-id", some(&main.id), 1),
            ("association.route-table-id", some(&table.id), 1),
            ("association.subnet-id", None, 0),
            ("association.main", some("true"), 1),
            ("owner-id", some(TENANT), 1),
            ("route-table-id", some(&table.id), 1),
            ("route.destination-cidr-block", some("0.0.0.0/0"), 1),
            ("route.destination-ipv6-cidr-block", None, 0),
            ("route.destination-prefix-list-id", None, 0),
            ("route.egress-only-internet-gateway-id", None, 0),
            ("route.gateway-id", some(&gateway.id), 1),
            ("route.instance-id", None, 0),
            ("route.nat-gateway-id", None, 0),
            ("route.transit-gateway-id", None, 0),
            ("route.origin", some("CreateRoute"), 1),
            ("route.state", some("active"), 1),
            ("route.vpc-peering-connection-id", None, 0),
            ("vpc-id", some(&vpc), 1),
            ("tag:Name", some("it"), 1),
            ("tag-key", some("Name"), 1),
        ]
    );
    filters!(
        cloud,
        DescribeInternetGateways,
        DescribeInternetGatewaysRequest,
        internet_gateways,
        6,
        vec![
            ("attachment.state", some("available"), 1),
            ("attachment.vpc-id", some(&vpc), 1),
            ("internet-gateway-id", some(&gateway.id), 1),
            ("owner-id", some(TENANT), 1),
            ("tag:Name", some("it"), 1),
            ("tag-key", some("Name"), 1),
        ]
    );
    filters!(
        cloud,
        DescribeNetworkAcls,
        DescribeNetworkAclsRequest,
        network_acls,
        19,
        vec![
            ("association.association-id", some(&of_subnet.id), 1),
            ("association.network-acl-id", some(&acl.id), 1),
            ("association.subnet-id", some(&of_subnet.subnet), 1),
            ("default", some("true"), 1),
            ("entry.cidr", some("0.0.0.0/0"), 1),
            ("entry.icmp.code", None, 0),
            ("entry.icmp.type", None, 0),
            ("entry.ipv6-cidr", None, 0),
            ("entry.port-range.from", None, 0),
            ("entry.port-range.to", None, 0),
            ("entry.protocol", some("-1"), 1),
            ("entry.rule-action", some("deny"), 1),
            ("entry.egress", some("true"), 1),
            ("entry.rule-number", some("32767"), 1),
            ("network-acl-id", some(&acl.id), 1),
            ("owner-id", some(TENANT), 1),
            ("vpc-id", some(&vpc), 1),
            ("tag:Name", some("it"), 1),
            ("tag-key", some("Name"), 1),
        ]
    );
    // A route whose gateway is detached is a blackhole, computed at the read.
    cloud
        .put(&InternetGateway {
            attachment: None,
            ..gateway
        })
        .await;
    assert_eq!(
        hits!(
            cloud,
            DescribeRouteTables,
            DescribeRouteTablesRequest,
            route_tables,
            "route.state",
            "blackhole"
        ),
        1
    );
}

#[tokio::test]
async fn security_groups() {
    let cloud = Cloud::new().await;
    let id = cloud.make_group("web", None).await;
    let default = cloud.default_group().await;
    tag_it(&cloud, &id).await;
    let mut permission = tcp(8080, "10.0.0.0/8");
    permission.ipv6_ranges = vec![ec2::Ipv6Range {
        cidr_ipv6: Some("2001:db8::/32".into()),
        description: None,
    }];
    permission.user_id_group_pairs = vec![ec2::UserIdGroupPair {
        group_id: Some(default.id.to_string()),
        ..Default::default()
    }];
    let ingress = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(id.clone()),
        ip_permissions: vec![permission.clone()],
        ..Default::default()
    };
    cloud
        .ok::<operations::AuthorizeSecurityGroupIngress>(ingress)
        .await;
    let egress = ec2::AuthorizeSecurityGroupEgressRequest {
        group_id: Some(id.clone()),
        ip_permissions: vec![permission],
        ..Default::default()
    };
    cloud.ok::<operations::AuthorizeSecurityGroupEgress>(egress).await;
    filters!(
        cloud,
        DescribeSecurityGroups,
        DescribeSecurityGroupsRequest,
        security_groups,
        25,
        vec![
            ("description", some("a group"), 1),
            ("group-id", some(&id), 1),
            ("group-name", some("w*b"), 1),
            ("owner-id", some(TENANT), 2),
            ("vpc-id", some(&default.vpc), 2),
            ("ip-permission.cidr", some("10.0.0.0/8"), 1),
            ("ip-permission.from-port", some("8080"), 1),
            ("ip-permission.group-id", some(&default.id), 2),
            ("ip-permission.group-name", some("default"), 2),
            ("ip-permission.ipv6-cidr", some("2001:db8::/32"), 1),
            ("ip-permission.prefix-list-id", None, 0),
            ("ip-permission.protocol", some("tcp"), 1),
            ("ip-permission.to-port", some("8080"), 1),
            ("ip-permission.user-id", some(TENANT), 2),
            ("egress.ip-permission.cidr", some("0.0.0.0/0"), 2),
            ("egress.ip-permission.from-port", some("8080"), 1),
            ("egress.ip-permission.group-id", some(&default.id), 1),
            ("egress.ip-permission.group-name", some("default"), 1),
            ("egress.ip-permission.ipv6-cidr", some("2001:db8::/32"), 1),
            ("egress.ip-permission.prefix-list-id", None, 0),
            ("egress.ip-permission.protocol", some("-1"), 2),
            ("egress.ip-permission.to-port", some("8080"), 1),
            ("egress.ip-permission.user-id", some(TENANT), 1),
            ("tag:Name", some("it"), 1),
            ("tag-key", some("Name"), 1),
        ]
    );
}

#[tokio::test]
async fn interfaces_and_addresses() {
    let cloud = Cloud::new().await;
    let subnet = cloud.default_subnet().await;
    let group = cloud.default_group().await.id;
    let now = OffsetDateTime::now_utc();
    let instance = InstanceId::random();
    let spec = |public: bool| InterfaceSpec {
        account: TENANT,
        subnet: subnet.id.clone(),
        groups: vec![group.clone()],
        description: "primary".into(),
        address: None,
        public,
        attachment: public.then(|| AttachmentSpec {
            instance: instance.clone(),
            instance_account: TENANT,
            device_index: 0,
            delete_on_termination: true,
            metadata_hop_limit: 1,
        }),
        home: public.then(NodeId::random),
        requester: None,
        tags: [("Name".to_owned(), "it".to_owned())]
            .into_iter()
            .filter(|_| public)
            .collect(),
        now,
    };
    let made = cloud.store.update(|tx: Tx| {
        let (one, two) = (spec(true), spec(false));
        async move {
            create_interface(&tx, two).await?;
            create_interface(&tx, one).await
        }
    });
    let made: Result<Interface, state::UpdateError<NetworkError>> = made.await;
    let eni = made.expect("made");
    let attachment = eni.attachment.clone().expect("attached");
    let public = eni.public.clone().expect("public").address;
    let public_name = format!(
        "ec2-{}.eu-central-1.compute.amazonaws.com",
        public.to_string().replace('.', "-")
    );
    let private_name = format!(
        "ip-{}.eu-central-1.compute.internal",
        eni.address.to_string().replace('.', "-")
    );
    filters!(
        cloud,
        DescribeNetworkInterfaces,
        DescribeNetworkInterfacesRequest,
        network_interfaces,
        37,
        vec![
            ("association.allocation-id", None, 0),
            ("association.association-id", None, 0),
            ("association.ip-owner-id", some("amazon"), 1),
            ("association.public-ip", some(public), 1),
            ("association.public-dns-name", some(&public_name), 1),
            ("addresses.association.owner-id", some("amazon"), 1),
            ("addresses.association.public-ip", some(public), 1),
            ("addresses.primary", some("true"), 2),
            ("addresses.private-ip-address", some(eni.address), 1),
            (
                "attachment.attach-time",
                some(
                    now.replace_nanosecond(0)
                        .expect("time")
                        .format(&Rfc3339)
                        .expect("time")
                ),
                1
            ),
            ("attachment.attachment-id", some(&attachment.id), 1),
            ("attachment.delete-on-termination", some("true"), 1),
            ("attachment.device-index", some("0"), 1),
            ("attachment.instance-id", some(&instance), 1),
            ("attachment.instance-owner-id", some(TENANT), 1),
            ("attachment.status", some("attaching"), 1),
            ("availability-zone", some("eu-central-1a"), 2),
            ("availability-zone-id", some("euc1-az1"), 2),
            ("description", some("prim*"), 2),
            ("group-id", some(&group), 2),
            ("ipv6-addresses.ipv6-address", None, 0),
            ("interface-type", some("interface"), 2),
            ("mac-address", some(&eni.mac), 1),
            ("network-interface-id", some(&eni.id), 1),
            ("operator.managed", some("false"), 2),
            ("operator.principal", None, 0),
            ("owner-id", some(TENANT), 2),
            ("private-dns-name", some(private_name), 1),
            ("private-ip-address", some(eni.address), 1),
            ("requester-id", None, 0),
            ("requester-managed", some("false"), 2),
            ("source-dest-check", some("true"), 2),
            ("status", some("in-use"), 1),
            ("subnet-id", some(&subnet.id), 2),
            ("vpc-id", some(&subnet.vpc), 2),
            ("tag:Name", some("it"), 1),
            ("tag-key", some("Name"), 1),
        ]
    );
    // An automatic address is not an Elastic IP.
    assert!(
        cloud
            .ok::<operations::DescribeAddresses>(Default::default())
            .await
            .addresses
            .is_empty()
    );

    // An Elastic IP, as the operation that allocates one will record it.
    let row = cloud
        .store
        .find::<PublicAddress>(&state::Scope::NONE, PublicAddress::id_of(public))
        .await;
    let row = row.expect("readable").expect("a row");
    let allocation = Some(Allocation {
        id: "eipalloc-0123456789abcdef0".into(),
    });
    let state = PublicAddressState::InUse {
        account: TENANT,
        interface: Some(eni.id.clone()),
        allocation,
    };
    cloud.put(&PublicAddress { state, ..row }).await;
    let mut mapped = eni.clone();
    mapped.public.as_mut().expect("public").automatic = false;
    cloud.put(&mapped).await;
    let association = eni.public.expect("public").association;
    filters!(
        cloud,
        DescribeAddresses,
        DescribeAddressesRequest,
        addresses,
        10,
        vec![
            ("allocation-id", some("eipalloc-0123456789abcdef0"), 1),
            ("association-id", some(&association), 1),
            ("instance-id", some(&instance), 1),
            ("network-border-group", some("eu-central-1"), 1),
            ("network-interface-id", some(&eni.id), 1),
            ("network-interface-owner-id", some(TENANT), 1),
            ("private-ip-address", some(eni.address), 1),
            ("public-ip", some(public), 1),
            ("tag:Name", None, 0),
            ("tag-key", None, 0),
        ]
    );
}

#[tokio::test]
async fn pages_of_any_size_give_the_same_list_and_tokens_are_bound_to_the_query() {
    let cloud = Cloud::new().await;
    for n in 0..23 {
        cloud.make_group(&format!("g{n}"), None).await;
    }
    let all = cloud
        .ok::<operations::DescribeSecurityGroups>(Default::default())
        .await
        .security_groups;
    assert_eq!(all.len(), 24);
    for size in [5, 7, 24, 1000] {
        let mut gathered = Vec::new();
        let mut next_token = None;
        loop {
            let input = ec2::DescribeSecurityGroupsRequest {
                max_results: Some(size),
                next_token,
                ..Default::default()
            };
            let page = cloud.ok::<operations::DescribeSecurityGroups>(input).await;
            gathered.extend(page.security_groups);
            next_token = page.next_token;
            if next_token.is_none() {
                break;
            }
        }
        assert_eq!(gathered, all, "page size {size}");
    }
    let call = with_form(cloud.call().await, "Action=DescribeSecurityGroups&MaxResults=5");
    let input = ec2::DescribeSecurityGroupsRequest {
        max_results: Some(5),
        ..Default::default()
    };
    let page = cloud
        .run_as::<operations::DescribeSecurityGroups>(&call, input)
        .await
        .expect("a page");
    let other = with_form(
        cloud.call().await,
        "Action=DescribeSecurityGroups&MaxResults=5&Filter.1.Name=vpc-id",
    );
    let input = ec2::DescribeSecurityGroupsRequest {
        next_token: page.next_token,
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::DescribeSecurityGroups>(&other, input)
        .await
        .expect_err("bound");
    assert_eq!(error.code, "InvalidParameterValue");
}

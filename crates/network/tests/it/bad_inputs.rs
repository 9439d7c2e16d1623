//! Bad input gets AWS's error and changes nothing: one table over every operation of the room.

use crate::cloud::{Cloud, everything, filter, tag, tcp};
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::AwsError;
use std::collections::BTreeSet;

/// One wrong call: what it was, and what came of it.
struct Row {
    operation: &'static str,
    what: String,
    wanted: &'static str,
    got: Result<(), AwsError>,
}

struct Table {
    cloud: Cloud,
    rows: Vec<Row>,
}

impl Table {
    async fn row<O: OperationShape>(
        &mut self,
        wanted: &'static str,
        what: impl Into<String>,
        input: O::Input,
    ) {
        let got = self.cloud.run::<O>(input).await.map(|_| ());
        self.rows.push(Row {
            operation: O::SCHEMA.name,
            what: what.into(),
            wanted,
            got,
        });
    }
}

const VALUE: &str = "InvalidParameterValue";
const COMBINATION: &str = "InvalidParameterCombination";
const MISSING: &str = "MissingParameter";
const MANY: usize = 1001;

fn ids(id: &str) -> Vec<String> {
    vec![id.to_owned()]
}

/// The rows every Describe has: unknown filter, empty filter, page size out of bounds and beside ids, foreign token,
/// malformed and unknown ids, too many ids.
macro_rules! describe_rows {
    ($table:expr, $operation:ident, $request:ident, $ids:ident, $prefix:literal, $malformed:literal, $absent:literal, $max:literal) => {{
        type O = operations::$operation;
        let base = ec2::$request::default;
        let t = &mut $table;
        t.row::<O>(
            VALUE,
            "unknown filter",
            ec2::$request {
                filters: vec![filter("colour", &["x"])],
                ..base()
            },
        )
        .await;
        t.row::<O>(
            VALUE,
            "filter without values",
            ec2::$request {
                filters: vec![filter("tag:x", &[])],
                ..base()
            },
        )
        .await;
        let nameless = ec2::Filter {
            name: None,
            values: vec!["x".into()],
        };
        t.row::<O>(
            MISSING,
            "filter without name",
            ec2::$request {
                filters: vec![nameless],
                ..base()
            },
        )
        .await;
        t.row::<O>(
            VALUE,
            "page too small",
            ec2::$request {
                max_results: Some(4),
                ..base()
            },
        )
        .await;
        t.row::<O>(
            VALUE,
            "page too large",
            ec2::$request {
                max_results: Some($max + 1),
                ..base()
            },
        )
        .await;
        let token = Some("AAAA".to_owned());
        t.row::<O>(
            VALUE,
            "foreign token",
            ec2::$request {
                next_token: token,
                ..base()
            },
        )
        .await;
        let both = ec2::$request {
            max_results: Some(5),
            $ids: ids(concat!($prefix, "12345678")),
            ..base()
        };
        t.row::<O>(COMBINATION, "page and ids", both).await;
        for bad in [
            concat!($prefix, "xyz"),
            concat!($prefix, "1234567"),
            "x",
            concat!($prefix, "1234567A"),
        ] {
            t.row::<O>(
                $malformed,
                bad,
                ec2::$request {
                    $ids: ids(bad),
                    ..base()
                },
            )
            .await;
        }
        t.row::<O>(
            $absent,
            "unknown id",
            ec2::$request {
                $ids: ids(concat!($prefix, "12345678")),
                ..base()
            },
        )
        .await;
        let many = (0..MANY).map(|n| format!("{}{n:08x}", $prefix)).collect();
        t.row::<O>(VALUE, "too many ids", ec2::$request { $ids: many, ..base() })
            .await;
    }};
}

#[tokio::test]
async fn wrong_calls_get_the_documented_error_and_change_nothing() {
    let cloud = Cloud::new().await;
    let group = cloud.make_group("target", None).await;
    let (_, _) = cloud.other_vpc("10.9.0.0/16", 24).await;
    let before = cloud.store.revision().await.expect("revision");
    let mut table = Table {
        cloud,
        rows: Vec::new(),
    };
    describes(&mut table).await;
    group_rows(&mut table, &group).await;
    rule_rows(&mut table, &group).await;
    revoke_rows(&mut table, &group).await;
    tag_rows(&mut table, &group).await;

    let wrong: Vec<String> = table
        .rows
        .iter()
        .filter_map(|row| {
            let code = match &row.got {
                Ok(()) => "success",
                Err(error) if error.status == 400 => error.code.as_ref(),
                Err(error) => {
                    return Some(format!(
                        "{}, {}: status {}",
                        row.operation, row.what, error.status
                    ));
                }
            };
            (code != row.wanted).then(|| {
                format!(
                    "{}, {}: {code} instead of {}",
                    row.operation, row.what, row.wanted
                )
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(table.cloud.store.revision().await.expect("revision"), before);

    // Every operation has rows here, so that a new one cannot be forgotten.
    let covered: BTreeSet<&str> = table.rows.iter().map(|row| row.operation).collect();
    let registered: BTreeSet<&str> = table
        .cloud
        .registry
        .operations()
        .iter()
        .map(|operation| operation.schema().name)
        .filter(|name| *name != "GetCallerIdentity")
        .collect();
    assert_eq!(covered, registered);
    println!(
        "{} wrong calls over {} operations",
        table.rows.len(),
        covered.len()
    );
}

async fn describes(t: &mut Table) {
    describe_rows!(
        *t,
        DescribeVpcs,
        DescribeVpcsRequest,
        vpc_ids,
        "vpc-",
        "InvalidVpcID.Malformed",
        "InvalidVpcID.NotFound",
        1000
    );
    describe_rows!(
        *t,
        DescribeSubnets,
        DescribeSubnetsRequest,
        subnet_ids,
        "subnet-",
        "InvalidSubnetID.Malformed",
        "InvalidSubnetID.NotFound",
        1000
    );
    describe_rows!(
        *t,
        DescribeSecurityGroups,
        DescribeSecurityGroupsRequest,
        group_ids,
        "sg-",
        "InvalidGroupId.Malformed",
        "InvalidGroup.NotFound",
        1000
    );
    describe_rows!(
        *t,
        DescribeSecurityGroupRules,
        DescribeSecurityGroupRulesRequest,
        security_group_rule_ids,
        "sgr-",
        "InvalidSecurityGroupRuleId.Malformed",
        "InvalidSecurityGroupRuleId.NotFound",
        1000
    );
    describe_rows!(
        *t,
        DescribeRouteTables,
        DescribeRouteTablesRequest,
        route_table_ids,
        "rtb-",
        "InvalidRouteTableId.Malformed",
        "InvalidRouteTableID.NotFound",
        100
    );
    describe_rows!(
        *t,
        DescribeInternetGateways,
        DescribeInternetGatewaysRequest,
        internet_gateway_ids,
        "igw-",
        "InvalidInternetGatewayId.Malformed",
        "InvalidInternetGatewayID.NotFound",
        1000
    );
    describe_rows!(
        *t,
        DescribeNetworkAcls,
        DescribeNetworkAclsRequest,
        network_acl_ids,
        "acl-",
        "InvalidNetworkAclId.Malformed",
        "InvalidNetworkAclID.NotFound",
        1000
    );
    describe_rows!(
        *t,
        DescribeNetworkInterfaces,
        DescribeNetworkInterfacesRequest,
        network_interface_ids,
        "eni-",
        "InvalidNetworkInterfaceId.Malformed",
        "InvalidNetworkInterfaceID.NotFound",
        1000
    );

    type Attribute = operations::DescribeVpcAttribute;
    let attribute = |vpc: Option<&str>, name: Option<&str>| ec2::DescribeVpcAttributeRequest {
        vpc_id: vpc.map(Into::into),
        attribute: name.map(Into::into),
        ..Default::default()
    };
    // Both members are required by the model, so the constraint check answers first.
    t.row::<Attribute>(MISSING, "no vpc", attribute(None, Some("enableDnsSupport")))
        .await;
    t.row::<Attribute>(MISSING, "no attribute", attribute(Some("vpc-12345678"), None))
        .await;
    t.row::<Attribute>(
        VALUE,
        "unknown attribute",
        attribute(Some("vpc-12345678"), Some("colour")),
    )
    .await;
    t.row::<Attribute>(
        "InvalidVpcID.Malformed",
        "bad vpc",
        attribute(Some("vpc"), Some("enableDnsSupport")),
    )
    .await;
    let absent = attribute(Some("vpc-12345678"), Some("enableDnsSupport"));
    t.row::<Attribute>("InvalidVpcID.NotFound", "unknown vpc", absent)
        .await;

    type Addresses = operations::DescribeAddresses;
    let base = ec2::DescribeAddressesRequest::default;
    let bad_filter = ec2::DescribeAddressesRequest {
        filters: vec![filter("x", &["y"])],
        ..base()
    };
    t.row::<Addresses>(VALUE, "unknown filter", bad_filter).await;
    let bad_ip = ec2::DescribeAddressesRequest {
        public_ips: ids("1.2.3"),
        ..base()
    };
    t.row::<Addresses>(VALUE, "bad address", bad_ip).await;
    let absent = ec2::DescribeAddressesRequest {
        public_ips: ids("198.18.0.1"),
        ..base()
    };
    t.row::<Addresses>("InvalidAddress.NotFound", "unknown address", absent)
        .await;
    let absent = ec2::DescribeAddressesRequest {
        allocation_ids: ids("eipalloc-12345678"),
        ..base()
    };
    t.row::<Addresses>("InvalidAllocationID.NotFound", "unknown allocation", absent)
        .await;
}

async fn group_rows(t: &mut Table, group: &str) {
    type Describe = operations::DescribeSecurityGroups;
    let named = ec2::DescribeSecurityGroupsRequest {
        group_names: ids("nobody"),
        ..Default::default()
    };
    t.row::<Describe>("InvalidGroup.NotFound", "unknown name", named)
        .await;
    let named = ec2::DescribeSecurityGroupsRequest {
        group_names: ids("default"),
        max_results: Some(5),
        ..Default::default()
    };
    t.row::<Describe>(COMBINATION, "names and page", named).await;

    type Create = operations::CreateSecurityGroup;
    let create = |name: &str, description: &str| ec2::CreateSecurityGroupRequest {
        group_name: Some(name.into()),
        description: Some(description.into()),
        ..Default::default()
    };
    t.row::<Create>("InvalidGroup.Duplicate", "name in use", create("target", "x"))
        .await;
    t.row::<Create>(
        "InvalidGroup.Duplicate",
        "name in use in capitals",
        create("TARGET", "x"),
    )
    .await;
    t.row::<Create>("InvalidGroup.Reserved", "reserved", create("Default", "x"))
        .await;
    t.row::<Create>(VALUE, "name like an id", create("sg-web", "x"))
        .await;
    t.row::<Create>(VALUE, "name with a quote", create("a\"b", "x"))
        .await;
    t.row::<Create>(VALUE, "long name", create(&"n".repeat(256), "x"))
        .await;
    t.row::<Create>(VALUE, "long description", create("a", &"d".repeat(256)))
        .await;
    t.row::<Create>(VALUE, "description with a tab", create("a", "a\tb"))
        .await;
    t.row::<Create>(MISSING, "empty description", create("a", ""))
        .await;
    t.row::<Create>(MISSING, "empty name", create("", "x")).await;
    let in_vpc = |vpc: &str| ec2::CreateSecurityGroupRequest {
        vpc_id: Some(vpc.into()),
        ..create("a", "x")
    };
    t.row::<Create>("InvalidVpcID.NotFound", "unknown vpc", in_vpc("vpc-12345678"))
        .await;
    t.row::<Create>("InvalidVpcID.Malformed", "bad vpc", in_vpc("12345678"))
        .await;
    let tagged = |resource_type: &str, key: &str| ec2::CreateSecurityGroupRequest {
        tag_specifications: vec![ec2::TagSpecification {
            resource_type: Some(resource_type.into()),
            tags: vec![tag(key, "v")],
        }],
        ..create("a", "x")
    };
    t.row::<Create>(VALUE, "tags for another type", tagged("instance", "k"))
        .await;
    t.row::<Create>(VALUE, "reserved tag", tagged("security-group", "aws:k"))
        .await;

    type Delete = operations::DeleteSecurityGroup;
    let delete = |id: Option<&str>, name: Option<&str>| ec2::DeleteSecurityGroupRequest {
        group_id: id.map(Into::into),
        group_name: name.map(Into::into),
        ..Default::default()
    };
    t.row::<Delete>(MISSING, "neither", delete(None, None)).await;
    t.row::<Delete>(COMBINATION, "both", delete(Some(group), Some("target")))
        .await;
    t.row::<Delete>(
        "InvalidGroup.NotFound",
        "unknown id",
        delete(Some("sg-12345678"), None),
    )
    .await;
    t.row::<Delete>("InvalidGroupId.Malformed", "bad id", delete(Some("sg-"), None))
        .await;
    t.row::<Delete>(
        "InvalidGroup.NotFound",
        "unknown name",
        delete(None, Some("nobody")),
    )
    .await;
    t.row::<Delete>("CannotDelete", "default", delete(None, Some("default")))
        .await;
}

async fn rule_rows(t: &mut Table, group: &str) {
    type Ingress = operations::AuthorizeSecurityGroupIngress;
    let with = |permissions: Vec<ec2::IpPermission>| ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(group.into()),
        ip_permissions: permissions,
        ..Default::default()
    };
    let one = |change: &dyn Fn(&mut ec2::IpPermission)| {
        let mut permission = tcp(22, "10.0.0.0/8");
        change(&mut permission);
        vec![permission]
    };
    t.row::<Ingress>(MISSING, "nothing", with(Vec::new())).await;
    t.row::<Ingress>(MISSING, "no protocol", with(one(&|p| p.ip_protocol = None)))
        .await;
    t.row::<Ingress>(MISSING, "no peer", with(one(&|p| p.ip_ranges.clear())))
        .await;
    t.row::<Ingress>(
        VALUE,
        "bad protocol",
        with(one(&|p| p.ip_protocol = Some("ether".into()))),
    )
    .await;
    t.row::<Ingress>(VALUE, "no ports", with(one(&|p| p.to_port = None)))
        .await;
    t.row::<Ingress>(VALUE, "port 65536", with(one(&|p| p.to_port = Some(65536))))
        .await;
    t.row::<Ingress>(VALUE, "ports reversed", with(one(&|p| p.to_port = Some(21))))
        .await;
    t.row::<Ingress>(VALUE, "negative port", with(one(&|p| p.from_port = Some(-1))))
        .await;
    t.row::<Ingress>(VALUE, "bad block", with(vec![tcp(22, "10.0.0.0")]))
        .await;
    t.row::<Ingress>(VALUE, "IPv6 as IPv4", with(vec![tcp(22, "::/0")]))
        .await;
    t.row::<Ingress>(
        VALUE,
        "twice in one call",
        with(vec![tcp(22, "10.0.0.0/8"), tcp(22, "10.9.9.9/8")]),
    )
    .await;
    t.row::<Ingress>(
        VALUE,
        "bad description",
        with(one(&|p| p.ip_ranges[0].description = Some("<".into()))),
    )
    .await;
    let icmp = |p: &mut ec2::IpPermission| p.ip_protocol = Some("icmp".into());
    t.row::<Ingress>(
        VALUE,
        "ICMP type 300",
        with(one(&|p| {
            icmp(p);
            p.from_port = Some(300)
        })),
    )
    .await;
    t.row::<Ingress>(
        VALUE,
        "ICMP code without type",
        with(one(&|p| {
            icmp(p);
            p.from_port = Some(-1)
        })),
    )
    .await;
    let peer = |id: Option<&str>, name: Option<&str>, owner: Option<&str>| {
        let pair = ec2::UserIdGroupPair {
            group_id: id.map(Into::into),
            group_name: name.map(Into::into),
            user_id: owner.map(Into::into),
            ..Default::default()
        };
        one(&|p| {
            p.ip_ranges.clear();
            p.user_id_group_pairs = vec![pair.clone()];
        })
    };
    t.row::<Ingress>(
        "InvalidGroup.NotFound",
        "unknown peer",
        with(peer(Some("sg-12345678"), None, None)),
    )
    .await;
    t.row::<Ingress>(
        "InvalidGroupId.Malformed",
        "bad peer",
        with(peer(Some("sg"), None, None)),
    )
    .await;
    t.row::<Ingress>(
        "InvalidGroup.NotFound",
        "unknown peer name",
        with(peer(None, Some("nobody"), None)),
    )
    .await;
    t.row::<Ingress>(MISSING, "peer without a name", with(peer(None, None, None)))
        .await;
    let foreign = with(peer(Some(group), None, Some("000000000099")));
    t.row::<Ingress>("InvalidGroup.NotFound", "peer of another account", foreign)
        .await;
    let peered = one(&|p| {
        p.ip_ranges.clear();
        p.user_id_group_pairs = vec![ec2::UserIdGroupPair {
            group_id: Some(group.into()),
            vpc_peering_connection_id: Some("pcx-12345678".into()),
            ..Default::default()
        }];
    });
    t.row::<Ingress>("UnsupportedOperation", "peer over a peering", with(peered))
        .await;
    let other_vpc = other_default_group(&t.cloud).await;
    let elsewhere = with(peer(Some(&other_vpc), None, None));
    t.row::<Ingress>("InvalidGroup.NotFound", "peer of another VPC", elsewhere)
        .await;
    let list = one(&|p| {
        p.prefix_list_ids = vec![ec2::PrefixListId {
            prefix_list_id: Some("pl-12345678".into()),
            description: None,
        }];
    });
    t.row::<Ingress>("InvalidPrefixListID.NotFound", "prefix list", with(list))
        .await;
    let scalar = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: Some(group.into()),
        ip_protocol: Some("tcp".into()),
        from_port: Some(1),
        to_port: Some(1),
        ..Default::default()
    };
    t.row::<Ingress>(MISSING, "scalar without block", scalar.clone())
        .await;
    let both = ec2::AuthorizeSecurityGroupIngressRequest {
        ip_permissions: vec![tcp(1, "10.0.0.0/8")],
        ..scalar
    };
    t.row::<Ingress>(COMBINATION, "both forms", both).await;
    let nobody = ec2::AuthorizeSecurityGroupIngressRequest {
        group_id: None,
        ..with(vec![tcp(1, "10.0.0.0/8")])
    };
    t.row::<Ingress>(MISSING, "no group", nobody).await;
    let tagged = ec2::AuthorizeSecurityGroupIngressRequest {
        tag_specifications: vec![ec2::TagSpecification {
            resource_type: Some("security-group".into()),
            tags: vec![tag("a", "b")],
        }],
        ..with(vec![tcp(1, "10.0.0.0/8")])
    };
    t.row::<Ingress>(VALUE, "tags of another type", tagged).await;

    type Egress = operations::AuthorizeSecurityGroupEgress;
    let egress = |permissions: Vec<ec2::IpPermission>| ec2::AuthorizeSecurityGroupEgressRequest {
        group_id: Some(group.into()),
        ip_permissions: permissions,
        ..Default::default()
    };
    t.row::<Egress>(
        "InvalidPermission.Duplicate",
        "default rule again",
        egress(vec![everything("0.0.0.0/0")]),
    )
    .await;
    t.row::<Egress>(MISSING, "nothing", egress(Vec::new())).await;
    let scalar = ec2::AuthorizeSecurityGroupEgressRequest {
        cidr_ip: Some("0.0.0.0/0".into()),
        ip_protocol: Some("-1".into()),
        ..egress(Vec::new())
    };
    t.row::<Egress>(COMBINATION, "scalar form", scalar).await;
}

async fn other_default_group(cloud: &Cloud) -> String {
    let default = cloud.default_vpc().await;
    let groups = cloud.list::<network::records::SecurityGroup>().await;
    groups
        .into_iter()
        .find(|group| group.vpc != default.id)
        .expect("one of the other VPC")
        .id
        .to_string()
}

async fn revoke_rows(t: &mut Table, group: &str) {
    type Ingress = operations::RevokeSecurityGroupIngress;
    let other = other_default_group(&t.cloud).await;
    let with = |group: &str, ids: Vec<String>, permissions| ec2::RevokeSecurityGroupIngressRequest {
        group_id: Some(group.into()),
        security_group_rule_ids: ids,
        ip_permissions: permissions,
        ..Default::default()
    };
    let ssh = || vec![tcp(22, "10.0.0.0/8")];
    t.row::<Ingress>(MISSING, "nothing", with(group, Vec::new(), Vec::new()))
        .await;
    t.row::<Ingress>(
        COMBINATION,
        "ids and rules",
        with(group, ids("sgr-12345678"), ssh()),
    )
    .await;
    t.row::<Ingress>(
        "InvalidSecurityGroupRuleId.NotFound",
        "unknown id",
        with(group, ids("sgr-12345678"), Vec::new()),
    )
    .await;
    t.row::<Ingress>(
        "InvalidSecurityGroupRuleId.Malformed",
        "bad id",
        with(group, ids("sgr-x"), Vec::new()),
    )
    .await;
    t.row::<Ingress>(
        "InvalidPermission.NotFound",
        "unknown rule outside the default VPC",
        with(&other, Vec::new(), ssh()),
    )
    .await;
    t.row::<Ingress>(
        "InvalidGroup.NotFound",
        "unknown group",
        with("sg-12345678", Vec::new(), ssh()),
    )
    .await;

    type Egress = operations::RevokeSecurityGroupEgress;
    let egress = |ids: Vec<String>| ec2::RevokeSecurityGroupEgressRequest {
        group_id: Some(group.into()),
        security_group_rule_ids: ids,
        ..Default::default()
    };
    t.row::<Egress>(MISSING, "nothing", egress(Vec::new())).await;
    t.row::<Egress>(
        "InvalidSecurityGroupRuleId.NotFound",
        "unknown id",
        egress(ids("sgr-12345678")),
    )
    .await;
    let scalar = ec2::RevokeSecurityGroupEgressRequest {
        cidr_ip: Some("0.0.0.0/0".into()),
        ..egress(Vec::new())
    };
    t.row::<Egress>(COMBINATION, "scalar form", scalar).await;
}

async fn tag_rows(t: &mut Table, group: &str) {
    type Create = operations::CreateTags;
    let create = |resources: Vec<String>, tags| ec2::CreateTagsRequest {
        resources,
        tags,
        ..Default::default()
    };
    let k = || vec![tag("k", "v")];
    t.row::<Create>(MISSING, "no resources", create(Vec::new(), k()))
        .await;
    t.row::<Create>(MISSING, "no tags", create(ids(group), Vec::new()))
        .await;
    t.row::<Create>("InvalidID", "unknown kind", create(ids("zz-12345678"), k()))
        .await;
    t.row::<Create>("InvalidID", "bad id", create(ids("sg-zz"), k()))
        .await;
    t.row::<Create>(
        "InvalidGroup.NotFound",
        "unknown group",
        create(vec![group.into(), "sg-12345678".into()], k()),
    )
    .await;
    t.row::<Create>(
        "InvalidVpcID.NotFound",
        "unknown vpc",
        create(ids("vpc-12345678"), k()),
    )
    .await;
    t.row::<Create>(
        "InvalidDhcpOptionID.NotFound",
        "unknown options",
        create(ids("dopt-12345678"), k()),
    )
    .await;
    t.row::<Create>(VALUE, "reserved", create(ids(group), vec![tag("AWS:x", "v")]))
        .await;
    t.row::<Create>(VALUE, "empty key", create(ids(group), vec![tag("", "v")]))
        .await;
    t.row::<Create>(
        VALUE,
        "long key",
        create(ids(group), vec![tag(&"k".repeat(129), "v")]),
    )
    .await;
    t.row::<Create>(
        VALUE,
        "long value",
        create(ids(group), vec![tag("k", &"v".repeat(257))]),
    )
    .await;
    t.row::<Create>(
        VALUE,
        "key twice",
        create(ids(group), vec![tag("k", "1"), tag("k", "2")]),
    )
    .await;
    let fifty_one = (0..51).map(|n| tag(&format!("k{n}"), "v")).collect();
    t.row::<Create>("TagLimitExceeded", "51 tags", create(ids(group), fifty_one))
        .await;
    let many = (0..MANY).map(|n| format!("sg-{n:08x}")).collect();
    t.row::<Create>(VALUE, "too many resources", create(many, k()))
        .await;

    type Delete = operations::DeleteTags;
    let delete = |resources: Vec<String>, tags| ec2::DeleteTagsRequest {
        resources,
        tags,
        ..Default::default()
    };
    t.row::<Delete>(MISSING, "no resources", delete(Vec::new(), k()))
        .await;
    t.row::<Delete>(
        "InvalidGroup.NotFound",
        "unknown group",
        delete(ids("sg-12345678"), k()),
    )
    .await;
    t.row::<Delete>("InvalidID", "unknown kind", delete(ids("nope"), k()))
        .await;
    t.row::<Delete>(VALUE, "reserved", delete(ids(group), vec![tag("aws:x", "v")]))
        .await;

    type Describe = operations::DescribeTags;
    let base = ec2::DescribeTagsRequest::default;
    let bad = ec2::DescribeTagsRequest {
        filters: vec![filter("colour", &["x"])],
        ..base()
    };
    t.row::<Describe>(VALUE, "unknown filter", bad).await;
    t.row::<Describe>(
        VALUE,
        "page too small",
        ec2::DescribeTagsRequest {
            max_results: Some(1),
            ..base()
        },
    )
    .await;
    let token = ec2::DescribeTagsRequest {
        next_token: Some("zz".into()),
        ..base()
    };
    t.row::<Describe>(VALUE, "foreign token", token).await;
}

#[tokio::test]
async fn resources_of_another_account_are_absent() {
    let cloud = Cloud::new().await;
    let group = cloud.make_group("mine", None).await;
    let vpc = cloud.default_vpc().await;
    let other = cloud.foreign_call().await;
    let describe = ec2::DescribeSecurityGroupsRequest {
        group_ids: ids(&group),
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::DescribeSecurityGroups>(&other, describe)
        .await
        .expect_err("foreign");
    assert_eq!(
        error.message,
        format!("The security group '{group}' does not exist")
    );
    let delete = ec2::DeleteSecurityGroupRequest {
        group_id: Some(group.clone()),
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::DeleteSecurityGroup>(&other, delete)
        .await
        .expect_err("foreign");
    assert_eq!(error.code, "InvalidGroup.NotFound");
    let tags = ec2::CreateTagsRequest {
        resources: ids(&group),
        tags: vec![tag("a", "b")],
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::CreateTags>(&other, tags)
        .await
        .expect_err("foreign");
    assert_eq!(error.code, "InvalidGroup.NotFound");
    let create = ec2::CreateSecurityGroupRequest {
        group_name: Some("theirs".into()),
        description: Some("theirs".into()),
        vpc_id: Some(vpc.id.to_string()),
        ..Default::default()
    };
    let error = cloud
        .run_as::<operations::CreateSecurityGroup>(&other, create)
        .await
        .expect_err("foreign");
    assert_eq!(error.code, "InvalidVpcID.NotFound");
    let all = cloud
        .run_as::<operations::DescribeSecurityGroups>(&other, Default::default())
        .await
        .expect("read");
    assert_eq!(all.security_groups.len(), 1);
}

//! The planner on small VPCs.

use super::{VpcRecords, is_active, plan, table_of};
use crate::cidr;
use crate::records::{
    Attachment, AttachmentStatus, BlockAssociation, Direction, GatewayAttachment, Home, Interface,
    InterfaceStatus, InternetGateway, Route, RouteOrigin, RouteTable, RouteTableAssociation, RouteTarget,
    SecurityGroup, SecurityGroupRule, Subnet, Vpc,
};
use crate::rule::{Rule, RulePeer, RuleTraffic};
use aws_types::ids::{
    DhcpOptionsId, InstanceId, InternetGatewayId, NetworkInterfaceAttachmentId, NetworkInterfaceId, NodeId,
    RouteTableAssociationId, RouteTableId, SecurityGroupId, SecurityGroupRuleId, SubnetId,
    VpcCidrAssociationId, VpcId,
};
use aws_types::{AccountId, Region};
use node_spec::{NetworkSpec, Peer, Traffic};
use time::OffsetDateTime;

const ACCOUNT: AccountId = AccountId::FIRST_TENANT;

fn group(vpc: &VpcId, name: &str) -> SecurityGroup {
    SecurityGroup {
        account: ACCOUNT,
        id: SecurityGroupId::random(),
        vpc: vpc.clone(),
        name: name.into(),
        description: name.into(),
        is_default: false,
        rule_changes: 0,
    }
}

fn rule(
    group: &SecurityGroup,
    direction: Direction,
    traffic: RuleTraffic,
    peer: RulePeer,
) -> SecurityGroupRule {
    SecurityGroupRule {
        account: ACCOUNT,
        id: SecurityGroupRuleId::random(),
        group: group.id.clone(),
        vpc: group.vpc.clone(),
        direction,
        rule: Rule { traffic, peer },
        description: None,
    }
}

fn peer(group: &SecurityGroup) -> RulePeer {
    RulePeer::Group {
        group: group.id.clone(),
        account: ACCOUNT,
        vpc: group.vpc.clone(),
    }
}

fn interface(subnet: &Subnet, address: &str, node: Option<&NodeId>, groups: &[&SecurityGroup]) -> Interface {
    Interface {
        account: ACCOUNT,
        id: NetworkInterfaceId::random(),
        vpc: subnet.vpc.clone(),
        subnet: subnet.id.clone(),
        zone: subnet.zone.clone(),
        mac: "02:00:00:00:00:01".into(),
        address: address.parse().expect("address"),
        description: String::new(),
        groups: groups.iter().map(|group| group.id.clone()).collect(),
        requester: None,
        source_dest_check: true,
        status: InterfaceStatus::InUse,
        attachment: Some(Attachment {
            id: NetworkInterfaceAttachmentId::random(),
            instance: InstanceId::random(),
            instance_account: ACCOUNT,
            device_index: 0,
            delete_on_termination: true,
            status: AttachmentStatus::Attached,
            attached_at: OffsetDateTime::UNIX_EPOCH,
            metadata_hop_limit: 3,
        }),
        public_wanted: false,
        public: None,
        home: node.map(|node| Home {
            node: node.clone(),
            number: 9,
        }),
        created_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// A VPC with two subnets; the main table leads to the gateway.
fn a_vpc() -> VpcRecords {
    let zone = Region::parse("eu-central-1").expect("region").zone('a');
    let vpc = Vpc {
        account: ACCOUNT,
        id: VpcId::random(),
        number: 42,
        blocks: vec![BlockAssociation {
            id: VpcCidrAssociationId::random(),
            block: "10.0.0.0/16".parse().expect("block"),
        }],
        is_default: false,
        dhcp_options: DhcpOptionsId::random(),
        dns_support: true,
        dns_hostnames: true,
        created_at: OffsetDateTime::UNIX_EPOCH,
    };
    let subnet = |block: &str| Subnet {
        account: ACCOUNT,
        id: SubnetId::random(),
        vpc: vpc.id.clone(),
        block: block.parse().expect("block"),
        zone: zone.clone(),
        default_for_zone: false,
        map_public_ip_on_launch: false,
        created_at: OffsetDateTime::UNIX_EPOCH,
    };
    let gateway = InternetGateway {
        account: ACCOUNT,
        id: InternetGatewayId::random(),
        attachment: Some(GatewayAttachment { vpc: vpc.id.clone() }),
    };
    let table = RouteTable {
        account: ACCOUNT,
        id: RouteTableId::random(),
        vpc: vpc.id.clone(),
        routes: vec![
            Route {
                destination: vpc.blocks[0].block,
                target: RouteTarget::Local,
                origin: RouteOrigin::CreateRouteTable,
            },
            Route {
                destination: cidr::ANY_IPV4,
                target: RouteTarget::InternetGateway {
                    id: gateway.id.clone(),
                },
                origin: RouteOrigin::CreateRoute,
            },
        ],
    };
    VpcRecords {
        subnets: vec![subnet("10.0.0.0/24"), subnet("10.0.1.0/24")],
        associations: vec![RouteTableAssociation {
            account: ACCOUNT,
            id: RouteTableAssociationId::random(),
            table: table.id.clone(),
            vpc: vpc.id.clone(),
            subnet: None,
        }],
        tables: vec![table],
        gateway: Some(gateway),
        interfaces: Vec::new(),
        groups: Vec::new(),
        rules: Vec::new(),
        vpc,
    }
}

fn only_spec(records: &VpcRecords) -> NetworkSpec {
    let specs = plan(records);
    assert_eq!(specs.len(), 1);
    specs.into_values().next().expect("one spec")
}

#[test]
fn a_vpc_without_interfaces_at_home_needs_no_node() {
    let mut records = a_vpc();
    assert!(plan(&records).is_empty());
    records.interfaces = vec![interface(&records.subnets[0], "10.0.0.4", None, &[])];
    assert!(plan(&records).is_empty());
}

#[test]
fn groups_have_members_wherever_they_run_and_named_groups_have_no_rules() {
    let mut records = a_vpc();
    let (web, db, idle) = (
        group(&records.vpc.id, "web"),
        group(&records.vpc.id, "db"),
        group(&records.vpc.id, "idle"),
    );
    let (one, two) = (NodeId::random(), NodeId::random());
    let subnet = records.subnets[0].clone();
    records.interfaces = vec![
        interface(&subnet, "10.0.0.4", Some(&one), &[&db]),
        interface(&subnet, "10.0.0.5", Some(&two), &[&web]),
        interface(&subnet, "10.0.0.6", None, &[&web]),
    ];
    records.rules = vec![
        rule(
            &db,
            Direction::Ingress,
            RuleTraffic::Tcp { from: 5432, to: 5432 },
            peer(&web),
        ),
        rule(
            &db,
            Direction::Egress,
            RuleTraffic::All,
            RulePeer::Ipv4 {
                block: cidr::ANY_IPV4,
            },
        ),
        rule(
            &web,
            Direction::Ingress,
            RuleTraffic::All,
            RulePeer::Ipv4 {
                block: cidr::ANY_IPV4,
            },
        ),
        rule(
            &idle,
            Direction::Ingress,
            RuleTraffic::All,
            RulePeer::Ipv4 {
                block: cidr::ANY_IPV4,
            },
        ),
    ];
    records.groups = vec![web.clone(), db.clone(), idle];
    let specs = plan(&records);
    assert_eq!(specs.len(), 2);
    let spec = &specs[&one];
    assert_eq!(
        (spec.number, spec.interfaces.len(), spec.groups.len()),
        (42, 1, 2)
    );
    assert_eq!(
        (spec.interfaces[0].number, spec.interfaces[0].metadata_hop_limit),
        (9, 3)
    );
    let named = spec
        .groups
        .iter()
        .find(|plan| plan.group == web.id)
        .expect("named");
    assert_eq!(
        (named.ingress.len(), named.egress.len(), named.members.len()),
        (0, 0, 2)
    );
    let own = spec.groups.iter().find(|plan| plan.group == db.id).expect("own");
    assert_eq!(own.ingress[0].traffic, Traffic::Tcp { from: 5432, to: 5432 });
    assert_eq!(own.ingress[0].peer, Peer::Group { group: web.id });
}

#[test]
fn what_the_data_plane_lacks_is_left_out_and_never_widened() {
    let mut records = a_vpc();
    let (own, gone) = (group(&records.vpc.id, "own"), group(&records.vpc.id, "gone"));
    let node = NodeId::random();
    records.interfaces = vec![interface(&records.subnets[0], "10.0.0.4", Some(&node), &[&own])];
    let any_ipv6 = RulePeer::Ipv6 {
        block: "::/0".parse().expect("block"),
    };
    let icmpv6 = RuleTraffic::Icmpv6 {
        icmp_type: None,
        code: None,
    };
    records.rules = vec![
        rule(&own, Direction::Ingress, RuleTraffic::All, any_ipv6),
        rule(
            &own,
            Direction::Ingress,
            icmpv6,
            RulePeer::Ipv4 {
                block: cidr::ANY_IPV4,
            },
        ),
        rule(&own, Direction::Ingress, RuleTraffic::All, peer(&gone)),
        rule(
            &own,
            Direction::Ingress,
            RuleTraffic::Protocol { number: 50 },
            peer(&own),
        ),
    ];
    records.groups = vec![own];
    let spec = only_spec(&records);
    assert_eq!(spec.groups.len(), 1);
    let ingress: Vec<_> = spec.groups[0].ingress.iter().map(|rule| rule.traffic).collect();
    assert_eq!(ingress, [Traffic::Protocol { number: 50 }]);
}

#[test]
fn the_internet_needs_route_and_attached_gateway_in_the_subnets_own_table() {
    let mut records = a_vpc();
    let node = NodeId::random();
    records.interfaces = vec![interface(&records.subnets[0], "10.0.0.4", Some(&node), &[])];
    let open = |records: &VpcRecords, subnet: &SubnetId| {
        let spec = only_spec(records);
        spec.subnets
            .iter()
            .find(|plan| plan.subnet == *subnet)
            .expect("planned")
            .internet
    };
    let (first, second) = (records.subnets[0].id.clone(), records.subnets[1].id.clone());
    assert!(open(&records, &first) && open(&records, &second));

    // A table of its own closes one subnet only.
    let private = RouteTable {
        id: RouteTableId::random(),
        routes: records.tables[0].routes[..1].to_vec(),
        ..records.tables[0].clone()
    };
    let own = RouteTableAssociation {
        id: RouteTableAssociationId::random(),
        table: private.id.clone(),
        subnet: Some(second.clone()),
        ..records.associations[0].clone()
    };
    records.tables.push(private.clone());
    records.associations.push(own);
    assert!(open(&records, &first) && !open(&records, &second));
    let found = table_of(&second, &records.associations, &records.tables).expect("a table");
    assert_eq!(found.id, private.id);

    let detached = InternetGateway {
        attachment: None,
        ..records.gateway.clone().expect("gateway")
    };
    let target = RouteTarget::InternetGateway {
        id: detached.id.clone(),
    };
    assert!(!is_active(&target, &records.vpc, &[detached], &[]));
    records.gateway = None;
    assert!(
        !open(&records, &first),
        "attached to nothing, the route is a blackhole"
    );
}

#[test]
fn equal_records_in_any_order_give_equal_specs() {
    let mut records = a_vpc();
    let groups: Vec<SecurityGroup> = (0..4).map(|n| group(&records.vpc.id, &format!("g{n}"))).collect();
    let node = NodeId::random();
    let subnet = records.subnets[0].clone();
    for (n, own) in groups.iter().enumerate() {
        let address = format!("10.0.0.{}", n + 4);
        records.interfaces.push(interface(
            &subnet,
            &address,
            Some(&node),
            &[own, &groups[(n + 1) % 4]],
        ));
        for to in 0..3 {
            records.rules.push(rule(
                own,
                Direction::Ingress,
                RuleTraffic::Udp { from: 0, to },
                peer(&groups[n]),
            ));
        }
    }
    records.groups = groups;
    let wanted = only_spec(&records);
    for turn in 1..4 {
        records.interfaces.rotate_left(turn);
        records.groups.rotate_left(turn);
        records.rules.rotate_left(turn);
        records.subnets.reverse();
        assert_eq!(only_spec(&records), wanted);
    }
}

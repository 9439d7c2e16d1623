//! Golden bytes: every record of version 1 as it is stored, with the keys under which it is found.
//!
//! A row that fails here means that stored records of running clouds would not be read: raise the record's version and
//! add a migration instead of changing the row.

use super::{
    Address, DefaultNetwork, DhcpOptions, Interface, InternetGateway, NetworkAcl, NetworkAclAssociation,
    NodeDevices, PublicAddress, PublicPool, ReleasedAddress, RouteTable, RouteTableAssociation,
    SecurityGroup, SecurityGroupRule, Subnet, SubnetCursor, TagRow, Vpc, VpcNumbers,
};
use state::Record;

/// Reads the bytes, checks that writing gives them again, and answers where the record is stored and found.
fn golden<T: Record>(json: &str) -> Vec<String> {
    let record: T = serde_json::from_str(json).expect(T::TABLE);
    assert_eq!(serde_json::to_string(&record).expect(T::TABLE), json);
    assert_eq!(T::VERSION, 1, "{}: add a row for the new version", T::TABLE);
    record.validate().expect(T::TABLE);
    let mut keys = vec![format!("{}/{}", T::TABLE, record.key())];
    keys.extend(
        record
            .indexes()
            .into_iter()
            .map(|index| format!("i {} {}", index.name, index.value.join(" "))),
    );
    keys.extend(
        record
            .uniques()
            .into_iter()
            .map(|index| format!("u {} {}", index.name, index.value.join(" "))),
    );
    keys
}

#[test]
fn networks_of_version_1() {
    assert_eq!(
        golden::<Vpc>(
            r#"{"account":"000000000002","id":"vpc-00000000000000001","number":7,"blocks":[{"id":"vpc-cidr-assoc-00000000000000001","block":"172.31.0.0/16"}],"is_default":true,"dhcp_options":"dopt-00000000000000001","dns_support":true,"dns_hostnames":true,"created_at":"2026-11-30T13:10:00Z"}"#
        ),
        [
            "vpcs/000000000002/vpc-00000000000000001",
            "u number 7",
            "u default 000000000002"
        ]
    );
    assert_eq!(
        golden::<DefaultNetwork>(r#"{"account":"000000000002","vpc":"vpc-00000000000000001"}"#),
        ["default-networks/000000000002/default"]
    );
    assert_eq!(
        golden::<Subnet>(
            r#"{"account":"000000000002","id":"subnet-00000000000000001","vpc":"vpc-00000000000000001","block":"172.31.0.0/20","zone":"eu-central-1a","default_for_zone":true,"map_public_ip_on_launch":true,"created_at":"2026-11-30T13:10:00Z"}"#
        ),
        [
            "subnets/000000000002/subnet-00000000000000001",
            "i vpc vpc-00000000000000001",
            "u default 000000000002 eu-central-1a"
        ]
    );
    assert_eq!(
        golden::<DhcpOptions>(
            r#"{"account":"000000000002","id":"dopt-00000000000000001","is_default":true,"configurations":[{"key":"domain-name-servers","values":["AmazonProvidedDNS"]}]}"#
        ),
        [
            "dhcp-options/000000000002/dopt-00000000000000001",
            "u default 000000000002"
        ]
    );
    assert_eq!(golden::<VpcNumbers>(r#"{"next":8}"#), ["vpc-numbers/-/next"]);
}

#[test]
fn routing_of_version_1() {
    assert_eq!(
        golden::<InternetGateway>(
            r#"{"account":"000000000002","id":"igw-00000000000000001","attachment":{"vpc":"vpc-00000000000000001"}}"#
        ),
        [
            "internet-gateways/000000000002/igw-00000000000000001",
            "u vpc vpc-00000000000000001"
        ]
    );
    assert_eq!(
        golden::<RouteTable>(
            r#"{"account":"000000000002","id":"rtb-00000000000000001","vpc":"vpc-00000000000000001","routes":[{"destination":"172.31.0.0/16","target":{"kind":"local"},"origin":"create-route-table"},{"destination":"0.0.0.0/0","target":{"kind":"internet-gateway","id":"igw-00000000000000001"},"origin":"create-route"},{"destination":"10.0.0.0/8","target":{"kind":"interface","id":"eni-00000000000000001"},"origin":"create-route"}]}"#
        ),
        [
            "route-tables/000000000002/rtb-00000000000000001",
            "i vpc vpc-00000000000000001"
        ]
    );
    let association = |subnet: &str| {
        format!(
            r#"{{"account":"000000000002","id":"rtbassoc-00000000000000001","table":"rtb-00000000000000001","vpc":"vpc-00000000000000001","subnet":{subnet}}}"#
        )
    };
    let stored = "route-table-associations/000000000002/rtbassoc-00000000000000001";
    assert_eq!(
        golden::<RouteTableAssociation>(&association("null")),
        [
            stored,
            "i vpc vpc-00000000000000001",
            "u main vpc-00000000000000001"
        ]
    );
    assert_eq!(
        golden::<RouteTableAssociation>(&association(r#""subnet-00000000000000001""#)),
        [
            stored,
            "i vpc vpc-00000000000000001",
            "u subnet subnet-00000000000000001"
        ]
    );
    assert_eq!(
        golden::<NetworkAcl>(
            r#"{"account":"000000000002","id":"acl-00000000000000001","vpc":"vpc-00000000000000001","is_default":true,"entries":[{"number":100,"egress":true,"protocol":-1,"block":"0.0.0.0/0","action":"allow"},{"number":32767,"egress":false,"protocol":-1,"block":"0.0.0.0/0","action":"deny"}]}"#
        ),
        [
            "network-acls/000000000002/acl-00000000000000001",
            "i vpc vpc-00000000000000001",
            "u default vpc-00000000000000001"
        ]
    );
    assert_eq!(
        golden::<NetworkAclAssociation>(
            r#"{"account":"000000000002","id":"aclassoc-00000000000000001","acl":"acl-00000000000000001","vpc":"vpc-00000000000000001","subnet":"subnet-00000000000000001"}"#
        ),
        [
            "network-acl-associations/000000000002/aclassoc-00000000000000001",
            "i vpc vpc-00000000000000001",
            "u subnet subnet-00000000000000001"
        ]
    );
}

#[test]
fn groups_of_version_1() {
    assert_eq!(
        golden::<SecurityGroup>(
            r#"{"account":"000000000002","id":"sg-00000000000000001","vpc":"vpc-00000000000000001","name":"Web","description":"a group","is_default":false,"rule_changes":3}"#
        ),
        [
            "security-groups/000000000002/sg-00000000000000001",
            "i vpc vpc-00000000000000001",
            "u name vpc-00000000000000001 web"
        ]
    );
    let rule = |direction: &str, traffic: &str, peer: &str| {
        format!(
            r#"{{"account":"000000000002","id":"sgr-00000000000000001","group":"sg-00000000000000001","vpc":"vpc-00000000000000001","direction":"{direction}","rule":{{"traffic":{traffic},"peer":{peer}}},"description":null}}"#
        )
    };
    let ipv4 = r#"{"kind":"ipv4","block":"10.0.0.0/8"}"#;
    let ipv6 = r#"{"kind":"ipv6","block":"2001:db8::/32"}"#;
    let group = r#"{"kind":"group","group":"sg-00000000000000002","account":"000000000002","vpc":"vpc-00000000000000001"}"#;
    for (direction, traffic, peer, canonical) in [
        (
            "ingress",
            r#"{"kind":"tcp","from":22,"to":22}"#,
            ipv4,
            "tcp:22:22:10.0.0.0/8",
        ),
        (
            "egress",
            r#"{"kind":"udp","from":0,"to":65535}"#,
            ipv6,
            "udp:0:65535:2001:db8::/32",
        ),
        (
            "ingress",
            r#"{"kind":"icmp","icmp_type":8,"code":null}"#,
            ipv4,
            "icmp:8:-1:10.0.0.0/8",
        ),
        (
            "ingress",
            r#"{"kind":"icmpv6","icmp_type":null,"code":null}"#,
            ipv6,
            "icmpv6:-1:-1:2001:db8::/32",
        ),
        (
            "ingress",
            r#"{"kind":"protocol","number":50}"#,
            ipv4,
            "50:-1:-1:10.0.0.0/8",
        ),
    ] {
        assert_eq!(
            golden::<SecurityGroupRule>(&rule(direction, traffic, peer)),
            [
                "security-group-rules/000000000002/sgr-00000000000000001".to_owned(),
                "i group vpc-00000000000000001 sg-00000000000000001".to_owned(),
                format!("u rule sg-00000000000000001 {direction} {canonical}")
            ]
        );
    }
    assert_eq!(
        golden::<SecurityGroupRule>(&rule("ingress", r#"{"kind":"all"}"#, group)),
        [
            "security-group-rules/000000000002/sgr-00000000000000001",
            "i group vpc-00000000000000001 sg-00000000000000001",
            "i referenced sg-00000000000000002",
            "u rule sg-00000000000000001 ingress -1:-1:-1:sg-00000000000000002"
        ]
    );
}

#[test]
fn interfaces_of_version_1() {
    assert_eq!(
        golden::<Interface>(
            r#"{"account":"000000000002","id":"eni-00000000000000001","vpc":"vpc-00000000000000001","subnet":"subnet-00000000000000001","zone":"eu-central-1a","mac":"02:00:00:00:00:01","address":"172.31.0.4","description":"","groups":["sg-00000000000000001","sg-00000000000000002"],"requester":{"id":"amazon-elb","managed":true},"source_dest_check":true,"status":"in-use","attachment":{"id":"eni-attach-00000000000000001","instance":"i-00000000000000001","instance_account":"000000000002","device_index":0,"delete_on_termination":true,"status":"attaching","attached_at":"2026-11-30T13:10:00Z","metadata_hop_limit":2},"public_wanted":true,"public":{"address":"198.18.0.1","association":"eipassoc-00000000000000001","automatic":true},"home":{"node":"node-00000000000000001","number":9},"created_at":"2026-11-30T13:10:00Z"}"#
        ),
        [
            "network-interfaces/000000000002/eni-00000000000000001",
            "i subnet vpc-00000000000000001 subnet-00000000000000001",
            "i instance i-00000000000000001",
            "i group sg-00000000000000001",
            "i group sg-00000000000000002",
            "u mac 02:00:00:00:00:01"
        ]
    );
    assert_eq!(
        golden::<Address>(
            r#"{"account":"000000000002","vpc":"vpc-00000000000000001","address":"172.31.0.4","subnet":"subnet-00000000000000001","interface":"eni-00000000000000001","primary":true}"#
        ),
        ["addresses/vpc-00000000000000001/ac1f0004"]
    );
    assert_eq!(
        golden::<SubnetCursor>(r#"{"subnet":"subnet-00000000000000001","next":5}"#),
        ["subnet-cursors/-/subnet-00000000000000001"]
    );
    assert_eq!(
        golden::<NodeDevices>(r#"{"node":"node-00000000000000001","next":10}"#),
        ["node-devices/-/node-00000000000000001"]
    );
}

#[test]
fn public_addresses_and_tags_of_version_1() {
    assert_eq!(
        golden::<PublicPool>(
            r#"{"id":"ipv4pool-ec2-00000000000000001","block":"198.18.0.0/20","next":2,"queue_head":0,"queue_tail":1,"retired":false}"#
        ),
        [
            "public-pools/-/ipv4pool-ec2-00000000000000001",
            "u block 198.18.0.0/20"
        ]
    );
    let address = |state: &str| {
        format!(r#"{{"address":"198.18.0.1","pool":"ipv4pool-ec2-00000000000000001","state":{state}}}"#)
    };
    let stored = "public-addresses/-/c6120001";
    let automatic =
        r#"{"kind":"in-use","account":"000000000002","interface":"eni-00000000000000001","allocation":null}"#;
    assert_eq!(golden::<PublicAddress>(&address(automatic)), [stored]);
    let elastic = r#"{"kind":"in-use","account":"000000000002","interface":null,"allocation":{"id":"eipalloc-00000000000000001"}}"#;
    assert_eq!(
        golden::<PublicAddress>(&address(elastic)),
        [stored, "i account 000000000002"]
    );
    let resting = r#"{"kind":"quarantined","released_at":"2026-11-30T13:10:00Z","announced_by":{"node":"node-00000000000000001","vpc":"vpc-00000000000000001"}}"#;
    assert_eq!(golden::<PublicAddress>(&address(resting)), [stored]);
    assert_eq!(
        golden::<ReleasedAddress>(
            r#"{"pool":"ipv4pool-ec2-00000000000000001","number":17,"address":"198.18.0.1"}"#
        ),
        ["public-released/-/ipv4pool-ec2-00000000000000001 0000000000000011"]
    );
    assert_eq!(
        golden::<TagRow>(
            r#"{"account":"000000000002","resource":"vpc-00000000000000001","resource_type":"vpc","key":"Name","value":"x"}"#
        ),
        [
            "tags/000000000002/vpc-00000000000000001 Name",
            "i resource 000000000002 vpc-00000000000000001"
        ]
    );
}

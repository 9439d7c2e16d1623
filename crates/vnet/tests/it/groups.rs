//! Groups: ingress, egress, references, protocols, and that revoking cuts live flows.

use std::net::{Ipv4Addr, SocketAddr};

use vnet::{Generation, NetworkProgram, Outcome, PortRange, Protocol, Rule};

use crate::lab::{Lab, all, anyone, block, group, members, network, open_group, port, tcp};
use crate::traffic::{Client, PATIENCE, SILENCE, Ticker, delivers, pings, reaches, silent, udp};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 10);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 11);
const C: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 12);

fn next(program: &mut NetworkProgram) {
    program.generation = Generation(program.generation.0 + 1);
}

#[test]
fn ingress_is_closed_but_for_the_rules_also_inside_a_subnet() {
    let lab = Lab::new();
    let mut program = network("net");
    program.groups = vec![
        open_group(),
        group("web", vec![tcp(80, anyone())], vec![]),
        group("closed", vec![], vec![all(anyone())]),
    ];
    program.ports = vec![
        port("a", 1, 10, &["open"]),
        port("b", 1, 11, &["web"]),
        port("c", 2, 12, &["closed"]),
    ];
    lab.apply(&program);
    let (a, b, c) = (
        lab.guest(&program, "a"),
        lab.guest(&program, "b"),
        lab.guest(&program, "c"),
    );
    let _servers: Vec<Ticker> = [(&b, 80), (&b, 81), (&c, 80), (&a, 80)]
        .map(|(guest, port)| Ticker::start(&guest.name, port))
        .into();

    let client = Client::connect(&a.name, B, 80, PATIENCE).expect("port 80 is open");
    assert_eq!(client.seen_as, A.to_string());
    assert!(silent(&a.name, B, 81), "port 81 is not open");
    assert!(silent(&a.name, C, 80), "a group without rules is closed");
    assert!(!pings(&a.name, B, SILENCE), "ICMP is not open");
    assert!(reaches(&c.name, A, 80), "across subnets, both allow");
    assert!(reaches(&c.name, B, 80), "across subnets, both allow");
    assert!(silent(&b.name, A, 80), "b may send nothing first");
}

#[test]
fn a_port_without_groups_is_closed() {
    let lab = Lab::new();
    let mut program = network("net");
    program.groups = vec![open_group()];
    program.ports = vec![port("a", 1, 10, &["open"]), port("b", 1, 11, &[])];
    lab.apply(&program);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    let _servers = [Ticker::start(&a.name, 80), Ticker::start(&b.name, 80)];
    assert!(silent(&a.name, B, 80));
    assert!(silent(&b.name, A, 80));
}

#[test]
fn egress_follows_blocks_and_group_references() {
    let lab = Lab::new();
    let mut program = network("net");
    program.groups = vec![
        group(
            "out",
            vec![],
            vec![tcp(80, block("10.0.1.11/32")), tcp(81, members("db"))],
        ),
        group("db", vec![all(members("out"))], vec![]),
        group("any", vec![all(anyone())], vec![]),
    ];
    program.ports = vec![
        port("a", 1, 10, &["out"]),
        port("b", 1, 11, &["any"]),
        port("c", 2, 12, &["db"]),
    ];
    lab.apply(&program);
    let (a, b, c) = (
        lab.guest(&program, "a"),
        lab.guest(&program, "b"),
        lab.guest(&program, "c"),
    );
    let _servers: Vec<Ticker> = [(&b, 80), (&b, 81), (&c, 80), (&c, 81)]
        .map(|(guest, port)| Ticker::start(&guest.name, port))
        .into();
    assert!(reaches(&a.name, B, 80), "the block and port of the rule");
    assert!(silent(&a.name, B, 81), "b is not a member of db");
    assert!(reaches(&a.name, C, 81), "c is a member of db");
    assert!(silent(&a.name, C, 80), "the block does not cover c");

    let mut held = Client::connect(&a.name, C, 81, PATIENCE).expect("still open");
    program.ports[2].groups = vec!["any".into()];
    next(&mut program);
    lab.apply(&program);
    assert!(!held.hears(SILENCE), "leaving the group cuts the flow");
    assert!(silent(&a.name, C, 81), "leaving the group closes it");
}

#[test]
fn protocols_are_never_widened() {
    let lab = Lab::new();
    let mut program = network("net");
    let udp_rule = |port| Rule {
        protocol: Protocol::Udp(PortRange::one(port)),
        peer: anyone(),
    };
    let icmp = |kind, code| Rule {
        protocol: Protocol::Icmp { kind, code },
        peer: anyone(),
    };
    program.groups = vec![
        open_group(),
        group("udp", vec![udp_rule(5000), tcp(0, anyone())], vec![]),
        group("echo", vec![icmp(Some(8), Some(0))], vec![]),
        group(
            "other",
            vec![
                icmp(Some(13), None),
                Rule {
                    protocol: Protocol::Number(47),
                    peer: anyone(),
                },
            ],
            vec![],
        ),
    ];
    program.ports = vec![
        port("a", 1, 10, &["open"]),
        port("b", 1, 11, &["udp"]),
        port("c", 2, 12, &["echo"]),
    ];
    lab.apply(&program);
    let (a, b, c) = (
        lab.guest(&program, "a"),
        lab.guest(&program, "b"),
        lab.guest(&program, "c"),
    );
    let sender = udp(&a.name, A, 4000);
    let (right, wrong) = (udp(&b.name, B, 5000), udp(&b.name, B, 5001));
    assert!(delivers(&sender, SocketAddr::from((B, 5000)), &right));
    assert!(
        delivers(&right, SocketAddr::from((A, 4000)), &sender),
        "replies need no rule"
    );
    assert!(!delivers(&sender, SocketAddr::from((B, 5001)), &wrong));
    let _server = Ticker::start(&b.name, 80);
    assert!(silent(&a.name, B, 80), "port 0 is not every port");
    assert!(pings(&a.name, C, PATIENCE), "echo is allowed");
    let other = udp(&c.name, C, 5000);
    assert!(
        !delivers(&sender, SocketAddr::from((C, 5000)), &other),
        "only echo is allowed"
    );
    program.ports[2].groups = vec!["other".into()];
    next(&mut program);
    lab.apply(&program);
    assert!(
        !pings(&a.name, C, SILENCE),
        "another ICMP type and another protocol are not echo"
    );
}

#[test]
fn revoking_cuts_live_flows_and_spares_the_others() {
    let lab = Lab::new();
    let mut program = network("net");
    let both = vec![tcp(80, anyone()), tcp(81, anyone())];
    program.groups = vec![open_group(), group("web", both, vec![])];
    program.ports = vec![port("a", 1, 10, &["open"]), port("b", 1, 11, &["web"])];
    lab.apply(&program);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    let _servers = [Ticker::start(&b.name, 80), Ticker::start(&b.name, 81)];
    let mut spared = Client::connect(&a.name, B, 80, PATIENCE).expect("80 is open");
    let mut cut = Client::connect(&a.name, B, 81, PATIENCE).expect("81 is open");
    assert!(spared.hears(PATIENCE) && cut.hears(PATIENCE));

    program.groups[1].ingress.pop();
    next(&mut program);
    assert_eq!(lab.apply(&program).outcome, Outcome::Changed);
    assert!(
        !cut.hears(SILENCE),
        "a revoked flow is cut, though only its replies carry data"
    );
    assert!(spared.hears(PATIENCE), "another rule's flow goes on");

    program.groups[1].ingress.push(tcp(81, anyone()));
    next(&mut program);
    lab.apply(&program);
    assert!(
        cut.hears(PATIENCE),
        "allowed again, the same connection goes on (TCP sends again)"
    );

    program.groups[0].egress.clear();
    next(&mut program);
    lab.apply(&program);
    assert!(!spared.hears(SILENCE), "the sender's egress counts as well");
}

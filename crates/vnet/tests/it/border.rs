//! The border: public addresses in and out, and that nothing passes without one.

use std::net::Ipv4Addr;

use vnet::{Generation, NetworkProgram, Route, RouteTarget};

use crate::lab::{HOST, HOST_ADDRESS, Lab, WORLD, all, anyone, block, group, network, open_group, port, tcp};
use crate::traffic::{Client, PATIENCE, SILENCE, Ticker, pings, reaches, silent};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 10);
const P: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 10);
const Q: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 11);

fn one_port(id: &str, public: Option<Ipv4Addr>) -> NetworkProgram {
    let mut program = network(id);
    program.groups = vec![open_group()];
    program.ports = vec![port("a", 1, 10, &["open"])];
    program.ports[0].public = public;
    program
}

#[test]
fn the_host_reaches_a_public_address_as_the_group_allows() {
    let lab = Lab::new();
    let mut program = network("net");
    program.groups = vec![group("web", vec![tcp(80, anyone())], vec![all(anyone())])];
    program.ports = vec![port("a", 1, 10, &["web"]), port("b", 1, 11, &["web"])];
    program.ports[0].public = Some(P);
    lab.apply(&program);
    let a = lab.guest(&program, "a");
    let _servers = [Ticker::start(&a.name, 80), Ticker::start(&a.name, 81)];
    let client = Client::connect(&lab.host.name, P, 80, PATIENCE).expect("80 is open");
    assert_eq!(client.seen_as, HOST_ADDRESS.to_string());
    assert!(silent(&lab.host.name, P, 81), "81 is not");
    assert!(silent(&lab.host.name, Q, 80), "an address that nobody has");
}

#[test]
fn a_port_leaves_with_its_public_address_and_not_without_one() {
    let lab = Lab::new();
    let mut program = one_port("net", Some(P));
    program.ports.push(port("b", 1, 11, &["open"]));
    program.ports.push(port("c", 2, 12, &["open"]));
    program.ports[2].public = Some(Q);
    lab.apply(&program);
    let (a, b, c) = (
        lab.guest(&program, "a"),
        lab.guest(&program, "b"),
        lab.guest(&program, "c"),
    );
    let _servers = [
        Ticker::start(&lab.host.name, 80),
        Ticker::start(&lab.world.name, 80),
    ];

    let to_host = Client::connect(&a.name, HOST, 80, PATIENCE).expect("the host answers");
    assert_eq!(to_host.seen_as, P.to_string(), "the host sees the public address");
    let to_world = Client::connect(&a.name, WORLD, 80, PATIENCE).expect("the world answers");
    assert_eq!(
        to_world.seen_as,
        HOST.to_string(),
        "beyond the uplink the host's address is seen"
    );
    assert!(pings(&a.name, WORLD, PATIENCE));
    assert!(silent(&b.name, HOST, 80), "no public address, no egress");
    assert!(silent(&b.name, WORLD, 80), "no public address, no egress");
    assert!(silent(&c.name, HOST, 80), "a public address, but no route");
}

#[test]
fn routes_close_by_blackhole_and_by_absence() {
    let lab = Lab::new();
    let mut program = one_port("net", Some(P));
    lab.apply(&program);
    let a = lab.guest(&program, "a");
    let _servers = [
        Ticker::start(&lab.host.name, 80),
        Ticker::start(&lab.world.name, 80),
    ];
    assert!(reaches(&a.name, WORLD, 80));
    let destination = "192.0.2.1/32".parse().expect("a block");
    program.tables[0].routes.push(Route {
        destination,
        target: RouteTarget::Blackhole,
    });
    program.generation = Generation(2);
    lab.apply(&program);
    assert!(silent(&a.name, WORLD, 80), "the longer prefix drops");
    assert!(reaches(&a.name, HOST, 80), "the shorter one still leads out");
    program.tables[0].routes.clear();
    program.generation = Generation(3);
    lab.apply(&program);
    assert!(silent(&a.name, HOST, 80));
}

#[test]
fn unmapping_and_remapping_cut_and_move() {
    let lab = Lab::new();
    let mut program = one_port("net", Some(P));
    program.ports.push(port("b", 1, 11, &["open"]));
    lab.apply(&program);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    let _servers = [
        Ticker::start(&lab.host.name, 80),
        Ticker::start(&a.name, 80),
        Ticker::start(&b.name, 80),
    ];
    let mut outward = Client::connect(&a.name, HOST, 80, PATIENCE).expect("out");
    let mut inward = Client::connect(&lab.host.name, P, 80, PATIENCE).expect("in");
    assert!(outward.hears(PATIENCE) && inward.hears(PATIENCE));

    program.ports[0].public = None;
    program.ports[1].public = Some(P);
    program.generation = Generation(2);
    lab.apply(&program);
    assert!(!outward.hears(SILENCE), "the old owner's flow is dead");
    assert!(!inward.hears(SILENCE), "the old owner is not reached");
    assert!(silent(&a.name, HOST, 80), "the old owner has no way out");
    assert!(reaches(&lab.host.name, P, 80), "the new owner is reached");
    let outward = Client::connect(&b.name, HOST, 80, PATIENCE).expect("the new owner gets out");
    assert_eq!(outward.seen_as, P.to_string());

    program.ports[1].public = None;
    program.generation = Generation(3);
    lab.apply(&program);
    assert!(silent(&lab.host.name, P, 80));
}

#[test]
fn a_guest_reaches_another_public_address_from_its_own() {
    let lab = Lab::new();
    let mut program = one_port("net", Some(P));
    program
        .groups
        .push(group("from-p", vec![tcp(80, block("198.18.3.10/32"))], vec![]));
    program.ports.push(port("b", 1, 11, &["from-p"]));
    program.ports.push(port("c", 1, 12, &["open"]));
    program.ports[1].public = Some(Q);
    lab.apply(&program);
    let (a, b, c) = (
        lab.guest(&program, "a"),
        lab.guest(&program, "b"),
        lab.guest(&program, "c"),
    );
    let _server = Ticker::start(&b.name, 80);
    let client = Client::connect(&a.name, Q, 80, PATIENCE).expect("public to public");
    assert_eq!(client.seen_as, P.to_string());
    assert!(
        silent(&a.name, Ipv4Addr::new(10, 0, 1, 11), 80),
        "the private source is not the public one"
    );
    assert!(silent(&c.name, Q, 80), "a source without public address");
}

#[test]
fn equal_blocks_of_two_networks_never_meet() {
    let lab = Lab::new();
    let (first, second) = (one_port("one", Some(P)), one_port("two", Some(Q)));
    lab.apply(&first);
    lab.apply(&second);
    let (one, two) = (lab.guest(&first, "a"), lab.guest(&second, "a"));
    let _servers = [Ticker::start(&one.name, 80), Ticker::start(&two.name, 81)];
    assert!(reaches(&lab.host.name, P, 80) && reaches(&lab.host.name, Q, 81));
    assert!(
        silent(&lab.host.name, P, 81) || !reaches(&lab.host.name, P, 81),
        "one's address is not two's"
    );
    assert!(
        !reaches(&two.name, A, 80),
        "two's guest finds itself at the equal address, not one's"
    );
    let client = Client::connect(&two.name, P, 80, PATIENCE).expect("over public addresses they meet");
    assert_eq!(client.seen_as, Q.to_string());
}

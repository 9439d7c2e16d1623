//! Anti-spoofing at the port: Ethernet, ARP and IPv4 sources must be the port's own.

use std::net::Ipv4Addr;

use crate::lab::{Lab, Namespace, network, open_group, port};
use crate::traffic::{Client, PATIENCE, SILENCE, Ticker, reaches, silent};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 10);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 11);
const FORGED: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 77);

fn answered(guest: &Namespace, from: Ipv4Addr, target: Ipv4Addr) -> bool {
    guest.succeeds(&format!("busybox arping -c 1 -w 1 -I eth0 -s {from} {target}"))
}

fn pair(lab: &Lab) -> (vnet::NetworkProgram, Namespace, Namespace) {
    let mut program = network("net");
    program.groups = vec![open_group()];
    program.ports = vec![port("a", 1, 10, &["open"]), port("b", 1, 11, &["open"])];
    lab.apply(&program);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    (program, a, b)
}

#[test]
fn forged_ipv4_sources_are_dropped() {
    let lab = Lab::new();
    let (mut program, a, b) = pair(&lab);
    let _server = Ticker::start(&b.name, 80);
    b.sh(&format!("ip route add {FORGED}/32 via 10.0.1.1"));
    a.sh(&format!("ip addr add {FORGED}/32 dev eth0"));
    assert!(
        Client::connect_from(&a.name, Some(A), B, 80, PATIENCE).is_some(),
        "its own source passes"
    );
    assert!(Client::connect_from(&a.name, Some(FORGED), B, 80, SILENCE).is_none());

    // With the check off a packet with another source arrives, but never one from the router's or a service address.
    program.ports[0].source_check = false;
    program.generation = vnet::Generation(2);
    lab.apply(&program);
    a.sh("ip addr add 10.0.1.1/32 dev lo; ip addr add 169.254.169.254/32 dev lo");
    let sees = |source: Ipv4Addr| {
        let receiver = crate::traffic::udp(&b.name, B, 0);
        let to = receiver.local_addr().expect("it is bound");
        let sender = crate::traffic::udp(&a.name, source, 0);
        crate::traffic::delivers(&sender, to, &receiver)
    };
    assert!(sees(FORGED), "a router may forward others' packets");
    assert!(!sees(Ipv4Addr::new(169, 254, 169, 254)));
    assert!(!sees(Ipv4Addr::new(10, 0, 1, 1)));
}

#[test]
fn forged_arp_senders_get_no_answer() {
    let lab = Lab::new();
    let (_program, a, _b) = pair(&lab);
    let router = Ipv4Addr::new(10, 0, 1, 1);
    a.sh(&format!("ip addr add {FORGED}/32 dev eth0"));
    assert!(answered(&a, A, router), "the router answers");
    assert!(answered(&a, A, B), "a neighbour's address is answered for");
    assert!(
        answered(&a, A, Ipv4Addr::new(169, 254, 169, 254)),
        "the metadata address is answered for"
    );
    assert!(!answered(&a, FORGED, router));
    assert!(
        !answered(&a, A, Ipv4Addr::new(10, 0, 1, 200)),
        "an address that nobody has"
    );
    assert!(
        !answered(&a, A, Ipv4Addr::new(192, 0, 2, 1)),
        "an address outside the network"
    );
}

#[test]
fn forged_ethernet_sources_are_dropped() {
    let lab = Lab::new();
    let (_program, a, b) = pair(&lab);
    let _server = Ticker::start(&b.name, 80);
    assert!(reaches(&a.name, B, 80));
    a.sh("ip link set eth0 address 02:00:00:00:99:99");
    assert!(silent(&a.name, B, 80));
    a.sh("ip link set eth0 address 02:00:00:00:01:0a");
    assert!(reaches(&a.name, B, 80));
}

#[test]
fn a_guest_reaches_no_socket_of_the_router() {
    let lab = Lab::new();
    let (program, a, _b) = pair(&lab);
    let router = Ipv4Addr::new(10, 0, 1, 1);
    let _listener = Ticker::start(&lab.namespace_of(&program), 8080);
    assert!(silent(&a.name, router, 8080));
    assert!(silent(&a.name, Ipv4Addr::new(169, 254, 169, 254), 8080));
    assert!(
        !crate::traffic::pings(&a.name, router, SILENCE),
        "the router answers no echo"
    );
}

#[test]
fn frames_of_other_kinds_are_dropped() {
    let lab = Lab::new();
    let (program, a, _b) = pair(&lab);
    let namespace = lab.namespace_of(&program);
    let dropped = |kind: &str| {
        let chain = crate::lab::within(&namespace, || crate::lab::sh("nft list table netdev guard"));
        let chain = chain
            .split("chain p1010_")
            .nth(1)
            .expect("a's chain is there")
            .to_owned();
        let rule = chain
            .lines()
            .find(|line| line.contains(kind))
            .expect("the rule is there");
        let count = rule
            .split("packets ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        count
            .and_then(|count| count.parse::<u64>().ok())
            .expect("the rule counts")
    };
    let send = |frame: &str| {
        let escaped: String = frame
            .split_whitespace()
            .map(|byte| format!("\\x{byte}"))
            .collect();
        a.sh(&format!(
            "busybox printf '{escaped}' | socat -u STDIN INTERFACE:eth0"
        ));
    };
    let source = "02 00 00 00 01 0a";
    let ipv4 = "45 00 00 1c 00 00 00 00 40";
    let padding = "00 ".repeat(40);
    let before = dropped("ether type != ip");
    send(&format!(
        "ff ff ff ff ff ff {source} 81 00 00 05 08 00 {ipv4} 11 00 00 {padding}"
    ));
    send(&format!(
        "33 33 00 00 00 01 {source} 86 dd 60 00 00 00 00 00 3a ff {padding}"
    ));
    assert!(dropped("ether type != ip") >= before + 2, "a VLAN tag and IPv6");
    let before = dropped("udp sport 67");
    send(&format!(
        "ff ff ff ff ff ff {source} 08 00 {ipv4} 11 00 00 0a 00 01 0a ff ff ff ff 00 43 00 44 00 08 00 00 {padding}"
    ));
    assert_eq!(dropped("udp sport 67"), before + 1, "a DHCP server's packet");
    let before = dropped("icmp type redirect");
    send(&format!(
        "02 00 00 00 00 00 {source} 08 00 {ipv4} 01 00 00 0a 00 01 0a 0a 00 01 0b 05 01 00 00 00 00 00 00 {padding}"
    ));
    assert_eq!(dropped("icmp type redirect"), before + 1);
}

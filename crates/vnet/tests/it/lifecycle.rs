//! Restart, pruning, repair, generations, taps, and that teardown leaves nothing.

use std::net::Ipv4Addr;

use vnet::{Generation, Outcome, PortKind, VnetError};

use crate::lab::{Lab, edge, network, open_group, port, sh};
use crate::traffic::{Client, PATIENCE, SILENCE, Ticker, reaches};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 10);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 11);
const P: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 10);

fn two_ports() -> vnet::NetworkProgram {
    let mut program = network("net");
    program.groups = vec![open_group()];
    program.ports = vec![port("a", 1, 10, &["open"]), port("b", 1, 11, &["open"])];
    program.ports[0].public = Some(P);
    program
}

#[test]
fn a_restart_adopts_and_changes_nothing() {
    let mut lab = Lab::new();
    let program = two_ports();
    assert_eq!(lab.apply(&program).outcome, Outcome::Changed);
    assert_eq!(lab.apply(&program).outcome, Outcome::Unchanged);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    let _servers = [Ticker::start(&b.name, 80), Ticker::start(&a.name, 80)];
    let mut inside = Client::connect(&a.name, B, 80, PATIENCE).expect("a reaches b");
    let mut outside = Client::connect(&lab.host.name, P, 80, PATIENCE).expect("the host reaches a");
    let namespace = lab.namespace_of(&program);
    let rules = || {
        crate::lab::within(&namespace, || {
            sh("nft -a list ruleset; ip addr; ip route; ip neigh")
        })
    };
    let before = rules();

    lab.restart();
    assert!(inside.hears(PATIENCE) && outside.hears(PATIENCE));
    let metadata = Ipv4Addr::new(169, 254, 169, 254);
    let listens = a.run(|| std::net::TcpStream::connect_timeout(&(metadata, 80).into(), PATIENCE).is_ok());
    assert!(listens, "the listeners are up before any apply");
    assert_eq!(lab.apply(&program).outcome, Outcome::Unchanged);
    assert_eq!(
        lab.runtime
            .block_on(lab.vnet().ensure_edge(&edge(1)))
            .expect("edge")
            .outcome,
        Outcome::Unchanged
    );
    let counters = |text: String| {
        let lines = text
            .lines()
            .filter(|line| !line.contains("counter") && !line.contains("REACHABLE"));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        counters(rules()),
        counters(before),
        "the same objects with the same handles"
    );
    assert!(inside.hears(PATIENCE) && outside.hears(PATIENCE));
}

#[test]
fn older_generations_are_skipped() {
    let lab = Lab::new();
    let mut program = two_ports();
    program.generation = Generation(7);
    lab.apply(&program);
    program.generation = Generation(6);
    program.ports.clear();
    let applied = lab.apply(&program);
    assert_eq!(
        (applied.outcome, applied.generation),
        (Outcome::Skipped, Generation(7))
    );
}

#[test]
fn foreign_and_missing_objects_are_repaired() {
    let lab = Lab::new();
    let program = two_ports();
    lab.apply(&program);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    let _server = Ticker::start(&b.name, 80);
    let mut flow = Client::connect(&a.name, B, 80, PATIENCE).expect("a reaches b");
    let namespace = lab.namespace_of(&program);
    let inside = |command: &str| crate::lab::within(&namespace, || sh(command));
    let damages = [
        "nft add table inet foreign",
        "nft flush ruleset",
        "nft add rule inet vnet pass drop",
        "nft insert rule inet vnet judge accept",
        "nft delete element inet vnet ports '{ \"p1010\" }'",
        "nft add chain inet vnet extra",
        "ip route add 10.0.1.99/32 dev p1010",
        "ip route del 10.0.1.11/32",
        "ip route replace 10.0.1.11/32 dev p1010",
        "ip neigh del 10.0.1.11 dev p1011",
        "ip neigh add 10.0.1.98 lladdr 02:00:00:00:00:98 dev p1011",
        "ip rule add fwmark 9 lookup main pref 100",
        "ip addr add 10.9.9.9/32 dev lo",
        "ip addr del 10.0.1.1/32 dev lo",
        "ip link add stray type veth peer name stray2",
        "ip link set p1011 mtu 1300",
        "sysctl -qw net.ipv4.conf.p1011.proxy_arp=0",
        "ip link set p1011 down",
    ];
    for damage in damages {
        inside(damage);
        assert_eq!(lab.apply(&program).outcome, Outcome::Changed, "{damage}");
        assert_eq!(lab.apply(&program).outcome, Outcome::Unchanged, "{damage}");
        assert!(flow.hears(PATIENCE), "{damage}");
    }
    assert!(!inside("nft list ruleset; ip link; ip rule; ip addr").contains("stray"));
}

#[test]
fn a_lost_namespace_is_made_again() {
    let lab = Lab::new();
    let program = two_ports();
    lab.apply(&program);
    sh(&format!("ip netns del {}", lab.namespace_of(&program)));
    assert_eq!(lab.apply(&program).outcome, Outcome::Changed);
    assert_eq!(lab.apply(&program).outcome, Outcome::Unchanged);
    let a = lab.guest(&program, "a");
    let _server = Ticker::start(&a.name, 80);
    assert!(reaches(&lab.host.name, P, 80));
}

#[test]
fn a_port_that_goes_is_closed_and_gone() {
    let lab = Lab::new();
    let mut program = two_ports();
    lab.apply(&program);
    let (a, b) = (lab.guest(&program, "a"), lab.guest(&program, "b"));
    let _server = Ticker::start(&b.name, 80);
    let mut flow = Client::connect(&a.name, B, 80, PATIENCE).expect("a reaches b");
    program.ports.pop();
    program.generation = Generation(2);
    lab.apply(&program);
    assert!(!flow.hears(SILENCE));
    assert!(!b.succeeds("ip link show eth0"));
    let namespace = lab.namespace_of(&program);
    let rest = crate::lab::within(&namespace, || sh("nft list ruleset; ip link; ip route; ip neigh"));
    assert!(!rest.contains("1011") && !rest.contains(&B.to_string()), "{rest}");
    assert!(rest.contains(&A.to_string()));
}

#[test]
fn taps_are_persistent_and_have_one_user() {
    let lab = Lab::new();
    let mut program = two_ports();
    program.ports[1].kind = PortKind::Tap;
    lab.apply(&program);
    let open = |port: &str| {
        lab.runtime
            .block_on(lab.vnet().open_tap(&program.network, &port.into()))
    };
    let first = open("b").expect("the tap opens");
    assert!(matches!(open("b"), Err(VnetError::TapBusy { .. })));
    assert!(
        matches!(open("a"), Err(VnetError::PortUnknown { .. })),
        "a is no tap"
    );
    assert_eq!(
        lab.apply(&program).outcome,
        Outcome::Unchanged,
        "a tap in use is as it should be"
    );
    drop(first);
    let again = open("b").expect("the tap outlives its user");
    let namespace = lab.namespace_of(&program);
    let link = crate::lab::within(&namespace, || sh("ip -d link show p1011"));
    assert!(
        link.contains("persist on") && link.contains("vnet_hdr on") && link.contains("mtu 1450"),
        "{link}"
    );

    program.ports[1].id = "another".into();
    program.generation = Generation(2);
    lab.apply(&program);
    let index = crate::lab::within(&namespace, || sh("ip -o link show p1011"));
    assert!(
        index.contains("alias another"),
        "the device of another port is not taken over: {index}"
    );
    drop(again);
}

#[test]
fn a_tap_carries_frames_with_a_virtio_header() {
    use std::io::{Read, Write};
    let lab = Lab::new();
    let mut program = two_ports();
    program.ports[1].kind = PortKind::Tap;
    lab.apply(&program);
    let tap = lab
        .runtime
        .block_on(lab.vnet().open_tap(&program.network, &"b".into()))
        .expect("the tap opens");
    let mut tap = std::fs::File::from(tap);
    let mac = [2, 0, 0, 0, 1, 11];
    let frame = |sender: Ipv4Addr, target: Ipv4Addr| {
        let mut frame = vec![0; 10];
        frame.extend_from_slice(&[0xff; 6]);
        frame.extend_from_slice(&mac);
        frame.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
        frame.extend_from_slice(&mac);
        frame.extend_from_slice(&sender.octets());
        frame.extend_from_slice(&[0; 6]);
        frame.extend_from_slice(&target.octets());
        frame
    };
    let router = Ipv4Addr::new(10, 0, 1, 1);
    rustix::io::ioctl_fionbio(&tap, true).expect("non-blocking works");
    tap.write_all(&frame(A, router))
        .expect("a forged question is taken");
    // The device's queue starts a moment after somebody attached, so the question is repeated.
    let mut answer = [0; 128];
    let started = std::time::Instant::now();
    let length = loop {
        tap.write_all(&frame(B, router)).expect("a question is taken");
        std::thread::sleep(std::time::Duration::from_millis(20));
        match tap.read(&mut answer) {
            Ok(length) => break length,
            Err(error) => assert!(started.elapsed() < PATIENCE, "no answer: {error}"),
        }
    };
    let arp = &answer[10..length];
    assert_eq!(arp[..6], mac, "to the guest");
    assert_eq!(arp[20..22], [0, 2], "a reply");
    assert_eq!(arp[28..32], router.octets(), "from the router");
    assert_eq!(arp[38..42], B.octets(), "the forged question got none");
}

#[test]
fn a_pool_is_chosen_that_overlaps_nothing() {
    let lab = Lab::new();
    let blocks = |list: &[&str]| {
        list.iter()
            .map(|text| text.parse().expect("a block"))
            .collect::<Vec<_>>()
    };
    let chosen = |list: &[&str]| vnet::choose_public_pool(&blocks(list)).expect("the host is read");
    let free: ipnet::Ipv4Net = "198.19.240.0/20".parse().expect("a block");
    assert_eq!(
        chosen(&[
            "198.18.0.0/20",
            "192.0.2.128/25",
            "198.16.0.0/12",
            "198.19.240.0/20"
        ]),
        Some(free)
    );
    assert_eq!(
        chosen(&["198.18.4.0/24"]),
        None,
        "inside the pool of a cloud on this host"
    );
    drop(lab);
}

#[test]
fn teardown_removes_namespaces_that_no_record_names() {
    let lab = Lab::new();
    sh(&format!("ip netns add spx-{}-77", lab.tag));
    lab.runtime
        .block_on(lab.vnet().teardown_all())
        .expect("teardown works");
    assert!(!sh("ls /run/netns").contains(&format!("spx-{}-", lab.tag)));
}

#[test]
fn teardown_leaves_nothing() {
    let snapshot = |lab: &Lab| {
        let names = sh("ls /run/netns")
            .lines()
            .filter(|name| name.contains(&lab.tag))
            .collect::<Vec<_>>()
            .join(" ");
        let commands = "ip -o link | sed 's/^[0-9]*: //'; ip -4 addr show scope global | grep inet; ip route; \
                        ip rule; ip neigh show nud permanent; nft list ruleset; \
                        cat /proc/sys/net/ipv4/conf/eth0/forwarding";
        (names, sh(commands))
    };
    let lab = Lab::new();
    lab.runtime
        .block_on(lab.vnet().teardown_all())
        .expect("teardown works");
    let before = snapshot(&lab);
    lab.runtime
        .block_on(lab.vnet().ensure_edge(&edge(2)))
        .expect("the edge is made");
    let (first, mut second) = (two_ports(), two_ports());
    second.network = "second".into();
    second.ports[0].public = None;
    second.ports[1].kind = PortKind::Tap;
    lab.apply(&first);
    lab.apply(&second);
    let during = snapshot(&lab);
    assert!(
        during.1.contains("198.18.0.0/20") && during.1.contains("masquerade") && during.1.ends_with("1\n")
    );
    lab.runtime
        .block_on(lab.vnet().remove(&second.network))
        .expect("a network is removed");
    lab.runtime
        .block_on(lab.vnet().remove(&second.network))
        .expect("already gone is success");
    assert_eq!(
        lab.runtime
            .block_on(lab.vnet().list_networks())
            .expect("networks list")
            .len(),
        1
    );
    lab.runtime
        .block_on(lab.vnet().teardown_all())
        .expect("teardown works");
    assert_eq!(snapshot(&lab), before);
    assert_eq!(sh(&format!("ls {}/networks", lab.run_dir.path().display())), "");
}

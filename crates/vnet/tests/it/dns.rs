//! The resolver from inside a guest: own names, absent names, names passed on, and nobody to ask.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vnet::DhcpOptions;

use crate::lab::{Lab, Namespace, WORLD, group, network, port};

const LINK_LOCAL: &str = "169.254.169.253";
const IN_BLOCK: &str = "10.0.0.2";

/// A resolver in the world that answers every question with 203.0.113.7.
struct World {
    stop: Arc<AtomicBool>,
}

impl World {
    fn start(lab: &Lab) -> World {
        let socket = lab
            .world
            .run(|| UdpSocket::bind((WORLD, 53)))
            .expect("the socket binds");
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a timeout is set");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, peer)) = socket.recv_from(&mut query) else {
                    continue;
                };
                let mut answer = query[..length].to_vec();
                answer[2] |= 0x80;
                answer[7] = 1;
                answer.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xcb\x00\x71\x07");
                let _ = socket.send_to(&answer, peer);
            }
        });
        World { stop }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What busybox's client prints and returns.
fn look_up(guest: &Namespace, name: &str, server: &str) -> String {
    let command = format!("busybox timeout 5 busybox nslookup {name} {server} 2>&1 || true");
    guest.sh(&command)
}

#[test]
fn guests_resolve_their_network_and_the_world() {
    let lab = Lab::new();
    let mut program = network("net");
    program.groups = vec![group("closed", vec![], vec![])];
    program.ports = vec![port("a", 1, 10, &["closed"]), port("b", 2, 20, &["closed"])];
    for port in &mut program.ports {
        let [a, b, c, d] = port.address.octets();
        port.dhcp = DhcpOptions {
            hostname: Some(format!("ip-{a}-{b}-{c}-{d}")),
            domain: Some("eu-central-1.compute.internal".to_owned()),
            ..DhcpOptions::default()
        };
    }
    lab.apply(&program);
    let a = lab.guest(&program, "a");
    let _world = World::start(&lab);
    lab.vnet()
        .set_upstream_resolvers(vec![SocketAddr::from((WORLD, 53))]);
    for server in [LINK_LOCAL, IN_BLOCK] {
        let answer = look_up(&a, "ip-10-0-2-20.eu-central-1.compute.internal", server);
        assert!(answer.contains("10.0.2.20"), "{answer}");
        let answer = look_up(&a, "10.0.2.20", server);
        assert!(
            answer.contains("ip-10-0-2-20.eu-central-1.compute.internal"),
            "{answer}"
        );
        let answer = look_up(&a, "ip-10-0-2-21.eu-central-1.compute.internal", server);
        assert!(answer.contains("NXDOMAIN"), "{answer}");
        let answer = look_up(&a, "example.com", server);
        assert!(answer.contains("203.0.113.7"), "{answer}");
    }

    lab.vnet().set_upstream_resolvers(Vec::new());
    let started = Instant::now();
    let answer = look_up(&a, "example.com", IN_BLOCK);
    assert!(answer.contains("SERVFAIL"), "{answer}");
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "offline is said at once"
    );
}

#[test]
fn a_forged_source_and_the_host_get_no_resolver() {
    let lab = Lab::new();
    let mut program = network("net");
    program.ports = vec![port("a", 1, 10, &[])];
    lab.apply(&program);
    let a = lab.guest(&program, "a");
    let from = |source: Ipv4Addr| {
        let socket = crate::traffic::udp(&a.name, source, 0);
        let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x08internal\x00\x00\x01\x00\x01";
        socket.send_to(query, (IN_BLOCK, 53)).expect("the query leaves");
        socket.recv(&mut [0; 512]).is_ok()
    };
    assert!(from(Ipv4Addr::new(10, 0, 1, 10)));
    a.sh("ip addr add 10.0.1.77/32 dev eth0");
    assert!(!from(Ipv4Addr::new(10, 0, 1, 77)));
}

//! The metadata path: reachable whatever the groups say, and the caller is who the engine says.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::lab::{Lab, group, network, port, within};
use crate::traffic::{Client, PATIENCE, SILENCE, silent};

const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Serves so many connections: each is told who it is, with the hop limit on if `limited`.
fn serve(lab: &Lab, count: usize, limited: bool) -> tokio::task::JoinHandle<Vec<String>> {
    let vnet = lab.vnet_handle();
    lab.runtime.spawn(async move {
        let mut callers = Vec::new();
        for _ in 0..count {
            let mut connection = vnet.accept_metadata().await;
            if limited {
                connection.limit_hops().expect("the TTL is set");
            }
            let who = format!("{}/{}/{}", connection.network, connection.port, connection.source);
            connection
                .stream
                .write_all(format!("{who}\n").as_bytes())
                .await
                .expect("the answer is written");
            callers.push(who);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(connection);
            });
        }
        callers
    })
}

#[test]
fn each_caller_is_known_also_with_equal_addresses() {
    let lab = Lab::new();
    let programs = ["one", "two"].map(|id| {
        let mut program = network(id);
        program.groups = vec![group("closed", vec![], vec![])];
        program.ports = vec![port("a", 1, 10, &["closed"]), port("b", 1, 11, &["closed"])];
        program.ports[0].id = format!("{id}-a").as_str().into();
        program.ports[1].metadata.enabled = false;
        lab.apply(&program);
        program
    });
    let one = lab.guest(&programs[0], "one-a");
    let two = lab.guest(&programs[1], "two-a");
    let off = lab.guest(&programs[0], "b");
    let server = serve(&lab, 2, false);
    let client = Client::connect(&one.name, METADATA, 80, PATIENCE).expect("one is answered");
    assert_eq!(client.seen_as, "one/one-a/10.0.1.10");
    let client = Client::connect(&two.name, METADATA, 80, PATIENCE).expect("two is answered");
    assert_eq!(client.seen_as, "two/two-a/10.0.1.10");
    assert!(silent(&off.name, METADATA, 80), "a port whose metadata is off");
    one.sh("ip addr add 10.0.1.77/32 dev eth0");
    let forged = Client::connect_from(&one.name, Some([10, 0, 1, 77].into()), METADATA, 80, SILENCE);
    assert!(forged.is_none(), "a forged source");
    assert_eq!(lab.runtime.block_on(server).expect("the server ends").len(), 2);
}

#[test]
fn a_limited_answer_reaches_the_guest_and_nobody_behind_it() {
    let lab = Lab::new();
    let mut program = network("net");
    program.ports = vec![port("a", 1, 10, &[])];
    lab.apply(&program);
    let guest = lab.guest(&program, "a");
    let inner = crate::lab::Namespace::new(format!("spxin-{}", lab.tag));
    guest.sh(&format!(
        "ip link add in0 type veth peer name eth0 netns {0} && ip addr add 172.17.0.1/24 dev in0 && \
         ip link set in0 up && sysctl -qw net.ipv4.ip_forward=1 && \
         nft 'add table ip nat; add chain ip nat post {{ type nat hook postrouting priority 100; }}; \
              add rule ip nat post oifname eth0 masquerade' && \
         ip -n {0} addr add 172.17.0.2/24 dev eth0 && ip -n {0} link set eth0 up && \
         ip -n {0} route add default via 172.17.0.1",
        inner.name
    ));
    let server = serve(&lab, 1, false);
    assert!(
        Client::connect(&inner.name, METADATA, 80, PATIENCE).is_some(),
        "an unlimited answer gets through"
    );
    lab.runtime.block_on(server).expect("the server ends");

    let server = serve(&lab, 2, true);
    assert!(
        Client::connect(&guest.name, METADATA, 80, PATIENCE).is_some(),
        "one hop reaches the guest"
    );
    let mut heard = None;
    within(&inner.name, || heard = read_line_within(SILENCE));
    assert_eq!(
        heard,
        Some(false),
        "the container connects, but the answer dies at the guest"
    );
    lab.runtime.block_on(server).expect("the server ends");

    program.ports[0].metadata.hop_limit = 2;
    program.generation = vnet::Generation(2);
    lab.apply(&program);
    let server = serve(&lab, 1, true);
    assert!(
        Client::connect(&inner.name, METADATA, 80, PATIENCE).is_some(),
        "two hops reach the container"
    );
    lab.runtime.block_on(server).expect("the server ends");
}

/// Connects from the calling thread's namespace; whether a byte of an answer came in time, none if not connected.
fn read_line_within(time: Duration) -> Option<bool> {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect_timeout(&(METADATA, 80).into(), PATIENCE).ok()?;
    stream.set_read_timeout(Some(time)).expect("a timeout is set");
    Some(stream.read(&mut [0]).is_ok_and(|length| length > 0))
}

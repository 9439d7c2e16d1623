//! The laboratory: a host namespace, a world behind its uplink, an engine, and guests. Everything is removed when it
//! is dropped, also by a panic.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::LinkNameSpaceType;
use tokio::runtime::Runtime;
use vnet::{
    Applied, Config, DhcpOptions, EdgeProgram, Generation, Group, GroupId, MacAddress, Metadata, NetworkId,
    NetworkProgram, Peer, Port, PortId, PortKind, PortNumber, PortRange, Protocol, Route, RouteTable,
    RouteTarget, Rule, Subnet, SubnetId, TableNumber, Vnet,
};

pub const MTU: u32 = 1450;
pub const WORLD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub const POOL: &str = "198.18.0.0/20";
pub const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Runs a command and returns its output; a failure is a failure of the test.
pub fn sh(command: &str) -> String {
    let output = Command::new("sh")
        .args(["-ec", command])
        .output()
        .expect("sh runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A named namespace of the test; gone when dropped.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    pub fn new(name: String) -> Namespace {
        sh(&format!("ip netns add {name} && ip -n {name} link set lo up"));
        Namespace { name }
    }

    pub fn open(&self) -> OwnedFd {
        File::open(format!("/run/netns/{}", self.name))
            .expect("the namespace is there")
            .into()
    }

    /// Runs on a thread inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.name, work)
    }

    pub fn sh(&self, command: &str) -> String {
        self.run(|| sh(command))
    }

    /// Whether a command succeeds.
    pub fn succeeds(&self, command: &str) -> bool {
        self.run(|| {
            Command::new("sh")
                .args(["-c", command])
                .output()
                .expect("sh runs")
                .status
                .success()
        })
    }
}

/// Runs on a thread inside a named namespace.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{name}")).expect("the namespace is there");
    let inside = || {
        rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("setns works as root");
        work()
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// A host with an engine on it.
pub struct Lab {
    pub tag: String,
    pub runtime: Runtime,
    vnet: Option<Arc<Vnet>>,
    pub run_dir: tempfile::TempDir,
    pub world: Namespace,
    pub host: Namespace,
}

impl Lab {
    /// Makes the host, moves the test's thread into it, and opens an engine with an edge.
    pub fn new() -> Lab {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id() * 8 + NEXT.fetch_add(1, Ordering::Relaxed) % 8;
        let tag = format!("t{number:x}");
        let host = Namespace::new(format!("spxhost-{tag}"));
        let world = Namespace::new(format!("spxworld-{tag}"));
        sh(&format!(
            "ip -n {0} link add eth0 type veth peer name eth0 netns {1} && \
             ip -n {0} addr add {HOST}/24 dev eth0 && ip -n {0} link set eth0 up && \
             ip -n {1} addr add {WORLD}/24 dev eth0 && ip -n {1} link set eth0 up && \
             ip -n {0} route add default via {WORLD}",
            host.name, world.name
        ));
        let file = host.open();
        rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("setns works as root");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let run_dir = tempfile::tempdir().expect("a directory");
        let mut lab = Lab {
            tag,
            runtime,
            vnet: None,
            run_dir,
            world,
            host,
        };
        lab.restart();
        lab.runtime
            .block_on(lab.vnet().ensure_edge(&edge(1)))
            .expect("the edge is made");
        lab
    }

    /// Drops the engine and opens another over the same directory.
    pub fn restart(&mut self) {
        self.vnet = None;
        let config = Config {
            cloud_tag: self.tag.clone(),
            run_dir: self.run_dir.path().to_owned(),
            mtu: MTU,
        };
        let opened = self
            .runtime
            .block_on(Vnet::open(config))
            .expect("the engine opens");
        self.vnet = Some(Arc::new(opened));
    }

    pub fn vnet(&self) -> &Vnet {
        self.vnet.as_ref().expect("the engine is open")
    }

    /// The engine for a task of its own.
    pub fn vnet_handle(&self) -> Arc<Vnet> {
        Arc::clone(self.vnet.as_ref().expect("the engine is open"))
    }

    pub fn apply(&self, program: &NetworkProgram) -> Applied {
        self.runtime
            .block_on(self.vnet().apply(program))
            .expect("the program applies")
    }

    /// Puts the far end of a veth port into a namespace that is configured as DHCP would.
    pub fn guest(&self, program: &NetworkProgram, port: &str) -> Namespace {
        let guest = self.bare_guest(program, port);
        let port = program
            .ports
            .iter()
            .find(|one| one.id.as_str() == port)
            .expect("the port is there");
        let subnet = program
            .subnets
            .iter()
            .find(|one| one.id == port.subnet)
            .expect("the subnet is there");
        guest.sh(&format!(
            "ip addr add {}/{} dev eth0 && ip link set eth0 up && ip route add default via {}",
            port.address,
            subnet.block.prefix_len(),
            subnet.router()
        ));
        guest
    }

    /// As [`Lab::guest`], without an address.
    pub fn bare_guest(&self, program: &NetworkProgram, port: &str) -> Namespace {
        let guest = Namespace::new(format!("spxg-{}-{}-{port}", self.tag, program.network));
        self.runtime
            .block_on(
                self.vnet()
                    .hand_over_veth(&program.network, &port.into(), guest.open(), "eth0"),
            )
            .expect("the far end moves");
        guest.sh("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1 || true");
        guest
    }

    /// The name of a network's namespace.
    pub fn namespace_of(&self, program: &NetworkProgram) -> String {
        let carried = self
            .runtime
            .block_on(self.vnet().list_networks())
            .expect("networks list");
        let found = carried.into_iter().find(|one| one.network == program.network);
        found.expect("the network is carried").namespace
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(vnet) = &self.vnet {
            let done = self.runtime.block_on(vnet.teardown_all());
            if !std::thread::panicking() {
                done.expect("teardown works");
            }
        }
    }
}

pub fn edge(generation: u64) -> EdgeProgram {
    EdgeProgram {
        generation: Generation(generation),
        pools: vec![POOL.parse().expect("a block")],
        host_address: Some(HOST_ADDRESS),
        masquerade: true,
    }
}

/// A network 10.0.0.0/16 with two subnets; `s2`'s table leads nowhere.
pub fn network(id: &str) -> NetworkProgram {
    let subnet = |id: &str, block: &str, table| Subnet {
        id: SubnetId::from(id),
        block: block.parse().expect("a block"),
        table: TableNumber(table),
    };
    let internet = Route {
        destination: "0.0.0.0/0".parse().expect("a block"),
        target: RouteTarget::Internet,
    };
    NetworkProgram {
        network: NetworkId::from(id),
        generation: Generation(1),
        blocks: vec!["10.0.0.0/16".parse().expect("a block")],
        subnets: vec![subnet("s1", "10.0.1.0/24", 1), subnet("s2", "10.0.2.0/24", 2)],
        tables: vec![
            RouteTable {
                number: TableNumber(1),
                routes: vec![internet],
            },
            RouteTable {
                number: TableNumber(2),
                routes: Vec::new(),
            },
        ],
        ports: Vec::new(),
        groups: Vec::new(),
    }
}

/// A veth port `10.0.<subnet>.<last>`.
pub fn port(id: &str, subnet: u8, last: u8, groups: &[&str]) -> Port {
    Port {
        id: PortId::from(id),
        number: PortNumber(u32::from(subnet) * 1000 + u32::from(last)),
        kind: PortKind::Veth,
        mac: MacAddress([2, 0, 0, 0, subnet, last]),
        subnet: SubnetId::new(format!("s{subnet}")),
        address: Ipv4Addr::new(10, 0, subnet, last),
        public: None,
        groups: groups.iter().map(|group| GroupId::from(*group)).collect(),
        source_check: true,
        dhcp: DhcpOptions::default(),
        metadata: Metadata::default(),
    }
}

pub fn group(id: &str, ingress: Vec<Rule>, egress: Vec<Rule>) -> Group {
    Group {
        id: GroupId::from(id),
        ingress,
        egress,
        remote_members: Vec::new(),
    }
}

pub fn tcp(port: u16, peer: Peer) -> Rule {
    Rule {
        protocol: Protocol::Tcp(PortRange::one(port)),
        peer,
    }
}

pub fn all(peer: Peer) -> Rule {
    Rule {
        protocol: Protocol::All,
        peer,
    }
}

pub fn anyone() -> Peer {
    block("0.0.0.0/0")
}

pub fn block(text: &str) -> Peer {
    Peer::Block(text.parse().expect("a block"))
}

pub fn members(group: &str) -> Peer {
    Peer::Group(GroupId::from(group))
}

/// A group that lets everything in and out.
pub fn open_group() -> Group {
    group("open", vec![all(anyone())], vec![all(anyone())])
}

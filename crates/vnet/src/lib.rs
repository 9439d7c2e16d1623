//! Engine: compiles a virtual network to namespaces, routes and nftables; DHCP, DNS and metadata plumbing. Knows no AWS word.
//!
//! ```text
//! guest - tap -[ network namespace: ingress checks, routes, groups, ]- veth -[ edge namespace:  ]- veth - host - uplink
//! guest - tap -[ 1:1 translation; DHCP, DNS, metadata listeners     ]        [ public /32 routes ]
//! ```
//! Everything is routed; there is no bridge. One namespace is one network's router. Its state is a complete
//! [`NetworkProgram`]; [`Vnet::apply`] makes the kernel equal to it and reads it back.

mod check;
mod compile;
mod converge;
mod dhcp;
mod dns;
mod edge;
mod engine;
mod error;
mod host;
mod kernel;
pub mod limits;
mod metadata;
mod program;
mod record;
mod ruleset;
mod services;
mod sys;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::Ipv4Net;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};

use engine::Engine;
pub use error::{ProgramError, VnetError};
pub use host::host_address;
pub use program::{
    DhcpOptions, EdgeProgram, Generation, Group, GroupId, MacAddress, MacAddressError, Metadata, NetworkId,
    NetworkProgram, Peer, Port, PortId, PortKind, PortNumber, PortRange, Protocol, Route, RouteTable,
    RouteTarget, Rule, Subnet, SubnetId, TableNumber,
};

/// Where an engine keeps itself apart from others on the same host.
#[derive(Debug, Clone)]
pub struct Config {
    /// Short name of the cloud, unique on this host: 1 to 10 of `a-z0-9`. Namespaces are `/run/netns/spx-<tag>-<n>`.
    pub cloud_tag: String,
    /// Where applied programs and namespace identities are kept, so that a restart adopts what runs. Made if absent.
    pub run_dir: PathBuf,
    /// MTU of every port and of the links between namespaces.
    pub mtu: u32,
}

/// What an apply led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The generation that the kernel carries now.
    pub generation: Generation,
    /// SHA-256 of the program that the kernel carries now, hexadecimal.
    pub digest: String,
    /// What happened.
    pub outcome: Outcome,
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel was equal to the program; nothing was touched.
    Unchanged,
    /// The kernel was changed and reads back equal.
    Changed,
    /// A younger program is applied; this one was not looked at.
    Skipped,
}

/// A network that this engine carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedNetwork {
    /// Which network.
    pub network: NetworkId,
    /// The name of its namespace under `/run/netns`.
    pub namespace: String,
    /// The last program that was applied completely; none if an apply never finished.
    pub generation: Option<Generation>,
}

/// A connection that a guest made to 169.254.169.254 port 80. The port is known from the source address, which the
/// port's ingress check makes unforgeable.
#[derive(Debug)]
pub struct MetadataConnection {
    /// The bytes.
    pub stream: tokio::net::TcpStream,
    /// The network it came from.
    pub network: NetworkId,
    /// The port it came from.
    pub port: PortId,
    /// The guest's address.
    pub source: Ipv4Addr,
    /// The TTL for answers that must not travel further, from the program.
    pub hop_limit: u8,
}

impl MetadataConnection {
    /// From now on packets of this connection leave with the port's hop limit: call it before a token is answered.
    pub fn limit_hops(&self) -> std::io::Result<()> {
        self.stream.set_ttl(self.hop_limit.into())
    }

    /// From now on packets of this connection leave with the usual TTL of 64.
    pub fn free_hops(&self) -> std::io::Result<()> {
        self.stream.set_ttl(64)
    }
}

/// The engine: one a cloud and host. All methods may be called from any task, in any order and in parallel; work on
/// one network is serialised. Dropping it leaves the kernel as it is and closes the listeners.
pub struct Vnet {
    engine: Arc<Engine>,
    connections: Mutex<Receiver<MetadataConnection>>,
}

impl std::fmt::Debug for Vnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vnet")
            .field("config", self.config())
            .finish_non_exhaustive()
    }
}

impl Vnet {
    /// Opens the engine: adopts the namespaces of this cloud and has their listeners up when it returns. Needs root
    /// and libnftables.
    pub async fn open(config: Config) -> Result<Vnet, VnetError> {
        let (queue, connections) = channel(limits::METADATA_WAITING_MAX);
        let runtime = Handle::current();
        let engine = tokio::task::spawn_blocking(move || Engine::open(config, runtime, queue)).await;
        let engine = Arc::new(engine.map_err(|_| VnetError::Worker)??);
        Ok(Vnet {
            engine,
            connections: Mutex::new(connections),
        })
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &Config {
        self.engine.config()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, VnetError> + Send + 'static,
    ) -> Result<T, VnetError> {
        let engine = Arc::clone(&self.engine);
        tokio::task::spawn_blocking(move || work(&engine))
            .await
            .map_err(|_| VnetError::Worker)?
    }

    /// Makes the kernel equal to the program and reads it back. Flows that stay allowed lose no packet; flows that
    /// are no longer allowed end with it. Public addresses are routed from the edge when it returns.
    pub async fn apply(&self, program: &NetworkProgram) -> Result<Applied, VnetError> {
        let program = program.clone();
        self.run(move |engine| engine.apply(&program)).await
    }

    /// Removes a network with everything in it. Already gone is success.
    pub async fn remove(&self, network: &NetworkId) -> Result<(), VnetError> {
        let network = network.clone();
        self.run(move |engine| engine.remove(&network)).await
    }

    /// The networks that exist here, also half-made ones.
    pub async fn list_networks(&self) -> Result<Vec<CarriedNetwork>, VnetError> {
        self.run(|engine| Ok(engine.list_networks())).await
    }

    /// Attaches to the port's persistent tap and returns the descriptor for the hypervisor (`fd=`, virtio-net
    /// header on). The tap outlives it. Fails with [`VnetError::TapBusy`] while another descriptor is attached.
    pub async fn open_tap(&self, network: &NetworkId, port: &PortId) -> Result<OwnedFd, VnetError> {
        let (network, port) = (network.clone(), port.clone());
        self.run(move |engine| engine.open_tap(&network, &port)).await
    }

    /// Moves the far end of a [`PortKind::Veth`] port into a namespace and renames it there.
    pub async fn hand_over_veth(
        &self,
        network: &NetworkId,
        port: &PortId,
        namespace: OwnedFd,
        name: &str,
    ) -> Result<(), VnetError> {
        let (network, port, name) = (network.clone(), port.clone(), name.to_owned());
        self.run(move |engine| engine.hand_over_veth(&network, &port, &namespace, &name))
            .await
    }

    /// Makes the edge namespace, the host's side of it and the host's routes and translation equal to the program.
    /// Public addresses of networks are routed by `apply`, before or after this.
    pub async fn ensure_edge(&self, program: &EdgeProgram) -> Result<Applied, VnetError> {
        let program = program.clone();
        self.run(move |engine| engine.ensure_edge(&program)).await
    }

    /// Removes every network, the edge and what `ensure_edge` set on the host. Nothing of this cloud is left.
    pub async fn teardown_all(&self) -> Result<(), VnetError> {
        self.run(Engine::teardown_all).await
    }

    /// The resolvers that guests' queries are passed on to. Before the first call they are the host's own
    /// (`/etc/resolv.conf`). With none, names that are not the network's answer SERVFAIL at once.
    pub fn set_upstream_resolvers(&self, resolvers: Vec<SocketAddr>) {
        self.engine.set_upstream_resolvers(resolvers);
    }

    /// The next metadata connection of any network; waits for one. Several tasks may wait.
    pub async fn accept_metadata(&self) -> MetadataConnection {
        match self.connections.lock().await.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }
}

/// The address inside a network's blocks on which its resolver answers: what belongs into
/// [`DhcpOptions::resolvers`]. None without blocks.
pub fn resolver_address(blocks: &[Ipv4Net]) -> Option<Ipv4Addr> {
    compile::resolver_in(blocks)
}

/// The first candidate that overlaps no address and no route of the host but the default one; none if all do.
pub fn choose_public_pool(candidates: &[Ipv4Net]) -> Result<Option<Ipv4Net>, VnetError> {
    host::choose_pool(candidates)
}

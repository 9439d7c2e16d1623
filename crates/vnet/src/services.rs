//! The servers of one network: DHCP, metadata and DNS, whose sockets are opened inside its namespace and served here.
//!
//! They start with a network's first complete apply, or from its record when the engine opens, and end when they
//! are dropped. An apply only replaces what they answer from. No server ever enters a namespace or holds a lock
//! while it waits. Called by `engine`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::dhcp::{self, Lease, Leases};
use crate::dns::{self, Resolver, Upstreams, View, Views};
use crate::error::VnetError;
use crate::kernel::namespace::Namespace;
use crate::limits::{LISTEN_PATIENCE, LISTEN_PAUSE};
use crate::metadata::{self, Caller, Callers};
use crate::program::{NetworkProgram, Port};
use crate::{MetadataConnection, compile};

/// What the servers of all networks share.
pub(crate) struct Shared {
    pub(crate) runtime: Handle,
    /// Where metadata connections go.
    pub(crate) queue: Sender<MetadataConnection>,
    pub(crate) upstreams: Arc<Upstreams>,
    /// MTU of every port.
    pub(crate) mtu: u32,
}

/// The servers of one network.
pub(crate) struct Services {
    leases: Leases,
    callers: Callers,
    views: Views,
    /// What the resolver listens on; other addresses need other listeners.
    resolvers: BTreeSet<Ipv4Addr>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Services {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Services {
    /// Opens the sockets and starts the servers. `devices` are the indices in the namespace.
    pub(crate) fn start(
        shared: &Shared,
        namespace: &Namespace,
        program: &NetworkProgram,
        devices: &BTreeMap<String, u32>,
    ) -> Result<Services, VnetError> {
        let failed = |service| {
            let namespace = namespace.name().to_owned();
            move |source| VnetError::Listen {
                service,
                namespace,
                source,
            }
        };
        let resolvers = compile::resolvers(program);
        let (udp, tcp, listeners) = namespace.run(|| {
            let udp = patiently(dhcp::open).map_err(failed("DHCP"))?;
            let tcp = patiently(metadata::open).map_err(failed("metadata"))?;
            let listeners = resolvers.iter().map(|address| patiently(|| dns::open(*address)));
            let listeners = listeners.collect::<io::Result<Vec<_>>>().map_err(failed("DNS"))?;
            Ok((udp, tcp, listeners))
        })?;
        let runtime = &shared.runtime;
        let _guard = runtime.enter();
        let udp = tokio::net::UdpSocket::from_std(udp).map_err(failed("DHCP"))?;
        let tcp = tokio::net::TcpListener::from_std(tcp).map_err(failed("metadata"))?;
        let mut services = Services {
            leases: Leases::default(),
            callers: Callers::default(),
            views: Views::default(),
            resolvers,
            tasks: Vec::new(),
        };
        services.update(shared, program, devices);
        let dhcp = runtime.spawn(dhcp::serve(udp, Arc::clone(&services.leases)));
        services.tasks.push(dhcp.abort_handle());
        let callers = Arc::clone(&services.callers);
        let metadata = metadata::accept(program.network.clone(), tcp, callers, shared.queue.clone());
        services.tasks.push(runtime.spawn(metadata).abort_handle());
        let resolver = Resolver::new(Arc::clone(&services.views), Arc::clone(&shared.upstreams));
        for listeners in listeners {
            let listeners = listeners.register().map_err(failed("DNS"))?;
            let task = runtime.spawn(resolver.clone().serve(listeners));
            services.tasks.push(task.abort_handle());
        }
        Ok(services)
    }

    /// Whether every server runs and listens where the program wants it.
    pub(crate) fn fit(&self, program: &NetworkProgram) -> bool {
        self.resolvers == compile::resolvers(program) && !self.tasks.iter().any(AbortHandle::is_finished)
    }

    /// Answers from this program from now on.
    pub(crate) fn update(&self, shared: &Shared, program: &NetworkProgram, devices: &BTreeMap<String, u32>) {
        replace(&self.leases, leases(program, devices, shared.mtu));
        replace(&self.callers, callers(program));
        replace(&self.views, View::new(program));
    }
}

fn replace<T>(place: &RwLock<Arc<T>>, value: T) {
    *place.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
}

fn leases(program: &NetworkProgram, devices: &BTreeMap<String, u32>, mtu: u32) -> BTreeMap<u32, Lease> {
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    let lease = |port: &Port| {
        let index = devices.get(&compile::device_name(port.number))?;
        let subnet = program.subnets.iter().find(|subnet| subnet.id == port.subnet)?;
        let lease = Lease {
            mac: port.mac,
            address: port.address,
            mask: subnet.block.netmask(),
            router: subnet.router(),
            mtu,
            options: port.dhcp.clone(),
        };
        Some((*index, lease))
    };
    program.ports.iter().filter_map(lease).collect()
}

fn callers(program: &NetworkProgram) -> BTreeMap<Ipv4Addr, Caller> {
    let enabled = program.ports.iter().filter(|port| port.metadata.enabled);
    let caller = |port: &Port| Caller {
        port: port.id.clone(),
        hop_limit: port.metadata.hop_limit,
    };
    enabled.map(|port| (port.address, caller(port))).collect()
}

/// Opens a listener; one of an earlier engine of this process closes a moment after it was dropped.
fn patiently<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let started = Instant::now();
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && started.elapsed() < LISTEN_PATIENCE => {
                std::thread::sleep(LISTEN_PAUSE);
            }
            other => return other,
        }
    }
}

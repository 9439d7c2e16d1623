//! The engine behind [`crate::Vnet`]: which networks are here, one apply at a time for each, and the edge they share.
//!
//! Everything here blocks and runs on blocking threads; what happens inside a namespace runs on a thread of its own
//! (`Namespace::run`). Locks are taken in the order: a network, then the edge. The order of an apply closes before it
//! moves: public addresses that go are withdrawn from the edge, the network converges, those that come are announced.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tracing::{info, warn};

use crate::compile;
use crate::converge::{Converged, Desired, converge};
use crate::edge::Edge;
use crate::error::{ProgramError, VnetError};
use crate::kernel::links::{self, LinkChange};
use crate::kernel::namespace::Namespace;
use crate::kernel::netlink::Netlink;
use crate::kernel::{conntrack, nft, tap};
use crate::program::{EdgeProgram, NetworkId, NetworkProgram, Port, PortId, PortKind};
use crate::record::{NetworkRecord, Records};
use crate::services::{Services, Shared};
use crate::{Applied, CarriedNetwork, Config, MetadataConnection, Outcome, check, host, limits};

pub(crate) struct Engine {
    config: Config,
    records: Records,
    shared: Shared,
    networks: Mutex<BTreeMap<NetworkId, Arc<Cell>>>,
    edge: Mutex<Edge>,
}

/// One network.
struct Cell {
    number: u32,
    state: Mutex<CellState>,
}

struct CellState {
    record: NetworkRecord,
    namespace: Option<Namespace>,
    services: Option<Services>,
    removed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn digest(program: &impl serde::Serialize) -> String {
    let bytes = serde_json::to_vec(program).unwrap_or_default();
    hex::encode(Sha256::digest(&bytes))
}

/// Empties a namespace of ours: devices, routes and rulesets.
fn clear(namespace: &Namespace) -> Result<(), VnetError> {
    let nothing = Desired {
        addresses: [compile::loopback()].into(),
        ..Desired::default()
    };
    namespace.run(|| converge(&nothing, None).map(|_| ()))
}

impl Engine {
    pub(crate) fn open(
        config: Config,
        runtime: Handle,
        queue: Sender<MetadataConnection>,
    ) -> Result<Engine, VnetError> {
        if !check::cloud_tag(&config.cloud_tag) {
            return Err(VnetError::CloudTag {
                tag: config.cloud_tag,
            });
        }
        if !limits::MTU_RANGE.contains(&config.mtu) {
            return Err(ProgramError::Mtu(config.mtu).into());
        }
        let records = Records::open(&config.run_dir)?;
        let host = compile::host(None, &config.cloud_tag);
        nft::find_table(&host.table.family, &host.table.name)?;
        let mtu = config.mtu;
        let edge = Edge::new(
            format!("spx-{}-edge", config.cloud_tag),
            mtu,
            records.find_edge()?,
        );
        let engine = Engine {
            config,
            records,
            shared: Shared {
                runtime,
                queue,
                upstreams: Arc::default(),
                mtu,
            },
            networks: Mutex::default(),
            edge: Mutex::new(edge),
        };
        for record in engine.records.list_networks()? {
            let network = record.network.clone();
            let cell = engine.adopt(record)?;
            lock(&engine.networks).insert(network, Arc::new(cell));
        }
        Ok(engine)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    fn name_prefix(&self) -> String {
        format!("spx-{}-", self.config.cloud_tag)
    }

    fn namespace_name(&self, number: u32) -> String {
        format!("{}{number}", self.name_prefix())
    }

    /// Takes over a network of an earlier run: its namespace if it is the same one, and its servers at once.
    fn adopt(&self, record: NetworkRecord) -> Result<Cell, VnetError> {
        let number = record.number;
        let found = Namespace::find(&self.namespace_name(number))?;
        let namespace = found.filter(|namespace| record.namespace == Some(namespace.inode()));
        let mut state = CellState {
            record,
            namespace,
            services: None,
            removed: false,
        };
        let mut edge = lock(&self.edge);
        edge.networks.insert(number, state.record.network.to_string());
        if let (Some(namespace), Some(program)) = (&state.namespace, &state.record.program) {
            edge.public.extend(
                program
                    .ports
                    .iter()
                    .filter_map(|port| Some((port.public?, number))),
            );
            let devices = namespace.run(|| {
                let links = links::list(&mut Netlink::route()?)?;
                Ok(links.into_iter().map(|link| (link.name, link.index)).collect())
            });
            let started =
                devices.and_then(|devices| Services::start(&self.shared, namespace, program, &devices));
            match started {
                Ok(services) => {
                    state.services = Some(services);
                    info!(network = %program.network, namespace = namespace.name(), "adopted");
                }
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    warn!(error, network = %program.network, "adopted without listeners; apply repairs it");
                }
            }
        }
        Ok(Cell {
            number,
            state: Mutex::new(state),
        })
    }

    /// The network's cell; a new one gets the smallest free number and its record.
    fn ensure_cell(&self, network: &NetworkId) -> Result<Arc<Cell>, VnetError> {
        let mut networks = lock(&self.networks);
        if let Some(cell) = networks.get(network) {
            return Ok(Arc::clone(cell));
        }
        let taken: BTreeSet<u32> = networks.values().map(|cell| cell.number).collect();
        let number = (1..=limits::NETWORKS_MAX).find(|number| !taken.contains(number));
        let number = number.ok_or(VnetError::NetworksExhausted)?;
        let record = NetworkRecord::new(network.clone(), number);
        self.records.put_network(&record)?;
        let state = CellState {
            record,
            namespace: None,
            services: None,
            removed: false,
        };
        let cell = Arc::new(Cell {
            number,
            state: Mutex::new(state),
        });
        networks.insert(network.clone(), Arc::clone(&cell));
        Ok(cell)
    }

    fn find_cell(&self, network: &NetworkId) -> Option<Arc<Cell>> {
        lock(&self.networks).get(network).cloned()
    }

    pub(crate) fn apply(&self, program: &NetworkProgram) -> Result<Applied, VnetError> {
        check::network(program)?;
        loop {
            let cell = self.ensure_cell(&program.network)?;
            let mut state = lock(&cell.state);
            if !state.removed {
                return self.apply_to(cell.number, &mut state, program);
            }
        }
    }

    fn apply_to(
        &self,
        number: u32,
        state: &mut CellState,
        program: &NetworkProgram,
    ) -> Result<Applied, VnetError> {
        if let Some(applied) = &state.record.program
            && applied.generation > program.generation
        {
            return Ok(Applied {
                generation: applied.generation,
                digest: digest(applied),
                outcome: Outcome::Skipped,
            });
        }
        let namespace = self.ensure_namespace(number, state)?;
        let public: BTreeMap<Ipv4Addr, Ipv4Addr> = program
            .ports
            .iter()
            .filter_map(|port| Some((port.public?, port.address)))
            .collect();
        let mut changed = self.withdraw(number, &program.network, &public)?;
        let converged = self.converge_network(number, &namespace, program)?;
        changed |= converged.changed;
        let moved = moved_addresses(state.record.program.as_ref(), &public);
        namespace.run(|| conntrack::delete_translated(&moved))?;
        changed |= self.announce(number, &public)?;
        if state
            .services
            .as_ref()
            .is_some_and(|services| !services.fit(program))
        {
            state.services = None;
        }
        match &state.services {
            Some(services) => services.update(&self.shared, program, &converged.devices),
            None => {
                state.services = Some(Services::start(
                    &self.shared,
                    &namespace,
                    program,
                    &converged.devices,
                )?)
            }
        }
        if state.record.program.as_ref() != Some(program) {
            state.record.program = Some(program.clone());
            self.records.put_network(&state.record)?;
        }
        let outcome = if changed {
            Outcome::Changed
        } else {
            Outcome::Unchanged
        };
        Ok(Applied {
            generation: program.generation,
            digest: digest(program),
            outcome,
        })
    }

    fn ensure_namespace(&self, number: u32, state: &mut CellState) -> Result<Namespace, VnetError> {
        let namespace = Namespace::ensure(&self.namespace_name(number))?;
        let same = state.namespace.as_ref().map(Namespace::inode) == Some(namespace.inode());
        if !same {
            state.services = None;
        }
        if state.record.namespace != Some(namespace.inode()) {
            state.record.namespace = Some(namespace.inode());
            self.records.put_network(&state.record)?;
        }
        state.namespace = Some(namespace.clone());
        Ok(namespace)
    }

    fn converge_network(
        &self,
        number: u32,
        namespace: &Namespace,
        program: &NetworkProgram,
    ) -> Result<Converged, VnetError> {
        let desired = compile::network(program, self.config.mtu, &compile::transit_name(number));
        let edge = lock(&self.edge).ensure_namespace()?;
        namespace.run(|| converge(&desired, Some(edge.as_fd())))
    }

    /// Takes away from the edge what the network no longer has.
    fn withdraw(
        &self,
        number: u32,
        network: &NetworkId,
        public: &BTreeMap<Ipv4Addr, Ipv4Addr>,
    ) -> Result<bool, VnetError> {
        let mut edge = lock(&self.edge);
        edge.networks.insert(number, network.to_string());
        let before = edge.public.len();
        edge.public
            .retain(|address, owner| *owner != number || public.contains_key(address));
        if edge.public.len() == before {
            Ok(false)
        } else {
            edge.converge()
        }
    }

    /// Routes the network's public addresses to it.
    fn announce(&self, number: u32, public: &BTreeMap<Ipv4Addr, Ipv4Addr>) -> Result<bool, VnetError> {
        let mut edge = lock(&self.edge);
        edge.public
            .extend(public.keys().map(|address| (*address, number)));
        edge.converge()
    }

    pub(crate) fn remove(&self, network: &NetworkId) -> Result<(), VnetError> {
        let Some(cell) = self.find_cell(network) else {
            return Ok(());
        };
        let mut state = lock(&cell.state);
        if state.removed {
            return Ok(());
        }
        let mut edge = lock(&self.edge);
        edge.public.retain(|_, owner| *owner != cell.number);
        edge.converge()?;
        state.services = None;
        let name = self.namespace_name(cell.number);
        if let Some(namespace) = Namespace::find(&name)? {
            clear(&namespace)?;
        }
        state.namespace = None;
        Namespace::remove(&name)?;
        edge.networks.remove(&cell.number);
        self.records.delete_network(cell.number)?;
        state.removed = true;
        lock(&self.networks).remove(network);
        Ok(())
    }

    pub(crate) fn list_networks(&self) -> Vec<CarriedNetwork> {
        let cells: Vec<Arc<Cell>> = lock(&self.networks).values().cloned().collect();
        let carried = cells.iter().filter_map(|cell| {
            let state = lock(&cell.state);
            (!state.removed).then(|| CarriedNetwork {
                network: state.record.network.clone(),
                namespace: self.namespace_name(cell.number),
                generation: state.record.program.as_ref().map(|program| program.generation),
            })
        });
        carried.collect()
    }

    pub(crate) fn ensure_edge(&self, program: &EdgeProgram) -> Result<Applied, VnetError> {
        check::edge(program)?;
        let mut edge = lock(&self.edge);
        if let Some(applied) = &edge.program
            && applied.generation > program.generation
        {
            let (generation, digest) = (applied.generation, digest(applied));
            return Ok(Applied {
                generation,
                digest,
                outcome: Outcome::Skipped,
            });
        }
        let namespace = edge.ensure_namespace()?;
        edge.program = Some(program.clone());
        let wanted = compile::host(Some(program), &self.config.cloud_tag);
        let mut changed = host::ensure(&wanted, &namespace, self.config.mtu, program.masquerade)?;
        changed |= edge.converge()?;
        self.records.put_edge(program)?;
        let outcome = if changed {
            Outcome::Changed
        } else {
            Outcome::Unchanged
        };
        Ok(Applied {
            generation: program.generation,
            digest: digest(program),
            outcome,
        })
    }

    pub(crate) fn teardown_all(&self) -> Result<(), VnetError> {
        let networks: Vec<NetworkId> = lock(&self.networks).keys().cloned().collect();
        for network in networks {
            self.remove(&network)?;
        }
        let mut edge = lock(&self.edge);
        host::remove(&compile::host(None, &self.config.cloud_tag))?;
        for name in Namespace::list(&self.name_prefix())? {
            if let Some(namespace) = Namespace::find(&name)? {
                clear(&namespace)?;
            }
            Namespace::remove(&name)?;
        }
        edge.reset();
        self.records.delete_edge()
    }

    fn port(
        &self,
        network: &NetworkId,
        port: &PortId,
        kind: PortKind,
    ) -> Result<(Namespace, Port), VnetError> {
        let unknown = || VnetError::NetworkUnknown {
            network: network.clone(),
        };
        let cell = self.find_cell(network).ok_or_else(unknown)?;
        let state = lock(&cell.state);
        let namespace = state.namespace.clone().ok_or_else(unknown)?;
        let program = state.record.program.as_ref().ok_or_else(unknown)?;
        let found = program
            .ports
            .iter()
            .find(|one| one.id == *port && one.kind == kind);
        let found = found.ok_or_else(|| VnetError::PortUnknown {
            network: network.clone(),
            port: port.clone(),
        })?;
        Ok((namespace, found.clone()))
    }

    pub(crate) fn open_tap(&self, network: &NetworkId, port: &PortId) -> Result<OwnedFd, VnetError> {
        let (namespace, port) = self.port(network, port, PortKind::Tap)?;
        let device = compile::device_name(port.number);
        namespace.run(|| {
            let present = links::list(&mut Netlink::route()?)?;
            if !present
                .iter()
                .any(|link| link.name == device && link.alias == port.id.as_str())
            {
                return Err(VnetError::DeviceMissing {
                    device: device.clone(),
                });
            }
            tap::attach(&device)
        })
    }

    pub(crate) fn hand_over_veth(
        &self,
        network: &NetworkId,
        port: &PortId,
        target: &OwnedFd,
        name: &str,
    ) -> Result<(), VnetError> {
        let (namespace, port) = self.port(network, port, PortKind::Veth)?;
        let device = compile::far_name(port.number);
        namespace.run(|| {
            let mut netlink = Netlink::route()?;
            let present = links::list(&mut netlink)?;
            let link = present.iter().find(|link| link.name == device);
            let link = link.ok_or_else(|| VnetError::DeviceMissing {
                device: device.clone(),
            })?;
            let change = LinkChange {
                name: Some(name),
                namespace: Some(target.as_fd()),
                ..LinkChange::default()
            };
            links::change(&mut netlink, link.index, &change)
        })
    }

    pub(crate) fn set_upstream_resolvers(&self, resolvers: Vec<SocketAddr>) {
        self.shared.upstreams.set(resolvers);
    }
}

/// Public addresses whose private side is not what it was; without a program before, all of them.
fn moved_addresses(
    before: Option<&NetworkProgram>,
    public: &BTreeMap<Ipv4Addr, Ipv4Addr>,
) -> BTreeSet<Ipv4Addr> {
    let Some(before) = before else {
        return public.keys().copied().collect();
    };
    let before: BTreeMap<Ipv4Addr, Ipv4Addr> = before
        .ports
        .iter()
        .filter_map(|port| Some((port.public?, port.address)))
        .collect();
    let gone = before
        .iter()
        .filter(|(address, private)| public.get(*address) != Some(private));
    let come = public
        .iter()
        .filter(|(address, private)| before.get(*address) != Some(private));
    gone.chain(come).map(|(address, _)| *address).collect()
}

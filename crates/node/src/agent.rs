//! The agent: watches the specs of one node, keeps one owner task an object, registers the node.
//!
//! A wake-up carries no data: whatever woke it, the agent lists the specs of its node and gives each owner its newest one.
//! Objects that exist here without a spec are reported, never touched. Dropping the agent leaves guests and exports
//! running; [`Agent::drain`] stops the guests first, so that they start again with the next agent.

use crate::console::Consoles;
use crate::converge::{Applied, converge};
use crate::error::{AgentError, chain};
use crate::facts::{self, Facts};
use crate::guest::record::GuestDirs;
use crate::guest::{GuestContext, Owner, OwnerStatus};
use crate::limits;
use crate::metadata::token::TokenMint;
use crate::metadata::{self, MetadataIndex};
use crate::networks::{self, NetworkKeeper};
use crate::volumes::VolumeKeeper;
use aws_types::ids::{InstanceId, NodeId, VolumeId, VpcId};
use block::export::{ExportManager, ExportManagerConfig, ExportPool};
use block::provider::VolumeProvider;
use ipnet::Ipv4Net;
use node_spec::{
    Accelerator, GuestMetadata, GuestSpec, NetworkObservation, NetworkSpec, NodeQueries, NodeRecord,
    VolumeObservation, VolumeSpec,
};
use rustix::fs::{FlockOperation, flock};
use state::{Record, Scope, Store, StoreError};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error, info, warn};
use vmm::{Hypervisor, Ovmf};
use vnet::{EdgeProgram, Generation, Vnet};

/// Below here each cloud has a directory of its own, named by its tag.
const SOCKETS_ROOT: &str = "/run/spinifex";

/// What an agent needs to know.
pub struct AgentConfig {
    /// Where the node's id, guests and sockets are.
    pub data_dir: PathBuf,
    /// Name of the node, unique in the cloud.
    pub name: String,
    /// Region.
    pub region: String,
    /// Zone.
    pub zone: String,
    /// Short name of the cloud for kernel objects, unique on the machine.
    pub cloud_tag: String,
    /// Public addresses that this node routes; none: no guest has one.
    pub public_pool: Option<Ipv4Net>,
    /// MTU of guests.
    pub mtu: u16,
    /// Program and first arguments of an export process.
    pub export_launcher: Vec<OsString>,
    /// The pool that exports open.
    pub export_pool: ExportPool,
    /// Secret of the metadata service's tokens.
    pub metadata_key: [u8; 32],
    /// Kernels to try the accelerator with, before the machine's own.
    pub probe_kernels: Vec<PathBuf>,
    /// Memory that guests may not have, in MiB.
    pub memory_reserve_mib: u64,
    /// Version of the binary.
    pub version: String,
}

impl AgentConfig {
    /// Directory of export processes, which the provider's publications must name too.
    pub fn exports_dir(&self) -> PathBuf {
        self.sockets_dir().join("exports")
    }

    /// Where this cloud's sockets are: not in the data directory, whose path may be longer than a socket's may be.
    fn sockets_dir(&self) -> PathBuf {
        PathBuf::from(SOCKETS_ROOT).join(&self.cloud_tag)
    }
}

/// A running agent.
pub struct Agent {
    record: NodeRecord,
    volumes: Arc<VolumeKeeper>,
    networks: Arc<NetworkKeeper>,
    consoles: Arc<Consoles>,
    sockets_dir: PathBuf,
    draining: watch::Sender<bool>,
    stopping: watch::Sender<bool>,
    guests: watch::Receiver<GuestStatuses>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    _lock: File,
}

/// The guests that have an owner, and whether each holds anything.
type GuestStatuses = HashMap<InstanceId, watch::Receiver<OwnerStatus>>;

impl Agent {
    /// Starts the agent: opens the engines, probes the accelerator, adopts what runs, registers the node.
    ///
    /// # Errors
    /// A part of the machine that guests need is missing or in use; the text says what to do.
    pub async fn start(
        config: AgentConfig,
        store: Store,
        provider: Arc<dyn VolumeProvider>,
    ) -> Result<Agent, AgentError> {
        let lock = lock_data_dir(&config)?;
        let id = facts::ensure_node_id(&config.data_dir.join("node-id"))?;
        let facts = facts::read()?;
        let hypervisor = Hypervisor::fetch().await?;
        let guests_dir = config.data_dir.join("guests");
        let dirs = GuestDirs::open(guests_dir, config.sockets_dir().join("guests"))?;
        let vnet = Arc::new(open_vnet(&config).await?);
        let probe =
            vmm::probe_accelerator(&hypervisor, &config.data_dir.join("run"), &config.probe_kernels).await?;
        info!(accelerator = ?probe.accelerator, outcome = ?probe.outcome, "guests run with this accelerator");

        let exports = ExportManager::open(ExportManagerConfig {
            exports: config.exports_dir(),
            launcher: config.export_launcher.clone(),
            pool: config.export_pool.clone(),
        })?;
        let provider_node = block::id::NodeId::new(id.as_str()).expect("node ids are provider ids");
        let volumes = Arc::new(VolumeKeeper::new(provider, exports, provider_node));
        let domain = format!("{}.compute.internal", config.region);
        let networks = Arc::new(NetworkKeeper::new(vnet.clone(), domain));

        let record = node_record(&config, &id, &facts, probe.accelerator);
        let written = &record;
        store
            .update(|tx| async move { tx.put(written) })
            .await
            .map_err(|error| AgentError::Register(Box::new(error)))?;

        let consoles = Arc::new(Consoles::new(id.clone(), dirs.clone()));
        let context = Arc::new(GuestContext {
            node: id.clone(),
            store: store.clone(),
            volumes: volumes.clone(),
            networks: networks.clone(),
            hypervisor,
            accelerator: probe.accelerator,
            ovmf: Ovmf::fetch().ok(),
            dirs,
            mtu: config.mtu,
        });
        let (draining, stopping) = (watch::Sender::new(false), watch::Sender::new(false));
        let statuses = watch::Sender::new(GuestStatuses::new());
        let guests = statuses.subscribe();
        let index = Arc::new(MetadataIndex::default());
        let mut dispatcher = Dispatcher {
            store: store.clone(),
            scope: Scope::node(&id),
            context,
            index: index.clone(),
            draining: draining.subscribe(),
            statuses,
            guests: HashMap::new(),
            volumes: HashMap::new(),
            networks: HashMap::new(),
            tasks: JoinSet::new(),
            reported_orphans: BTreeSet::new(),
        };
        // The first look precedes the registration's readers: what runs is adopted before anything new is started.
        dispatcher.look().await?;
        let wake = Arc::new(Notify::new());
        let mut tasks = watch_specs(&store, &wake, &stopping);
        tasks.push(tokio::spawn(dispatcher.run(wake, stopping.subscribe())));
        let mint = Arc::new(TokenMint::new(config.metadata_key));
        tasks.push(tokio::spawn(metadata::serve(
            vnet,
            index,
            mint,
            stopping.subscribe(),
        )));
        Ok(Agent {
            record,
            volumes,
            networks,
            consoles,
            sockets_dir: config.sockets_dir(),
            draining,
            stopping,
            guests,
            tasks: Mutex::new(tasks),
            _lock: lock,
        })
    }

    /// The node as it registered itself.
    pub fn node(&self) -> &NodeRecord {
        &self.record
    }

    /// Volumes of this node, for imports.
    pub fn volumes(&self) -> &Arc<VolumeKeeper> {
        &self.volumes
    }

    /// Answers that only this node can give.
    pub fn queries(&self) -> Arc<dyn NodeQueries> {
        self.consoles.clone()
    }

    /// Guests of which anything is on this machine.
    pub fn guests_held(&self) -> usize {
        self.guests
            .borrow()
            .values()
            .filter(|status| *status.borrow() == OwnerStatus::Holding)
            .count()
    }

    /// Stops every guest in order and waits, at most until `bound`, that nothing of any guest runs here. Their intent is
    /// untouched: they start again with the next agent. True if nothing is left.
    pub async fn drain(&self, bound: Duration) -> bool {
        self.draining.send_replace(true);
        let deadline = Instant::now() + bound;
        let guests: Vec<_> = self.guests.borrow().values().cloned().collect();
        for mut status in guests {
            match timeout_at(deadline, status.wait_for(|status| *status == OwnerStatus::Idle)).await {
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Ends the agent's tasks. Guests and exports run on. A second call finds nothing to end.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(error) = task.await {
                error!(%error, "a task of the agent panicked");
            }
        }
    }

    /// Removes what this cloud made in the kernel. For an agent that was drained and stopped.
    ///
    /// # Errors
    /// Something is left.
    pub async fn teardown(&self) -> Result<(), AgentError> {
        self.networks.teardown().await.map_err(AgentError::Network)?;
        match std::fs::remove_dir_all(&self.sockets_dir) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(AgentError::Facts {
                path: self.sockets_dir.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

fn lock_data_dir(config: &AgentConfig) -> Result<File, AgentError> {
    let run = config.data_dir.join("run");
    let path = run.join("agent.lock");
    let failed = |source| AgentError::Facts {
        path: path.clone(),
        source,
    };
    std::fs::create_dir_all(&run).map_err(failed)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(AgentError::Locked { path }),
    }
}

async fn open_vnet(config: &AgentConfig) -> Result<Vnet, AgentError> {
    let vnet = Vnet::open(vnet::Config {
        cloud_tag: config.cloud_tag.clone(),
        run_dir: config.data_dir.join("run/net"),
        mtu: config.mtu.into(),
    })
    .await?;
    if let Some(pool) = config.public_pool {
        vnet.ensure_edge(&EdgeProgram {
            generation: Generation(1),
            pools: vec![pool],
            host_address: vnet::host_address(&pool),
            masquerade: true,
        })
        .await?;
    }
    Ok(vnet)
}

fn node_record(
    config: &AgentConfig,
    id: &NodeId,
    facts: &Facts,
    accelerator: vmm::Accelerator,
) -> NodeRecord {
    NodeRecord {
        id: id.clone(),
        name: config.name.clone(),
        region: config.region.clone(),
        zone: config.zone.clone(),
        boot_id: facts.boot_id.clone(),
        cpu_threads: facts.cpu_threads,
        memory_mib: facts.memory_mib,
        memory_reserve_mib: config.memory_reserve_mib,
        accelerator: Some(match accelerator {
            vmm::Accelerator::Kvm => Accelerator::Kvm,
            vmm::Accelerator::Tcg => Accelerator::Tcg,
        }),
        cpu_vendor: facts.cpu_vendor.clone(),
        version: config.version.clone(),
        started_at: OffsetDateTime::now_utc(),
    }
}

/// One task a table that wakes the dispatcher when anything in it changes.
fn watch_specs(store: &Store, wake: &Arc<Notify>, stopping: &watch::Sender<bool>) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(wake_on::<GuestSpec>(
            store.clone(),
            wake.clone(),
            stopping.subscribe(),
        )),
        tokio::spawn(wake_on::<VolumeSpec>(
            store.clone(),
            wake.clone(),
            stopping.subscribe(),
        )),
        tokio::spawn(wake_on::<NetworkSpec>(
            store.clone(),
            wake.clone(),
            stopping.subscribe(),
        )),
        tokio::spawn(wake_on::<GuestMetadata>(
            store.clone(),
            wake.clone(),
            stopping.subscribe(),
        )),
    ]
}

async fn wake_on<T: Record>(store: Store, wake: Arc<Notify>, mut stopping: watch::Receiver<bool>) {
    let watch_forever = async {
        loop {
            match store.watch_table::<T>(None).await {
                Ok(mut changes) => {
                    // Changes before the watch began are covered by this wake.
                    wake.notify_one();
                    while changes.next().await.is_ok() {
                        wake.notify_one();
                    }
                }
                Err(error) => warn!(
                    table = T::TABLE,
                    error = chain(&error),
                    "a table cannot be watched yet"
                ),
            }
            tokio::time::sleep(limits::RETRY_FIRST).await;
        }
    };
    tokio::select! {
        () = watch_forever => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

struct GuestTask {
    specs: watch::Sender<Option<GuestSpec>>,
}

/// Gives every owner its newest spec.
struct Dispatcher {
    store: Store,
    scope: Scope,
    context: Arc<GuestContext>,
    index: Arc<MetadataIndex>,
    draining: watch::Receiver<bool>,
    statuses: watch::Sender<GuestStatuses>,
    guests: HashMap<InstanceId, GuestTask>,
    volumes: HashMap<VolumeId, watch::Sender<VolumeSpec>>,
    networks: HashMap<VpcId, watch::Sender<NetworkSpec>>,
    tasks: JoinSet<()>,
    reported_orphans: BTreeSet<InstanceId>,
}

impl Dispatcher {
    async fn run(mut self, wake: Arc<Notify>, mut stopping: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = wake.notified() => {}
                () = tokio::time::sleep(limits::RESYNC_INTERVAL) => {}
                _ = stopping.wait_for(|stop| *stop) => break,
            }
            if let Err(error) = self.look().await {
                // Unreadable is not empty: every owner goes on with what it has.
                warn!(error = chain(&error), "the specs of this node cannot be read yet");
                tokio::time::sleep(limits::RETRY_FIRST).await;
                wake.notify_one();
            }
            while let Some(ended) = self.tasks.try_join_next() {
                if let Err(error) = ended {
                    error!(%error, "an owner task panicked; its object has no owner until the agent restarts");
                }
            }
        }
        // Owners end with their channels; what they own runs on.
        self.guests.clear();
        self.volumes.clear();
        self.networks.clear();
        while self.tasks.join_next().await.is_some() {}
    }

    /// One full look at the specs of this node.
    async fn look(&mut self) -> Result<(), StoreError> {
        self.index
            .set(self.store.list::<GuestMetadata>(&self.scope).await?);
        for spec in self.store.list::<NetworkSpec>(&self.scope).await? {
            self.give_network(spec);
        }
        let specs = self.store.list::<VolumeSpec>(&self.scope).await?;
        self.volumes
            .retain(|volume, _| specs.iter().any(|spec| spec.volume == *volume));
        for spec in specs {
            self.give_volume(spec).await?;
        }
        let specs = self.store.list::<GuestSpec>(&self.scope).await?;
        self.give_guests(specs);
        Ok(())
    }

    fn give_network(&mut self, spec: NetworkSpec) {
        if let Some(sender) = self.networks.get(&spec.vpc) {
            sender.send_if_modified(|old| replace_if_newer(old, spec, |spec| spec.generation));
            return;
        }
        let (sender, receiver) = watch::channel(spec.clone());
        self.networks.insert(spec.vpc, sender);
        let (context, store) = (self.context.clone(), self.store.clone());
        // The kernel forgets with the boot, so the first spec after a start is always applied.
        self.tasks.spawn(converge(
            receiver,
            |spec| spec.generation,
            None,
            move |spec: NetworkSpec| {
                let (context, store) = (context.clone(), store.clone());
                async move { apply_network(&context, &store, spec).await }
            },
        ));
    }

    async fn give_volume(&mut self, spec: VolumeSpec) -> Result<(), StoreError> {
        if let Some(sender) = self.volumes.get(&spec.volume) {
            sender.send_if_modified(|old| replace_if_newer(old, spec, |spec| spec.generation));
            return Ok(());
        }
        // A volume that was reported is never made again: were its data gone, making it would hide the loss.
        let seen = self
            .store
            .find::<VolumeObservation>(&self.scope, spec.volume.as_str())
            .await?;
        let applied = seen.map(|seen| seen.applied_generation);
        let (sender, receiver) = watch::channel(spec.clone());
        self.volumes.insert(spec.volume, sender);
        let (context, store) = (self.context.clone(), self.store.clone());
        self.tasks.spawn(converge(
            receiver,
            |spec| spec.generation,
            applied,
            move |spec: VolumeSpec| {
                let (context, store) = (context.clone(), store.clone());
                async move { apply_volume(&context, &store, spec).await }
            },
        ));
        Ok(())
    }

    fn give_guests(&mut self, specs: Vec<GuestSpec>) {
        let mut wanted = BTreeSet::new();
        for spec in specs {
            wanted.insert(spec.instance.clone());
            match self.guests.get(&spec.instance) {
                Some(task) => {
                    task.specs.send_if_modified(|old| match old {
                        Some(old) => replace_if_newer(old, spec, |spec| spec.generation),
                        None => {
                            *old = Some(spec);
                            true
                        }
                    });
                }
                None => self.own_guest(spec),
            }
        }
        let missing: Vec<InstanceId> = self
            .guests
            .keys()
            .filter(|id| !wanted.contains(*id))
            .cloned()
            .collect();
        for instance in missing {
            self.forget_guest(&instance);
        }
        self.report_orphans(&wanted);
    }

    fn own_guest(&mut self, spec: GuestSpec) {
        let instance = spec.instance.clone();
        let (specs, receiver) = watch::channel(Some(spec));
        let status = watch::Sender::new(OwnerStatus::Holding);
        self.statuses.send_modify(|all| {
            all.insert(instance.clone(), status.subscribe());
        });
        let owner = Owner::new(
            self.context.clone(),
            instance.clone(),
            receiver,
            self.draining.clone(),
            status,
        );
        self.tasks.spawn(owner.run());
        self.guests.insert(instance, GuestTask { specs });
    }

    /// The guest's spec is gone. That is in order after it was acknowledged as gone here, and an alarm otherwise.
    fn forget_guest(&mut self, instance: &InstanceId) {
        let is_idle = self
            .statuses
            .borrow()
            .get(instance)
            .is_some_and(|status| *status.borrow() == OwnerStatus::Idle);
        if is_idle && !self.context.dirs.dir(instance).exists() {
            self.guests.remove(instance);
            self.statuses.send_modify(|all| {
                all.remove(instance);
            });
            return;
        }
        if let Some(task) = self.guests.get(instance) {
            let vanished = task.specs.send_if_modified(|spec| spec.take().is_some());
            if vanished {
                error!(%instance, "DATA-SAFETY ALARM: the spec of a guest that is here vanished; nothing is done to it");
            }
        }
    }

    fn report_orphans(&mut self, wanted: &BTreeSet<InstanceId>) {
        match self.context.dirs.list() {
            Ok(found) => {
                for instance in found {
                    let is_new = !wanted.contains(&instance)
                        && !self.guests.contains_key(&instance)
                        && self.reported_orphans.insert(instance.clone());
                    if is_new {
                        error!(%instance, "DATA-SAFETY ALARM: a guest is here that no spec names; nothing is done to it");
                    }
                }
            }
            Err(error) => warn!(
                error = chain(&error),
                "the guests on this machine cannot be listed"
            ),
        }
    }
}

fn replace_if_newer<S>(old: &mut S, new: S, generation: fn(&S) -> u64) -> bool {
    let newer = generation(&new) > generation(old);
    if newer {
        *old = new;
    }
    newer
}

async fn apply_network(context: &GuestContext, store: &Store, spec: NetworkSpec) -> Applied {
    let begun = Instant::now();
    let outcome = context.networks.apply(&spec).await;
    debug!(vpc = %spec.vpc, took = ?begun.elapsed(), "applied a network");
    let error = outcome.err().map(|error| {
        error!(vpc = %spec.vpc, error = chain(&error), "a network cannot be applied; trying again");
        networks::report(&error)
    });
    let scope = Scope::node(&spec.node);
    let seen = match store.find::<NetworkObservation>(&scope, spec.vpc.as_str()).await {
        Ok(seen) => seen,
        Err(_) => return Applied::Again,
    };
    let before = seen.as_ref().map_or(0, |seen| seen.applied_generation);
    let observation = NetworkObservation {
        node: spec.node.clone(),
        vpc: spec.vpc.clone(),
        applied_generation: if error.is_none() { spec.generation } else { before },
        error: error.clone(),
        at: OffsetDateTime::now_utc(),
    };
    let is_news = seen.is_none_or(|seen| {
        seen.applied_generation != observation.applied_generation || seen.error != observation.error
    });
    if is_news && !put(store, &observation).await {
        return Applied::Again;
    }
    if error.is_none() {
        Applied::Done
    } else {
        Applied::Again
    }
}

async fn apply_volume(context: &GuestContext, store: &Store, spec: VolumeSpec) -> Applied {
    let begun = Instant::now();
    let state = match context.volumes.apply(&spec).await {
        Ok(state) => {
            debug!(volume = %spec.volume, took = ?begun.elapsed(), "applied a volume");
            state
        }
        Err(error) => {
            warn!(volume = %spec.volume, error = chain(&error), "a volume is not as it should be yet; trying again");
            return Applied::Again;
        }
    };
    state::fault_point!("node/volume/applied");
    let observation = VolumeObservation {
        node: spec.node.clone(),
        volume: spec.volume.clone(),
        applied_generation: spec.generation,
        state,
        since: OffsetDateTime::now_utc(),
    };
    if put(store, &observation).await {
        Applied::Done
    } else {
        Applied::Again
    }
}

async fn put<T: Record>(store: &Store, record: &T) -> bool {
    match store.update(|tx| async move { tx.put(record) }).await {
        Ok(()) => true,
        Err(error) => {
            warn!(
                table = T::TABLE,
                error = chain(&error),
                "an observation cannot be committed yet"
            );
            false
        }
    }
}

//! Fills a store with running instances that no machine runs, for `benches/describe.py`.
//!
//! `seed STATE KEYS COUNT`: STATE is the `state.redb` of a cloud that was started once and does not run now, KEYS its
//! `keys` directory. The instances are made by the real RunInstances and brought to `running` by the real reconcilers;
//! only the observations are pretended, as those of nodes that are not this machine, so that a later `spx up` starts
//! nothing. Invariant: what it leaves is what launches on other nodes would have left. A run that was cut off is
//! completed by the next one.

use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations::RunInstances};
use aws_types::ids::{ImageId, InstanceId, NodeId, SnapshotId, SubnetId};
use aws_types::page::PageKey;
use aws_types::{AccountId, Region};
use aws_wire::call::{Call, Caller};
use aws_wire::operation::perform;
use aws_wire::registry::{Found, Registry};
use compute::capability::{ImportedImage, register_imported_image};
use compute::records::{BootMode, Instance, Phase};
use compute::{Context, reconcilers};
use iam::{Authenticator, Keys, ensure_bootstrap};
use network::records::Subnet;
use node_spec::{
    Accelerator, ConsoleTail, GuestObservation, GuestSpec, GuestState, NodeQueries, NodeRecord, QueryError,
    VolumeObservation, VolumeSpec, VolumeState,
};
use state::reconcile::{PassCause, PassContext};
use state::{Record, Scope, Store, StoreError};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use time::OffsetDateTime;

/// Instances of one RunInstances, and so of one reservation. `benches/describe.py` launches as many from its peer.
const INSTANCES_PER_LAUNCH: usize = 50;
/// Launches onto one pretended node, whose network spec must stay far below the store's value bound.
const LAUNCHES_PER_NODE: usize = 5;
/// Instances of a subnet, a /20 without what AWS reserves.
const INSTANCES_PER_SUBNET: usize = 4_000;
/// Rounds of reconcilers after which everything must run: two for 512 instances, and some for what a launch leaves.
const ROUNDS_MAX: usize = 400;
/// Observations of one transaction.
const OBSERVATIONS_PER_TRANSACTION: usize = 400;
/// Addresses for the instances' public interfaces, beside the cloud's own pool.
const PUBLIC_POOL: &str = "100.64.0.0/16";
const REGION: &str = "eu-central-1";
const ZONE: &str = "eu-central-1a";

struct NoConsole;

#[async_trait]
impl NodeQueries for NoConsole {
    async fn find_console_tail(
        &self,
        _: &NodeId,
        _: &InstanceId,
        _: usize,
    ) -> Result<Option<ConsoleTail>, QueryError> {
        Ok(None)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [state, keys, count] = arguments.as_slice() else {
        return Err("usage: seed STATE KEYS COUNT".into());
    };
    let store = Store::open_redb(state)?;
    let keys = Keys::open(Path::new(keys), &store).await?;
    let bootstrap = ensure_bootstrap(&store, &keys, &[], OffsetDateTime::now_utc()).await?;
    let credential = Authenticator::new(store.clone(), keys)
        .find(&bootstrap.tenant.access_key_id)
        .await
        .map_err(|fault| format!("the tenant's key: {fault:?}"))?;
    let context = Context {
        store: store.clone(),
        page_key: PageKey::new([7; 32]),
        queries: Arc::new(NoConsole),
        endpoint: "localhost:9999".into(),
        dns_suffix: "amazonaws.com".into(),
    };
    let mut registry = Registry::new();
    compute::register(&mut registry, &context);
    let seeder = Seeder {
        store,
        context,
        registry,
        caller: credential.caller(),
    };
    let made = seeder.launch_up_to(count.parse()?).await?;
    seeder.settle().await?;
    println!("launched {made} instances");
    Ok(())
}

struct Seeder {
    store: Store,
    context: Context,
    registry: Registry,
    caller: Caller,
}

impl Seeder {
    /// Launches until the tenant has `count` instances. Answers how many it launched.
    async fn launch_up_to(&self, count: usize) -> Result<usize, Box<dyn Error>> {
        network::ensure_public_pool(&self.store, PUBLIC_POOL.parse()?).await?;
        let before = self.store.list_all::<Instance>().await?.len();
        let subnets = self.ensure_subnets(count.div_ceil(INSTANCES_PER_SUBNET)).await?;
        let mut have = before;
        while have < count {
            let image = self.pretend_node().await?;
            for _ in 0..LAUNCHES_PER_NODE {
                let room = INSTANCES_PER_SUBNET - have % INSTANCES_PER_SUBNET;
                let batch = INSTANCES_PER_LAUNCH.min(count - have).min(room);
                if batch > 0 {
                    self.launch(&image, &subnets[have / INSTANCES_PER_SUBNET], batch)
                        .await?;
                }
                have += batch;
            }
        }
        Ok(have - before)
    }

    /// The default subnet and as many more beside it, in blocks that follow it.
    async fn ensure_subnets(&self, count: usize) -> Result<Vec<SubnetId>, Box<dyn Error>> {
        let scope = Scope::account(self.caller.account);
        let mut subnets = self.store.list::<Subnet>(&scope).await?;
        subnets.sort_by_key(|subnet| subnet.block);
        let first = subnets
            .first()
            .cloned()
            .ok_or("the tenant has no default subnet")?;
        let mut free = network::DEFAULT_VPC_BLOCK
            .subnets(first.block.prefix_len())?
            .skip(subnets.len());
        while subnets.len() < count {
            let subnet = Subnet {
                id: SubnetId::random(),
                block: free.next().ok_or("the default VPC has no more blocks")?,
                default_for_zone: false,
                ..first.clone()
            };
            let row = &subnet;
            self.store
                .update(|tx| async move { tx.insert(row) })
                .await
                .map_err(|error| error.to_string())?;
            subnets.push(subnet);
        }
        Ok(subnets.into_iter().map(|subnet| subnet.id).collect())
    }

    /// A node with room for its launches, and an image whose bytes it would have.
    async fn pretend_node(&self) -> Result<ImageId, Box<dyn Error>> {
        let id = NodeId::random();
        let node = NodeRecord {
            name: format!("pretended-{id}"),
            id,
            region: REGION.into(),
            zone: ZONE.into(),
            boot_id: "pretended".into(),
            cpu_threads: 256,
            memory_mib: 1024 * 1024,
            memory_reserve_mib: 0,
            accelerator: Some(Accelerator::Kvm),
            cpu_vendor: "GenuineIntel".into(),
            version: "0".into(),
            started_at: OffsetDateTime::UNIX_EPOCH,
        };
        self.put_all(std::slice::from_ref(&node)).await?;
        let image = ImportedImage {
            account: AccountId::SYSTEM,
            name: format!("seed-{}", node.id),
            description: String::new(),
            size_bytes: 100 << 20,
            boot_mode: BootMode::LegacyBios,
            architecture: "x86_64".into(),
            snapshot: SnapshotId::random(),
            handle: "00".repeat(16),
            node: node.id,
            public: true,
        };
        Ok(
            register_imported_image(&self.store, image, OffsetDateTime::now_utc())
                .await?
                .id,
        )
    }

    async fn launch(&self, image: &ImageId, subnet: &SubnetId, count: usize) -> Result<(), Box<dyn Error>> {
        let number = Some(i32::try_from(count)?);
        let tag = |key: &str, value: &str| ec2::Tag {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        let request = ec2::RunInstancesRequest {
            image_id: Some(image.to_string()),
            instance_type: Some("t3.micro".into()),
            min_count: number,
            max_count: number,
            network_interfaces: vec![ec2::InstanceNetworkInterfaceSpecification {
                device_index: Some(0),
                subnet_id: Some(subnet.to_string()),
                associate_public_ip_address: Some(true),
                ..Default::default()
            }],
            tag_specifications: vec![ec2::TagSpecification {
                resource_type: Some("instance".into()),
                tags: vec![tag("Name", "bench"), tag("Stage", "test")],
            }],
            ..Default::default()
        };
        let schema = RunInstances::SCHEMA;
        let Found::Built(operation) = self.registry.find(schema.service, schema.name) else {
            return Err("RunInstances is not registered".into());
        };
        let call = Call::new(
            self.caller.clone(),
            Region::parse(REGION)?,
            OffsetDateTime::now_utc(),
        );
        perform(operation.as_ref(), &call, Box::new(request))
            .await
            .result?;
        Ok(())
    }

    /// Reconcilers and pretended observations until every instance runs.
    async fn settle(&self) -> Result<(), Box<dyn Error>> {
        let reconcilers = reconcilers(&self.context);
        for _ in 0..ROUNDS_MAX {
            let mut changed = 0;
            for reconciler in &reconcilers {
                let context = PassContext::new(self.store.clone(), PassCause::Wake);
                changed += reconciler
                    .pass(&context)
                    .await
                    .map_err(|error| format!("{}: {error:?}", reconciler.name()))?
                    .changed;
            }
            if changed == 0 && self.observe().await? == 0 {
                let instances = self.store.list_all::<Instance>().await?;
                return match instances.iter().find(|one| one.lifecycle.phase != Phase::Running) {
                    None => Ok(()),
                    Some(one) => Err(format!("{} stays {:?}", one.id, one.lifecycle.phase).into()),
                };
            }
        }
        Err(format!("not settled after {ROUNDS_MAX} rounds").into())
    }

    /// Pretends that every volume is made and every guest runs. Answers how many observations are new.
    async fn observe(&self) -> Result<usize, Box<dyn Error>> {
        let since = OffsetDateTime::now_utc();
        let seen = self.store.list_all::<VolumeObservation>().await?;
        let seen: BTreeSet<_> = seen.into_iter().map(|one| one.volume).collect();
        let volumes: Vec<VolumeObservation> = self
            .store
            .list_all::<VolumeSpec>()
            .await?
            .into_iter()
            .filter(|spec| !seen.contains(&spec.volume))
            .map(|spec| VolumeObservation {
                node: spec.node,
                volume: spec.volume,
                applied_generation: spec.generation,
                state: VolumeState::Ready {
                    handle: "11".repeat(16),
                },
                since,
            })
            .collect();
        let seen = self.store.list_all::<GuestObservation>().await?;
        let seen: BTreeSet<_> = seen.into_iter().map(|one| one.instance).collect();
        let guests: Vec<GuestObservation> = self
            .store
            .list_all::<GuestSpec>()
            .await?
            .into_iter()
            .filter(|spec| !seen.contains(&spec.instance))
            .map(|spec| GuestObservation {
                node: spec.node,
                instance: spec.instance,
                applied_generation: spec.generation,
                applied_start_generation: spec.start_generation,
                applied_reboot_generation: spec.reboot_generation,
                state: GuestState::Running,
                process: None,
                since,
                starts: 1,
                panicked_at: None,
            })
            .collect();
        self.put_all(&volumes).await?;
        self.put_all(&guests).await?;
        Ok(volumes.len() + guests.len())
    }

    async fn put_all<T: Record>(&self, rows: &[T]) -> Result<(), Box<dyn Error>> {
        for part in rows.chunks(OBSERVATIONS_PER_TRANSACTION) {
            self.store
                .update(|tx| async move { part.iter().try_for_each(|row| tx.put(row)) })
                .await
                .map_err(|error: state::UpdateError<StoreError>| error.to_string())?;
        }
        Ok(())
    }
}

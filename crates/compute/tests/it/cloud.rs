//! A small cloud in memory: accounts, a default network, one node, one image, and every operation of this room.

use crate::node::FakeNode;
use async_trait::async_trait;
use aws_shapes::{OperationShape, ec2};
use aws_types::ids::{ImageId, InstanceId, NodeId, SnapshotId};
use aws_types::page::PageKey;
use aws_types::{AccountId, AwsError, Region};
use aws_wire::call::Call;
use aws_wire::operation::{DynOperation, perform};
use aws_wire::parameters::Parameters;
use aws_wire::registry::{Found, Registry};
use compute::capability::{ImportedImage, register_imported_image};
use compute::records::BootMode;
use compute::{Context, reconcilers};
use iam::{Authenticator, Keys, ensure_bootstrap};
use node_spec::{Accelerator, ConsoleTail, NodeQueries, NodeRecord, QueryError};
use state::reconcile::{PassCause, PassContext};
use state::{Reconciler, Store};
use std::any::Any;
use std::sync::Arc;
use tempfile::TempDir;
use time::OffsetDateTime;

/// Passes after which everything must have settled.
const PASSES_MAX: usize = 60;

/// The tenant.
pub const TENANT: AccountId = AccountId::FIRST_TENANT;
/// The region and its zone.
pub const REGION: &str = "eu-central-1";
pub const ZONE: &str = "eu-central-1a";

/// The cloud.
pub struct Cloud {
    _dir: TempDir,
    pub store: Store,
    pub context: Context,
    pub node: FakeNode,
    pub image: ImageId,
    registry: Registry,
    reconcilers: Vec<Arc<dyn Reconciler>>,
    caller: aws_wire::call::Caller,
}

/// Answers every console question with one line.
pub struct OneLine;

#[async_trait]
impl NodeQueries for OneLine {
    async fn find_console_tail(
        &self,
        _: &NodeId,
        instance: &InstanceId,
        _: usize,
    ) -> Result<Option<ConsoleTail>, QueryError> {
        let bytes = format!("SPX-READY {instance}\n").into_bytes();
        Ok(Some(ConsoleTail {
            bytes,
            modified_at: OffsetDateTime::UNIX_EPOCH,
        }))
    }
}

/// A node with room for guests.
pub fn node_record(cpu_threads: u32, memory_mib: u64) -> NodeRecord {
    NodeRecord {
        id: NodeId::random(),
        name: "test".into(),
        region: REGION.into(),
        zone: ZONE.into(),
        boot_id: "boot".into(),
        cpu_threads,
        memory_mib,
        memory_reserve_mib: 0,
        accelerator: Some(Accelerator::Kvm),
        cpu_vendor: "GenuineIntel".into(),
        version: "0".into(),
        started_at: OffsetDateTime::UNIX_EPOCH,
    }
}

impl Cloud {
    /// With a node of 64 threads and 256 GiB.
    pub async fn new() -> Cloud {
        Cloud::with(node_record(64, 256 * 1024)).await
    }

    pub async fn with(node: NodeRecord) -> Cloud {
        Cloud::over(Store::memory(), node).await
    }

    pub async fn over(store: Store, node: NodeRecord) -> Cloud {
        let dir = tempfile::tempdir().expect("a directory");
        let keys = Keys::open(&dir.path().join("keys"), &store).await.expect("keys");
        let bootstrap = ensure_bootstrap(&store, &keys, &[], OffsetDateTime::now_utc())
            .await
            .expect("accounts");
        let credential = Authenticator::new(store.clone(), keys)
            .find(&bootstrap.tenant.access_key_id)
            .await
            .expect("the founding key");
        let region = Region::parse(REGION).expect("a region");
        let zones = [region.zone('a')];
        network::ensure_public_pool(&store, "198.18.0.0/16".parse().expect("a block"))
            .await
            .expect("a pool");
        network::ensure_default_network(&store, TENANT, &region, &zones)
            .await
            .expect("a network");
        let record = &node;
        store
            .update(|tx| async move { tx.put(record) })
            .await
            .expect("a node");
        let image = register_image(&store, &node.id, "tiny").await;
        let context = Context {
            store: store.clone(),
            page_key: PageKey::new([7; 32]),
            queries: Arc::new(OneLine),
            endpoint: "localhost:9999".into(),
            dns_suffix: "amazonaws.com".into(),
        };
        let mut registry = Registry::new();
        compute::register(&mut registry, &context);
        Cloud {
            _dir: dir,
            node: FakeNode::new(node.id),
            image,
            registry,
            reconcilers: reconcilers(&context),
            caller: credential.caller(),
            context,
            store,
        }
    }

    /// Calls an operation as the tenant's admin.
    pub async fn call<S: OperationShape>(&self, input: S::Input) -> Result<S::Output, AwsError>
    where
        S::Input: 'static,
        S::Output: 'static,
    {
        self.call_as::<S>(input, false).await
    }

    /// As [`Cloud::call`], with `DryRun`.
    pub async fn call_as<S: OperationShape>(
        &self,
        input: S::Input,
        dry_run: bool,
    ) -> Result<S::Output, AwsError>
    where
        S::Input: 'static,
        S::Output: 'static,
    {
        let region = Region::parse(REGION).expect("a region");
        let mut call = Call::new(self.caller.clone(), region, OffsetDateTime::now_utc());
        call.dry_run = dry_run;
        // What was asked stands in for the request's form, so that tokens are bound to it.
        let form = format!("Input={}", percent(&without_paging(&format!("{input:?}"))));
        let call = call.with_parameters(Parameters::form(&form, Default::default()));
        let Found::Built(operation) = self.registry.find(S::SCHEMA.service, S::SCHEMA.name) else {
            panic!("{} is not registered", S::SCHEMA.name);
        };
        let output = perform(operation.as_ref(), &call, Box::new(input)).await.result?;
        let output: Box<dyn Any> = output.into_any();
        Ok(*output.downcast::<S::Output>().expect("the operation's output"))
    }

    /// Every operation of the room.
    pub fn operations(&self) -> Vec<Arc<dyn DynOperation>> {
        self.registry.operations()
    }

    /// Calls an operation with an empty input, as a caller whom nothing is granted.
    pub async fn call_without_policies(&self, operation: &dyn DynOperation) -> Result<(), AwsError> {
        let region = Region::parse(REGION).expect("a region");
        let caller = aws_wire::call::Caller {
            policies: Arc::default(),
            ..self.caller.clone()
        };
        let call = Call::new(caller, region, OffsetDateTime::now_utc());
        let input = (operation.schema().new_input)();
        perform(operation, &call, input).await.result.map(|_| ())
    }

    /// One pass of every reconciler; true if anything changed.
    pub async fn pass(&self) -> bool {
        let mut changed = false;
        for reconciler in &self.reconcilers {
            let context = PassContext::new(self.store.clone(), PassCause::Wake);
            let report = reconciler.pass(&context).await.expect("a pass");
            assert_eq!(report.failed, 0, "{} failed an item", reconciler.name());
            changed |= report.changed > 0;
        }
        changed
    }

    /// Reconcilers and node until nothing changes.
    pub async fn settle(&self) {
        for _ in 0..PASSES_MAX {
            let moved = self.pass().await;
            if !(self.node.act(&self.store).await.expect("a healthy store") || moved) {
                return;
            }
        }
        panic!("not settled after {PASSES_MAX} passes");
    }

    /// A launch request with the cloud's image and `t3.micro`.
    pub fn launch(&self, count: i32) -> ec2::RunInstancesRequest {
        ec2::RunInstancesRequest {
            image_id: Some(self.image.to_string()),
            instance_type: Some("t3.micro".into()),
            min_count: Some(count),
            max_count: Some(count),
            ..Default::default()
        }
    }

    /// Launches and waits until it runs.
    pub async fn run(&self, request: ec2::RunInstancesRequest) -> Vec<String> {
        let reservation = self
            .call::<ec2::operations::RunInstances>(request)
            .await
            .expect("launched");
        self.settle().await;
        reservation
            .instances
            .into_iter()
            .filter_map(|one| one.instance_id)
            .collect()
    }

    /// One instance as DescribeInstances shows it.
    pub async fn describe(&self, id: &str) -> ec2::Instance {
        let request = ec2::DescribeInstancesRequest {
            instance_ids: vec![id.to_owned()],
            ..Default::default()
        };
        let result = self
            .call::<ec2::operations::DescribeInstances>(request)
            .await
            .expect("described");
        let mut reservations = result.reservations;
        assert_eq!(reservations.len(), 1);
        reservations.remove(0).instances.remove(0)
    }

    /// The name of an instance's state.
    pub async fn state(&self, id: &str) -> String {
        self.describe(id)
            .await
            .state
            .and_then(|state| state.name)
            .expect("a state")
    }

    pub async fn stop(&self, id: &str) {
        let request = ec2::StopInstancesRequest {
            instance_ids: vec![id.to_owned()],
            ..Default::default()
        };
        self.call::<ec2::operations::StopInstances>(request)
            .await
            .expect("stopping");
    }

    pub async fn start(&self, id: &str) {
        let request = ec2::StartInstancesRequest {
            instance_ids: vec![id.to_owned()],
            ..Default::default()
        };
        self.call::<ec2::operations::StartInstances>(request)
            .await
            .expect("starting");
    }

    pub async fn terminate(&self, ids: &[String]) {
        let request = ec2::TerminateInstancesRequest {
            instance_ids: ids.to_vec(),
            ..Default::default()
        };
        self.call::<ec2::operations::TerminateInstances>(request)
            .await
            .expect("terminating");
    }

    /// Fails if holds and usage disagree, or anything of no living instance is left.
    pub async fn assert_nothing_leaked(&self) {
        use compute::records::{Attachment, CapacityHold, Instance, NodeUsage, Room, Volume};
        let instances = self.store.list_all::<Instance>().await.expect("listed");
        let holds = self.store.list_all::<CapacityHold>().await.expect("listed");
        let mut sum = Room::default();
        for hold in &holds {
            sum += hold.room;
            let holder = instances.iter().find(|one| one.id.as_str() == hold.holder);
            assert!(
                holder.is_some_and(|one| one.lifecycle.phase.holds_capacity()),
                "{} holds room for nothing",
                hold.holder
            );
        }
        let usage = self.store.list_all::<NodeUsage>().await.expect("listed");
        let held = usage.first().map_or(Room::default(), |usage| usage.held);
        assert_eq!(held, sum, "usage is the sum of holds");
        let living = instances
            .iter()
            .filter(|one| one.lifecycle.phase.state().name() != "terminated");
        let living: Vec<_> = living.map(|one| one.id.clone()).collect();
        for row in self.store.list_all::<Attachment>().await.expect("listed") {
            assert!(living.contains(&row.instance), "attachment of {}", row.instance);
        }
        for row in self
            .store
            .list_all::<network::records::Interface>()
            .await
            .expect("listed")
        {
            let instance = row.instance().expect("launch interfaces are attached");
            assert!(living.contains(instance), "interface of {instance}");
        }
        let attached = self.store.list_all::<Attachment>().await.expect("listed").len();
        let volumes = self.store.list_all::<Volume>().await.expect("listed");
        assert_eq!(volumes.len(), attached, "volumes of nobody: {volumes:?}");
        for spec in self
            .store
            .list_all::<node_spec::GuestSpec>()
            .await
            .expect("listed")
        {
            assert!(living.contains(&spec.instance), "spec of {}", spec.instance);
        }
        let metadata = self
            .store
            .list_all::<node_spec::GuestMetadata>()
            .await
            .expect("listed");
        assert!(metadata.iter().all(|one| living.contains(&one.instance)));
    }
}

/// Registers an image whose bytes are on `node`.
pub async fn register_image(store: &Store, node: &NodeId, name: &str) -> ImageId {
    let imported = ImportedImage {
        account: AccountId::SYSTEM,
        name: name.into(),
        description: String::new(),
        size_bytes: 100 << 20,
        boot_mode: BootMode::LegacyBios,
        architecture: "x86_64".into(),
        snapshot: SnapshotId::random(),
        handle: "00".repeat(16),
        node: node.clone(),
        public: true,
    };
    register_imported_image(store, imported, OffsetDateTime::now_utc())
        .await
        .expect("an image")
        .id
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The text of an input without page size and token, to which page tokens are not bound.
fn without_paging(text: &str) -> String {
    let paging = |part: &&str| !part.starts_with("max_results:") && !part.starts_with("next_token:");
    text.split(", ").filter(paging).collect()
}

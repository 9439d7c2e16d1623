//! The reconciler `network-planner`: specs follow intent, nothing is written without a change, faults change nothing.

use crate::cloud::{TENANT, region, zones};
use async_trait::async_trait;
use aws_types::Tags;
use aws_types::ids::{InstanceId, NodeId};
use lab::{Faults, Scenario, Violation, run_reconciler_with_faults};
use network::capability::interfaces::{AttachmentSpec, InterfaceSpec, create_interface, stop_interfaces};
use network::records::{SecurityGroup, Subnet, Vpc};
use network::{NetworkError, NetworkPlanner, ensure_default_network, ensure_public_pool};
use node_spec::NetworkSpec;
use state::reconcile::PassCause;
use state::{PassContext, Reconciler, Scope, Store, Tx, UpdateError};
use std::sync::Arc;
use time::OffsetDateTime;

async fn launch(store: &Store, node: &NodeId, instance: &InstanceId, public: bool) {
    let subnets = store
        .list::<Subnet>(&Scope::account(TENANT))
        .await
        .expect("readable");
    let groups = store
        .list::<SecurityGroup>(&Scope::account(TENANT))
        .await
        .expect("readable");
    let spec = InterfaceSpec {
        account: TENANT,
        subnet: subnets
            .iter()
            .find(|subnet| subnet.zone == zones()[0])
            .expect("a subnet")
            .id
            .clone(),
        groups: vec![groups[0].id.clone()],
        description: String::new(),
        address: None,
        public,
        attachment: Some(AttachmentSpec {
            instance: instance.clone(),
            instance_account: TENANT,
            device_index: 0,
            delete_on_termination: true,
            metadata_hop_limit: 1,
        }),
        home: Some(node.clone()),
        requester: None,
        tags: Tags::new(),
        now: OffsetDateTime::now_utc(),
    };
    let spec = &spec;
    let made: Result<_, UpdateError<NetworkError>> = store
        .update(|tx: Tx| async move { create_interface(&tx, spec.clone()).await })
        .await;
    made.expect("made");
}

async fn a_network(store: &Store) {
    ensure_public_pool(store, "198.18.0.0/24".parse().expect("block"))
        .await
        .expect("pool");
    ensure_default_network(store, TENANT, &region(), &zones())
        .await
        .expect("network");
}

async fn pass(store: &Store) -> u64 {
    let context = PassContext::new(store.clone(), PassCause::Wake);
    let report = NetworkPlanner.pass(&context).await.expect("a pass");
    assert_eq!(report.failed, 0);
    report.changed
}

async fn spec_of(store: &Store, node: &NodeId) -> Option<NetworkSpec> {
    let specs = store
        .list::<NetworkSpec>(&Scope::node(node))
        .await
        .expect("readable");
    specs.into_iter().next()
}

#[tokio::test]
async fn specs_follow_intent_and_quiet_passes_write_nothing() {
    let store = &Store::memory();
    a_network(store).await;
    assert_eq!(pass(store).await, 0, "a network without interfaces needs no node");
    let (one, two) = (&NodeId::random(), &NodeId::random());
    let (first, second) = (&InstanceId::random(), &InstanceId::random());
    launch(store, one, first, true).await;
    assert_eq!(pass(store).await, 1);
    let spec = spec_of(store, one).await.expect("a spec");
    assert_eq!(
        (spec.generation, spec.interfaces.len(), spec.subnets.len()),
        (1, 1, 2)
    );
    assert!(spec.subnets.iter().all(|subnet| subnet.internet));
    assert_eq!(
        spec.interfaces[0]
            .public_address
            .map(|a| a.to_string())
            .as_deref(),
        Some("198.18.0.1")
    );
    assert_eq!(spec.interfaces[0].hostname, "ip-172-31-0-4");
    assert_eq!(spec.groups[0].members.len(), 1);
    let before = store.revision().await.expect("revision");
    assert_eq!(pass(store).await, 0);
    assert_eq!(store.revision().await.expect("revision"), before);

    launch(store, two, second, false).await;
    assert_eq!(pass(store).await, 2, "the new member concerns both nodes");
    let spec = spec_of(store, one).await.expect("a spec");
    assert_eq!(
        (
            spec.generation,
            spec.interfaces.len(),
            spec.groups[0].members.len()
        ),
        (2, 1, 2)
    );

    let stopped: Result<_, UpdateError<NetworkError>> = store
        .update(|tx: Tx| async move { stop_interfaces(&tx, second, OffsetDateTime::now_utc()).await })
        .await;
    stopped.expect("stopped");
    assert_eq!(pass(store).await, 1);
    let spec = spec_of(store, two).await.expect("kept for the acknowledgement");
    assert_eq!(
        (spec.generation, spec.interfaces.len(), spec.groups.len()),
        (2, 0, 0)
    );
    assert_eq!(pass(store).await, 0);
}

#[tokio::test]
async fn equal_blocks_of_two_accounts_never_meet() {
    let store = &Store::memory();
    a_network(store).await;
    ensure_default_network(store, aws_types::AccountId::OPERATOR, &region(), &zones())
        .await
        .expect("network");
    let vpcs = store.list_all::<Vpc>().await.expect("readable");
    assert_eq!(vpcs.len(), 2);
    assert_ne!(vpcs[0].number, vpcs[1].number);
    let node = &NodeId::random();
    launch(store, node, &InstanceId::random(), false).await;
    assert_eq!(pass(store).await, 1);
    let specs = store
        .list::<NetworkSpec>(&Scope::node(node))
        .await
        .expect("readable");
    assert_eq!(specs.len(), 1);
}

/// Two nodes, three interfaces, and a spec of a node that has none any more.
struct TwoNodes;

#[async_trait]
impl Scenario for TwoNodes {
    type World = (NodeId, NodeId, NodeId);

    async fn seed(&self, store: &Store, _: &Faults) -> Self::World {
        a_network(store).await;
        let nodes = (NodeId::random(), NodeId::random(), NodeId::random());
        launch(store, &nodes.0, &InstanceId::random(), true).await;
        launch(store, &nodes.0, &InstanceId::random(), false).await;
        launch(store, &nodes.1, &InstanceId::random(), true).await;
        let vpc = store
            .list::<Vpc>(&Scope::account(TENANT))
            .await
            .expect("readable")
            .remove(0);
        let left = NetworkSpec {
            node: nodes.2.clone(),
            vpc: vpc.id,
            generation: 7,
            number: vpc.number,
            blocks: Vec::new(),
            subnets: Vec::new(),
            interfaces: vec![node_spec::InterfacePlan {
                interface: aws_types::ids::NetworkInterfaceId::random(),
                number: 1,
                mac: "02:00:00:00:00:01".into(),
                subnet: aws_types::ids::SubnetId::random(),
                address: "172.31.0.9".parse().expect("address"),
                public_address: None,
                groups: Vec::new(),
                source_dest_check: true,
                hostname: "ip-172-31-0-9".into(),
                metadata_hop_limit: 1,
            }],
            groups: Vec::new(),
        };
        let left = &left;
        let put: Result<(), UpdateError<NetworkError>> =
            store.update(|tx: Tx| async move { Ok(tx.put(left)?) }).await;
        put.expect("written");
        nodes
    }

    fn reconciler(&self, _: &Store, _: &Self::World) -> Arc<dyn Reconciler> {
        Arc::new(NetworkPlanner)
    }

    async fn check(&self, store: &Store, world: &Self::World) -> Result<(), Violation> {
        for (node, generation, interfaces) in [(&world.0, 1, 2), (&world.1, 1, 1), (&world.2, 8, 0)] {
            let found = spec_of(store, node)
                .await
                .map(|spec| (spec.generation, spec.interfaces.len()));
            if found != Some((generation, interfaces)) {
                return Err(Violation::new(format!(
                    "{node}: {found:?}, not {:?}",
                    (generation, interfaces)
                )));
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn every_fault_at_every_step_ends_converged_and_quiet() {
    let coverage = run_reconciler_with_faults(&TwoNodes).await;
    println!(
        "{} steps, {} runs with one fault each",
        coverage.steps, coverage.runs
    );
    assert!(coverage.steps > 5);
}

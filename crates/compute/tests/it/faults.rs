//! The reconcilers in `lab`: every store call fails once in every way, and the process restarts at every step.

use crate::cloud::{Cloud, node_record};
use async_trait::async_trait;
use aws_shapes::ec2::operations;
use compute::reconcilers;
use compute::records::{CapacityHold, Instance, InstanceState, NodeUsage};
use lab::{Fault, Faults, Scenario, Violation, run_reconciler_with_faults};
use node_spec::GuestSpec;
use state::reconcile::{PassContext, PassError, PassReport};
use state::{Reconciler, Store};
use std::sync::Arc;

/// What is asked for after the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Terminate,
}

struct Life(Then);

/// All reconcilers of the room and the node, as one: a pass of each, one after the other.
struct Together {
    parts: Vec<Arc<dyn Reconciler>>,
    node: Arc<Cloud>,
}

#[async_trait]
impl Reconciler for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn watches(&self) -> &[&'static str] {
        &[]
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let mut sum = PassReport::default();
        for part in &self.parts {
            let report = part.pass(context).await?;
            sum.examined += report.examined;
            sum.changed += report.changed;
            sum.failed += report.failed;
            sum.deferred += report.deferred;
        }
        sum.changed += u64::from(self.node.node.act(&context.store).await?);
        Ok(sum)
    }
}

#[async_trait]
impl Scenario for Life {
    type World = Arc<Cloud>;

    async fn seed(&self, store: &Store, _: &Faults) -> Arc<Cloud> {
        let cloud = Cloud::over(store.clone(), node_record(8, 16 * 1024)).await;
        let launched = cloud
            .call::<operations::RunInstances>(cloud.launch(1))
            .await
            .expect("launched");
        if self.0 == Then::Terminate {
            cloud.settle().await;
            let ids: Vec<String> = launched
                .instances
                .into_iter()
                .filter_map(|one| one.instance_id)
                .collect();
            cloud.terminate(&ids).await;
        }
        Arc::new(cloud)
    }

    fn reconciler(&self, store: &Store, world: &Arc<Cloud>) -> Arc<dyn Reconciler> {
        let context = compute::Context {
            store: store.clone(),
            ..world.context.clone()
        };
        Arc::new(Together {
            parts: reconcilers(&context),
            node: world.clone(),
        })
    }

    /// One of each kind: told, untold, done untold, interfered with, and dead before or after.
    fn faults(&self) -> Vec<Fault> {
        Fault::ALL.to_vec()
    }

    async fn check(&self, store: &Store, _: &Arc<Cloud>) -> Result<(), Violation> {
        let wrong = |what: String| Err(Violation::new(what));
        let read = |error: state::StoreError| Violation::new(error.to_string());
        let instances = store.list_all::<Instance>().await.map_err(read)?;
        let expected = match self.0 {
            Then::Nothing => InstanceState::Running,
            Then::Terminate => InstanceState::Terminated,
        };
        for instance in &instances {
            if instance.lifecycle.phase.state() != expected {
                return wrong(format!("{} is {:?}", instance.id, instance.lifecycle.phase));
            }
        }
        let holds = store.list_all::<CapacityHold>().await.map_err(read)?;
        let usages = store.list_all::<NodeUsage>().await.map_err(read)?;
        let specs = store.list_all::<GuestSpec>().await.map_err(read)?;
        let alive = usize::from(self.0 == Then::Nothing);
        let holders: u64 = usages.iter().map(|usage| usage.holders).sum();
        if holds.len() != alive || specs.len() != alive || holders != alive as u64 {
            return wrong(format!(
                "{} holds, {holders} holders, {} specs",
                holds.len(),
                specs.len()
            ));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_converges_whatever_fails() {
    let coverage = run_reconciler_with_faults(&Life(Then::Nothing)).await;
    assert!(coverage.runs > 20, "{coverage:?}");
}

#[tokio::test(start_paused = true)]
async fn a_termination_converges_whatever_fails() {
    let coverage = run_reconciler_with_faults(&Life(Then::Terminate)).await;
    assert!(coverage.runs > 20, "{coverage:?}");
}

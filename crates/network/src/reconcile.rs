//! The reconciler `network-planner`: keeps the spec of every (node, VPC) equal to what `plan` says.
//!
//! A pass lists the interfaces and the specs, and then treats one VPC after the other, each in a transaction of its own
//! whose reads are of one revision. A spec is written only when its content differs, with the next generation; so a pass
//! without a change of intent writes nothing. A node whose last interface left gets a spec without interfaces: it removes
//! the namespace and acknowledges; the spec is never deleted under it. A VPC that fails is counted and tried again at the
//! next pass; the others are not held up.

use crate::error::NetworkError;
use crate::limits;
use crate::plan::{VpcRecords, plan};
use crate::records::{
    Interface, InternetGateway, RouteTable, RouteTableAssociation, SecurityGroup, SecurityGroupRule, Subnet,
    Vpc,
};
use async_trait::async_trait;
use aws_types::AccountId;
use aws_types::ids::{NodeId, VpcId};
use node_spec::NetworkSpec;
use state::{PassContext, PassError, PassReport, Reconciler, Record, Scope, Store, Tx};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A VPC that did not plan is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// VPCs beyond the bound of one pass are planned after this time.
const CONTINUE_AFTER: Duration = Duration::from_millis(1);

/// See the file's first lines.
#[derive(Debug, Default)]
pub struct NetworkPlanner;

/// A VPC with work, and the nodes that have a spec of it.
#[derive(Debug, Default)]
struct Task {
    account: Option<AccountId>,
    nodes: BTreeSet<NodeId>,
}

#[async_trait]
impl Reconciler for NetworkPlanner {
    fn name(&self) -> &'static str {
        "network-planner"
    }

    fn watches(&self) -> &[&'static str] {
        &[
            Vpc::TABLE,
            Subnet::TABLE,
            RouteTable::TABLE,
            RouteTableAssociation::TABLE,
            InternetGateway::TABLE,
            Interface::TABLE,
            SecurityGroup::TABLE,
            SecurityGroupRule::TABLE,
            NetworkSpec::TABLE,
        ]
    }

    fn resync(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let tasks = tasks(&context.store).await?;
        let mut report = PassReport::default();
        for (vpc, task) in &tasks {
            if report.changed >= limits::SPECS_PER_PASS_MAX || context.is_stopping() {
                report.deferred += 1;
                continue;
            }
            report.examined += 1;
            match plan_vpc(&context.store, vpc, task).await {
                Ok(written) => report.changed += written,
                Err(error) => {
                    tracing::warn!(%vpc, %error, "a VPC could not be planned");
                    report.failed += 1;
                }
            }
        }
        if report.deferred > 0 {
            report.due_in(CONTINUE_AFTER);
        }
        if report.failed > 0 {
            report.due_in(RETRY_AFTER);
        }
        Ok(report)
    }
}

/// The VPCs that need a spec or have one.
async fn tasks(store: &Store) -> Result<BTreeMap<VpcId, Task>, PassError> {
    let mut tasks: BTreeMap<VpcId, Task> = BTreeMap::new();
    for interface in store.list_all::<Interface>().await? {
        if interface.home.is_some() {
            tasks.entry(interface.vpc).or_default().account = Some(interface.account);
        }
    }
    for spec in store.list_all::<NetworkSpec>().await? {
        tasks.entry(spec.vpc).or_default().nodes.insert(spec.node);
    }
    Ok(tasks)
}

/// Writes the specs of a VPC that differ from its plan; answers how many did.
async fn plan_vpc(store: &Store, vpc: &VpcId, task: &Task) -> Result<u64, state::UpdateError<NetworkError>> {
    store
        .update(|tx: Tx| async move {
            let mut planned = match task.account {
                Some(account) => match read_vpc(&tx, account, vpc).await? {
                    Some(records) => plan(&records),
                    None => BTreeMap::new(),
                },
                None => BTreeMap::new(),
            };
            let mut written = 0;
            let nodes: BTreeSet<NodeId> = planned.keys().chain(&task.nodes).cloned().collect();
            for node in nodes {
                let stored = tx.find::<NetworkSpec>(&Scope::node(&node), vpc).await?;
                let wanted = match (planned.remove(&node), &stored) {
                    (Some(wanted), _) => wanted,
                    (None, Some(stored)) => emptied(stored),
                    (None, None) => continue,
                };
                if let Some(spec) = next_generation(wanted, stored.as_ref()) {
                    tx.put(&spec)?;
                    written += 1;
                }
            }
            Ok(written)
        })
        .await
}

/// The spec of a node that has no interface of the VPC any more.
fn emptied(stored: &NetworkSpec) -> NetworkSpec {
    NetworkSpec {
        interfaces: Vec::new(),
        groups: Vec::new(),
        ..stored.clone()
    }
}

/// The spec to write, with its generation; nothing if the stored one says the same.
fn next_generation(mut wanted: NetworkSpec, stored: Option<&NetworkSpec>) -> Option<NetworkSpec> {
    match stored {
        None => {
            wanted.generation = 1;
            Some(wanted)
        }
        Some(stored) => {
            wanted.generation = stored.generation;
            if wanted == *stored {
                return None;
            }
            wanted.generation += 1;
            Some(wanted)
        }
    }
}

/// Everything of a VPC, at the transaction's revision. The lists are not compared at commit: what changed since wakes
/// the planner again, and only it writes specs.
async fn read_vpc(tx: &Tx, account: AccountId, id: &VpcId) -> Result<Option<VpcRecords>, NetworkError> {
    let Some(vpc) = tx.find::<Vpc>(&Scope::account(account), id).await? else {
        return Ok(None);
    };
    let of_vpc = [id.as_str()];
    Ok(Some(VpcRecords {
        subnets: tx.list_by_index("vpc", &of_vpc).await?,
        tables: tx.list_by_index("vpc", &of_vpc).await?,
        associations: tx.list_by_index("vpc", &of_vpc).await?,
        gateway: tx.find_unique("vpc", &of_vpc).await?,
        interfaces: tx.list_by_index("subnet", &of_vpc).await?,
        groups: tx.list_by_index("vpc", &of_vpc).await?,
        rules: tx.list_by_index("group", &of_vpc).await?,
        vpc,
    }))
}

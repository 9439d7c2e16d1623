//! The reconciler `guest-metadata`: keeps what a guest reads about itself equal to the store (R83).
//!
//! Addresses, groups, tags and options change while guests run; each pass plans every live guest's metadata anew and
//! writes those that differ. The guest's own spec is the business of `instances`.

use super::count;
use super::instances::plan_one;
use crate::context::Context;
use crate::error::ComputeError;
use crate::records::{Instance, InstanceBoot, Phase, account_scope};
use async_trait::async_trait;
use network::records::{Interface, SecurityGroup, TagRow};
use node_spec::{GuestMetadata, NodeRecord};
use state::{PassContext, PassError, PassReport, Reconciler, Record, Scope, Tx};

/// See the module.
pub struct MetadataReconciler(pub Context);

#[async_trait]
impl Reconciler for MetadataReconciler {
    fn name(&self) -> &'static str {
        "guest-metadata"
    }

    fn watches(&self) -> &[&'static str] {
        &[
            TagRow::TABLE,
            Interface::TABLE,
            SecurityGroup::TABLE,
            Instance::TABLE,
        ]
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let mut report = PassReport::default();
        for metadata in &context.store.list_all::<GuestMetadata>().await? {
            if context.is_stopping() {
                report.deferred += 1;
                continue;
            }
            let outcome = context
                .store
                .update(|tx| async move { self.refresh(&tx, metadata).await })
                .await;
            count(
                &mut report,
                "metadata of instance",
                metadata.instance.as_str(),
                outcome,
            );
        }
        Ok(report)
    }
}

impl MetadataReconciler {
    async fn refresh(&self, tx: &Tx, listed: &GuestMetadata) -> Result<bool, ComputeError> {
        let scope = account_scope(listed.account);
        let Some(instance) = tx.find::<Instance>(&scope, &listed.instance).await? else {
            return Ok(false);
        };
        if matches!(instance.lifecycle.phase, Phase::ShuttingDown | Phase::Terminated) {
            return Ok(false);
        }
        let boot = tx.find::<InstanceBoot>(&scope, &instance.id).await?;
        let node = tx.find::<NodeRecord>(&Scope::NONE, &instance.node).await?;
        let stored = tx
            .find::<GuestMetadata>(&Scope::node(&listed.node), &listed.instance)
            .await?;
        let (Some(boot), Some(node), Some(stored)) = (boot, node, stored) else {
            return Ok(false);
        };
        let planned = plan_one(&self.0, tx, &instance, &boot, &[], &node, None)
            .await?
            .metadata;
        let changed = planned != stored;
        if changed {
            tx.put(&planned)?;
        }
        Ok(changed)
    }
}

//! The reconciler `volumes`: from what nodes saw of volumes to the state the API shows.
//!
//! Volumes of an instance that is being terminated are removed with it, by `instances`; here go those without one.

use super::count;
use super::instances::{remove_volume, write_volume_spec};
use crate::error::ComputeError;
use crate::records::{ATTENTION, Attachment, BUSY, Volume, VolumeState, account_scope};
use async_trait::async_trait;
use aws_types::AccountId;
use aws_types::ids::VolumeId;
use node_spec::{VolumeObservation, VolumeState as ObservedVolume};
use state::{PassContext, PassError, PassReport, Reconciler, Record, Scope, Tx};

/// See the module.
pub struct VolumeReconciler;

#[async_trait]
impl Reconciler for VolumeReconciler {
    fn name(&self) -> &'static str {
        "volumes"
    }

    fn watches(&self) -> &[&'static str] {
        &[Volume::TABLE, VolumeObservation::TABLE]
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let mut report = PassReport::default();
        for volume in context.store.list_by_index::<Volume>(ATTENTION, &[BUSY]).await? {
            if context.is_stopping() {
                report.deferred += 1;
                continue;
            }
            let (account, id) = (volume.account, &volume.id);
            let outcome = context
                .store
                .update(|tx| async move { converge(&tx, account, id).await })
                .await;
            count(&mut report, "volume", id.as_str(), outcome);
        }
        Ok(report)
    }
}

async fn converge(tx: &Tx, account: AccountId, id: &VolumeId) -> Result<bool, ComputeError> {
    let Some(mut volume) = tx.find::<Volume>(&account_scope(account), id).await? else {
        return Ok(false);
    };
    let observed = tx
        .find::<VolumeObservation>(&Scope::node(&volume.node), id)
        .await?;
    let next = match (volume.state, observed.map(|seen| seen.state)) {
        (VolumeState::Creating, Some(ObservedVolume::Ready { .. })) => VolumeState::Available,
        (VolumeState::Creating, Some(ObservedVolume::Error { .. })) => VolumeState::Error,
        (VolumeState::Deleting, seen) => {
            let attached = tx
                .find_unique::<Attachment>("volume", &[id.as_str()])
                .await?
                .is_some();
            if attached {
                return Ok(false);
            }
            if matches!(seen, Some(ObservedVolume::Deleted)) {
                remove_volume(tx, &volume).await?;
                return Ok(true);
            }
            return write_volume_spec(tx, &volume).await;
        }
        _ => return Ok(false),
    };
    volume.state = next;
    tx.put(&volume)?;
    Ok(true)
}

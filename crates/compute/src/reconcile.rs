//! The reconcilers of this room: how the intent of instances becomes specs of nodes, and what nodes saw becomes state.
//!
//! | Name | Watches | Does |
//! |---|---|---|
//! | `instances` | instances and observations | moves each instance by what was seen; writes specs; gives back what ended |
//! | `volumes` | volumes, their observations | `creating` to `available` or `error`; removes rows of deleted ones |
//! | `guest-metadata` | tags, interfaces, groups, instances | keeps what running guests read about themselves current |
//! | `launches` | launches | completes launches that their caller did not |
//!
//! Each item is one transaction that reads everything anew, so a pass may be cut off anywhere and repeated. Nothing is
//! concluded from an absent observation, and nothing is destroyed but by a record that says so.

mod instances;
mod launches;
mod metadata;
mod volumes;

pub use instances::InstanceReconciler;
pub use launches::LaunchReconciler;
pub use metadata::MetadataReconciler;
pub use volumes::VolumeReconciler;

use crate::context::Context;
use crate::error::ComputeError;
use aws_types::AwsError;
use state::{PassReport, Reconciler, UpdateError};
use std::sync::Arc;

/// The reconcilers of this room.
pub fn reconcilers(context: &Context) -> Vec<Arc<dyn Reconciler>> {
    vec![
        Arc::new(InstanceReconciler(context.clone())),
        Arc::new(VolumeReconciler),
        Arc::new(MetadataReconciler(context.clone())),
        Arc::new(LaunchReconciler),
    ]
}

/// Counts an item: changed, or failed for a reason of its own, which is logged and tried again with the next pass.
fn count(report: &mut PassReport, what: &str, id: &str, outcome: Result<bool, UpdateError<ComputeError>>) {
    report.examined += 1;
    match outcome {
        Ok(changed) => report.changed += u64::from(changed),
        Err(error) => {
            report.failed += 1;
            report.due_in(crate::limits::ITEM_RETRY);
            let error: Box<dyn std::error::Error> = Box::new(error);
            tracing::warn!(what, id, error = chain(error.as_ref()), "not reconciled");
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// A record that must be there by this room's own doing is not.
fn broken(what: &'static str) -> ComputeError {
    tracing::error!(what, "a record is missing");
    ComputeError::Refused(AwsError::internal())
}

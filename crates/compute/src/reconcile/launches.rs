//! The reconciler `launches`: completes launches in several parts whose caller is gone.
//!
//! The call itself makes the parts as fast as it can; this reconciler only finds what a crash left, so it leaves a launch
//! alone that is younger than a call may take.

use super::count;
use crate::error::ComputeError;
use crate::limits;
use crate::ops::run_instances::{abandon, advance};
use crate::records::Launch;
use async_trait::async_trait;
use state::{PassContext, PassError, PassReport, Reconciler, Record, UpdateError};
use time::OffsetDateTime;

/// See the module.
pub struct LaunchReconciler;

#[async_trait]
impl Reconciler for LaunchReconciler {
    fn name(&self) -> &'static str {
        "launches"
    }

    fn watches(&self) -> &[&'static str] {
        &[Launch::TABLE]
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let now = OffsetDateTime::now_utc();
        let mut report = PassReport::default();
        for launch in &context.store.list_all::<Launch>().await? {
            let age = now - launch.launched_at;
            if age < limits::LAUNCH_CALL_MAX || context.is_stopping() {
                report.deferred += 1;
                report.due_in(
                    (limits::LAUNCH_CALL_MAX - age)
                        .max(time::Duration::SECOND)
                        .unsigned_abs(),
                );
                continue;
            }
            let advanced = context
                .store
                .update(|tx| async move { advance(&tx, launch).await })
                .await;
            let outcome = match advanced {
                Ok(more) => {
                    if more {
                        report.due_in(std::time::Duration::ZERO);
                    }
                    Ok(true)
                }
                Err(UpdateError::Aborted(ComputeError::Refused(refusal))) => {
                    tracing::warn!(%refusal, reservation = %launch.reservation, "a launch is given up half-way");
                    let given_up = context
                        .store
                        .update(|tx| async move { abandon(&tx, launch, now).await });
                    given_up.await.map(|()| true)
                }
                Err(error) => Err(error),
            };
            count(&mut report, "launch", launch.reservation.as_str(), outcome);
        }
        Ok(report)
    }
}

//! What became of a guest while no agent ran: from the record, the kernel and the monitor, never from a name.
//!
//! Certain answers only. A process that lives and does not answer is neither running nor gone; the owner asks again.

use super::record::{GuestRecord, RecordError, Stage};
use super::{GuestContext, machine_uuid};
use crate::error::chain;
use aws_types::ids::InstanceId;
use node_spec::{ExitCause, RunIntent};
use thiserror::Error;
use tracing::{info, warn};
use vmm::{Adoption, Guest, ProcessError, QmpError, RunState};

/// A guest as it was found.
pub(super) struct Found {
    pub(super) record: GuestRecord,
    pub(super) guest: Option<Guest>,
    /// The guest has powered itself off and its process waits.
    pub(super) powered_off: bool,
}

/// What became of the guest is not known yet.
#[derive(Debug, Error)]
pub(super) enum AdoptFailure {
    #[error("reading the guest's record")]
    Record(#[from] RecordError),
    #[error("looking for the guest's process")]
    Look(#[from] vmm::AdoptError),
    #[error("the process lives and its monitor does not answer")]
    Silent(#[source] QmpError),
    #[error("the recorded process says it is machine {uuid}")]
    Mismatch { uuid: String },
    #[error("killing the guest's process")]
    Kill(#[source] ProcessError),
    #[error("asking the guest's monitor")]
    Monitor(#[source] QmpError),
}

/// Finds out. `intent` matters only for a silent process: one that is to be ended anyway is killed.
pub(super) async fn adopt(
    cx: &GuestContext,
    instance: &InstanceId,
    intent: Option<RunIntent>,
) -> Result<Found, AdoptFailure> {
    let Some(record) = cx.dirs.find(instance)? else {
        return Ok(Found {
            record: GuestRecord::new(instance.clone()),
            guest: None,
            powered_off: false,
        });
    };
    let files = cx.dirs.files(instance);
    let uuid = machine_uuid(instance);
    match record.stage.clone() {
        Stage::Idle => Ok(Found {
            record,
            guest: None,
            powered_off: false,
        }),
        Stage::Starting => {
            // Whatever is found was never continued: its CPUs have not run, so nothing is lost by starting over.
            match vmm::find_unrecorded(&files, &uuid).await? {
                Adoption::Adopted(guest) => drop(guest.kill().await.map_err(AdoptFailure::Kill)?),
                Adoption::Gone => {}
                Adoption::Silent { source } => return Err(AdoptFailure::Silent(source)),
                Adoption::Mismatch { uuid } => return Err(AdoptFailure::Mismatch { uuid }),
            }
            idle(cx, record, None)
        }
        Stage::Started { process } => match vmm::adopt(&files, &uuid, &process).await? {
            Adoption::Adopted(guest) => {
                info!(%instance, pid = process.pid, "adopted the guest");
                running(record, guest).await
            }
            Adoption::Gone => {
                let rebooted = vmm::process::boot_id().map_err(AdoptFailure::Kill)? != process.boot_id;
                let mut record = record;
                if rebooted {
                    // The guest died with the machine; its intent did not. It starts again.
                    record.applied_start = record.current_start.saturating_sub(1);
                }
                idle(cx, record, Some(ExitCause::Unknown))
            }
            Adoption::Silent { source } => {
                if matches!(intent, Some(RunIntent::ForceStop | RunIntent::Gone)) {
                    warn!(%instance, error = chain(&source), "killing a guest whose monitor is silent, as its intent is to end");
                    vmm::kill_recorded(&process).await.map_err(AdoptFailure::Kill)?;
                    return idle(cx, record, Some(ExitCause::Intent));
                }
                Err(AdoptFailure::Silent(source))
            }
            Adoption::Mismatch { uuid } => Err(AdoptFailure::Mismatch { uuid }),
        },
    }
}

async fn running(record: GuestRecord, guest: Guest) -> Result<Found, AdoptFailure> {
    let status = guest.status().await.map_err(AdoptFailure::Monitor)?;
    match status {
        RunState::Shutdown => Ok(Found {
            record,
            guest: Some(guest),
            powered_off: true,
        }),
        // Killed between the record and the first instruction, or paused by an agent that did not come to resume it.
        RunState::Prelaunch | RunState::Paused => {
            guest.resume().await.map_err(AdoptFailure::Monitor)?;
            Ok(Found {
                record,
                guest: Some(guest),
                powered_off: false,
            })
        }
        RunState::Running | RunState::Other(_) | _ => Ok(Found {
            record,
            guest: Some(guest),
            powered_off: false,
        }),
    }
}

fn idle(cx: &GuestContext, mut record: GuestRecord, exit: Option<ExitCause>) -> Result<Found, AdoptFailure> {
    record.stage = Stage::Idle;
    if exit.is_some() {
        record.last_exit = exit;
    }
    cx.dirs.put(&record)?;
    Ok(Found {
        record,
        guest: None,
        powered_off: false,
    })
}

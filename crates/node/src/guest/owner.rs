//! The owner task of one guest: the only thing that touches its process, exports and files.
//!
//! It adopts, then loops: decide (`machine`), do the step, report, wait for whatever can change the answer: a new spec, an
//! event of the guest, a deadline, a drain. A step that fails is tried again with back-off; a spec that vanishes is no
//! order. Ending the task leaves the guest as it is.

use super::GuestContext;
use super::adopt::{Found, adopt};
use super::launch::{LaunchError, launch};
use super::machine::{Asked, Process, Step, View, decide};
use super::record::{GuestRecord, RecordError, Stage};
use crate::error::{VolumeError, chain};
use crate::limits;
use aws_types::ids::InstanceId;
use node_spec::{
    ExitCause, GuestFailure, GuestObservation, GuestSpec, GuestState, ProcessIdentity, RunIntent,
};
use state::{Scope, StoreError, UpdateError};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{error, info, warn};
use vmm::{ExitStatus, Guest, GuestEvent, QmpError, RunState};

/// What an owner tells the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerStatus {
    /// Something of the guest may be on this machine.
    Holding,
    /// Nothing of the guest runs or is published here.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedFor {
    PowerOff,
    Reboot,
}

struct Asking {
    what: AskedFor,
    deadline: Instant,
}

#[derive(Debug, Error)]
enum StepError {
    #[error("releasing a volume")]
    Release(#[from] VolumeError),
    #[error("recording what was done")]
    Record(#[from] RecordError),
    #[error("speaking to the guest's monitor")]
    Monitor(#[from] QmpError),
    #[error("ending the guest's process")]
    Kill(#[from] vmm::ProcessError),
    #[error("committing the observation")]
    Report(#[source] Box<UpdateError<StoreError>>),
    #[error("launching")]
    Launch(#[from] LaunchError),
}

/// One guest's task.
pub(crate) struct Owner {
    cx: Arc<GuestContext>,
    instance: InstanceId,
    specs: watch::Receiver<Option<GuestSpec>>,
    draining: watch::Receiver<bool>,
    status: watch::Sender<OwnerStatus>,

    record: GuestRecord,
    guest: Option<Guest>,
    powered_off: bool,
    asked: Option<Asking>,
    failure: Option<(GuestFailure, String)>,
    panicked_at: Option<OffsetDateTime>,
    removed: bool,
    reported: Option<GuestObservation>,
    launching_since: Option<Instant>,
}

impl Owner {
    pub(crate) fn new(
        cx: Arc<GuestContext>,
        instance: InstanceId,
        specs: watch::Receiver<Option<GuestSpec>>,
        draining: watch::Receiver<bool>,
        status: watch::Sender<OwnerStatus>,
    ) -> Owner {
        Owner {
            cx,
            record: GuestRecord::new(instance.clone()),
            instance,
            specs,
            draining,
            status,
            guest: None,
            powered_off: false,
            asked: None,
            failure: None,
            panicked_at: None,
            removed: false,
            reported: None,
            launching_since: None,
        }
    }

    /// Runs until the agent drops the spec channel.
    pub(crate) async fn run(mut self) {
        if !self.take_over().await {
            return;
        }
        let mut backoff = limits::RETRY_FIRST;
        loop {
            let Some(spec) = self.specs.borrow_and_update().clone() else {
                // No spec is no order: whatever runs goes on running, unowned until the spec is back.
                if self.specs.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let step = if self.removed && spec.run == RunIntent::Gone {
                Step::Rest
            } else {
                decide(&spec, &self.view())
            };
            let outcome = self.perform(step, &spec).await;
            match outcome {
                Ok(Wait::None) => backoff = limits::RETRY_FIRST,
                Ok(Wait::ForChange) => {
                    backoff = limits::RETRY_FIRST;
                    if !self.wait_for_change().await {
                        return;
                    }
                }
                Err(error) => {
                    warn!(instance = %self.instance, error = chain(&error), "a step of the guest failed; trying again");
                    if !self.pause(backoff).await {
                        return;
                    }
                    backoff = (backoff * 2).min(limits::RETRY_MAX);
                }
            }
        }
    }

    /// Adopts what is there; false if the agent ends meanwhile.
    async fn take_over(&mut self) -> bool {
        let mut backoff = limits::RETRY_FIRST;
        loop {
            let intent = self.specs.borrow().as_ref().map(|spec| spec.run);
            match adopt(&self.cx, &self.instance, intent).await {
                Ok(Found {
                    record,
                    guest,
                    powered_off,
                }) => {
                    self.record = record;
                    self.guest = guest;
                    self.powered_off = powered_off;
                    break;
                }
                Err(failure) => {
                    error!(instance = %self.instance, error = chain(&failure), "the guest's fate is not known yet; nothing is done to it");
                    if !self.pause(backoff).await {
                        return false;
                    }
                    backoff = (backoff * 2).min(limits::RETRY_MAX);
                }
            }
        }
        // What was reported last tells a guest that was removed from one that never was, and keeps times true.
        loop {
            match self
                .cx
                .store
                .find::<GuestObservation>(&Scope::node(&self.cx.node), self.instance.as_str())
                .await
            {
                Ok(reported) => {
                    self.removed = matches!(&reported, Some(seen) if seen.state == GuestState::Gone);
                    self.failure = match reported.as_ref().map(|seen| &seen.state) {
                        Some(GuestState::Failed { failure, message }) => Some((*failure, message.clone())),
                        _ => None,
                    };
                    self.panicked_at = reported.as_ref().and_then(|seen| seen.panicked_at);
                    self.reported = reported;
                    return true;
                }
                Err(failure) => {
                    warn!(instance = %self.instance, error = chain(&failure), "the last observation cannot be read yet");
                    if !self.pause(limits::RETRY_FIRST).await {
                        return false;
                    }
                }
            }
        }
    }

    fn view(&self) -> View {
        let now = Instant::now();
        View {
            process: match (&self.guest, self.powered_off) {
                (None, _) => Process::None,
                (Some(_), false) => Process::Running,
                (Some(_), true) => Process::PoweredOff,
            },
            asked: match &self.asked {
                None => Asked::Nothing,
                Some(Asking {
                    what: AskedFor::PowerOff,
                    deadline,
                }) => Asked::PowerOff {
                    overdue: now >= *deadline,
                },
                Some(Asking {
                    what: AskedFor::Reboot,
                    deadline,
                }) => Asked::Reboot {
                    overdue: now >= *deadline,
                },
            },
            applied_start: self.record.applied_start,
            applied_reboot: self.record.applied_reboot,
            holds_resources: !self.record.released,
            draining: *self.draining.borrow(),
        }
    }

    async fn perform(&mut self, step: Step, spec: &GuestSpec) -> Result<Wait, StepError> {
        match step {
            Step::Rest => {
                self.launching_since = None;
                let state = self.resting_state(spec);
                self.report(spec, state, spec.generation).await?;
                let idle = self.guest.is_none() && self.record.released;
                self.status.send_replace(if idle {
                    OwnerStatus::Idle
                } else {
                    OwnerStatus::Holding
                });
                return Ok(Wait::ForChange);
            }
            Step::Launch => self.launch(spec).await?,
            Step::AskPowerOff => self.ask(spec, AskedFor::PowerOff, limits::SHUTDOWN_GRACE).await?,
            Step::AskReboot => self.ask(spec, AskedFor::Reboot, limits::REBOOT_GRACE).await?,
            Step::Reset => self.reset(spec).await?,
            Step::End { cause } => self.end(spec, cause).await?,
            Step::Release => self.release(spec).await?,
            Step::Remove => self.remove(spec).await?,
        }
        Ok(Wait::None)
    }

    fn resting_state(&self, spec: &GuestSpec) -> GuestState {
        if self.removed && spec.run == RunIntent::Gone {
            return GuestState::Gone;
        }
        if self.guest.is_some() {
            let stopping = matches!(&self.asked, Some(asking) if asking.what == AskedFor::PowerOff);
            return if stopping {
                GuestState::Stopping
            } else {
                GuestState::Running
            };
        }
        if spec.run == RunIntent::Run && spec.start_generation > self.record.applied_start {
            // Drained: it starts again with the agent.
            return GuestState::Preparing;
        }
        if let Some((failure, message)) = &self.failure {
            return GuestState::Failed {
                failure: *failure,
                message: message.clone(),
            };
        }
        GuestState::Stopped {
            cause: self.record.last_exit.clone().unwrap_or(ExitCause::Intent),
        }
    }

    async fn launch(&mut self, spec: &GuestSpec) -> Result<(), StepError> {
        self.status.send_replace(OwnerStatus::Holding);
        let since = *self.launching_since.get_or_insert_with(Instant::now);
        self.failure = None;
        self.panicked_at = None;
        self.report(spec, GuestState::Preparing, self.applied_generation())
            .await?;
        match launch(&self.cx, spec, &mut self.record, &mut self.specs).await {
            Ok(guest) => {
                info!(instance = %self.instance, pid = guest.identity().pid, "the guest runs");
                self.guest = Some(guest);
                self.powered_off = false;
                self.asked = None;
                Ok(())
            }
            Err(LaunchError::Unwanted) => self.settle_failed_launch().await,
            Err(failed) => {
                self.settle_failed_launch().await?;
                let stalled = since.elapsed() >= self.cx.guest_time(limits::LAUNCH_STALL);
                let class = failed.failure().or_else(|| stalled.then(|| failed.stalled()));
                let Some(class) = class else {
                    return Err(failed.into());
                };
                error!(instance = %self.instance, error = chain(&failed), "the guest cannot be started");
                self.failure = Some((class, chain(&failed)));
                self.record.applied_start = spec.start_generation;
                self.cx.dirs.put(&self.record)?;
                Ok(())
            }
        }
    }

    /// After a launch that failed part way: nothing of its process may be left before the next try.
    async fn settle_failed_launch(&mut self) -> Result<(), StepError> {
        if let Stage::Started { process } = &self.record.stage {
            let process = process.clone();
            vmm::kill_recorded(&process).await?;
            self.record.applied_start = self.record.current_start.saturating_sub(1);
        }
        self.record.stage = Stage::Idle;
        self.cx.dirs.put(&self.record)?;
        Ok(())
    }

    async fn ask(&mut self, spec: &GuestSpec, what: AskedFor, grace: Duration) -> Result<(), StepError> {
        let Some(guest) = &self.guest else { return Ok(()) };
        guest.power_down().await?;
        self.asked = Some(Asking {
            what,
            deadline: Instant::now() + self.cx.guest_time(grace),
        });
        if what == AskedFor::PowerOff {
            self.report(spec, GuestState::Stopping, self.applied_generation())
                .await?;
        }
        Ok(())
    }

    async fn reset(&mut self, spec: &GuestSpec) -> Result<(), StepError> {
        let Some(guest) = &self.guest else { return Ok(()) };
        guest.reset().await?;
        guest.resume().await?;
        self.powered_off = false;
        self.asked = None;
        self.panicked_at = None;
        self.record.applied_reboot = spec.reboot_generation;
        self.cx.dirs.put(&self.record)?;
        Ok(())
    }

    async fn end(&mut self, spec: &GuestSpec, cause: ExitCause) -> Result<(), StepError> {
        self.report(spec, GuestState::Stopping, self.applied_generation())
            .await?;
        if let Some(guest) = &self.guest {
            // `quit` lets QEMU flush what it holds; a monitor that refuses, is gone or does not answer changes nothing about
            // the end.
            match tokio::time::timeout(limits::QUIT_GRACE, guest.quit()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    warn!(instance = %self.instance, error = chain(&error), "the guest's monitor would not quit");
                }
                Err(_) => {
                    warn!(instance = %self.instance, "the guest's monitor does not answer; the process is killed")
                }
            }
            if guest.exited_within(limits::QUIT_GRACE).await.is_none() {
                guest.kill().await?;
            }
        }
        state::fault_point!("node/end/ended");
        let restart = *self.draining.borrow() && spec.run == RunIntent::Run;
        self.note_exit(cause, restart)?;
        self.release(spec).await
    }

    fn note_exit(&mut self, cause: ExitCause, restart: bool) -> Result<(), RecordError> {
        self.guest = None;
        self.powered_off = false;
        self.asked = None;
        self.record.stage = Stage::Idle;
        self.record.last_exit = Some(cause);
        if restart {
            self.record.applied_start = self.record.current_start.saturating_sub(1);
        }
        self.cx.dirs.put(&self.record)
    }

    async fn release(&mut self, spec: &GuestSpec) -> Result<(), StepError> {
        for disk in &spec.disks {
            self.cx.volumes.release(&disk.volume).await?;
        }
        state::fault_point!("node/end/released");
        self.record.released = true;
        if self.cx.dirs.find(&self.instance)?.is_some() {
            self.cx.dirs.put(&self.record)?;
        }
        Ok(())
    }

    async fn remove(&mut self, spec: &GuestSpec) -> Result<(), StepError> {
        if !self.record.released {
            self.release(spec).await?;
        }
        self.cx.dirs.remove(&self.instance)?;
        state::fault_point!("node/end/removed");
        self.report(spec, GuestState::Gone, spec.generation).await?;
        self.removed = true;
        info!(instance = %self.instance, "nothing of the guest is left");
        Ok(())
    }

    fn applied_generation(&self) -> u64 {
        self.reported.as_ref().map_or(0, |seen| seen.applied_generation)
    }

    /// Commits the observation if it differs from the last one.
    async fn report(
        &mut self,
        spec: &GuestSpec,
        state: GuestState,
        applied_generation: u64,
    ) -> Result<(), StepError> {
        let now = OffsetDateTime::now_utc();
        let since = match &self.reported {
            Some(seen) if seen.state == state => seen.since,
            _ => now,
        };
        let process = match &self.record.stage {
            Stage::Started { process } => Some(ProcessIdentity {
                boot_id: process.boot_id.clone(),
                pid: process.pid,
                start_ticks: process.start_ticks,
            }),
            Stage::Idle | Stage::Starting => None,
        };
        let observation = GuestObservation {
            node: spec.node.clone(),
            instance: self.instance.clone(),
            applied_generation,
            applied_start_generation: self.record.applied_start,
            applied_reboot_generation: self.record.applied_reboot,
            state,
            process,
            since,
            starts: self.record.starts,
            panicked_at: self.panicked_at,
        };
        if self.reported.as_ref() == Some(&observation) {
            return Ok(());
        }
        let written = &observation;
        self.cx
            .store
            .update(|tx| async move { tx.put(written) })
            .await
            .map_err(|error| StepError::Report(Box::new(error)))?;
        self.reported = Some(observation);
        Ok(())
    }

    /// Waits until the answer of `decide` can differ; false if the agent ends.
    async fn wait_for_change(&mut self) -> bool {
        let wake = match &self.asked {
            // A guest that was not up yet misses the first press of its power button.
            Some(asking) => asking
                .deadline
                .min(Instant::now() + limits::POWER_BUTTON_INTERVAL),
            None => Instant::now() + limits::CONSOLE_TRIM_INTERVAL,
        };
        let event = tokio::select! {
            changed = self.specs.changed() => return changed.is_ok(),
            changed = self.draining.changed() => return changed.is_ok(),
            event = next_event(self.guest.as_ref()) => Some(event),
            () = tokio::time::sleep_until(wake) => None,
        };
        match event {
            Some(event) => self.apply_event(event).await,
            None => self.tick().await,
        }
        true
    }

    async fn tick(&mut self) {
        let Some(guest) = &self.guest else { return };
        if self.asked.is_some() && !self.powered_off {
            if let Err(error) = guest.power_down().await {
                warn!(instance = %self.instance, error = chain(&error), "the power button could not be pressed");
            }
            return;
        }
        let log = self.cx.dirs.files(&self.instance).console.log;
        let trimmed = tokio::task::spawn_blocking(move || vmm::console::trim(&log)).await;
        if let Ok(Err(error)) = trimmed {
            warn!(instance = %self.instance, error = chain(&error), "the console log could not be bounded");
        }
    }

    async fn apply_event(&mut self, event: GuestEvent) {
        match event {
            GuestEvent::PoweredOff => self.powered_off = true,
            GuestEvent::Panicked => {
                warn!(instance = %self.instance, "the guest's kernel panicked");
                self.panicked_at = Some(OffsetDateTime::now_utc());
            }
            GuestEvent::Reset { .. } => self.panicked_at = None,
            GuestEvent::DiskError { disk } => {
                error!(instance = %self.instance, disk, "a disk of the guest answered an error");
            }
            GuestEvent::MonitorBack => {
                let Some(guest) = &self.guest else { return };
                if let Ok(RunState::Shutdown) = guest.status().await {
                    self.powered_off = true;
                }
            }
            GuestEvent::Exited { status } => {
                let cause = match status {
                    ExitStatus::Code(code) => ExitCause::ExitCode { code },
                    ExitStatus::Signal(signal) => ExitCause::Signal { signal },
                    ExitStatus::Unknown => ExitCause::Unknown,
                };
                error!(instance = %self.instance, %status, "the guest's process ended");
                if let Err(error) = self.note_exit(cause, false) {
                    error!(instance = %self.instance, error = chain(&error), "the end of the process could not be recorded");
                }
            }
            _ => {}
        }
    }

    /// Waits, but not longer than until the spec changes; false if the agent ends.
    async fn pause(&mut self, wait: Duration) -> bool {
        tokio::select! {
            changed = self.specs.changed() => changed.is_ok(),
            () = tokio::time::sleep(wait) => true,
        }
    }
}

enum Wait {
    None,
    ForChange,
}

async fn next_event(guest: Option<&Guest>) -> GuestEvent {
    match guest {
        Some(guest) => guest.next_event().await,
        None => std::future::pending().await,
    }
}

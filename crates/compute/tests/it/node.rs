//! A node that turns specs into observations as the agent does, without guests: it starts what should run, stops what
//! should stop, and can be told that a guest powered itself off, died, or cannot be made.

use aws_types::ids::{InstanceId, NodeId};
use node_spec::{
    ExitCause, GuestFailure, GuestObservation, GuestSpec, GuestState, RunIntent, VolumeFailure, VolumeIntent,
    VolumeObservation, VolumeSpec, VolumeState,
};
use state::{Scope, Store, StoreError, UpdateError};
use std::collections::BTreeMap;
use std::sync::Mutex;
use time::OffsetDateTime;

/// What the node was told to do to the next guests and volumes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    pub volumes: Option<VolumeFailure>,
    pub guests: Option<GuestFailure>,
    /// It does nothing at all.
    pub silent: bool,
}

/// The node.
pub struct FakeNode {
    pub id: NodeId,
    trouble: Mutex<Trouble>,
    ended: Mutex<BTreeMap<InstanceId, ExitCause>>,
}

impl FakeNode {
    pub fn new(id: NodeId) -> FakeNode {
        FakeNode {
            id,
            trouble: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    pub fn set_trouble(&self, trouble: Trouble) {
        *self.trouble.lock().expect("not poisoned") = trouble;
    }

    /// The guest's process ends at the next act.
    pub fn end(&self, instance: &str, cause: ExitCause) {
        let id = InstanceId::parse(instance).expect("an id");
        self.ended.lock().expect("not poisoned").insert(id, cause);
    }

    /// One look at all specs. True if anything was observed that was not before.
    ///
    /// # Errors
    /// The store failed.
    pub async fn act(&self, store: &Store) -> Result<bool, UpdateError<StoreError>> {
        let trouble = *self.trouble.lock().expect("not poisoned");
        if trouble.silent {
            return Ok(false);
        }
        let scope = Scope::node(&self.id);
        let mut changed = false;
        for spec in store
            .list::<VolumeSpec>(&scope)
            .await
            .map_err(UpdateError::Store)?
        {
            let seen = store
                .find::<VolumeObservation>(&scope, &spec.volume)
                .await
                .map_err(UpdateError::Store)?;
            if seen
                .as_ref()
                .is_some_and(|seen| seen.applied_generation == spec.generation)
            {
                continue;
            }
            let state = match (&spec.intent, trouble.volumes) {
                (VolumeIntent::Deleted, _) => VolumeState::Deleted,
                (VolumeIntent::Present { .. }, Some(failure)) => VolumeState::Error {
                    failure,
                    message: "told to".into(),
                },
                (VolumeIntent::Present { .. }, None) => VolumeState::Ready {
                    handle: "11".repeat(16),
                },
            };
            let observation = VolumeObservation {
                node: self.id.clone(),
                volume: spec.volume.clone(),
                applied_generation: spec.generation,
                state,
                since: OffsetDateTime::now_utc(),
            };
            changed |= put(store, &observation).await?;
        }
        for spec in store
            .list::<GuestSpec>(&scope)
            .await
            .map_err(UpdateError::Store)?
        {
            let seen = store
                .find::<GuestObservation>(&scope, &spec.instance)
                .await
                .map_err(UpdateError::Store)?;
            let ready = self.disks_are_ready(store, &spec).await?;
            if let Some(next) = self.next(&spec, seen.as_ref(), ready, trouble)
                && seen.as_ref() != Some(&next)
            {
                changed |= put(store, &next).await?;
            }
        }
        Ok(changed)
    }

    async fn disks_are_ready(
        &self,
        store: &Store,
        spec: &GuestSpec,
    ) -> Result<bool, UpdateError<StoreError>> {
        for disk in &spec.disks {
            let seen = store
                .find::<VolumeObservation>(&Scope::node(&self.id), &disk.volume)
                .await
                .map_err(UpdateError::Store)?;
            if !seen.is_some_and(|seen| matches!(seen.state, VolumeState::Ready { .. })) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn next(
        &self,
        spec: &GuestSpec,
        seen: Option<&GuestObservation>,
        ready: bool,
        trouble: Trouble,
    ) -> Option<GuestObservation> {
        let ended = self.ended.lock().expect("not poisoned").remove(&spec.instance);
        let before = seen.map(|seen| seen.state.clone());
        let applied_start = seen.map_or(0, |seen| seen.applied_start_generation);
        let (state, start) = match (spec.run, before) {
            (RunIntent::Gone, _) => (GuestState::Gone, applied_start),
            (RunIntent::Run, Some(GuestState::Running)) if applied_start == spec.start_generation => {
                match ended {
                    Some(cause) => (GuestState::Stopped { cause }, applied_start),
                    None => (GuestState::Running, applied_start),
                }
            }
            (RunIntent::Run, before) if applied_start < spec.start_generation => match trouble.guests {
                Some(failure) => {
                    let message = "told to".into();
                    (GuestState::Failed { failure, message }, spec.start_generation)
                }
                None if ready => (GuestState::Running, spec.start_generation),
                None => (before.unwrap_or(GuestState::Preparing), applied_start),
            },
            (RunIntent::Run, before) => (before?, applied_start),
            (RunIntent::Stop | RunIntent::ForceStop, Some(GuestState::Running)) => {
                let cause = ExitCause::Intent;
                (GuestState::Stopped { cause }, applied_start)
            }
            (RunIntent::Stop | RunIntent::ForceStop, before) => {
                let cause = ExitCause::Intent;
                (before.unwrap_or(GuestState::Stopped { cause }), applied_start)
            }
        };
        let same = seen.is_some_and(|seen| seen.state == state);
        Some(GuestObservation {
            node: self.id.clone(),
            instance: spec.instance.clone(),
            applied_generation: spec.generation,
            applied_start_generation: start,
            applied_reboot_generation: spec.reboot_generation,
            process: None,
            since: match seen {
                Some(seen) if same => seen.since,
                _ => OffsetDateTime::now_utc(),
            },
            panicked_at: None,
            starts: start,
            state,
        })
    }
}

async fn put<T: state::Record>(store: &Store, record: &T) -> Result<bool, UpdateError<StoreError>> {
    store.update(|tx| async move { tx.put(record) }).await?;
    Ok(true)
}

//! The reconciler `instances`.
//!
//! A pass reads the live specs, observations and instances in bulk, and runs a transaction only for instances that have
//! something to do. The transaction applies [`decide`] until nothing new follows, does the effects, and writes the specs
//! that [`plan_instance`] makes of the result.

use super::{broken, count};
use crate::capacity;
use crate::context::Context;
use crate::error::ComputeError;
use crate::limits;
use crate::plan::{Nic, Placement, Seen, Verdict, decide, plan_instance, plan_volume, run_intent};
use crate::records::{
    ATTENTION, Attachment, BUSY, Effect, Event, Instance, InstanceBoot, Phase, Snapshot, Step, TERMINATED,
    Volume, VolumeState, account_scope,
};
use async_trait::async_trait;
use aws_types::ids::InstanceId;
use aws_types::{AccountId, Region};
use network::capability::names::zone_id;
use network::capability::{facts, interfaces, tags};
use node_spec::{
    GuestMetadata, GuestObservation, GuestSpec, NodeRecord, VolumeObservation, VolumeSpec,
    VolumeState as ObservedVolume,
};
use state::{PassContext, PassError, PassReport, Reconciler, Record, RecordKey, Scope, Tx};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;

/// Events that one transaction applies to one instance at most; each is a move towards rest, so few follow each other.
const EVENTS_PER_TRANSACTION_MAX: usize = 8;

/// See the module.
pub struct InstanceReconciler(pub Context);

#[async_trait]
impl Reconciler for InstanceReconciler {
    fn name(&self) -> &'static str {
        "instances"
    }

    fn watches(&self) -> &[&'static str] {
        &[Instance::TABLE, GuestObservation::TABLE, VolumeObservation::TABLE]
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let now = OffsetDateTime::now_utc();
        let mut report = PassReport::default();
        let due = self.list_due(context, now).await?;
        for (position, (account, id)) in due.iter().enumerate() {
            if position >= limits::INSTANCES_PER_PASS_MAX || context.is_stopping() {
                report.deferred += u64::try_from(due.len() - position).unwrap_or(u64::MAX);
                report.due_in(std::time::Duration::ZERO);
                break;
            }
            let outcome = context
                .store
                .update(|tx| async move { self.converge(&tx, *account, id, now).await })
                .await;
            count(&mut report, "instance", id.as_str(), outcome);
        }
        self.purge(context, now, &mut report).await?;
        Ok(report)
    }
}

impl InstanceReconciler {
    /// The instances that have something to do: those on their way, and those whose node saw or must know something.
    async fn list_due(
        &self,
        context: &PassContext,
        now: OffsetDateTime,
    ) -> Result<Vec<(AccountId, InstanceId)>, PassError> {
        let store = &context.store;
        let busy = store.list_by_index::<Instance>(ATTENTION, &[BUSY]).await?;
        let mut due: Vec<(AccountId, InstanceId)> = busy
            .into_iter()
            .map(|instance| (instance.account, instance.id))
            .collect();
        let known: BTreeSet<InstanceId> = due.iter().map(|(_, id)| id.clone()).collect();
        let mut specs = store.list_all::<GuestSpec>().await?;
        specs.retain(|spec| !known.contains(&spec.instance));
        let observations: BTreeMap<InstanceId, GuestObservation> = store
            .list_all::<GuestObservation>()
            .await?
            .into_iter()
            .map(|one| (one.instance.clone(), one))
            .collect();
        let keys: Vec<RecordKey> = specs
            .iter()
            .map(|spec| RecordKey::account(spec.account, &spec.instance))
            .collect();
        let instances = store.find_many::<Instance>(&keys).await?;
        for (spec, instance) in specs.iter().zip(instances) {
            let Some(instance) = instance else { continue };
            let seen = Seen {
                spec: Some(spec),
                guest: observations.get(&instance.id),
                volumes: &[],
            };
            if is_outdated(spec, &instance) || decide(&instance, seen, now).is_some() {
                due.push((instance.account, instance.id));
            }
        }
        Ok(due)
    }

    /// Moves one instance as far as what was seen allows, and writes its specs. True if anything changed.
    async fn converge(
        &self,
        tx: &Tx,
        account: AccountId,
        id: &InstanceId,
        now: OffsetDateTime,
    ) -> Result<bool, ComputeError> {
        let scope = account_scope(account);
        let Some(before) = tx.find::<Instance>(&scope, id).await? else {
            return Ok(false);
        };
        let mut instance = before.clone();
        let node_scope = Scope::node(&instance.node);
        let spec = tx.find::<GuestSpec>(&node_scope, id).await?;
        let guest = tx.find::<GuestObservation>(&node_scope, id).await?;
        let node = tx.find::<NodeRecord>(&Scope::NONE, &instance.node).await?;
        let attachments = tx.list_by_index::<Attachment>("instance", &[id.as_str()]).await?;
        let mut volumes = Vec::with_capacity(attachments.len());
        for attachment in &attachments {
            volumes.push(
                tx.find::<VolumeObservation>(&node_scope, &attachment.volume)
                    .await?,
            );
        }
        let mut effects: Vec<Effect> = Vec::new();
        let mut gone = false;
        for _ in 0..EVENTS_PER_TRANSACTION_MAX {
            let seen = Seen {
                spec: spec.as_ref(),
                guest: guest.as_ref(),
                volumes: &volumes,
            };
            match decide(&instance, seen, now) {
                None => break,
                Some(Verdict::Relaunch) => {
                    relaunch(&mut instance, now);
                    break;
                }
                Some(Verdict::GuestGone) => {
                    gone = true;
                    break;
                }
                Some(Verdict::Happened(event)) => match instance.lifecycle.step(event, now) {
                    Step::Moved(more) => {
                        effects.extend(more);
                        if event == Event::GuestRunning {
                            interfaces::mark_attached(tx, id).await?;
                        }
                    }
                    Step::Unchanged | Step::Refused => break,
                },
            }
        }
        if gone {
            return self.give_back(tx, instance, &attachments, now).await;
        }
        for effect in effects {
            match effect {
                Effect::ReleaseCapacity => capacity::release(tx, &instance).await?,
                Effect::ReleasePublicAddress => interfaces::stop_interfaces(tx, id, now).await?,
            }
        }
        let mut changed = before != instance;
        if changed {
            tx.put(&instance)?;
        }
        changed |= self
            .write_specs(tx, &instance, &attachments, spec.as_ref(), node.as_ref())
            .await?;
        Ok(changed)
    }

    /// Writes what the node must know of an instance and of its volumes. True if anything changed.
    async fn write_specs(
        &self,
        tx: &Tx,
        instance: &Instance,
        attachments: &[Attachment],
        previous: Option<&GuestSpec>,
        node: Option<&NodeRecord>,
    ) -> Result<bool, ComputeError> {
        // An instance that ended before any node heard of it is not told about.
        let is_ending = matches!(instance.lifecycle.phase, Phase::ShuttingDown | Phase::Terminated);
        if is_ending && previous.is_none() {
            return Ok(false);
        }
        let scope = account_scope(instance.account);
        let mut changed = false;
        for attachment in attachments {
            let volume = tx.find::<Volume>(&scope, &attachment.volume).await?;
            changed |=
                write_volume_spec(tx, &volume.ok_or_else(|| broken("volume of an attachment"))?).await?;
        }
        let boot = tx.find::<InstanceBoot>(&scope, &instance.id).await?;
        let boot = boot.ok_or_else(|| broken("boot row of an instance"))?;
        let node = node.ok_or_else(|| broken("node of an instance"))?;
        let planned = plan_one(&self.0, tx, instance, &boot, attachments, node, previous).await?;
        if previous != Some(&planned.guest) {
            tx.put(&planned.guest)?;
            changed = true;
        }
        let metadata = tx
            .find::<GuestMetadata>(&Scope::node(&instance.node), &instance.id)
            .await?;
        if metadata.as_ref() != Some(&planned.metadata) {
            tx.put(&planned.metadata)?;
            changed = true;
        }
        Ok(changed)
    }

    /// The guest is gone from its node: gives back interfaces, then volumes, and, when these are gone as well, the room;
    /// only then is the instance terminated (R43, R44). Each step is found done or not done by what is stored.
    async fn give_back(
        &self,
        tx: &Tx,
        mut instance: Instance,
        attachments: &[Attachment],
        now: OffsetDateTime,
    ) -> Result<bool, ComputeError> {
        let scope = account_scope(instance.account);
        interfaces::release_interfaces(tx, &instance.id, now).await?;
        let (mut waits, mut changed) = (false, false);
        for attachment in attachments {
            let volume = tx.find::<Volume>(&scope, &attachment.volume).await?;
            let Some(mut volume) = volume.filter(|_| attachment.delete_on_termination) else {
                detach(tx, attachment)?;
                continue;
            };
            if volume.state != VolumeState::Deleting {
                volume.state = VolumeState::Deleting;
                tx.put(&volume)?;
            }
            let node_scope = Scope::node(&volume.node);
            let spec = tx.find::<VolumeSpec>(&node_scope, &volume.id).await?;
            let observed = tx.find::<VolumeObservation>(&node_scope, &volume.id).await?;
            let is_gone = observed.is_some_and(|seen| matches!(seen.state, ObservedVolume::Deleted));
            // Without a spec no node ever made it.
            if spec.is_none() || is_gone {
                remove_volume(tx, &volume).await?;
                detach(tx, attachment)?;
            } else {
                changed |= write_volume_spec(tx, &volume).await?;
                waits = true;
            }
        }
        if waits {
            return Ok(changed);
        }
        instance.lifecycle.step(Event::Released, now);
        instance.slots.clear();
        capacity::release(tx, &instance).await?;
        let node_scope = Scope::node(&instance.node);
        tx.delete::<GuestSpec>(&node_scope, &instance.id)?;
        tx.delete::<GuestMetadata>(&node_scope, &instance.id)?;
        tx.delete::<GuestObservation>(&node_scope, &instance.id)?;
        tx.put(&instance)?;
        Ok(true)
    }

    /// Removes instances that were terminated long enough ago.
    async fn purge(
        &self,
        context: &PassContext,
        now: OffsetDateTime,
        report: &mut PassReport,
    ) -> Result<(), PassError> {
        let terminated = context
            .store
            .page_by_index::<Instance>(ATTENTION, &[TERMINATED], state::PageRequest::default())
            .await?;
        for row in terminated.rows {
            let instance = &row.record;
            let age = now - instance.lifecycle.phase_since;
            if age < limits::TERMINATED_VISIBLE {
                let wait = (limits::TERMINATED_VISIBLE - age).max(time::Duration::SECOND);
                report.due_in(wait.unsigned_abs());
                break;
            }
            let outcome = context
                .store
                .update(|tx| async move {
                    let scope = account_scope(instance.account);
                    tx.delete::<Instance>(&scope, &instance.id)?;
                    tx.delete::<InstanceBoot>(&scope, &instance.id)?;
                    tags::remove_all(&tx, instance.account, instance.id.as_str()).await?;
                    Ok(true)
                })
                .await;
            count(report, "terminated instance", instance.id.as_str(), outcome);
        }
        Ok(())
    }
}

/// The stored spec does not say what the instance's records say.
fn is_outdated(spec: &GuestSpec, instance: &Instance) -> bool {
    spec.run != run_intent(instance.lifecycle.phase, instance.lifecycle.stop_force)
        || spec.start_generation != instance.start_generation
        || spec.reboot_generation != instance.reboot_generation
}

/// The guest was lost and is started again.
fn relaunch(instance: &mut Instance, now: OffsetDateTime) {
    instance.losses.retain(|at| now - *at < limits::RECOVERY_WINDOW);
    instance.losses.push(now);
    if instance.lifecycle.phase == Phase::Running {
        instance.lifecycle.step(Event::GuestLost, now);
    }
    instance.start_generation += 1;
}

fn detach(tx: &Tx, attachment: &Attachment) -> Result<(), ComputeError> {
    let scope = account_scope(attachment.account);
    tx.delete::<Attachment>(
        &scope,
        Attachment::row_id(&attachment.instance, &attachment.volume),
    )?;
    Ok(())
}

/// Writes a volume's spec if it differs. True if it did.
pub(super) async fn write_volume_spec(tx: &Tx, volume: &Volume) -> Result<bool, ComputeError> {
    let previous = tx
        .find::<VolumeSpec>(&Scope::node(&volume.node), &volume.id)
        .await?;
    let snapshot = match &volume.snapshot {
        Some(id) if previous.is_none() => tx.find_unique::<Snapshot>("id", &[id.as_str()]).await?,
        _ => None,
    };
    let spec = plan_volume(volume, snapshot.as_ref(), previous.as_ref());
    let changed = previous.as_ref() != Some(&spec);
    if changed {
        tx.put(&spec)?;
    }
    Ok(changed)
}

/// Removes everything that is stored of a volume whose data is gone.
pub(super) async fn remove_volume(tx: &Tx, volume: &Volume) -> Result<(), ComputeError> {
    let node_scope = Scope::node(&volume.node);
    tx.delete::<Volume>(&account_scope(volume.account), &volume.id)?;
    tx.delete::<VolumeSpec>(&node_scope, &volume.id)?;
    tx.delete::<VolumeObservation>(&node_scope, &volume.id)?;
    tags::remove_all(tx, volume.account, volume.id.as_str()).await?;
    Ok(())
}

/// Plans one instance from what is stored.
pub(super) async fn plan_one(
    context: &Context,
    tx: &Tx,
    instance: &Instance,
    boot: &InstanceBoot,
    attachments: &[Attachment],
    node: &NodeRecord,
    previous: Option<&GuestSpec>,
) -> Result<crate::plan::PlannedInstance, ComputeError> {
    let region = Region::parse(&node.region).map_err(|_| broken("region of a node"))?;
    let shown = facts::metadata_interfaces(tx, &region, &context.dns_suffix, &instance.id).await?;
    let nics: Vec<Nic> = shown.into_iter().map(|facts| Nic { facts }).collect();
    let tags = tags::of_resource_in(tx, instance.account, instance.id.as_str()).await?;
    let placement = Placement {
        region: node.region.clone(),
        zone_id: zone_id(&instance.zone),
    };
    Ok(plan_instance(
        instance,
        boot,
        attachments,
        &nics,
        &tags,
        &placement,
        previous,
    ))
}

//! StartInstances, StopInstances, RebootInstances, TerminateInstances (R38–R45).
//!
//! Each call reads and checks every instance in one transaction before it changes any, so one bad id or state changes
//! none. Calls that name more instances than one transaction holds go in parts, all of which were checked first.

use super::access::arn;
use super::describe_instances::{absent, instance_ids, state_change};
use super::run_instances::insufficient_capacity;
use super::{INSTANCE, instance_view::find_instances};
use crate::capacity::{NodeView, cost_of, fetch_usage, set_hold};
use crate::context::Context;
use crate::error::{ComputeError, update_error};
use crate::instance_types;
use crate::limits;
use crate::records::{Attachment, Event, Instance, InstanceState, Phase, Step, account_scope};
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_shapes::value::Unit;
use aws_types::ids::InstanceId;
use aws_types::{AccountId, AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use network::capability::{interfaces, tags};
use node_spec::NodeRecord;
use state::{Scope, Tx};
use time::OffsetDateTime;

/// What a call does to each of its instances.
#[derive(Clone, Copy)]
enum Change {
    Start,
    Stop { force: bool },
    Reboot,
    Terminate,
}

impl Change {
    /// Instances one transaction of this change holds.
    fn batch(self) -> usize {
        match self {
            Change::Start => limits::STARTS_PER_TRANSACTION_MAX,
            Change::Stop { .. } | Change::Reboot | Change::Terminate => limits::CHANGES_PER_TRANSACTION_MAX,
        }
    }
}

async fn access_each(
    context: &Context,
    call: &Call,
    action: &'static str,
    named: &[String],
) -> Result<Vec<AccessRequest>, AwsError> {
    if named.is_empty() {
        return Ok(AccessRequest::on(action, arn(call, INSTANCE, "*")).into());
    }
    let known: Vec<InstanceId> = named.iter().filter_map(|id| InstanceId::parse(id)).collect();
    let found = find_instances(&context.store, call.account(), &known).await?;
    let mut requests = Vec::with_capacity(named.len());
    for id in named {
        let request = AccessRequest::on(action, arn(call, INSTANCE, id));
        requests.push(match found.iter().find(|instance| instance.id.as_str() == id) {
            Some(instance) => {
                let own = tags::of_resource(&context.store, instance.account, id).await?;
                request
                    .with_resource_tags(&own)
                    .with("ec2:InstanceType", &instance.instance_type)
                    .with("ec2:AvailabilityZone", instance.zone.as_str())
            }
            None => request,
        });
    }
    Ok(requests)
}

fn named_ids(named: &[String]) -> Result<Vec<InstanceId>, AwsError> {
    if named.is_empty() {
        return Err(AwsError::missing_parameter("InstanceId"));
    }
    instance_ids(named, limits::IDS_PER_CALL_MAX)
}

/// Checks all instances, then changes them part by part. Answers each one's state before and after.
async fn change_all(
    context: &Context,
    call: &Call,
    ids: &[InstanceId],
    change: Change,
) -> Result<Vec<ec2::InstanceStateChange>, AwsError> {
    let account = call.account();
    let parts: Vec<&[InstanceId]> = ids.chunks(change.batch()).collect();
    if parts.len() > 1 || call.dry_run {
        // Nothing is changed unless all of them can be.
        for part in &parts {
            let dry = context.store.update(|tx| async move {
                check_all(&tx, account, part, change, call.now).await?;
                Ok(())
            });
            dry.await.map_err(update_error)?;
        }
    }
    call.finish_dry_run()?;
    let mut changes = Vec::with_capacity(ids.len());
    for part in parts {
        let changed = context.store.update(|tx| async move {
            account_active(&tx, account).await?;
            let instances = check_all(&tx, account, part, change, call.now).await?;
            let mut changes = Vec::with_capacity(part.len());
            for (before, mut instance) in instances {
                if before != instance {
                    apply(&tx, &before, &mut instance, change, call.now).await?;
                }
                let states = (before.lifecycle.phase.state(), instance.lifecycle.phase.state());
                changes.push(state_change(&instance.id, states.0, states.1));
            }
            Ok(changes)
        });
        changes.extend(changed.await.map_err(update_error)?);
    }
    Ok(changes)
}

/// Each instance as it is, and as the change leaves it.
async fn check_all(
    tx: &Tx,
    account: AccountId,
    ids: &[InstanceId],
    change: Change,
    now: OffsetDateTime,
) -> Result<Vec<(Instance, Instance)>, ComputeError> {
    let mut instances = Vec::with_capacity(ids.len());
    let mut missing = Vec::new();
    for id in ids {
        match tx.find::<Instance>(&account_scope(account), id).await? {
            Some(instance) => instances.push(instance),
            None => missing.push(id.to_string()),
        }
    }
    if !missing.is_empty() {
        return Err(absent(&missing).into());
    }
    let mut changed = Vec::with_capacity(instances.len());
    for before in instances {
        let mut after = before.clone();
        check(&mut after, change, now)?;
        changed.push((before, after));
    }
    Ok(changed)
}

fn check(instance: &mut Instance, change: Change, now: OffsetDateTime) -> Result<(), AwsError> {
    match change {
        Change::Start => {
            let verb = "started";
            match instance.lifecycle.step(Event::StartRequested, now) {
                Step::Refused => Err(wrong_state(instance, verb)),
                Step::Unchanged => Ok(()),
                Step::Moved(_) => {
                    instance.launched_at = now.replace_nanosecond(0).unwrap_or(now);
                    instance.start_generation += 1;
                    Ok(())
                }
            }
        }
        Change::Stop { force } => {
            if instance.protection.stop && instance.lifecycle.phase.state() != InstanceState::Stopped {
                return Err(protected(instance, "stopped", "disableApiStop"));
            }
            match instance.lifecycle.step(Event::StopRequested { force }, now) {
                Step::Refused if instance.lifecycle.phase.is_pending() => {
                    Err(catalogue::INCORRECT_INSTANCE_STATE.error(format!(
                        "The instance '{}' cannot be stopped as it has never reached the 'running' state.",
                        instance.id
                    )))
                }
                Step::Refused => Err(wrong_state(instance, "stopped")),
                Step::Unchanged | Step::Moved(_) => Ok(()),
            }
        }
        Change::Reboot => match instance.lifecycle.phase {
            Phase::Running => {
                instance.reboot_generation += 1;
                Ok(())
            }
            Phase::Recovering | Phase::Terminated => Ok(()),
            _ => Err(catalogue::INCORRECT_INSTANCE_STATE.error(format!(
                "Instance '{}' is not in a state from which it can be rebooted.",
                instance.id
            ))),
        },
        Change::Terminate => {
            let is_over = matches!(instance.lifecycle.phase, Phase::ShuttingDown | Phase::Terminated);
            if instance.protection.termination && !is_over {
                return Err(protected(instance, "terminated", "disableApiTermination"));
            }
            if instance.protection.stop && !is_over {
                return Err(protected(instance, "terminated", "disableApiStop"));
            }
            instance.lifecycle.step(Event::TerminateRequested, now);
            Ok(())
        }
    }
}

fn wrong_state(instance: &Instance, verb: &str) -> AwsError {
    catalogue::INCORRECT_INSTANCE_STATE.error(format!(
        "The instance '{}' is not in a state from which it can be {verb}.",
        instance.id
    ))
}

fn protected(instance: &Instance, verb: &str, attribute: &str) -> AwsError {
    catalogue::OPERATION_NOT_PERMITTED.error(format!(
        "The instance '{}' may not be {verb}. Modify its '{attribute}' instance attribute and try again.",
        instance.id
    ))
}

async fn apply(
    tx: &Tx,
    before: &Instance,
    instance: &mut Instance,
    change: Change,
    now: OffsetDateTime,
) -> Result<(), ComputeError> {
    let starts = matches!(change, Change::Start) && before.lifecycle.phase != instance.lifecycle.phase;
    if starts {
        admit(tx, instance).await?;
        interfaces::start_interfaces(tx, &instance.id, &instance.node, now).await?;
    }
    tx.put(instance)?;
    Ok(())
}

/// Holds the room of an instance that starts, as a launch would (R32). Its volumes are on its node, so it starts there.
async fn admit(tx: &Tx, instance: &Instance) -> Result<(), ComputeError> {
    let kind = instance_types::find(&instance.instance_type).ok_or_else(AwsError::internal)?;
    let full = || insufficient_capacity(&instance.instance_type, &instance.zone);
    let node = tx
        .find::<NodeRecord>(&Scope::NONE, &instance.node)
        .await?
        .ok_or_else(full)?;
    let volumes = tx
        .list_by_index::<Attachment>("instance", &[instance.id.as_str()])
        .await?
        .len();
    let room = cost_of(kind, instance.vcpus(), volumes, node.accelerator);
    let held = fetch_usage(tx, &node.id).await?.held;
    if !room.fits(NodeView { node, held }.free()) {
        return Err(full().into());
    }
    set_hold(tx, instance.account, &instance.node, instance.id.as_str(), room).await?;
    Ok(())
}

/// StartInstances.
pub struct StartInstances(pub Context);

#[async_trait]
impl Operation for StartInstances {
    type Shape = operations::StartInstances;
    const ACTIONS: &'static [&'static str] = &["ec2:StartInstances"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::StartInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        access_each(&self.0, call, "ec2:StartInstances", &input.instance_ids).await
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::StartInstancesRequest,
    ) -> Result<ec2::StartInstancesResult, AwsError> {
        let ec2::StartInstancesRequest {
            instance_ids,
            additional_info,
            dry_run: _,
        } = input;
        if additional_info.is_some_and(|info| !info.is_empty()) {
            return Err(crate::error::unsupported("AdditionalInfo"));
        }
        let ids = named_ids(&instance_ids)?;
        let starting_instances = change_all(&self.0, call, &ids, Change::Start).await?;
        Ok(ec2::StartInstancesResult { starting_instances })
    }
}

/// StopInstances.
pub struct StopInstances(pub Context);

#[async_trait]
impl Operation for StopInstances {
    type Shape = operations::StopInstances;
    const ACTIONS: &'static [&'static str] = &["ec2:StopInstances"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::StopInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        access_each(&self.0, call, "ec2:StopInstances", &input.instance_ids).await
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::StopInstancesRequest,
    ) -> Result<ec2::StopInstancesResult, AwsError> {
        let ec2::StopInstancesRequest {
            instance_ids,
            hibernate,
            skip_os_shutdown,
            dry_run: _,
            force,
        } = input;
        let ids = named_ids(&instance_ids)?;
        if hibernate == Some(true) {
            return Err(catalogue::UNSUPPORTED_HIBERNATION_CONFIGURATION
                .error("The instance was not launched with hibernation configured."));
        }
        let force = force == Some(true) || skip_os_shutdown == Some(true);
        let stopping_instances = change_all(&self.0, call, &ids, Change::Stop { force }).await?;
        Ok(ec2::StopInstancesResult { stopping_instances })
    }
}

/// RebootInstances.
pub struct RebootInstances(pub Context);

#[async_trait]
impl Operation for RebootInstances {
    type Shape = operations::RebootInstances;
    const ACTIONS: &'static [&'static str] = &["ec2:RebootInstances"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::RebootInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        access_each(&self.0, call, "ec2:RebootInstances", &input.instance_ids).await
    }

    async fn handle(&self, call: &Call, input: ec2::RebootInstancesRequest) -> Result<Unit, AwsError> {
        let ids = named_ids(&input.instance_ids)?;
        change_all(&self.0, call, &ids, Change::Reboot).await?;
        Ok(Unit::default())
    }
}

/// TerminateInstances.
pub struct TerminateInstances(pub Context);

#[async_trait]
impl Operation for TerminateInstances {
    type Shape = operations::TerminateInstances;
    const ACTIONS: &'static [&'static str] = &["ec2:TerminateInstances"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::TerminateInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        access_each(&self.0, call, "ec2:TerminateInstances", &input.instance_ids).await
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::TerminateInstancesRequest,
    ) -> Result<ec2::TerminateInstancesResult, AwsError> {
        // A guest that is terminated is not asked first, so both members describe what happens anyway.
        let ec2::TerminateInstancesRequest {
            instance_ids,
            force: _,
            skip_os_shutdown: _,
            dry_run: _,
        } = input;
        let ids = named_ids(&instance_ids)?;
        let terminating_instances = change_all(&self.0, call, &ids, Change::Terminate).await?;
        Ok(ec2::TerminateInstancesResult {
            terminating_instances,
        })
    }
}

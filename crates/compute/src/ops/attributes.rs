//! DescribeInstanceAttribute and ModifyInstanceAttribute (compute.md, attributes and options; R68).
//!
//! A modification is exactly one attribute, given by name and value or by its structure; one transaction reads the
//! instance, judges its state and changes it, so edits of different attributes never undo each other.

use super::INSTANCE;
use super::access::arn;
use super::describe_instances::{absent, instance_ids};
use super::run_instances::{check_user_data, encode_user_data, shutdown_behaviour};
use crate::context::Context;
use crate::error::{ComputeError, combination, unsupported, update_error};
use crate::instance_types;
use crate::records::{Attachment, Instance, InstanceBoot, Phase, ShutdownBehaviour, account_scope};
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_shapes::value::Unit;
use aws_types::ids::InstanceId;
use aws_types::{AccountId, AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use iam::capability::account_active;
use network::capability::{interfaces, launch, tags};
use network::records::{Interface, SecurityGroup, Vpc};
use state::Tx;

async fn access_one(
    context: &Context,
    call: &Call,
    action: &'static str,
    id: Option<&str>,
) -> Result<AccessRequest, AwsError> {
    let id = id.unwrap_or("*");
    let own = match InstanceId::parse(id) {
        Some(_) => tags::of_resource(&context.store, call.account(), id).await?,
        None => Tags::new(),
    };
    Ok(AccessRequest::on(action, arn(call, INSTANCE, id)).with_resource_tags(&own))
}

fn one_id(id: Option<&str>) -> Result<InstanceId, AwsError> {
    let text = id.ok_or_else(|| AwsError::missing_parameter("InstanceId"))?;
    Ok(instance_ids(&[text.to_owned()], 1)?.remove(0))
}

async fn fetch(tx: &Tx, account: AccountId, id: &InstanceId) -> Result<Instance, ComputeError> {
    let found = tx.find::<Instance>(&account_scope(account), id).await?;
    Ok(found.ok_or_else(|| absent(&[id.to_string()]))?)
}

/// DescribeInstanceAttribute.
pub struct DescribeInstanceAttribute(pub Context);

#[async_trait]
impl Operation for DescribeInstanceAttribute {
    type Shape = operations::DescribeInstanceAttribute;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInstanceAttribute"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::DescribeInstanceAttributeRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(access_one(
            &self.0,
            call,
            "ec2:DescribeInstanceAttribute",
            input.instance_id.as_deref(),
        )
        .await?
        .into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInstanceAttributeRequest,
    ) -> Result<ec2::InstanceAttribute, AwsError> {
        let id = &one_id(input.instance_id.as_deref())?;
        let name = input
            .attribute
            .ok_or_else(|| AwsError::missing_parameter("Attribute"))?;
        let name = name.as_str();
        let account = call.account();
        // Reads only; a transaction so that all of it is of one revision.
        self.0
            .store
            .update(|tx| async move {
                let instance = fetch(&tx, account, id).await?;
                describe(&tx, &instance, name).await
            })
            .await
            .map_err(update_error)
    }
}

async fn describe(tx: &Tx, instance: &Instance, name: &str) -> Result<ec2::InstanceAttribute, ComputeError> {
    let text = |value: &str| {
        Some(ec2::AttributeValue {
            value: Some(value.to_owned()),
        })
    };
    let flag = |value: bool| Some(ec2::AttributeBooleanValue { value: Some(value) });
    let mut shown = ec2::InstanceAttribute {
        instance_id: Some(instance.id.to_string()),
        ..Default::default()
    };
    match name {
        "instanceType" => shown.instance_type = text(&instance.instance_type),
        "userData" => {
            let boot = tx
                .find::<InstanceBoot>(&account_scope(instance.account), &instance.id)
                .await?;
            shown.user_data = Some(ec2::AttributeValue {
                value: boot.and_then(|boot| boot.user_data),
            });
        }
        "disableApiTermination" => shown.disable_api_termination = flag(instance.protection.termination),
        "disableApiStop" => shown.disable_api_stop = flag(instance.protection.stop),
        "instanceInitiatedShutdownBehavior" => {
            shown.instance_initiated_shutdown_behavior = text(instance.shutdown_behaviour.name());
        }
        "rootDeviceName" => shown.root_device_name = text(&instance.image.root_device_name),
        "ebsOptimized" => shown.ebs_optimized = flag(instance.ebs_optimized),
        "enclaveOptions" => shown.enclave_options = Some(ec2::EnclaveOptions { enabled: Some(false) }),
        "sourceDestCheck" => {
            let primary = only_interface(tx, instance).await?;
            shown.source_dest_check = primary.and_then(|interface| flag(interface.source_dest_check));
        }
        "groupSet" => {
            if let Some(interface) = only_interface(tx, instance).await? {
                for id in &interface.groups {
                    let group = tx
                        .find::<SecurityGroup>(&account_scope(interface.account), id)
                        .await?;
                    shown.groups.push(ec2::GroupIdentifier {
                        group_id: Some(id.to_string()),
                        group_name: group.map(|group| group.name),
                    });
                }
            }
        }
        "blockDeviceMapping" => {
            let mut rows = tx
                .list_by_index::<Attachment>("instance", &[instance.id.as_str()])
                .await?;
            rows.sort_by(|a, b| a.device_name.cmp(&b.device_name));
            shown.block_device_mappings = rows
                .into_iter()
                .map(|row| ec2::InstanceBlockDeviceMapping {
                    device_name: Some(row.device_name),
                    ebs: Some(ec2::EbsInstanceBlockDevice {
                        attach_time: Some(row.attached_at),
                        delete_on_termination: Some(row.delete_on_termination),
                        status: Some("attached".to_owned()),
                        volume_id: Some(row.volume.to_string()),
                        ..Default::default()
                    }),
                })
                .collect();
        }
        // Nothing to show, truly: no instance has any of these.
        "productCodes" => {}
        "kernel" => shown.kernel_id = Some(ec2::AttributeValue::default()),
        "ramdisk" => shown.ramdisk_id = Some(ec2::AttributeValue::default()),
        "sriovNetSupport" => shown.sriov_net_support = Some(ec2::AttributeValue::default()),
        other => {
            return Err(
                AwsError::invalid_value(other, "attribute", "It is not an attribute of instances.").into(),
            );
        }
    }
    Ok(shown)
}

/// The interface that instance-level network attributes speak of: there must be one only.
async fn only_interface(tx: &Tx, instance: &Instance) -> Result<Option<Interface>, ComputeError> {
    let mut found = interfaces::find_interfaces(tx, &instance.id).await?;
    if found.len() > 1 {
        return Err(catalogue::INVALID_INSTANCE_ID
            .error(format!(
                "There are multiple interfaces attached to instance '{}'. Please specify an interface ID for the \
                 operation instead.",
                instance.id
            ))
            .into());
    }
    Ok(found.pop())
}

/// What a modification asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Modification {
    Termination(bool),
    Stop(bool),
    Shutdown(ShutdownBehaviour),
    Type(String),
    UserData(Option<String>),
    EbsOptimized(bool),
    SourceDestCheck(bool),
    Groups(Vec<String>),
    Devices(Vec<(String, bool)>),
}

/// ModifyInstanceAttribute.
pub struct ModifyInstanceAttribute(pub Context);

#[async_trait]
impl Operation for ModifyInstanceAttribute {
    type Shape = operations::ModifyInstanceAttribute;
    const ACTIONS: &'static [&'static str] = &["ec2:ModifyInstanceAttribute"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::ModifyInstanceAttributeRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let request = access_one(
            &self.0,
            call,
            "ec2:ModifyInstanceAttribute",
            input.instance_id.as_deref(),
        )
        .await?;
        Ok(request.into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::ModifyInstanceAttributeRequest,
    ) -> Result<Unit, AwsError> {
        let id = &one_id(input.instance_id.as_deref())?;
        let Some(modification) = &parse(input)? else {
            return Ok(Unit::default());
        };
        let account = call.account();
        self.0
            .store
            .update(|tx| async move {
                account_active(&tx, account).await?;
                let instance = fetch(&tx, account, id).await?;
                modify(&tx, instance, modification).await
            })
            .await
            .map_err(update_error)?;
        Ok(Unit::default())
    }
}

/// The one attribute of a request; nothing if its structure is empty.
fn parse(input: ec2::ModifyInstanceAttributeRequest) -> Result<Option<Modification>, AwsError> {
    let ec2::ModifyInstanceAttributeRequest {
        source_dest_check,
        disable_api_stop,
        dry_run: _,
        instance_id: _,
        attribute,
        value,
        block_device_mappings,
        disable_api_termination,
        instance_type,
        kernel,
        ramdisk,
        user_data,
        instance_initiated_shutdown_behavior,
        groups,
        ebs_optimized,
        sriov_net_support,
        ena_support,
    } = input;
    let mut given: Vec<Option<Modification>> = Vec::new();
    if let Some(attribute) = attribute {
        // Block devices have no scalar value: with the attribute's name comes the list.
        if attribute != "blockDeviceMapping" {
            given.push(Some(parse_named(&attribute, value)?));
        }
    }
    let mut flag = |member: Option<ec2::AttributeBooleanValue>, make: fn(bool) -> Modification| {
        given.extend(member.map(|member| member.value.map(make)));
    };
    flag(source_dest_check, Modification::SourceDestCheck);
    flag(disable_api_stop, Modification::Stop);
    flag(disable_api_termination, Modification::Termination);
    flag(ebs_optimized, Modification::EbsOptimized);
    given.extend(instance_type.map(|member| member.value.map(Modification::Type)));
    if let Some(member) = user_data {
        let bytes = member.value.unwrap_or_default();
        given.push(Some(Modification::UserData(if bytes.is_empty() {
            None
        } else {
            Some(encode_user_data(&bytes)?)
        })));
    }
    if let Some(member) = instance_initiated_shutdown_behavior {
        let behaviour = member.value.map(|value| shutdown_behaviour(&value)).transpose()?;
        given.push(behaviour.map(Modification::Shutdown));
    }
    if !groups.is_empty() {
        given.push(Some(Modification::Groups(groups)));
    }
    if !block_device_mappings.is_empty() {
        given.push(Some(Modification::Devices(parse_devices(block_device_mappings)?)));
    }
    for (given, name) in [
        (kernel.is_some(), "Kernel"),
        (ramdisk.is_some(), "Ramdisk"),
        (sriov_net_support.is_some(), "SriovNetSupport"),
        (ena_support.is_some(), "EnaSupport"),
    ] {
        if given {
            return Err(unsupported(name));
        }
    }
    if given.len() > 1 {
        return Err(combination("Fields for multiple attribute types specified."));
    }
    given.pop().ok_or_else(|| {
        catalogue::MISSING_PARAMETER.error("No attributes specified. The request must contain one attribute.")
    })
}

fn parse_named(attribute: &str, value: Option<String>) -> Result<Modification, AwsError> {
    if matches!(
        attribute,
        "kernel" | "ramdisk" | "sriovNetSupport" | "enaSupport" | "enclaveOptions"
    ) {
        return Err(unsupported("Attribute"));
    }
    let value = value.ok_or_else(|| AwsError::missing_parameter("Value"))?;
    let truth = |value: &str| match value {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(AwsError::invalid_value(
            other,
            "value",
            "It must be true or false.",
        )),
    };
    Ok(match attribute {
        "instanceType" => Modification::Type(value),
        "userData" => Modification::UserData(if value.is_empty() {
            None
        } else {
            Some(check_user_data(&value)?)
        }),
        "disableApiTermination" => Modification::Termination(truth(&value)?),
        "disableApiStop" => Modification::Stop(truth(&value)?),
        "instanceInitiatedShutdownBehavior" => Modification::Shutdown(shutdown_behaviour(&value)?),
        "ebsOptimized" => Modification::EbsOptimized(truth(&value)?),
        "sourceDestCheck" => Modification::SourceDestCheck(truth(&value)?),
        "groupSet" => Modification::Groups(vec![value]),
        other => {
            return Err(AwsError::invalid_value(
                other,
                "attribute",
                "It is not an attribute that can be modified.",
            ));
        }
    })
}

fn parse_devices(
    mappings: Vec<ec2::InstanceBlockDeviceMappingSpecification>,
) -> Result<Vec<(String, bool)>, AwsError> {
    mappings
        .into_iter()
        .map(
            |ec2::InstanceBlockDeviceMappingSpecification {
                 device_name,
                 ebs,
                 virtual_name,
                 no_device,
             }| {
                if virtual_name.is_some() || no_device.is_some() {
                    return Err(unsupported("BlockDeviceMapping"));
                }
                let name = device_name
                    .ok_or_else(|| AwsError::missing_parameter("BlockDeviceMapping.DeviceName"))?;
                let goes = ebs.and_then(|ebs| ebs.delete_on_termination).unwrap_or(true);
                Ok((name, goes))
            },
        )
        .collect()
}

async fn modify(tx: &Tx, mut instance: Instance, modification: &Modification) -> Result<(), ComputeError> {
    if matches!(instance.lifecycle.phase, Phase::ShuttingDown | Phase::Terminated) {
        return Err(wrong_state(&instance, "modified").into());
    }
    let is_stopped = matches!(instance.lifecycle.phase, Phase::Stopped | Phase::Failed);
    let needs_stop = matches!(
        modification,
        Modification::Type(_) | Modification::UserData(_) | Modification::EbsOptimized(_)
    );
    if needs_stop && !is_stopped {
        return Err(catalogue::INCORRECT_INSTANCE_STATE
            .error(format!(
                "The instance '{}' is not in the 'stopped' state.",
                instance.id
            ))
            .into());
    }
    match modification {
        Modification::Termination(on) => instance.protection.termination = *on,
        Modification::Stop(on) => instance.protection.stop = *on,
        Modification::Shutdown(behaviour) => instance.shutdown_behaviour = *behaviour,
        Modification::EbsOptimized(on) => instance.ebs_optimized = *on,
        Modification::Type(name) => {
            let kind =
                instance_types::find(name).filter(|kind| kind.architecture == instance.image.architecture);
            let kind = kind.ok_or_else(|| {
                catalogue::INVALID_INSTANCE_ATTRIBUTE_VALUE.error(format!(
                    "The following supplied instance types do not exist: [{name}]"
                ))
            })?;
            instance.instance_type = kind.name.to_owned();
            instance.core_count = kind.cores();
            instance.threads_per_core = kind.threads_per_core;
            instance.credits = match (kind.credits_default(), instance.credits) {
                (None, _) => None,
                (Some(_), Some(kept)) => Some(kept),
                (default, None) => default,
            };
        }
        Modification::UserData(data) => {
            let scope = account_scope(instance.account);
            let mut boot = tx.fetch::<InstanceBoot>(&scope, &instance.id).await?;
            boot.user_data.clone_from(data);
            tx.put(&boot)?;
        }
        Modification::SourceDestCheck(on) => {
            if let Some(mut interface) = only_interface(tx, &instance).await? {
                interface.source_dest_check = *on;
                tx.put(&interface)?;
            }
        }
        Modification::Groups(ids) => {
            if let Some(mut interface) = only_interface(tx, &instance).await? {
                let vpc = tx
                    .fetch::<Vpc>(&account_scope(interface.account), &interface.vpc)
                    .await?;
                let subnet = Some(&interface.subnet);
                let groups = launch::resolve_groups(tx, interface.account, &vpc, subnet, ids, &[]).await?;
                interface.groups = groups.into_iter().map(|group| group.id).collect();
                tx.put(&interface)?;
            }
        }
        Modification::Devices(devices) => {
            let rows = tx
                .list_by_index::<Attachment>("instance", &[instance.id.as_str()])
                .await?;
            for (name, goes) in devices {
                let row = rows.iter().find(|row| row.device_name == *name).ok_or_else(|| {
                    catalogue::INVALID_INSTANCE_ATTRIBUTE_VALUE
                        .error(format!("No device is currently mapped at {name}"))
                })?;
                tx.put(&Attachment {
                    delete_on_termination: *goes,
                    ..row.clone()
                })?;
            }
        }
    }
    tx.put(&instance)?;
    Ok(())
}

fn wrong_state(instance: &Instance, verb: &str) -> AwsError {
    catalogue::INCORRECT_INSTANCE_STATE.error(format!(
        "The instance '{}' is not in a state from which it can be {verb}.",
        instance.id
    ))
}

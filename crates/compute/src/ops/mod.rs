//! The operations of this room: access, validation, one transaction, answer.
//!
//! Operations on one kind of resource share a file. What an instance looks like in answers and to filters is in
//! `instance_view` and `instance_filters`; what requests have in common is in `request` and `access`. Adding one: a type
//! with [`aws_wire::operation::Operation`] and a line in [`register`].

mod access;
mod attributes;
mod console;
mod describe_instances;
pub(crate) mod images;
mod instance_filters;
mod instance_types;
mod instance_view;
mod key_pairs;
mod power;
mod request;
pub(crate) mod run_instances;
mod status;
mod volumes;
mod zones;

use crate::context::Context;
use aws_wire::registry::Registry;

/// Resource type of instances.
pub const INSTANCE: &str = "instance";
/// Resource type of volumes.
pub const VOLUME: &str = "volume";
pub use images::IMAGE;
pub use key_pairs::KEY_PAIR;

/// Registers every operation of this room.
pub fn register(registry: &mut Registry, context: &Context) {
    let room = || context.clone();
    registry.register(zones::DescribeRegions(room()));
    registry.register(zones::DescribeAvailabilityZones(room()));
    registry.register(zones::DescribeAccountAttributes(room()));
    registry.register(instance_types::DescribeInstanceTypes(room()));
    registry.register(instance_types::DescribeInstanceTypeOfferings(room()));
    registry.register(images::DescribeImages(room()));
    registry.register(images::DeregisterImage(room()));
    registry.register(key_pairs::CreateKeyPair(room()));
    registry.register(key_pairs::ImportKeyPair(room()));
    registry.register(key_pairs::DescribeKeyPairs(room()));
    registry.register(key_pairs::DeleteKeyPair(room()));
    registry.register(run_instances::RunInstances(room()));
    registry.register(describe_instances::DescribeInstances(room()));
    registry.register(describe_instances::DescribeInstanceStatus(room()));
    registry.register(describe_instances::DescribeInstanceCreditSpecifications(room()));
    registry.register(power::StartInstances(room()));
    registry.register(power::StopInstances(room()));
    registry.register(power::RebootInstances(room()));
    registry.register(power::TerminateInstances(room()));
    registry.register(attributes::DescribeInstanceAttribute(room()));
    registry.register(attributes::ModifyInstanceAttribute(room()));
    registry.register(console::GetConsoleOutput(room()));
    registry.register(volumes::DescribeVolumes(room()));
}

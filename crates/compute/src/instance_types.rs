//! Instance types: the one catalogue, and which of it a node can offer.
//!
//! The catalogue is `data/instance-types.tsv`, parsed once; a line that cannot be parsed ends the start, since it is ours.
//! A type promises its vCPUs and memory. Numbers that this cloud does not enforce (network and volume bandwidth, clock)
//! are not in it. A node offers what fits into it when it is empty (compute.md 2.6).

use crate::capacity::{capacity_of, cost_of};
use node_spec::NodeRecord;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// How a type's CPUs are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Shares its threads with others.
    Burstable,
    /// General purpose, compute or memory optimised: has its threads to itself.
    Fixed,
}

/// An instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Name, such as `t3.micro`.
    pub name: &'static str,
    /// `x86_64` or `arm64`.
    pub architecture: &'static str,
    /// Class.
    pub class: Class,
    /// `nitro` or `xen`, as AWS lists the type. Guests see QEMU either way.
    pub hypervisor: &'static str,
    /// AWS counts it among the current generation.
    pub current: bool,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Threads of a core.
    pub threads_per_core: u32,
    /// Most network interfaces.
    pub interfaces_max: u32,
    /// Most IPv4 addresses of an interface.
    pub addresses_per_interface_max: u32,
}

impl InstanceType {
    /// Cores of its CPU.
    pub fn cores(&self) -> u32 {
        self.vcpus / self.threads_per_core
    }

    /// Family, such as `t3`.
    pub fn family(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    /// Credit mode of a launch that names none (compute.md 2.5).
    pub fn credits_default(&self) -> Option<crate::records::CreditMode> {
        use crate::records::CreditMode;
        match (self.class, self.family()) {
            (Class::Fixed, _) => None,
            (Class::Burstable, "t2") => Some(CreditMode::Standard),
            (Class::Burstable, _) => Some(CreditMode::Unlimited),
        }
    }

    /// The node has enough threads and memory for one of these when it is empty.
    pub fn is_offered_by(&self, node: &NodeRecord) -> bool {
        self.architecture == NODE_ARCHITECTURE
            && self.vcpus <= node.cpu_threads
            && cost_of(self, self.vcpus, 1, node.accelerator).fits(capacity_of(node))
    }
}

/// The architecture of every node this build drives.
pub const NODE_ARCHITECTURE: &str = "x86_64";

static CATALOGUE: LazyLock<BTreeMap<&'static str, InstanceType>> = LazyLock::new(|| {
    include_str!("../data/instance-types.tsv")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| parse(line).unwrap_or_else(|| panic!("instance-types.tsv: {line:?}")))
        .map(|one| (one.name, one))
        .collect()
});

fn parse(line: &'static str) -> Option<InstanceType> {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [
        name,
        architecture,
        class,
        hypervisor,
        current,
        vcpus,
        memory,
        threads,
        interfaces,
        addresses,
    ] = fields[..]
    else {
        return None;
    };
    Some(InstanceType {
        name,
        architecture,
        class: if class == "burstable" {
            Class::Burstable
        } else {
            Class::Fixed
        },
        hypervisor,
        current: current == "yes",
        vcpus: vcpus.parse().ok()?,
        memory_mib: memory.parse().ok()?,
        threads_per_core: threads.parse().ok()?,
        interfaces_max: interfaces.parse().ok()?,
        addresses_per_interface_max: addresses.parse().ok()?,
    })
}

/// The type of this name.
pub fn find(name: &str) -> Option<&'static InstanceType> {
    CATALOGUE.get(name)
}

/// Every type, by name.
pub fn all() -> impl Iterator<Item = &'static InstanceType> {
    CATALOGUE.values()
}

/// The types that at least one of `nodes` offers, by name.
pub fn offered(nodes: &[NodeRecord]) -> impl Iterator<Item = &'static InstanceType> {
    all().filter(|one| nodes.iter().any(|node| one.is_offered_by(node)))
}

#[cfg(test)]
mod tests {
    use super::{Class, all, find, offered};
    use crate::testing::node;

    #[test]
    fn the_catalogue_holds_what_aws_promises() {
        for (name, vcpus, memory_mib, class) in [
            ("t2.micro", 1, 1024, Class::Burstable),
            ("t3.nano", 2, 512, Class::Burstable),
            ("m5.large", 2, 8192, Class::Fixed),
            ("c6i.xlarge", 4, 8192, Class::Fixed),
            ("r7a.medium", 1, 8192, Class::Fixed),
            ("m7g.4xlarge", 16, 65536, Class::Fixed),
        ] {
            let one = find(name).unwrap_or_else(|| panic!("{name} is in the catalogue"));
            assert_eq!(
                (one.vcpus, one.memory_mib, one.class),
                (vcpus, memory_mib, class),
                "{name}"
            );
        }
        assert!(find("m1.small").is_none());
        for one in all() {
            assert_eq!(one.cores() * one.threads_per_core, one.vcpus, "{}", one.name);
            assert!(one.memory_mib > 0 && one.interfaces_max > 0, "{}", one.name);
        }
    }

    #[test]
    fn a_node_offers_what_fits_into_it_when_empty() {
        let small = [node(2, 4096)];
        let names: Vec<_> = offered(&small).map(|one| one.name).collect();
        assert!(
            names.contains(&"t3.micro") && names.contains(&"t2.nano"),
            "{names:?}"
        );
        assert!(
            !names.contains(&"m5.large") && !names.contains(&"t3.xlarge"),
            "{names:?}"
        );
        assert!(
            names
                .iter()
                .all(|name| find(name).is_some_and(|one| one.architecture == "x86_64"))
        );
        assert_eq!(offered(&[node(1, 512)]).count(), 0);
    }
}

//! Capacity: what an instance costs, what a node has, and the pure choice of a node.
//!
//! Memory is never overcommitted: a guest is charged its memory, its hypervisor, the translation buffer under emulation and
//! one export per volume (R28). vCPUs of burstable types share threads four to one, others have theirs to themselves.
//! [`choose`] is the only code that chooses a node. Holds and the node's usage row are written together by [`set_hold`],
//! inside the caller's transaction.

use crate::instance_types::{Class, InstanceType};
use crate::limits;
use crate::records::{CapacityHold, Instance, NodeUsage, Room};
use aws_types::AccountId;
use aws_types::ids::{NodeId, ReservationId};
use node_spec::{Accelerator, NodeRecord};
use state::{Scope, StoreError, Tx};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// What a guest of this type costs with so many vCPUs and volumes.
pub fn cost_of(kind: &InstanceType, vcpus: u32, volumes: usize, accelerator: Option<Accelerator>) -> Room {
    let per_vcpu = match kind.class {
        Class::Burstable => limits::BURSTABLE_VCPU_MILLITHREADS,
        Class::Fixed => limits::FIXED_VCPU_MILLITHREADS,
    };
    let translation = match accelerator {
        Some(Accelerator::Kvm) => 0,
        // Not probed yet: charged as the dearer one.
        Some(Accelerator::Tcg) | None => limits::TRANSLATION_BUFFER_MIB,
    };
    let exports = limits::EXPORT_MIB * u64::try_from(volumes).unwrap_or(u64::MAX);
    Room {
        millithreads: per_vcpu * u64::from(vcpus),
        memory_mib: kind.memory_mib + limits::HYPERVISOR_OVERHEAD_MIB + translation + exports,
    }
}

/// What an empty node has for guests.
pub fn capacity_of(node: &NodeRecord) -> Room {
    Room {
        millithreads: u64::from(node.cpu_threads) * 1000,
        memory_mib: node.memory_mib.saturating_sub(node.memory_reserve_mib),
    }
}

/// A node and what is held of it.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The node.
    pub node: NodeRecord,
    /// Sum of its holds.
    pub held: Room,
}

impl NodeView {
    /// What can still be held.
    pub fn free(&self) -> Room {
        capacity_of(&self.node).saturating_sub(self.held)
    }
}

/// Chooses a node for each of up to `count` instances: one per node, the roomiest first, then packing on the roomiest
/// (R30). Ties are broken by a hash of reservation and node. Answers fewer if the room ends. `cost` is asked per node,
/// since accelerators differ.
pub fn choose(
    mut nodes: Vec<NodeView>,
    count: usize,
    reservation: &ReservationId,
    cost: impl Fn(&NodeRecord) -> Room,
) -> Vec<NodeId> {
    let tie = |id: &NodeId| {
        let mut hash = DefaultHasher::new();
        (reservation.as_str(), id.as_str()).hash(&mut hash);
        hash.finish()
    };
    let mut chosen = Vec::with_capacity(count.min(limits::INSTANCES_PER_LAUNCH_MAX as usize));
    let order = |view: &NodeView| {
        (
            std::cmp::Reverse((view.free().memory_mib, view.free().millithreads)),
            tie(&view.node.id),
        )
    };
    nodes.sort_by_key(order);
    let mut spread: std::collections::VecDeque<usize> = (0..nodes.len()).collect();
    while chosen.len() < count {
        let next = match spread.pop_front() {
            Some(index) => index,
            None => {
                let roomiest = nodes
                    .iter()
                    .enumerate()
                    .filter(|(_, view)| cost(&view.node).fits(view.free()))
                    .min_by_key(|(_, view)| order(view));
                match roomiest {
                    Some((index, _)) => index,
                    None => break,
                }
            }
        };
        let view = &mut nodes[next];
        let need = cost(&view.node);
        if need.fits(view.free()) {
            view.held += need;
            chosen.push(view.node.id.clone());
        }
    }
    chosen
}

/// Sets what `holder` holds of a node and keeps the node's usage equal to the sum. No room removes the hold. Whether a
/// larger hold fits must have been judged in `tx`, by [`fetch_usage`].
///
/// # Errors
/// The store could not be read.
pub async fn set_hold(
    tx: &Tx,
    account: AccountId,
    node: &NodeId,
    holder: &str,
    room: Room,
) -> Result<(), StoreError> {
    let scope = Scope::node(node);
    let earlier = tx.find::<CapacityHold>(&scope, holder).await?;
    let held = earlier.as_ref().map_or(Room::default(), |hold| hold.room);
    if held == room {
        return Ok(());
    }
    let mut usage = fetch_usage(tx, node).await?;
    usage.held = usage.held + room - held;
    if room == Room::default() {
        usage.holders -= 1;
        tx.delete::<CapacityHold>(&scope, holder)?;
    } else {
        usage.holders += u64::from(earlier.is_none());
        tx.put(&CapacityHold {
            account,
            holder: holder.to_owned(),
            node: node.clone(),
            room,
        })?;
    }
    tx.put(&usage)
}

/// Gives back what an instance holds. Nothing happens if it holds nothing.
///
/// # Errors
/// The store could not be read.
pub async fn release(tx: &Tx, instance: &Instance) -> Result<(), StoreError> {
    set_hold(
        tx,
        instance.account,
        &instance.node,
        instance.id.as_str(),
        Room::default(),
    )
    .await
}

/// A node's usage; compared when `tx` commits, so that whoever judged room by it judged right.
///
/// # Errors
/// The store could not be read.
pub async fn fetch_usage(tx: &Tx, node: &NodeId) -> Result<NodeUsage, StoreError> {
    let key = NodeUsage::key_of(node);
    let found = tx.find::<NodeUsage>(&key.scope, &key.id).await?;
    Ok(found.unwrap_or_else(|| NodeUsage {
        node: node.clone(),
        held: Room::default(),
        holders: 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::{NodeView, capacity_of, choose, cost_of};
    use crate::instance_types::find;
    use crate::records::Room;
    use crate::testing::node;
    use aws_types::ids::ReservationId;
    use node_spec::Accelerator;

    #[test]
    fn everything_a_guest_takes_is_charged() {
        let micro = find("t3.micro").expect("known");
        let kvm = cost_of(micro, micro.vcpus, 2, Some(Accelerator::Kvm));
        assert_eq!(
            kvm,
            Room {
                millithreads: 500,
                memory_mib: 1024 + 48 + 32
            }
        );
        let tcg = cost_of(micro, micro.vcpus, 2, Some(Accelerator::Tcg));
        assert_eq!(tcg.memory_mib - kvm.memory_mib, 128);
        let large = find("m5.large").expect("known");
        assert_eq!(cost_of(large, large.vcpus, 1, None).millithreads, 2000);
    }

    #[test]
    fn instances_spread_first_and_pack_then_until_the_room_ends() {
        let cost = |_: &node_spec::NodeRecord| Room {
            millithreads: 1000,
            memory_mib: 1000,
        };
        let views: Vec<_> = [(2, 3000), (4, 9000)]
            .map(|(cpus, mib)| NodeView {
                node: node(cpus, mib),
                held: Room::default(),
            })
            .into();
        let roomy = views[1].node.id.clone();
        let chosen = choose(views.clone(), 100, &ReservationId::random(), cost);
        assert_eq!(chosen.len(), 6);
        assert_eq!(chosen[0], roomy);
        assert_ne!(chosen[1], roomy);
        assert_eq!(chosen[2], roomy);
        let total: u64 = views
            .iter()
            .map(|view| capacity_of(&view.node).millithreads)
            .sum();
        assert_eq!(total, 6000);
        assert_eq!(choose(views, 0, &ReservationId::random(), cost).len(), 0);
        assert_eq!(choose(Vec::new(), 3, &ReservationId::random(), cost).len(), 0);
    }
}

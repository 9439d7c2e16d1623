//! PCI slots: a device gets the lowest free one when it is attached and keeps it for the attachment's life (R67).

use crate::limits::DEVICES_PER_INSTANCE_MAX;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// All slots of the instance are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all {DEVICES_PER_INSTANCE_MAX} device slots are taken")]
pub struct NoSlot;

/// Gives `device` a slot in `slots`, the one it has if it has one.
///
/// # Errors
/// All slots are taken.
pub fn assign_slot(slots: &mut BTreeMap<String, u8>, device: &str) -> Result<u8, NoSlot> {
    if let Some(slot) = slots.get(device) {
        return Ok(*slot);
    }
    let taken: BTreeSet<u8> = slots.values().copied().collect();
    let slots_max = u8::try_from(DEVICES_PER_INSTANCE_MAX).unwrap_or(u8::MAX);
    let free = (0..slots_max).find(|slot| !taken.contains(slot)).ok_or(NoSlot)?;
    slots.insert(device.to_owned(), free);
    Ok(free)
}

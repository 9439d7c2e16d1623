//! Which private address an interface gets.
//!
//! An address is taken iff its [`Address`] row exists; the rows are read in the transaction that inserts one, so two
//! transactions never both take one. Automatic choice is next-fit from a cursor, so that a freed address is reused last
//! (vpc.md R16): a few reads behind the cursor usually find a gap, and only a crowded subnet is scanned, once. Writers
//! that meet at the cursor run again.

use crate::cidr;
use crate::error::NetworkError;
use crate::limits;
use crate::records::{Address, Subnet, SubnetCursor};
use aws_types::ids::SubnetId;
use aws_types::{AwsError, catalogue};
use ipnet::Ipv4Net;
use state::{Scope, Tx};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Offsets in a block that interfaces may have: from the first of the pair up to, not including, the second.
pub(crate) fn usable(block: Ipv4Net) -> (u32, u32) {
    (
        limits::SUBNET_RESERVED_HEAD,
        cidr::size(block) - limits::SUBNET_RESERVED_TAIL,
    )
}

/// Addresses of a subnet that can be taken when none is.
pub fn capacity(block: Ipv4Net) -> u32 {
    let (first, end) = usable(block);
    end - first
}

/// The address a request asks for, if it may have it. The caller inserts its row.
///
/// # Errors
/// `InvalidParameterValue` outside of the subnet or among its reserved addresses; `InvalidIPAddress.InUse`.
pub(crate) async fn take_explicit(
    tx: &Tx,
    subnet: &Subnet,
    address: Ipv4Addr,
) -> Result<Ipv4Addr, NetworkError> {
    let (first, end) = usable(subnet.block);
    let Some(offset) = cidr::offset_of(subnet.block, address) else {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error(format!(
                "Address {address} does not fall within the subnet's address range"
            ))
            .into());
    };
    if offset < first || offset >= end {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error(format!("Address {address} is in subnet's reserved address range"))
            .into());
    }
    if is_taken(tx, subnet, address).await? {
        return Err(catalogue::INVALID_IP_ADDRESS_IN_USE
            .error(format!("Address {address} is in use."))
            .into());
    }
    Ok(address)
}

/// The next free address of a subnet. The caller inserts its row.
///
/// # Errors
/// `InsufficientFreeAddressesInSubnet`.
pub(crate) async fn take_next(tx: &Tx, subnet: &Subnet) -> Result<Ipv4Addr, NetworkError> {
    let (first, end) = usable(subnet.block);
    let cursor = tx.find::<SubnetCursor>(&Scope::NONE, &subnet.id).await?;
    let start = cursor.map_or(first, |cursor| cursor.next).clamp(first, end - 1);
    let mut offset = start;
    let mut chosen = None;
    for _ in 0..limits::ADDRESS_PROBES_MAX {
        if !is_taken(tx, subnet, cidr::address_at(subnet.block, offset)).await? {
            chosen = Some(offset);
            break;
        }
        offset = following(offset, first, end);
        if offset == start {
            break;
        }
    }
    let chosen = match chosen {
        Some(offset) => offset,
        None => scan(tx, subnet, start).await?,
    };
    tx.put(&SubnetCursor {
        subnet: subnet.id.clone(),
        next: following(chosen, first, end),
    })?;
    Ok(cidr::address_at(subnet.block, chosen))
}

/// Finds the first gap from `start` on with one list of the VPC's rows.
async fn scan(tx: &Tx, subnet: &Subnet, start: u32) -> Result<u32, NetworkError> {
    let (first, end) = usable(subnet.block);
    let taken: BTreeSet<u32> = tx
        .list::<Address>(&Address::scope(&subnet.vpc))
        .await?
        .iter()
        .filter_map(|row| cidr::offset_of(subnet.block, row.address))
        .collect();
    let free = (start..end)
        .chain(first..start)
        .find(|offset| !taken.contains(offset));
    let offset = free.ok_or_else(|| full(&subnet.id))?;
    // Compared at commit: the list above is not.
    is_taken(tx, subnet, cidr::address_at(subnet.block, offset)).await?;
    Ok(offset)
}

async fn is_taken(tx: &Tx, subnet: &Subnet, address: Ipv4Addr) -> Result<bool, NetworkError> {
    let row = tx
        .find::<Address>(&Address::scope(&subnet.vpc), Address::id_of(address))
        .await?;
    Ok(row.is_some())
}

fn following(offset: u32, first: u32, end: u32) -> u32 {
    if offset + 1 >= end { first } else { offset + 1 }
}

fn full(subnet: &SubnetId) -> AwsError {
    catalogue::INSUFFICIENT_FREE_ADDRESSES_IN_SUBNET.error(format!(
        "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
    ))
}

#[cfg(test)]
mod tests {
    use super::{capacity, following, usable};

    #[test]
    fn five_addresses_of_a_subnet_are_reserved() {
        let block = "10.0.0.0/28".parse().expect("block");
        assert_eq!(usable(block), (4, 15));
        assert_eq!(capacity(block), 11);
        assert_eq!(capacity("172.31.0.0/20".parse().expect("block")), 4091);
    }

    #[test]
    fn the_cursor_goes_round() {
        assert_eq!(following(4, 4, 15), 5);
        assert_eq!(following(14, 4, 15), 4);
    }
}

//! Public addresses: the operator's pools, taking an address and giving it back.
//!
//! Never-used addresses are taken first, then the longest-released one. A released address rests for its quarantine and
//! until the node that translated it has applied a program without it (vpc.md R31); one that may not be taken yet is put
//! behind the others, so that a silent node blocks its own addresses only. First and last address of a pool are never
//! given out, nor is the last but one: it is the host's own towards guests. Writers that meet at a pool's row run again.

use crate::cidr;
use crate::error::{NetworkError, update_error};
use crate::limits;
use crate::records::{
    Announcement, PublicAddress, PublicAddressState, PublicMapping, PublicPool, ReleasedAddress,
};
use aws_types::ids::{AddressAssociationId, NetworkInterfaceId, random_hex17};
use aws_types::{AccountId, AwsError, catalogue};
use ipnet::Ipv4Net;
use node_spec::{NetworkObservation, NetworkSpec};
use state::{Scope, Store, StoreError, Tx};
use std::net::Ipv4Addr;
use time::{Duration, OffsetDateTime};

/// Makes the pool of `block`, or finds it. Called at start for each configured range.
///
/// # Errors
/// `InvalidParameterValue` for a block that is too large or overlaps another pool; the store failed.
pub async fn ensure_public_pool(store: &Store, block: Ipv4Net) -> Result<PublicPool, AwsError> {
    let block = block.trunc();
    if cidr::size(block) > limits::PUBLIC_POOL_ADDRESSES_MAX || cidr::size(block) < 4 {
        return Err(AwsError::invalid_value(
            &block.to_string(),
            "ranges",
            "A pool is a /12 to a /30.",
        ));
    }
    let result = store
        .update(|tx: Tx| async move {
            // Compared as a whole: of two pools that overlap only one is made.
            tx.guard::<PublicPool>(&Scope::NONE).await?;
            let pools = tx.list::<PublicPool>(&Scope::NONE).await?;
            if let Some(known) = pools.iter().find(|pool| pool.block == block) {
                return Ok(known.clone());
            }
            if let Some(other) = pools
                .iter()
                .find(|pool| pool.block.contains(&block) || block.contains(&pool.block))
            {
                return Err(NetworkError::Refused(AwsError::invalid_value(
                    &block.to_string(),
                    "ranges",
                    &format!("It overlaps the pool {}.", other.block),
                )));
            }
            let pool = PublicPool {
                id: format!("ipv4pool-ec2-{}", random_hex17()),
                block,
                next: 1,
                queue_head: 0,
                queue_tail: 0,
                retired: false,
            };
            tx.insert(&pool)?;
            Ok(pool)
        })
        .await;
    result.map_err(update_error)
}

/// Whether any public address can ever be given out.
///
/// # Errors
/// The store could not be read.
pub(crate) async fn has_pool(tx: &Tx) -> Result<bool, StoreError> {
    Ok(tx
        .list::<PublicPool>(&Scope::NONE)
        .await?
        .iter()
        .any(|pool| !pool.retired))
}

/// Takes an automatic public address for an interface.
///
/// # Errors
/// `InsufficientAddressCapacity` when no address is free in any pool.
pub(crate) async fn take_automatic(
    tx: &Tx,
    account: AccountId,
    interface: &NetworkInterfaceId,
    now: OffsetDateTime,
) -> Result<PublicMapping, NetworkError> {
    for listed in tx
        .list::<PublicPool>(&Scope::NONE)
        .await?
        .into_iter()
        .filter(|pool| !pool.retired)
    {
        let Some(mut pool) = tx.find::<PublicPool>(&Scope::NONE, &listed.id).await? else {
            continue;
        };
        let Some(address) = take_from(tx, &mut pool, now).await? else {
            continue;
        };
        tx.put(&PublicAddress {
            address,
            pool: pool.id.clone(),
            state: PublicAddressState::InUse {
                account,
                interface: Some(interface.clone()),
                allocation: None,
            },
        })?;
        tx.put(&pool)?;
        return Ok(PublicMapping {
            address,
            association: AddressAssociationId::random(),
            automatic: true,
        });
    }
    Err(catalogue::INSUFFICIENT_ADDRESS_CAPACITY
        .error("Insufficient public address capacity: no public IPv4 address is free.")
        .into())
}

async fn take_from(
    tx: &Tx,
    pool: &mut PublicPool,
    now: OffsetDateTime,
) -> Result<Option<Ipv4Addr>, NetworkError> {
    if pool.next + 2 < cidr::size(pool.block) {
        let address = cidr::address_at(pool.block, pool.next);
        pool.next += 1;
        return Ok(Some(address));
    }
    let waiting = pool.queue_tail - pool.queue_head;
    for _ in 0..waiting.min(limits::PUBLIC_CANDIDATES_MAX) {
        let id = ReleasedAddress::id_of(&pool.id, pool.queue_head);
        let Some(entry) = tx.find::<ReleasedAddress>(&Scope::NONE, &id).await? else {
            return Ok(None);
        };
        let row = tx
            .find::<PublicAddress>(&Scope::NONE, PublicAddress::id_of(entry.address))
            .await?;
        match row.map(|row| row.state) {
            Some(PublicAddressState::Quarantined {
                released_at,
                announced_by,
            }) => {
                if released_at + Duration::seconds(limits::PUBLIC_QUARANTINE_SECONDS) > now {
                    // Those behind it were released later still.
                    return Ok(None);
                }
                tx.delete::<ReleasedAddress>(&Scope::NONE, &id)?;
                pool.queue_head += 1;
                if is_withdrawn(tx, entry.address, announced_by.as_ref()).await? {
                    return Ok(Some(entry.address));
                }
                enqueue(tx, pool, entry.address)?;
            }
            Some(PublicAddressState::InUse { .. }) | None => {
                // Nothing puts an address in use without taking it off the queue; leave the damage for the check.
                tracing::error!(address = %entry.address, "a queued public address is not quarantined");
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// The node that translated the address last has applied a program without it.
async fn is_withdrawn(
    tx: &Tx,
    address: Ipv4Addr,
    announced_by: Option<&Announcement>,
) -> Result<bool, NetworkError> {
    let Some(Announcement { node, vpc }) = announced_by else {
        return Ok(true);
    };
    let scope = Scope::node(node);
    let Some(spec) = tx.find::<NetworkSpec>(&scope, vpc).await? else {
        return Ok(true);
    };
    if spec
        .interfaces
        .iter()
        .any(|interface| interface.public_address == Some(address))
    {
        return Ok(false);
    }
    let observation = tx.find::<NetworkObservation>(&scope, vpc).await?;
    Ok(observation.is_some_and(|seen| seen.applied_generation >= spec.generation))
}

/// Puts a released address into quarantine, behind those released before it.
///
/// # Errors
/// The store failed.
pub(crate) async fn give_back(
    tx: &Tx,
    address: Ipv4Addr,
    announced_by: Option<Announcement>,
    now: OffsetDateTime,
) -> Result<(), NetworkError> {
    let Some(row) = tx
        .find::<PublicAddress>(&Scope::NONE, PublicAddress::id_of(address))
        .await?
    else {
        return Ok(());
    };
    let PublicAddressState::InUse { .. } = row.state else {
        return Ok(());
    };
    let mut pool = tx.fetch::<PublicPool>(&Scope::NONE, &row.pool).await?;
    enqueue(tx, &mut pool, address)?;
    tx.put(&pool)?;
    tx.put(&PublicAddress {
        state: PublicAddressState::Quarantined {
            released_at: now,
            announced_by,
        },
        ..row
    })?;
    Ok(())
}

fn enqueue(tx: &Tx, pool: &mut PublicPool, address: Ipv4Addr) -> Result<(), NetworkError> {
    tx.insert(&ReleasedAddress {
        pool: pool.id.clone(),
        number: pool.queue_tail,
        address,
    })?;
    pool.queue_tail += 1;
    Ok(())
}

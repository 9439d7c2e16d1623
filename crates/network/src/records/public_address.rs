//! Public addresses: the operator's pools and every address of them that was ever given out.
//!
//! ```text
//! (never used) ─▶ in use ─▶ quarantined ─▶ in use …
//! ```
//! An address without a row was never used; the pool's cursor walks over those first, then the longest-released one is
//! reused, after its quarantine (vpc.md R31). Released addresses wait in a queue of rows numbered by the pool, so that
//! taking and giving back cost the same however many there are. Rows belong to the platform, not to an account: an address outlives its
//! users. Which interface shows it is the interface's [`super::PublicMapping`]; both change in one transaction.

use aws_types::AccountId;
use aws_types::ids::{NetworkInterfaceId, NodeId, VpcId};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// A pool of public addresses, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicPool {
    /// `ipv4pool-ec2-` and 17 hex digits.
    pub id: String,
    /// Its addresses; all of them may be given out but the first and the last.
    pub block: Ipv4Net,
    /// Offset of the first address that was never used.
    pub next: u32,
    /// Number of the oldest row in the queue of released addresses.
    pub queue_head: u64,
    /// Number the next released address gets; equal to `queue_head` when none waits.
    pub queue_tail: u64,
    /// Given out no more: the configuration names it no longer.
    pub retired: bool,
}

/// Where a public address is announced from: what must be withdrawn before it is reused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The node that translated it.
    pub node: NodeId,
    /// For this VPC.
    pub vpc: VpcId,
}

/// What makes an address an Elastic IP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// `eipalloc-` and 17 hex digits.
    pub id: String,
}

/// State of a public address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum PublicAddressState {
    /// An account has it.
    InUse {
        /// The account.
        account: AccountId,
        /// The interface that shows it; an Elastic IP may have none.
        interface: Option<NetworkInterfaceId>,
        /// Set for an Elastic IP; absent for an automatic address.
        allocation: Option<Allocation>,
    },
    /// Given back.
    Quarantined {
        /// When.
        #[serde(with = "time::serde::rfc3339")]
        released_at: OffsetDateTime,
        /// Who translated it last, if anybody may.
        announced_by: Option<Announcement>,
    },
}

/// A public address that was given out at least once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicAddress {
    /// The address.
    pub address: Ipv4Addr,
    /// Its pool.
    pub pool: String,
    /// State.
    pub state: PublicAddressState,
}

impl PublicAddress {
    /// The id of an address in the table.
    pub fn id_of(address: Ipv4Addr) -> String {
        super::address::sortable(address)
    }
}

/// A released address in its pool's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedAddress {
    /// The pool.
    pub pool: String,
    /// Its number in the queue.
    pub number: u64,
    /// The address.
    pub address: Ipv4Addr,
}

impl ReleasedAddress {
    /// The id of a place in the queues.
    pub fn id_of(pool: &str, number: u64) -> String {
        format!("{pool} {number:016x}")
    }
}

impl Record for ReleasedAddress {
    const TABLE: &'static str = "public-released";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(ReleasedAddress::id_of(&self.pool, self.number))
    }
}

impl Record for PublicPool {
    const TABLE: &'static str = "public-pools";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("block", [self.block.to_string()])]
    }
}

impl Record for PublicAddress {
    const TABLE: &'static str = "public-addresses";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(PublicAddress::id_of(self.address))
    }

    fn indexes(&self) -> Vec<Index> {
        match &self.state {
            PublicAddressState::InUse {
                account,
                allocation: Some(_),
                ..
            } => {
                vec![Index::new("account", [account.to_string()])]
            }
            PublicAddressState::InUse { allocation: None, .. } | PublicAddressState::Quarantined { .. } => {
                Vec::new()
            }
        }
    }
}

//! Public addresses: the operator's pools and every address of them that was ever given out.
//!
//! ```text
//! (never used) ─▶ in use ─▶ quarantined ─▶ in use …
//! ```
//! An address without a row was never used; the pool's cursor walks over those first, then the longest-released one is
//! reused, after its quarantine (vpc.md R31). Rows belong to the platform, not to an account: an address outlives its
//! users. Which interface shows it is the interface's [`super::PublicMapping`]; both change in one transaction.

use aws_types::AccountId;
use aws_types::ids::{NetworkInterfaceId, NodeId, VpcId};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
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

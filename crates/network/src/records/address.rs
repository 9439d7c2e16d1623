//! A private address that is taken. The row's existence is the fact: allocation, explicit addresses and secondary
//! ones all insert it in the transaction that makes or changes the interface (vpc.md R15).
//!
//! Keyed by (VPC, address), so two writers can never both have it, and a subnet's rows are one range.

use aws_types::AccountId;
use aws_types::ids::{NetworkInterfaceId, SubnetId, VpcId};
use serde::{Deserialize, Serialize};
use state::{Record, RecordKey, Scope};
use std::net::Ipv4Addr;

/// A taken private address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Owner of the interface.
    pub account: AccountId,
    /// The VPC.
    pub vpc: VpcId,
    /// The address.
    pub address: Ipv4Addr,
    /// The subnet it is in.
    pub subnet: SubnetId,
    /// Who has it.
    pub interface: NetworkInterfaceId,
    /// It is the interface's primary address.
    pub primary: bool,
}

/// An address as eight hex digits: text that sorts as the number does.
pub(crate) fn sortable(address: Ipv4Addr) -> String {
    format!("{:08x}", address.to_bits())
}

impl Address {
    /// The scope of a VPC's rows: they are listed by VPC and by nothing else.
    pub fn scope(vpc: &VpcId) -> Scope {
        Scope::account(vpc)
    }

    /// The id of an address inside its VPC's scope.
    pub fn id_of(address: Ipv4Addr) -> String {
        sortable(address)
    }
}

impl Record for Address {
    const TABLE: &'static str = "addresses";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey {
            scope: Address::scope(&self.vpc),
            id: Address::id_of(self.address),
        }
    }
}

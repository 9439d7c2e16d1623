//! A DHCP option set. Immutable once made; each account has one default set.

use aws_types::AccountId;
use aws_types::ids::DhcpOptionsId;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};

/// One option with its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpConfiguration {
    /// `domain-name`, `domain-name-servers`, …
    pub key: String,
    /// Its values in order.
    pub values: Vec<String>,
}

/// A DHCP option set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpOptions {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: DhcpOptionsId,
    /// The account's default set.
    pub is_default: bool,
    /// The options.
    pub configurations: Vec<DhcpConfiguration>,
}

impl Record for DhcpOptions {
    const TABLE: &'static str = "dhcp-options";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        if self.is_default {
            vec![Index::new("default", [self.account.to_string()])]
        } else {
            Vec::new()
        }
    }
}

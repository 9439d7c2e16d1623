//! Tags of EC2 resources: the only place a tag lives (DESIGN §4). One row per resource and key.
//!
//! The row carries the resource's type so that a list needs no other record. Rows are listed by account or by resource; an
//! index by key would cost every launch with tags one operation a tag, for a filter that reads the account's tags anyway. The owner of the resource writes its rows
//! in the transaction that makes, changes or deletes the resource, through `capability::tags`.

use aws_types::AccountId;
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};

/// One tag of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRow {
    /// Owner of the resource.
    pub account: AccountId,
    /// The resource, such as `i-0123456789abcdef0`.
    pub resource: String,
    /// Its type as DescribeTags shows it, such as `instance`.
    pub resource_type: String,
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
}

impl TagRow {
    /// The id of a tag in its account's scope. Resource ids have no space, so the first one divides.
    pub fn id_of(resource: &str, key: &str) -> String {
        format!("{resource} {key}")
    }
}

impl Record for TagRow {
    const TABLE: &'static str = "tags";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, TagRow::id_of(&self.resource, &self.key))
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new(
            "resource",
            [self.account.to_string(), self.resource.clone()],
        )]
    }
}

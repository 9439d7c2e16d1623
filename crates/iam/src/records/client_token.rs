//! Client tokens: what an operation did for a token, remembered with the intent it committed (identity.md R31).

use aws_types::AccountId;
use serde::{Deserialize, Serialize};
use state::{Index, InvalidField, Record, RecordKey};
use time::OffsetDateTime;

use crate::limits::CLIENT_TOKEN_RESULTS_MAX;

/// The first call with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientToken {
    /// Whose call.
    pub account: AccountId,
    /// `service:Operation`.
    pub action: String,
    /// The token; for invocation ids with the principal in front.
    pub token: String,
    /// Hex digest of the parameters.
    pub digest: String,
    /// Ids of what it made, in order.
    pub results: Vec<String>,
    /// When it may be forgotten.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

impl ClientToken {
    /// Id within the account's scope.
    pub fn id(action: &str, token: &str) -> String {
        format!("{action}+{token}")
    }

    /// The hour in which it expires, by which the sweep finds it.
    fn expiry_hour(&self) -> String {
        format!("{:012}", self.expires.unix_timestamp().max(0) / 3_600)
    }
}

impl Record for ClientToken {
    const TABLE: &'static str = "client-tokens";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, Self::id(&self.action, &self.token))
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("expiry", [self.expiry_hour()])]
    }

    fn validate(&self) -> Result<(), InvalidField> {
        if self.results.len() > CLIENT_TOKEN_RESULTS_MAX {
            return Err(InvalidField {
                field: "results",
                must: "at most 1000 ids",
            });
        }
        Ok(())
    }
}

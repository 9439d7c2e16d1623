//! Accounts, regions and zones: the names that scope every record and every ARN.
//!
//! Invariant: an `AccountId` is always twelve ASCII digits, a `Region` and an `AvailabilityZone` are lower-case
//! names as the configuration checked them. Parsing is the only way in.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A name that does not have the form its type demands.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// Not twelve digits.
    #[error("{0:?} is not a 12-digit account id")]
    Account(String),
    /// Not a region name such as `eu-central-1`.
    #[error("{0:?} is not a region name")]
    Region(String),
}

/// A 12-digit AWS account id. `000000000000` is the system, `000000000001` the operator, tenants follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountId(u64);

impl AccountId {
    /// The cloud itself: owner of system guests and public images.
    pub const SYSTEM: AccountId = AccountId(0);
    /// The operator's account.
    pub const OPERATOR: AccountId = AccountId(1);
    /// The first account that is given to a tenant.
    pub const FIRST_TENANT: AccountId = AccountId(2);

    /// The account with this number, if it fits twelve digits.
    pub fn from_number(number: u64) -> Option<AccountId> {
        (number < 1_000_000_000_000).then_some(AccountId(number))
    }

    /// The account as a number, as access key ids embed it.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Parses exactly twelve digits.
    pub fn parse(text: &str) -> Result<AccountId, NameError> {
        if text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit()) {
            text.parse()
                .map(AccountId)
                .map_err(|_| NameError::Account(text.to_owned()))
        } else {
            Err(NameError::Account(text.to_owned()))
        }
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012}", self.0)
    }
}
impl fmt::Debug for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl TryFrom<String> for AccountId {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        AccountId::parse(&text)
    }
}
impl From<AccountId> for String {
    fn from(id: AccountId) -> String {
        id.to_string()
    }
}

/// A region name, such as `eu-central-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Region(String);

impl Region {
    /// Accepts lower-case letters, digits and inner hyphens, 3 to 32 characters.
    pub fn parse(text: &str) -> Result<Region, NameError> {
        let form = (3..=32).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-');
        if form {
            Ok(Region(text.to_owned()))
        } else {
            Err(NameError::Region(text.to_owned()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The zone of this region with the given letter: `eu-central-1` and `a` make `eu-central-1a`.
    pub fn zone(&self, letter: char) -> AvailabilityZone {
        AvailabilityZone(format!("{}{letter}", self.0))
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An availability zone name, such as `eu-central-1a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AvailabilityZone(pub String);

impl AvailabilityZone {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for AvailabilityZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

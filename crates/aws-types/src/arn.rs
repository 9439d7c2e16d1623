//! Amazon Resource Names: `arn:<partition>:<service>:<region>:<account>:<resource>`.
//!
//! Form: AWS General Reference, "Amazon Resource Names". Region and account may be empty (IAM has no region,
//! images and snapshots no account). Services build ARNs here and nowhere by hand.

use crate::account::{AccountId, Region};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The one partition this product has.
pub const PARTITION: &str = "aws";

/// An ARN, kept as its text; always has six parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arn(String);

impl Arn {
    /// An ARN whose region and account are both present.
    pub fn new(service: &str, region: &Region, account: AccountId, resource: impl fmt::Display) -> Arn {
        Arn(format!("arn:{PARTITION}:{service}:{region}:{account}:{resource}"))
    }

    /// An ARN without an account: images and snapshots of EC2.
    pub fn without_account(service: &str, region: &Region, resource: impl fmt::Display) -> Arn {
        Arn(format!("arn:{PARTITION}:{service}:{region}::{resource}"))
    }

    /// An ARN of a global service (IAM, STS): no region.
    pub fn global(service: &str, account: AccountId, resource: impl fmt::Display) -> Arn {
        Arn(format!("arn:{PARTITION}:{service}::{account}:{resource}"))
    }

    /// Parses text with the six parts of an ARN.
    pub fn parse(text: &str) -> Option<Arn> {
        let mut parts = text.splitn(6, ':');
        let form = parts.next() == Some("arn")
            && parts.next().is_some_and(|p| !p.is_empty())
            && parts.next().is_some_and(|p| !p.is_empty())
            && parts.next().is_some()
            && parts.next().is_some()
            && parts.next().is_some_and(|p| !p.is_empty());
        form.then(|| Arn(text.to_owned()))
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The sixth part, such as `instance/i-0123456789abcdef0`.
    pub fn resource(&self) -> &str {
        self.0.splitn(6, ':').nth(5).unwrap_or_default()
    }

    /// The fifth part, if it is an account.
    pub fn account(&self) -> Option<AccountId> {
        self.0.split(':').nth(4).and_then(|a| AccountId::parse(a).ok())
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

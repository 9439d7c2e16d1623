//! Security groups and their rules, one row a rule.
//!
//! The group's row is the guard of its rules: whoever adds or removes one raises `rule_changes`, so that adding a rule
//! and deleting the group, or two callers at the limit, never both succeed (vpc.md R2). Names are unique in a VPC
//! without regard to case; equal rules (the description aside) are unique in a group and direction.

use crate::rule::Rule;
use aws_types::AccountId;
use aws_types::ids::{SecurityGroupId, SecurityGroupRuleId, VpcId};
use serde::{Deserialize, Serialize};
use state::{Index, Record, RecordKey};

/// Which way a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To members.
    Ingress,
    /// From members.
    Egress,
}

impl Direction {
    /// The word in keys and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        }
    }
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: SecurityGroupId,
    /// Its VPC.
    pub vpc: VpcId,
    /// Name as given.
    pub name: String,
    /// Description.
    pub description: String,
    /// The VPC's default group, which lives and dies with it.
    pub is_default: bool,
    /// Rises with every change of its rules.
    pub rule_changes: u64,
}

/// A rule of a security group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupRule {
    /// Owner.
    pub account: AccountId,
    /// Id.
    pub id: SecurityGroupRuleId,
    /// The group.
    pub group: SecurityGroupId,
    /// The group's VPC.
    pub vpc: VpcId,
    /// Which way.
    pub direction: Direction,
    /// What is allowed with whom, canonical.
    pub rule: Rule,
    /// Text of the tenant.
    pub description: Option<String>,
}

impl SecurityGroup {
    /// The unique key of a name in a VPC. Names compare without case.
    pub fn name_key(vpc: &VpcId, name: &str) -> Index {
        Index::new("name", [vpc.to_string(), name.to_lowercase()])
    }
}

impl Record for SecurityGroup {
    const TABLE: &'static str = "security-groups";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("vpc", [self.vpc.as_str()])]
    }

    fn uniques(&self) -> Vec<Index> {
        vec![SecurityGroup::name_key(&self.vpc, &self.name)]
    }
}

impl Record for SecurityGroupRule {
    const TABLE: &'static str = "security-group-rules";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        let mut indexes = vec![Index::new("group", [self.vpc.as_str(), self.group.as_str()])];
        if let Some(group) = self.rule.referenced_group() {
            indexes.push(Index::new("referenced", [group.as_str()]));
        }
        indexes
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new(
            "rule",
            [
                self.group.to_string(),
                self.direction.as_str().to_owned(),
                self.rule.canonical(),
            ],
        )]
    }
}

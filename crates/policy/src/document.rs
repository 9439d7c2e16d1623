//! A compiled policy: statements ready to be matched. Made only by [`Policy::parse`], so every policy in memory
//! has passed validation.

use aws_types::AccountId;

use crate::condition::Condition;
use crate::context::Facts;
use crate::parse::{PolicyFault, parse_policy};
use crate::pattern::{Budget, Match, Pattern};
use crate::principal::{Principal, PrincipalMatch, PrincipalName};

/// Where a document is used, which decides the elements it may have (identity.md R40).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// Attached to a user, group or role, or a boundary or session policy: no principal.
    Identity,
    /// A role's trust policy: principals, no resource, only `sts:` actions.
    Trust,
    /// Attached to a resource: principals and resources.
    Resource,
}

/// What a statement does when it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Permits, unless something denies.
    Allow,
    /// Refuses, whatever permits.
    Deny,
}

/// A validated, compiled document.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub(crate) statements: Vec<Statement>,
}

impl Policy {
    /// Parses, validates and compiles a document.
    ///
    /// # Errors
    /// [`PolicyFault`] names the first fault; services answer it as `MalformedPolicyDocument`.
    pub fn parse(text: &str, kind: PolicyKind) -> Result<Policy, PolicyFault> {
        parse_policy(text, kind)
    }

    /// The folded condition keys that the document asks for, sorted, without repeats.
    pub fn condition_keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self
            .statements
            .iter()
            .flat_map(|s| s.conditions.iter().map(Condition::key))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The number of statements.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// True for a document without statements.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// The accounts that `Principal` elements name as such.
    pub fn principal_accounts(&self) -> impl Iterator<Item = AccountId> {
        self.statements
            .iter()
            .filter_map(|s| s.principal.as_ref())
            .flat_map(|clause| {
                clause.names.iter().filter_map(|name| match name {
                    PrincipalName::Account(account) => Some(*account),
                    _ => None,
                })
            })
    }
}

/// `Principal` or `NotPrincipal`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PrincipalClause {
    pub(crate) negated: bool,
    pub(crate) names: Vec<PrincipalName>,
}

/// `Action`, `NotAction`, `Resource` or `NotResource`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatternClause {
    pub(crate) negated: bool,
    pub(crate) patterns: Vec<Pattern>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) sid: Option<String>,
    pub(crate) effect: Effect,
    pub(crate) principal: Option<PrincipalClause>,
    pub(crate) action: PatternClause,
    pub(crate) resource: Option<PatternClause>,
    pub(crate) conditions: Vec<Condition>,
}

/// The request as statements compare it.
pub(crate) struct Subject<'a> {
    pub(crate) principal: &'a Principal,
    /// Folded.
    pub(crate) action: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) facts: &'a dyn Facts,
    pub(crate) budget: &'a Budget,
}

impl Statement {
    /// How closely the statement applies: `No` unless every element matches. Statements without a principal
    /// element apply directly.
    pub(crate) fn applies(&self, subject: &Subject<'_>) -> PrincipalMatch {
        let closeness = match &self.principal {
            Some(clause) => clause.matches(subject.principal),
            None => PrincipalMatch::Direct,
        };
        let applies = closeness != PrincipalMatch::No
            && self.action_matches(subject)
            && self.resource_matches(subject)
            && self
                .conditions
                .iter()
                .all(|c| c.holds(subject.facts, subject.budget));
        if applies { closeness } else { PrincipalMatch::No }
    }

    fn action_matches(&self, subject: &Subject<'_>) -> bool {
        let named = self.action.patterns.iter().any(|pattern| {
            pattern.matches_folded(subject.action, subject.facts, subject.budget) == Match::Yes
        });
        named != self.action.negated
    }

    fn resource_matches(&self, subject: &Subject<'_>) -> bool {
        let Some(clause) = &self.resource else { return true };
        let mut unresolved = false;
        for pattern in &clause.patterns {
            match pattern.matches(subject.resource, subject.facts, subject.budget) {
                Match::Yes => return !clause.negated,
                Match::No => {}
                Match::Unresolved => unresolved = true,
            }
        }
        // An entry of NotResource that cannot be resolved may have excluded this resource: an Allow must not
        // reach it, a Deny must (identity.md R44).
        clause.negated && (!unresolved || self.effect == Effect::Deny)
    }
}

impl PrincipalClause {
    fn matches(&self, principal: &Principal) -> PrincipalMatch {
        let closest = self
            .names
            .iter()
            .map(|name| name.matches(principal))
            .max()
            .unwrap_or(PrincipalMatch::No);
        match (self.negated, closest) {
            (false, closest) => closest,
            (true, PrincipalMatch::No) => PrincipalMatch::Direct,
            (true, _) => PrincipalMatch::No,
        }
    }
}

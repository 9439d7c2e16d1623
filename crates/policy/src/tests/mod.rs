//! The language by its rules, and the evaluator against a slow and obvious one.
//!
//! The helpers here make principals and one-statement policies for the modules beside.

mod against_slow;
mod conditions;
mod grammar;
mod layers;
mod matching;

use aws_types::{AccountId, Arn};

use crate::context::{Context, Facts};
use crate::decide::{Decision, HeldPolicies, Layers, NamedPolicy, Request, decide};
use crate::document::{Policy, PolicyKind};
use crate::principal::Principal;

pub(super) const TENANT: AccountId = AccountId::FIRST_TENANT;

pub(super) fn user() -> Principal {
    Principal::User {
        arn: Arn::parse("arn:aws:iam::000000000002:user/ada").expect("an ARN"),
        account: TENANT,
        id: "AIDAAAAAAAAAAAAAAAAAA".to_owned(),
        name: "ada".to_owned(),
    }
}

pub(super) fn role_session() -> Principal {
    Principal::RoleSession {
        arn: Arn::parse("arn:aws:sts::000000000002:assumed-role/r/s").expect("an ARN"),
        role_arn: Arn::parse("arn:aws:iam::000000000002:role/r").expect("an ARN"),
        account: TENANT,
        role_id: "AROAAAAAAAAAAAAAAAAAA".to_owned(),
        session_name: "s".to_owned(),
    }
}

pub(super) fn named(text: &str, kind: PolicyKind) -> NamedPolicy {
    let policy = Policy::parse(text, kind).unwrap_or_else(|fault| panic!("{fault}: {text}"));
    NamedPolicy {
        id: "p".into(),
        policy: policy.into(),
    }
}

pub(super) fn statement(body: &str) -> String {
    format!(r#"{{"Version":"2012-10-17","Statement":{{{body}}}}}"#)
}

pub(super) fn identity(body: &str) -> Vec<NamedPolicy> {
    vec![named(&statement(body), PolicyKind::Identity)]
}

pub(super) fn ask(
    layers: &Layers<'_>,
    principal: &Principal,
    action: &str,
    resource: &str,
    facts: &dyn Facts,
) -> Decision {
    let owner = Arn::parse(resource).and_then(|arn| arn.account());
    decide(
        layers,
        &Request {
            principal,
            action,
            resource,
            owner,
            facts,
        },
    )
}

/// Whether one identity statement allows the action on the resource.
pub(super) fn allows(body: &str, action: &str, resource: &str, context: &Context) -> bool {
    let held = HeldPolicies {
        identity: identity(body),
        ..HeldPolicies::default()
    };
    ask(&held.layers(None), &user(), action, resource, context).is_allowed()
}

/// Whether a condition, of an Allow of everything, holds.
pub(super) fn holds(condition: &str, context: &Context) -> bool {
    let body = format!(r#""Effect":"Allow","Action":"*","Resource":"*","Condition":{condition}"#);
    allows(&body, "s:A", "*", context)
}

//! The decision: explicit deny, then allow, then the default deny, over typed layers (identity.md R49–R52).
//!
//! ```text
//! same account:   (identity ∨ resource names who is behind) ∧ boundary ∧ session
//!                 ∨ resource names the principal itself, or everyone
//! other account:  identity ∧ boundary ∧ session ∧ resource
//! ```
//! A deny in any layer wins over all of it. The answer carries the statement that decided, for the refusal text,
//! the audit line and the simulators. Reading the layers is the caller's; an unreadable layer is an error before
//! this is called, never an empty one.

use std::sync::Arc;

use aws_types::AccountId;

use crate::context::Facts;
use crate::document::{Effect, Policy, Subject};
use crate::pattern::{Budget, fold};
use crate::principal::{Principal, PrincipalMatch};

/// A policy and the name by which an explanation refers to it: an ARN, or `inline:<entity>/<name>`.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedPolicy {
    /// Name in explanations and audit lines.
    pub id: Arc<str>,
    /// The compiled document, shared with the cache.
    pub policy: Arc<Policy>,
}

/// A kind of policy in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Inline, attached and group policies of the principal.
    Identity,
    /// The permissions boundary.
    Boundary,
    /// Policies given with the session.
    Session,
    /// The policy of the resource.
    Resource,
}

impl Layer {
    /// The layer as AWS's refusals call it.
    pub fn described(self) -> &'static str {
        match self {
            Layer::Identity => "identity-based policy",
            Layer::Boundary => "permissions boundary",
            Layer::Session => "session policy",
            Layer::Resource => "resource-based policy",
        }
    }
}

/// The policy of a resource.
#[derive(Debug, Clone, Copy)]
pub struct ResourceLayer<'a> {
    /// Its policy.
    pub policy: &'a NamedPolicy,
}

/// The policies that bear on a request. `None` is "has none", which limits nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layers<'a> {
    /// The principal's own.
    pub identity: &'a [NamedPolicy],
    /// Its boundary.
    pub boundary: Option<&'a [NamedPolicy]>,
    /// The session's.
    pub session: Option<&'a [NamedPolicy]>,
    /// The resource's.
    pub resource: Option<ResourceLayer<'a>>,
}

/// The policies that a principal carries from call to call, compiled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldPolicies {
    /// Its own, with those of its groups.
    pub identity: Vec<NamedPolicy>,
    /// Its boundary, if it has one.
    pub boundary: Option<Vec<NamedPolicy>>,
    /// Those given with the session, if there were any.
    pub session: Option<Vec<NamedPolicy>>,
}

impl HeldPolicies {
    /// The layers of a decision about a resource with or without a policy of its own.
    pub fn layers<'a>(&'a self, resource: Option<ResourceLayer<'a>>) -> Layers<'a> {
        Layers {
            identity: &self.identity,
            boundary: self.boundary.as_deref(),
            session: self.session.as_deref(),
            resource,
        }
    }
}

/// One question: may this principal do this action on this resource?
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// `service:Name`.
    pub action: &'a str,
    /// An ARN, or `*` for actions without resource-level permissions.
    pub resource: &'a str,
    /// Whose resource it is; `None` where it belongs to nobody in particular.
    pub owner: Option<AccountId>,
    /// Condition keys.
    pub facts: &'a dyn Facts,
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Permitted.
    Allowed,
    /// Refused.
    Denied,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A statement of this layer allowed, and nothing that limits it objected.
    Allowed(Layer),
    /// A statement of this layer denied.
    ExplicitDeny(Layer),
    /// Nothing in this layer allowed: the first that was needed and did not.
    NotAllowed(Layer),
    /// The step budget ran out.
    TooCostly,
}

/// The statement that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementRef {
    /// Name of its policy.
    pub policy: Arc<str>,
    /// Its position, from 0.
    pub index: usize,
    /// Its id, if it has one.
    pub sid: Option<String>,
}

/// The answer with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The statement that allowed or denied; none for an implicit deny.
    pub statement: Option<StatementRef>,
}

impl Decision {
    /// True where the request may go on.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// AWS's text of a refusal (identity.md R59); for an allowed request it says what would have been said.
    pub fn refusal(&self, principal: &Principal, action: &str, resource: &str) -> String {
        let because = match self.reason {
            Reason::ExplicitDeny(layer) => {
                format!(
                    "with an explicit deny in {} {}",
                    article(layer),
                    layer.described()
                )
            }
            Reason::NotAllowed(layer) | Reason::Allowed(layer) => {
                format!("because no {} allows the {action} action", layer.described())
            }
            Reason::TooCostly => "because its policies are too costly to evaluate".to_owned(),
        };
        format!(
            "User: {} is not authorized to perform: {action} on resource: {resource} {because}",
            principal.shown()
        )
    }
}

fn article(layer: Layer) -> &'static str {
    if layer == Layer::Identity { "an" } else { "a" }
}

/// The closest allow of a layer.
struct Allow {
    closeness: PrincipalMatch,
    statement: StatementRef,
}

/// What one layer says.
enum Answer {
    Deny(StatementRef),
    Allow(Allow),
    Silent,
}

/// Decides one request.
pub fn decide(layers: &Layers<'_>, request: &Request<'_>) -> Decision {
    let budget = Budget::new();
    let decision = weigh(layers, request, &budget);
    if budget.exhausted() {
        return Decision {
            verdict: Verdict::Denied,
            reason: Reason::TooCostly,
            statement: None,
        };
    }
    decision
}

fn weigh(layers: &Layers<'_>, request: &Request<'_>, budget: &Budget) -> Decision {
    let action = fold(request.action);
    let subject = Subject {
        principal: request.principal,
        action: &action,
        resource: request.resource,
        facts: request.facts,
        budget,
    };
    let resource_policies = layers.resource.map(|layer| std::slice::from_ref(layer.policy));
    let mut allows: [Option<Allow>; 4] = [None, None, None, None];
    let asked = [
        (Layer::Identity, Some(layers.identity)),
        (Layer::Boundary, layers.boundary),
        (Layer::Session, layers.session),
        (Layer::Resource, resource_policies),
    ];
    for (slot, (layer, policies)) in allows.iter_mut().zip(asked) {
        match ask(policies.unwrap_or_default(), &subject) {
            Answer::Deny(statement) => {
                let reason = Reason::ExplicitDeny(layer);
                return Decision {
                    verdict: Verdict::Denied,
                    reason,
                    statement: Some(statement),
                };
            }
            Answer::Allow(allow) => *slot = Some(allow),
            Answer::Silent => {}
        }
    }
    let [identity, boundary, session, resource] = allows;
    let foreign = match (request.owner, request.principal.account()) {
        (Some(owner), account) => account != Some(owner),
        (None, _) => false,
    };
    let closeness = resource
        .as_ref()
        .map_or(PrincipalMatch::No, |allow| allow.closeness);

    // Services and anonymous callers have no identity side: only the resource can let them in.
    let has_identity_side = request.principal.account().is_some();
    if !has_identity_side || (!foreign && closeness == PrincipalMatch::Direct) {
        return conclude(Layer::Resource, resource, None);
    }
    let limits = [
        (layers.boundary.is_some() && boundary.is_none()).then_some(Layer::Boundary),
        (layers.session.is_some() && session.is_none()).then_some(Layer::Session),
    ];
    let limited_by = limits.into_iter().flatten().next();
    match (identity, foreign) {
        (None, false) if closeness == PrincipalMatch::Behind => {
            conclude(Layer::Resource, resource, limited_by)
        }
        (Some(_), true) if limited_by.is_none() => conclude(Layer::Resource, resource, None),
        (identity, _) => conclude(Layer::Identity, identity, limited_by),
    }
}

fn conclude(layer: Layer, allow: Option<Allow>, limited_by: Option<Layer>) -> Decision {
    match (allow, limited_by) {
        (Some(allow), None) => Decision {
            verdict: Verdict::Allowed,
            reason: Reason::Allowed(layer),
            statement: Some(allow.statement),
        },
        (None, _) => Decision {
            verdict: Verdict::Denied,
            reason: Reason::NotAllowed(layer),
            statement: None,
        },
        (Some(_), Some(limit)) => Decision {
            verdict: Verdict::Denied,
            reason: Reason::NotAllowed(limit),
            statement: None,
        },
    }
}

fn ask(policies: &[NamedPolicy], subject: &Subject<'_>) -> Answer {
    let mut best: Option<Allow> = None;
    for named in policies {
        for (index, statement) in named.policy.statements.iter().enumerate() {
            let held = best.as_ref().map_or(PrincipalMatch::No, |allow| allow.closeness);
            if statement.effect == Effect::Allow && held == PrincipalMatch::Direct {
                continue;
            }
            let closeness = statement.applies(subject);
            if closeness == PrincipalMatch::No {
                continue;
            }
            let reference = || StatementRef {
                policy: Arc::clone(&named.id),
                index,
                sid: statement.sid.clone(),
            };
            match statement.effect {
                Effect::Deny => return Answer::Deny(reference()),
                Effect::Allow if closeness > held => {
                    best = Some(Allow {
                        closeness,
                        statement: reference(),
                    });
                }
                Effect::Allow => {}
            }
        }
    }
    best.map_or(Answer::Silent, Answer::Allow)
}

//! Decisions over identity, boundary, session and resource policies (identity.md R49-R52).

use crate::context::Context;
use crate::decide::Layer;
use crate::decide::Layers;
use crate::decide::NamedPolicy;
use crate::decide::Reason;
use crate::decide::ResourceLayer;
use crate::document::PolicyKind;
use crate::principal::Principal;

use super::{ask, identity, named, role_session, statement, user};

const ALLOW_ALL: &str = r#""Effect":"Allow","Action":"*","Resource":"*""#;
const ALLOW_EC2: &str = r#""Effect":"Allow","Action":"ec2:*","Resource":"*""#;
const DENY_EC2: &str = r#""Sid":"no","Effect":"Deny","Action":"ec2:*","Resource":"*""#;

#[test]
fn deny_wins_and_the_default_is_deny() {
    let none = Context::new();
    let (allow, deny) = (identity(ALLOW_ALL), identity(DENY_EC2));
    let mut both = allow.clone();
    both.extend(deny.clone());
    let decide_with = |identity: &[NamedPolicy], action| {
        ask(
            &Layers {
                identity,
                ..Layers::default()
            },
            &user(),
            action,
            "*",
            &none,
        )
    };
    assert_eq!(
        decide_with(&[], "ec2:Run").reason,
        Reason::NotAllowed(Layer::Identity)
    );
    assert!(decide_with(&allow, "ec2:Run").is_allowed());
    assert!(decide_with(&both, "s3:Get").is_allowed());
    let denied = decide_with(&both, "ec2:Run");
    assert_eq!(denied.reason, Reason::ExplicitDeny(Layer::Identity));
    assert_eq!(
        denied
            .statement
            .as_ref()
            .and_then(|statement| statement.sid.as_deref()),
        Some("no")
    );
    assert_eq!(
        denied.refusal(&user(), "ec2:Run", "*"),
        "User: arn:aws:iam::000000000002:user/ada is not authorized to perform: ec2:Run on resource: * with an \
         explicit deny in an identity-based policy"
    );
    assert_eq!(
        decide_with(&[], "ec2:Run").refusal(&user(), "ec2:Run", "*"),
        "User: arn:aws:iam::000000000002:user/ada is not authorized to perform: ec2:Run on resource: * because no \
         identity-based policy allows the ec2:Run action"
    );
}

#[test]
fn boundary_and_session_limit() {
    let none = Context::new();
    let (all, ec2, deny) = (identity(ALLOW_ALL), identity(ALLOW_EC2), identity(DENY_EC2));
    let with = |boundary: Option<&[NamedPolicy]>, session: Option<&[NamedPolicy]>, action: &str| {
        let layers = Layers {
            identity: &all,
            boundary,
            session,
            resource: None,
        };
        ask(&layers, &user(), action, "*", &none).reason
    };
    assert_eq!(
        with(Some(&ec2), None, "ec2:Run"),
        Reason::Allowed(Layer::Identity)
    );
    assert_eq!(
        with(Some(&ec2), None, "s3:Get"),
        Reason::NotAllowed(Layer::Boundary)
    );
    assert_eq!(
        with(Some(&[]), None, "s3:Get"),
        Reason::NotAllowed(Layer::Boundary)
    );
    assert_eq!(
        with(None, Some(&ec2), "s3:Get"),
        Reason::NotAllowed(Layer::Session)
    );
    assert_eq!(
        with(Some(&ec2), Some(&all), "ec2:Run"),
        Reason::Allowed(Layer::Identity)
    );
    assert_eq!(
        with(None, Some(&deny), "ec2:Run"),
        Reason::ExplicitDeny(Layer::Session)
    );
}

/// Identity.md R51 and R52.
#[test]
fn resource_policies_in_the_same_and_in_other_accounts() {
    let none = Context::new();
    let all = identity(ALLOW_ALL);
    let empty: Vec<NamedPolicy> = Vec::new();
    let policy = |principal: &str| {
        named(
            &statement(&format!(
                r#""Effect":"Allow","Principal":{principal},"Action":"*","Resource":"*""#
            )),
            PolicyKind::Resource,
        )
    };
    let everyone = policy(r#""*""#);
    let account = policy(r#"{"AWS":"arn:aws:iam::000000000002:root"}"#);
    let role = policy(r#"{"AWS":"arn:aws:iam::000000000002:role/r"}"#);
    let ada = policy(r#"{"AWS":"arn:aws:iam::000000000002:user/ada"}"#);
    let service = policy(r#"{"Service":"ec2.amazonaws.com"}"#);
    let own = "arn:aws:sqs:eu-central-1:000000000002:q";
    let foreign = "arn:aws:sqs:eu-central-1:000000000009:q";
    let ec2 = Principal::Service {
        name: "ec2.amazonaws.com",
    };
    // who, own policies, session limited to nothing, the resource's policy, resource, allowed
    type Case<'a> = (
        Principal,
        &'a [NamedPolicy],
        bool,
        Option<&'a NamedPolicy>,
        &'a str,
        bool,
    );
    let cases: &[Case<'_>] = &[
        (user(), &empty, false, None, own, false),
        (user(), &all, false, None, own, true),
        (user(), &empty, false, Some(&ada), own, true),
        (user(), &empty, true, Some(&ada), own, true),
        (user(), &empty, false, Some(&everyone), own, true),
        (user(), &empty, false, Some(&account), own, false),
        (user(), &all, false, Some(&account), own, true),
        (role_session(), &empty, false, Some(&role), own, true),
        (role_session(), &empty, true, Some(&role), own, false),
        (user(), &empty, false, Some(&role), own, false),
        (user(), &all, false, None, foreign, false),
        (user(), &all, false, Some(&account), foreign, true),
        (user(), &all, false, Some(&ada), foreign, true),
        (user(), &empty, false, Some(&ada), foreign, false),
        (user(), &all, true, Some(&ada), foreign, false),
        (user(), &all, false, Some(&role), foreign, false),
        (ec2.clone(), &empty, false, Some(&service), foreign, true),
        (ec2, &empty, false, Some(&account), foreign, false),
        (
            Principal::Anonymous,
            &empty,
            false,
            Some(&everyone),
            foreign,
            true,
        ),
        (Principal::Anonymous, &empty, false, None, own, false),
        (Principal::Anonymous, &all, false, None, own, false),
    ];
    for (at, (principal, identity, limited, resource_policy, resource, expected)) in cases.iter().enumerate()
    {
        let layers = Layers {
            identity,
            boundary: None,
            session: limited.then_some(empty.as_slice()),
            resource: resource_policy.map(|policy| ResourceLayer { policy }),
        };
        assert_eq!(
            ask(&layers, principal, "sqs:Send", resource, &none).is_allowed(),
            *expected,
            "case {at}"
        );
    }
}

#[test]
fn not_principal_denies_all_others() {
    let none = Context::new();
    let all = identity(ALLOW_ALL);
    let policy = named(
        &statement(
            r#""Effect":"Deny","NotPrincipal":{"AWS":"arn:aws:iam::000000000002:user/ada"},"Action":"*","Resource":"*""#,
        ),
        PolicyKind::Resource,
    );
    let layers = Layers {
        identity: &all,
        resource: Some(ResourceLayer { policy: &policy }),
        ..Layers::default()
    };
    assert!(ask(&layers, &user(), "s:A", "*", &none).is_allowed());
    assert_eq!(
        ask(&layers, &role_session(), "s:A", "*", &none).reason,
        Reason::ExplicitDeny(Layer::Resource)
    );
}

/// A storm of wildcards is bounded: it is refused, not waited for, and never allowed.
#[test]
fn wildcard_storms_are_refused() {
    let stars = format!("*{}", "a".repeat(1_000));
    let body = format!(
        r#""Effect":"Allow","Action":"*","Resource":"*","Condition":{{"StringLike":{{"a:k":"{stars}b"}}}}"#
    );
    let policies: Vec<NamedPolicy> = std::iter::repeat_with(|| identity(&body).remove(0))
        .take(200)
        .collect();
    let context = Context::new().with("a:k", "a".repeat(10_000));
    let layers = Layers {
        identity: &policies,
        ..Layers::default()
    };
    let started = std::time::Instant::now();
    let decision = ask(&layers, &user(), "s:A", "*", &context);
    assert_eq!(decision.reason, Reason::TooCostly);
    assert!(!decision.is_allowed());
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}

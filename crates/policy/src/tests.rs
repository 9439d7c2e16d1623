//! The language by its rules, and the evaluator against a slow and obvious one.

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};

use aws_types::{AccountId, Arn};

use crate::context::{Context, Facts};
use crate::decide::{
    Decision, HeldPolicies, Layer, Layers, NamedPolicy, Reason, Request, ResourceLayer, decide,
};
use crate::document::{Policy, PolicyKind};
use crate::pattern::{Budget, Flavor, Match, Pattern};
use crate::principal::Principal;
use crate::value::{Decimal, Instant, parse_network};

const TENANT: AccountId = AccountId::FIRST_TENANT;

fn user() -> Principal {
    Principal::User {
        arn: Arn::parse("arn:aws:iam::000000000002:user/ada").expect("an ARN"),
        account: TENANT,
        id: "AIDAAAAAAAAAAAAAAAAAA".to_owned(),
        name: "ada".to_owned(),
    }
}

fn role_session() -> Principal {
    Principal::RoleSession {
        arn: Arn::parse("arn:aws:sts::000000000002:assumed-role/r/s").expect("an ARN"),
        role_arn: Arn::parse("arn:aws:iam::000000000002:role/r").expect("an ARN"),
        account: TENANT,
        role_id: "AROAAAAAAAAAAAAAAAAAA".to_owned(),
        session_name: "s".to_owned(),
    }
}

fn named(text: &str, kind: PolicyKind) -> NamedPolicy {
    let policy = Policy::parse(text, kind).unwrap_or_else(|fault| panic!("{fault}: {text}"));
    NamedPolicy {
        id: "p".into(),
        policy: policy.into(),
    }
}

fn statement(body: &str) -> String {
    format!(r#"{{"Version":"2012-10-17","Statement":{{{body}}}}}"#)
}

fn identity(body: &str) -> Vec<NamedPolicy> {
    vec![named(&statement(body), PolicyKind::Identity)]
}

fn ask(
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
fn allows(body: &str, action: &str, resource: &str, context: &Context) -> bool {
    let held = HeldPolicies {
        identity: identity(body),
        ..HeldPolicies::default()
    };
    ask(&held.layers(None), &user(), action, resource, context).is_allowed()
}

/// Whether a condition, of an Allow of everything, holds.
fn holds(condition: &str, context: &Context) -> bool {
    let body = format!(r#""Effect":"Allow","Action":"*","Resource":"*","Condition":{condition}"#);
    allows(&body, "s:A", "*", context)
}

// ---- grammar ----

#[test]
fn documents_that_are_accepted() {
    for body in [
        r#""Effect":"Allow","Action":"*","Resource":"*""#,
        r#""Sid":"","Effect":"Deny","NotAction":["s3:*","ec2:Describe?x"],"NotResource":["arn:aws:s3:::b","*"]"#,
        r#""Effect":"Allow","Action":"no-such-service:X","Resource":"arn:aws:ec2""#,
        r#""Effect":"Allow","Action":"s3:Get*","Resource":"arn:aws:s3:::b/${aws:username}/*""#,
        r#""Effect":"Allow","Action":"s3:Get*","Resource":"arn:aws:s3:::b/${aws:PrincipalTag/t, 'x:}y'}/${*}""#,
        r#""Effect":"Allow","Action":"*","Resource":"*","Condition":{"Bool":{"aws:x":true},"NumericLessThan":{"a:n":5}}"#,
        r#""Effect":"Allow","Action":"*","Resource":"*","Condition":{"foranyvalue:StringLikeIfExists":{"a:k":["b","c*"]}}"#,
    ] {
        Policy::parse(&statement(body), PolicyKind::Identity)
            .unwrap_or_else(|fault| panic!("{fault}: {body}"));
    }
    Policy::parse(
        r#"{"Statement":[{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::b/${x"}]}"#,
        PolicyKind::Identity,
    )
    .expect("without a version there are no variables");
}

#[test]
fn documents_that_are_refused() {
    let allow = r#""Effect":"Allow","Action":"*","Resource":"*""#;
    let bodies = [
        String::new(),
        r#""Effect":"Allow","Action":"*""#.into(),
        r#""Effect":"Allow","Resource":"*""#.into(),
        r#""Action":"*","Resource":"*""#.into(),
        r#""Effect":"allow","Action":"*","Resource":"*""#.into(),
        r#""Effect":"Allow","Action":[],"Resource":"*""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":[]"#.into(),
        r#""Effect":"Allow","Action":"*","NotAction":"s3:*","Resource":"*""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":"*","NotResource":"*""#.into(),
        r#""Effect":"Allow","Action":"s3","Resource":"*""#.into(),
        r#""Effect":"Allow","Action":"s*:Get","Resource":"*""#.into(),
        r#""Effect":"Allow","Action":"s3:Get Object","Resource":"*""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":"bucket""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s*:::b""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:${aws:x}::b""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::${aws:x""#.into(),
        r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::${nocolon}""#.into(),
        format!(r#"{allow},"Principal":"*""#),
        format!(r#"{allow},"Extra":1"#),
        format!(r#"{allow},"Effect":"Deny""#),
        format!(r#""Sid":"a b",{allow}"#),
        format!(r#"{allow},"Condition":{{"NoSuch":{{"a:b":"c"}}}}"#),
        format!(r#"{allow},"Condition":{{"StringEquals":{{"a:b":[]}}}}"#),
        format!(r#"{allow},"Condition":{{"StringEquals":{{"a:b":"1","a:b":"2"}}}}"#),
        format!(r#"{allow},"Condition":{{"NumericEquals":{{"a:b":"x"}}}}"#),
        format!(r#"{allow},"Condition":{{"DateEquals":{{"a:b":"yesterday"}}}}"#),
        format!(r#"{allow},"Condition":{{"Bool":{{"a:b":"maybe"}}}}"#),
        format!(r#"{allow},"Condition":{{"IpAddress":{{"a:b":"1.2.3"}}}}"#),
        format!(r#"{allow},"Condition":{{"BinaryEquals":{{"a:b":"%"}}}}"#),
        format!(r#"{allow},"Condition":{{"ArnLike":{{"a:b":"user/x"}}}}"#),
        format!(r#"{allow},"Condition":{{"NullIfExists":{{"a:b":"true"}}}}"#),
        format!(r#"{allow},"Condition":{{"StringEquals":{{"a:b":{{}}}}}}"#),
    ];
    for body in &bodies {
        assert!(
            Policy::parse(&statement(body), PolicyKind::Identity).is_err(),
            "{body}"
        );
    }
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"Statement":[]}"#,
        r#"{"Version":"2020-01-01","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#,
        r#"{"Version":"2012-10-17","Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#,
        r#"{"Id":"x","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#,
        r#"{"Statement":[{"Sid":"a","Effect":"Allow","Action":"*","Resource":"*"},{"Sid":"a","Effect":"Deny","Action":"*","Resource":"*"}]}"#,
        r#"{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}} x"#,
        "{\"Statement\":{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"arn:aws:s3:::\u{100}\"}}",
        &format!(r#"{{"Statement":{deep}}}"#),
    ] {
        assert!(Policy::parse(text, PolicyKind::Identity).is_err(), "{text}");
    }
}

#[test]
fn kinds_of_policy_differ_in_their_elements() {
    let trust = r#""Effect":"Allow","Principal":{"AWS":"000000000002"},"Action":"sts:AssumeRole""#;
    Policy::parse(&statement(trust), PolicyKind::Trust).expect("a trust policy");
    assert!(
        Policy::parse(&statement(trust), PolicyKind::Resource).is_err(),
        "no resource"
    );
    assert!(
        Policy::parse(&statement(trust), PolicyKind::Identity).is_err(),
        "a principal"
    );
    for bad in [
        r#""Effect":"Allow","Principal":"*","Action":"s3:GetObject""#,
        r#""Effect":"Allow","Principal":"*","Action":"sts:AssumeRole","Resource":"*""#,
        r#""Effect":"Deny","NotPrincipal":{"AWS":"*"},"Action":"sts:AssumeRole""#,
    ] {
        assert!(
            Policy::parse(&statement(bad), PolicyKind::Trust).is_err(),
            "{bad}"
        );
    }
    let not_principal = |effect: &str| {
        statement(&format!(
            r#""Effect":"{effect}","NotPrincipal":{{"AWS":"000000000002"}},"Action":"*","Resource":"*""#
        ))
    };
    Policy::parse(&not_principal("Deny"), PolicyKind::Resource).expect("deny");
    assert!(Policy::parse(&not_principal("Allow"), PolicyKind::Resource).is_err());
    for bad in [
        "x",
        "arn:aws:iam::000000000002:group/g",
        "arn:aws:iam::000000000002:user/*",
        "12345",
    ] {
        let text = statement(&format!(
            r#""Effect":"Allow","Principal":{{"AWS":"{bad}"}},"Action":"*","Resource":"*""#
        ));
        assert!(Policy::parse(&text, PolicyKind::Resource).is_err(), "{bad}");
    }
}

// ---- matching ----

#[test]
fn actions_match_without_case_and_with_wildcards_anywhere() {
    let none = Context::new();
    for (pattern, action, expected) in [
        ("ec2:DescribeInstances", "ec2:describeinstances", true),
        ("EC2:*Instances", "ec2:RunInstances", true),
        ("ec2:Describe?egions", "ec2:DescribeRegions", true),
        ("ec2:Describe?Regions", "ec2:DescribeRegions", false),
        ("ec2:*", "ec2x:Run", false),
        ("*", "anything:AtAll", true),
    ] {
        let body = format!(r#""Effect":"Allow","Action":"{pattern}","Resource":"*""#);
        assert_eq!(allows(&body, action, "*", &none), expected, "{pattern} {action}");
    }
}

#[test]
fn resources_match_field_by_field() {
    let none = Context::new();
    let i1 = "arn:aws:ec2:eu-central-1:000000000002:instance/i-1";
    for (pattern, resource, expected) in [
        ("*", i1, true),
        ("*", "*", true),
        ("arn:aws:ec2:eu-central-1:000000000002:instance/i-1", i1, true),
        ("arn:aws:ec2:eu-central-1:000000000002:instance/I-1", i1, false),
        ("arn:aws:ec2:*:*:instance/*", i1, true),
        ("arn:aws:ec2:*:000000000002:instance/i-?", i1, true),
        ("arn:aws:ec2:eu-*-1:000000000002:instance/i-1", i1, true),
        (
            "arn:aws:ec2:eu*1:000000000002:instance/i-1",
            "arn:aws:ec2:eu:x-1:000000000002:instance/i-1",
            false,
        ),
        ("arn:aws:ec2:*:instance/i-1:*", i1, false),
        ("arn:aws:ec2:*", i1, true),
        ("arn:aws:ec2", i1, true),
        ("arn:aws:s3", i1, false),
        ("arn:*", i1, true),
        ("arn:aws:ec2:*:*:instance/*", "*", false),
        ("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/a:b/c", true),
        ("arn:aws:s3:::bucket/*/c", "arn:aws:s3:::bucket/a:b/c", true),
        ("arn:aws:s3:::b?cket", "arn:aws:s3:::b\u{4e2d}cket", true),
        ("arn:aws:ec2:eu-central-?:000000000002:instance/i-1", i1, true),
        ("arn:aws:ec2:eu-central-1?000000000002:instance/i-1:*", i1, false),
    ] {
        let body = format!(r#""Effect":"Allow","Action":"*","Resource":"{pattern}""#);
        // Owners are left out here: this is about texts only.
        let held = HeldPolicies {
            identity: identity(&body),
            ..HeldPolicies::default()
        };
        let request = Request {
            principal: &user(),
            action: "s:A",
            resource,
            owner: None,
            facts: &none,
        };
        assert_eq!(
            decide(&held.layers(None), &request).is_allowed(),
            expected,
            "{pattern} {resource}"
        );
    }
}

#[test]
fn variables_are_substituted_and_never_patterns() {
    let named = |name: &str| Context::new().with("aws:username", name);
    let body = r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::b/${aws:UserName}/*""#;
    let on = |name: &str, key: &str| {
        allows(
            body,
            "s3:GetObject",
            &format!("arn:aws:s3:::b/{key}"),
            &named(name),
        )
    };
    assert!(on("ada", "ada/x"));
    assert!(!on("ada", "bob/x"));
    assert!(!on("*", "ada/x"), "a value is no pattern");
    assert!(on("*", "*/x"));
    assert!(
        !allows(body, "s3:GetObject", "arn:aws:s3:::b//x", &Context::new()),
        "unresolved matches nothing"
    );

    let default = r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::b/${aws:username, 'guest'}""#;
    assert!(allows(
        default,
        "s3:GetObject",
        "arn:aws:s3:::b/guest",
        &Context::new()
    ));
    let many = Context::new().with_many("aws:username", ["ada"]);
    assert!(
        allows(default, "s3:GetObject", "arn:aws:s3:::b/guest", &many),
        "many values are no value"
    );

    let literal = r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::b/${*}${?}${$}""#;
    assert!(allows(
        literal,
        "s3:GetObject",
        "arn:aws:s3:::b/*?$",
        &Context::new()
    ));
    assert!(!allows(
        literal,
        "s3:GetObject",
        "arn:aws:s3:::b/ab$",
        &Context::new()
    ));
}

#[test]
fn an_unresolved_not_resource_never_widens() {
    let arn = "arn:aws:s3:::other";
    let allow = r#""Effect":"Allow","Action":"*","NotResource":"arn:aws:s3:::${aws:username}""#;
    assert!(!allows(allow, "s3:Get", arn, &Context::new()));
    assert!(allows(
        allow,
        "s3:Get",
        arn,
        &Context::new().with("aws:username", "ada")
    ));
    let both = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},
        {"Effect":"Deny","Action":"*","NotResource":"arn:aws:s3:::${aws:username}"}]}"#;
    let held = HeldPolicies {
        identity: vec![named(both, PolicyKind::Identity)],
        ..HeldPolicies::default()
    };
    assert!(!ask(&held.layers(None), &user(), "s3:Get", arn, &Context::new()).is_allowed());
}

// ---- conditions ----

/// The table of identity.md R43, cell by cell.
#[test]
fn absent_empty_and_present_keys() {
    let absent = Context::new();
    let empty = Context::new().with_many("a:k", Vec::<String>::new());
    let hit = Context::new().with_many("a:k", ["x", "y"]);
    let all = Context::new().with_many("a:k", ["x", "x"]);
    let miss = Context::new().with_many("a:k", ["y", "z"]);
    // operator, then the answer for: absent, empty, some value matches, all match, none matches
    for (operator, expected) in [
        ("StringEquals", [false, false, true, true, false]),
        ("StringNotEquals", [true, true, false, false, true]),
        ("StringEqualsIfExists", [true, false, true, true, false]),
        ("StringNotEqualsIfExists", [true, true, false, false, true]),
        ("ForAllValues:StringEquals", [true, true, false, true, false]),
        ("ForAnyValue:StringEquals", [false, false, true, true, false]),
        ("ForAllValues:StringNotEquals", [true, true, false, false, true]),
        ("ForAnyValue:StringNotEquals", [false, false, true, false, true]),
        (
            "ForAnyValue:StringEqualsIfExists",
            [true, false, true, true, false],
        ),
        (
            "ForAllValues:StringEqualsIfExists",
            [true, true, false, true, false],
        ),
    ] {
        for (context, expected) in [&absent, &empty, &hit, &all, &miss].into_iter().zip(expected) {
            assert_eq!(
                holds(&format!(r#"{{"{operator}":{{"A:K":"x"}}}}"#), context),
                expected,
                "{operator} {context:?}"
            );
        }
    }
    for (context, null) in [(&absent, true), (&empty, true), (&hit, false)] {
        assert_eq!(holds(r#"{"Null":{"a:k":"true"}}"#, context), null);
        assert_eq!(holds(r#"{"Null":{"a:k":false}}"#, context), !null);
    }
}

#[test]
fn operators_compare_what_they_say() {
    for (operator, wanted, value, expected) in [
        ("StringEquals", r#""a""#, "a", true),
        ("StringEquals", r#""a*""#, "ab", false),
        ("StringEquals", r#"["b","a"]"#, "a", true),
        ("StringNotEquals", r#"["b","a"]"#, "a", false),
        (
            "StringEqualsIgnoreCase",
            r#""STRASSE\u00c4""#,
            "strasse\u{e4}",
            true,
        ),
        ("StringNotEqualsIgnoreCase", r#""A""#, "a", false),
        ("StringLike", r#""a*c?""#, "abbcd", true),
        ("StringLike", r#""a*c?""#, "abbc", false),
        ("StringLike", r#""a:*:z""#, "a:b:c:z", true),
        ("StringNotLike", r#""a*""#, "abc", false),
        ("NumericEquals", "5", "5.0", true),
        ("NumericNotEquals", "5", "6", true),
        ("NumericLessThan", "10", "9", true),
        ("NumericLessThan", "10", "10", false),
        ("NumericLessThanEquals", "10", "10", true),
        ("NumericGreaterThan", r#""-1.5""#, "-1.4", true),
        (
            "NumericGreaterThanEquals",
            "9007199254740993",
            "9007199254740992",
            false,
        ),
        ("NumericEquals", "5", "five", false),
        ("NumericNotEquals", "5", "five", true),
        (
            "DateEquals",
            r#""2026-11-30T13:00:00Z""#,
            "2026-11-30T14:00:00+01:00",
            true,
        ),
        (
            "DateLessThan",
            r#""2026-11-30""#,
            "2026-11-29T23:59:59.999Z",
            true,
        ),
        ("DateGreaterThan", r#""1796000000""#, "2026-12-31T00:00:00Z", true),
        ("DateGreaterThanEquals", r#""2026""#, "2026-01-01T00:00Z", true),
        ("DateNotEquals", r#""2026-01-01""#, "2026-01-02", true),
        ("Bool", "true", "TRUE", true),
        ("Bool", r#""false""#, "true", false),
        ("BinaryEquals", r#""aGk=""#, "aGk=", true),
        ("BinaryEquals", r#""aGk=""#, "aGo=", false),
        ("IpAddress", r#""203.0.113.0/24""#, "203.0.113.9", true),
        ("IpAddress", r#""203.0.113.7""#, "203.0.113.8", false),
        ("IpAddress", r#""2001:db8::/32""#, "2001:db8:1::1", true),
        ("IpAddress", r#""0.0.0.0/0""#, "2001:db8::1", false),
        ("NotIpAddress", r#""203.0.113.0/24""#, "198.51.100.1", true),
        (
            "ArnEquals",
            r#""arn:aws:iam::*:role/x""#,
            "arn:aws:iam::000000000002:role/x",
            true,
        ),
        (
            "ArnLike",
            r#""arn:aws:iam::000000000002:role/*""#,
            "arn:aws:iam::000000000002:user/x",
            false,
        ),
        (
            "ArnNotLike",
            r#""arn:aws:iam::000000000002:role/*""#,
            "arn:aws:iam::000000000002:user/x",
            true,
        ),
        (
            "ArnNotEquals",
            r#""arn:aws:iam::000000000002:role/x""#,
            "arn:aws:iam::000000000002:role/x",
            false,
        ),
    ] {
        let context = Context::new().with("a:k", value);
        assert_eq!(
            holds(&format!(r#"{{"{operator}":{{"a:k":{wanted}}}}}"#), &context),
            expected,
            "{operator} {wanted} {value}"
        );
    }
}

#[test]
fn entries_are_anded_and_variables_work_in_values() {
    let context = Context::new()
        .with("a:x", "1")
        .with("a:y", "2")
        .with("aws:username", "ada")
        .with("a:owner", "ada");
    assert!(holds(
        r#"{"StringEquals":{"a:x":"1","a:y":"2"},"StringLike":{"a:owner":"${aws:username}"}}"#,
        &context
    ));
    assert!(!holds(r#"{"StringEquals":{"a:x":"1","a:y":"3"}}"#, &context));
    assert!(!holds(
        r#"{"StringEquals":{"a:x":"1"},"StringLike":{"a:owner":"b*"}}"#,
        &context
    ));
    assert!(!holds(
        r#"{"StringEquals":{"a:owner":"${aws:missing}"}}"#,
        &context
    ));
    assert!(holds(
        r#"{"StringNotEquals":{"a:owner":"${aws:missing}"}}"#,
        &context
    ));
}

#[test]
fn values_of_numbers_dates_and_networks() {
    assert_eq!(Decimal::parse("1.50"), Decimal::parse("+01.5"));
    for bad in ["", ".", "-", "1e3", "0x1", "1,5", " 1", "99999999999999999999999"] {
        assert_eq!(Decimal::parse(bad), None, "{bad}");
    }
    assert_eq!(
        Instant::parse("1970-01-01T00:00:01Z"),
        Instant::parse("1970-01-01T01:00:01+01:00")
    );
    for bad in [
        "",
        "2026-13-01",
        "2026-1-1",
        "2026-01-01T00:00:00",
        "2026-01-01T25:00Z",
        "2026-01-01T00:00:00.Z",
        "T",
        "2026-01-01T00:00Z+",
    ] {
        assert_eq!(Instant::parse(bad), None, "{bad}");
    }
    assert!(parse_network("10.0.0.1/33").is_none());
}

// ---- layers ----

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

// ---- against a slow and obvious evaluator ----

/// Matching by trying everything. `crosses` says for each pattern position whether a wildcard there may take a colon.
fn slow_match(pattern: &[char], crosses: &[bool], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|taken| {
            (crosses[0] || !text[..taken].contains(&':')) && slow_match(rest, &crosses[1..], &text[taken..])
        }),
        Some((expected, rest)) => text.split_first().is_some_and(|(c, after)| {
            let one = *expected == '?' && (crosses[0] || *c != ':');
            (one || expected == c && *expected != '?') && slow_match(rest, &crosses[1..], after)
        }),
    }
}

fn slow_crossings(pattern: &[char]) -> Vec<bool> {
    (0..pattern.len())
        .map(|at| {
            let colons = pattern[..at].iter().filter(|c| **c == ':').count();
            let ends_field = pattern.get(at + 1).is_none_or(|next| *next == ':');
            colons >= 5 || pattern[at] == '*' && ends_field
        })
        .collect()
}

fn matches(pattern: &str, flavor: Flavor, text: &str) -> bool {
    let pattern = Pattern::compile(pattern, flavor, true).expect("compiles");
    pattern.matches(text, &Context::new(), &Budget::new()) == Match::Yes
}

#[derive(Debug, Clone)]
struct SimpleStatement {
    deny: bool,
    not_action: bool,
    actions: Vec<&'static str>,
    not_resource: bool,
    resources: Vec<&'static str>,
    condition: Option<(bool, &'static str)>,
}

fn simple_statement() -> impl Strategy<Value = SimpleStatement> {
    let action = prop_oneof![
        Just("s:a"),
        Just("s:b"),
        Just("s:*"),
        Just("*"),
        Just("t:a"),
        Just("S:?")
    ];
    let resource = prop_oneof![
        Just("*"),
        Just("arn:aws:s:::x"),
        Just("arn:aws:s:::y"),
        Just("arn:aws:s:::?"),
        Just("arn:aws:t:::*")
    ];
    (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::collection::vec(action, 1..3),
        prop::bool::weighted(0.2),
        prop::collection::vec(resource, 1..3),
        prop::option::weighted(0.4, (any::<bool>(), prop_oneof![Just("1"), Just("2")])),
    )
        .prop_map(
            |(deny, not_action, actions, not_resource, resources, condition)| SimpleStatement {
                deny,
                not_action,
                actions,
                not_resource,
                resources,
                condition,
            },
        )
}

impl SimpleStatement {
    fn json(&self) -> String {
        let list = |items: &[&str]| {
            format!(
                "[{}]",
                items
                    .iter()
                    .map(|i| format!("{i:?}"))
                    .collect::<Vec<_>>()
                    .join(",")
            )
        };
        let condition = self.condition.map_or(String::new(), |(negated, value)| {
            let operator = if negated {
                "StringNotEquals"
            } else {
                "StringEquals"
            };
            format!(r#","Condition":{{"{operator}":{{"a:k":"{value}"}}}}"#)
        });
        format!(
            r#"{{"Effect":"{}","{}":{},"{}":{}{condition}}}"#,
            if self.deny { "Deny" } else { "Allow" },
            if self.not_action { "NotAction" } else { "Action" },
            list(&self.actions),
            if self.not_resource {
                "NotResource"
            } else {
                "Resource"
            },
            list(&self.resources),
        )
    }

    fn applies(&self, action: &str, resource: &str, value: Option<&str>) -> bool {
        let glob = |pattern: &str, text: &str| {
            let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
            slow_match(
                &pattern,
                &vec![true; pattern.len()],
                &text.to_lowercase().chars().collect::<Vec<_>>(),
            )
        };
        let action = self.actions.iter().any(|pattern| glob(pattern, action)) != self.not_action;
        let resource = self.resources.iter().any(|pattern| glob(pattern, resource)) != self.not_resource;
        let condition = self
            .condition
            .is_none_or(|(negated, wanted)| (value == Some(wanted)) != negated);
        action && resource && condition
    }
}

fn document(statements: &[SimpleStatement]) -> Vec<NamedPolicy> {
    if statements.is_empty() {
        return Vec::new();
    }
    let list: Vec<String> = statements.iter().map(SimpleStatement::json).collect();
    vec![named(
        &format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, list.join(",")),
        PolicyKind::Identity,
    )]
}

proptest! {
    #[test]
    fn arn_patterns_match_as_the_slow_matcher_does(pattern in "[ab:*?]{0,9}", text in "[ab:]{0,9}") {
        // Both sides get six fields, so that completion does not come into it.
        let pattern = format!("{pattern}:a:a:a:a:a");
        let text = format!("{text}:a:a:a:a:a");
        let chars: Vec<char> = pattern.chars().collect();
        let slow = slow_match(&chars, &slow_crossings(&chars), &text.chars().collect::<Vec<_>>());
        prop_assert_eq!(matches(&pattern, Flavor::Arn, &text), slow);
    }

    #[test]
    fn globs_match_as_the_slow_matcher_does(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
        let chars: Vec<char> = pattern.chars().collect();
        let slow = slow_match(&chars, &vec![true; chars.len()], &text.chars().collect::<Vec<_>>());
        prop_assert_eq!(matches(&pattern, Flavor::Glob, &text), slow);
    }

    #[test]
    fn decisions_are_those_of_the_slow_evaluator(
        statements in prop::collection::vec(simple_statement(), 0..6),
        boundary in prop::option::of(prop::collection::vec(simple_statement(), 0..4)),
        action in prop_oneof![Just("s:a"), Just("s:b"), Just("t:a"), Just("u:x")],
        resource in prop_oneof![Just("arn:aws:s:::x"), Just("arn:aws:s:::y"), Just("arn:aws:t:::z"), Just("*")],
        value in prop::option::of(prop_oneof![Just("1"), Just("2"), Just("3")]),
        order in any::<prop::sample::Index>(),
    ) {
        let context = value.map_or_else(Context::new, |value| Context::new().with("a:k", value));
        let verdict = |statements: &[SimpleStatement], boundary: Option<&[SimpleStatement]>| {
            let (identity, boundary) = (document(statements), boundary.map(document));
            let layers = Layers { identity: &identity, boundary: boundary.as_deref(), ..Layers::default() };
            ask(&layers, &user(), action, resource, &context).is_allowed()
        };
        let slow = |statements: &[SimpleStatement]| {
            let hit = |deny: bool| statements.iter().any(|s| s.deny == deny && s.applies(action, resource, value));
            (hit(false), hit(true))
        };
        let (allowed, denied) = slow(&statements);
        let (boundary_allowed, boundary_denied) = boundary.as_deref().map_or((true, false), slow);
        let expected = allowed && boundary_allowed && !denied && !boundary_denied;
        let given = verdict(&statements, boundary.as_deref());
        prop_assert_eq!(given, expected);

        // Order never matters; a further Deny never allows; an Allow less never allows.
        let mut turned = statements.clone();
        if !turned.is_empty() {
            let by = order.index(turned.len());
            turned.rotate_left(by);
            prop_assert_eq!(verdict(&turned, boundary.as_deref()), expected);
            let mut fewer = statements.clone();
            let removed = fewer.remove(by);
            if !removed.deny {
                prop_assert!(given || !verdict(&fewer, boundary.as_deref()));
            }
            let mut more = statements.clone();
            more.push(SimpleStatement { deny: true, ..removed });
            prop_assert!(given || !verdict(&more, boundary.as_deref()));
        }
    }

    /// No text makes the parser panic, and what it accepts can be evaluated.
    #[test]
    fn any_text_is_parsed_or_refused(
        text in r#"(\{|\}|\[|\]|"|:|,|Statement|Effect|Allow|Action|Resource|Condition|\*|\$\{|'|arn:aws:s3:::|[a-z ]){0,40}"#,
        body in r#"[a-z\$\{\}',:*?]{0,20}"#,
    ) {
        let _ = Policy::parse(&text, PolicyKind::Identity);
        let text = statement(&format!(r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::{body}""#));
        if let Ok(policy) = Policy::parse(&text, PolicyKind::Identity) {
            let identity = vec![NamedPolicy { id: "p".into(), policy: policy.into() }];
            let layers = Layers { identity: &identity, ..Layers::default() };
            let _ = ask(&layers, &user(), "s3:Get", "arn:aws:s3:::x", &Context::new());
        }
    }
}

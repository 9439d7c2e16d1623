//! How actions, resources and variables match (identity.md R41, R44).

use crate::context::Context;
use crate::decide::HeldPolicies;
use crate::decide::Request;
use crate::decide::decide;
use crate::document::PolicyKind;

use super::{allows, ask, identity, named, user};

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

//! The table of absent, empty and present keys, and every operator (identity.md R42, R43).

use crate::context::Context;
use crate::value::Decimal;
use crate::value::Instant;
use crate::value::parse_network;

use super::holds;

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

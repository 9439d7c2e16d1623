//! Which documents are policies and which are not (identity.md R38-R40).

use crate::document::Policy;
use crate::document::PolicyKind;

use super::statement;

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

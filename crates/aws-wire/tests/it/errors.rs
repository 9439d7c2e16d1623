//! Errors of every protocol as botocore understands them: code, message, request id, modelled members.

use std::borrow::Cow;

use aws_shapes::schema::{Protocol, ServiceSchema};
use aws_types::AwsError;
use aws_wire::encode_error;
use serde_json::{Value, json};

use crate::botocore::{Peer, describe, services};

const MESSAGE: &str = "It is <not> \"so\" & never was: é";

fn parsed(peer: &mut Peer, service: &'static ServiceSchema, error: &AwsError, shape: Option<&str>) -> Value {
    let (status, headers, body) = describe(&encode_error(service, error, "req-0123"));
    assert_eq!(status, error.status);
    let answer = peer.ask(&json!({
        "do": "parse_error", "service": service.name, "status": status, "headers": headers, "body": body,
        "error": shape,
    }));
    assert!(answer.get("failure").is_none(), "{}: {answer}", service.name);
    answer
}

#[test]
fn botocore_reads_our_errors() {
    let mut peer = Peer::start();
    let mut protocols = Vec::new();
    for service in services() {
        protocols.push(Protocol::for_service(service));
        for (code, status) in [
            ("Some.Code", 400),
            ("AccessDenied", 403),
            ("InternalFailure", 500),
            ("Slow", 503),
        ] {
            let error = AwsError {
                code: Cow::Borrowed(code),
                message: MESSAGE.into(),
                status,
                fields: Vec::new(),
            }
            .with_field("Extra", "more <of> it");
            let answer = parsed(&mut peer, service, &error, None);
            assert_eq!(answer["error"]["Code"], code, "{}: {answer}", service.name);
            assert_eq!(answer["error"]["Message"], MESSAGE, "{}: {answer}", service.name);
            assert_eq!(answer["request_id"], "req-0123", "{}: {answer}", service.name);
            if matches!(
                Protocol::for_service(service),
                Protocol::Ec2Query | Protocol::Query | Protocol::RestXml
            ) {
                assert_eq!(
                    answer["error"]["Extra"], "more <of> it",
                    "{}: {answer}",
                    service.name
                );
            }
        }
    }
    for protocol in [
        Protocol::Ec2Query,
        Protocol::Query,
        Protocol::Json10,
        Protocol::Json11,
        Protocol::RestJson,
        Protocol::RestXml,
    ] {
        assert!(protocols.contains(&protocol), "no service with {protocol:?}");
    }
}

#[test]
fn botocore_reads_the_modelled_errors_of_every_operation() {
    let mut peer = Peer::start();
    let mut seen = 0;
    for operation in services().flat_map(|service| service.operations.iter().copied()) {
        for known in operation.errors {
            let status = known.status.unwrap_or(if known.fault { 500 } else { 400 });
            let error = AwsError {
                code: known.code.into(),
                message: MESSAGE.into(),
                status,
                fields: Vec::new(),
            };
            let answer = parsed(&mut peer, operation.service, &error, Some(known.name));
            let what = format!(
                "{}:{} {}: {answer}",
                operation.service.name, operation.name, known.name
            );
            assert_eq!(answer["error"]["Code"], known.code, "{what}");
            assert_eq!(answer["request_id"], "req-0123", "{what}");
            // In XML the element is `Message` whatever the model says; where the member is named `message`, clients
            // find the text in the generic part only, as with AWS.
            if let Some(member) = known.message_member {
                let message = &answer["modelled"][member];
                let in_xml_by_another_name =
                    matches!(operation.service.protocol, Protocol::Query | Protocol::RestXml)
                        && member == "message";
                assert!(message == MESSAGE || in_xml_by_another_name, "{what}");
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "the models name errors");
}

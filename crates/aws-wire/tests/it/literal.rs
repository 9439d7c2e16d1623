//! Answers byte for byte, for what botocore would not notice: envelopes, namespaces, headers.

use aws_shapes::proof::{ecs, iam, lambda, s3};
use aws_shapes::{DynShape, OperationSchema, ServiceSchema, ec2, sts};
use aws_types::AwsError;
use aws_wire::{encode_error, encode_output};
use bytes::Bytes;
use http::Response;
use time::macros::datetime;

fn show(response: Response<Bytes>) -> String {
    let mut lines = vec![response.status().as_u16().to_string()];
    lines.extend(
        response
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {value:?}")),
    );
    lines.push(String::from_utf8(response.body().to_vec()).expect("text"));
    lines.join("\n")
}

fn output(operation: &'static OperationSchema, value: &dyn DynShape) -> String {
    show(encode_output(operation, value, "id-1"))
}

fn error(service: &'static ServiceSchema) -> String {
    let error = AwsError {
        code: "Bad".into(),
        message: "a < b".into(),
        status: 400,
        fields: Vec::new(),
    };
    show(encode_error(service, &error.with_field("Resource", "x"), "id-1"))
}

#[test]
fn ec2_shows_empty_containers_and_milliseconds() {
    let value = ec2::StartInstancesResult::default();
    assert_eq!(
        output(&ec2::operations::START_INSTANCES, &value),
        r#"200
content-type: "text/xml;charset=UTF-8"
x-amzn-requestid: "id-1"
<?xml version="1.0" encoding="UTF-8"?>
<StartInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>id-1</requestId><instancesSet></instancesSet></StartInstancesResponse>"#
    );
    let value = ec2::GetConsoleOutputResult {
        timestamp: Some(datetime!(2026-11-30 12:00 UTC)),
        output: Some("a\u{1}&\r".into()),
        ..Default::default()
    };
    let shown = output(&ec2::operations::GET_CONSOLE_OUTPUT, &value);
    assert!(shown.ends_with("<timestamp>2026-11-30T12:00:00.000Z</timestamp><output>a\u{FFFD}&amp;&#13;</output></GetConsoleOutputResponse>"), "{shown}");
    let shown = output(&ec2::operations::CREATE_TAGS, &aws_shapes::value::Unit {});
    assert!(
        shown.ends_with("<requestId>id-1</requestId><return>true</return></CreateTagsResponse>"),
        "{shown}"
    );
}

#[test]
fn query_wraps_the_result() {
    let value = sts::GetCallerIdentityResponse {
        account: Some("123456789012".into()),
        ..Default::default()
    };
    assert_eq!(
        output(&sts::operations::GET_CALLER_IDENTITY, &value),
        r#"200
content-type: "text/xml"
x-amzn-requestid: "id-1"
<?xml version="1.0" encoding="UTF-8"?>
<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></GetCallerIdentityResponse>"#
    );
}

#[test]
fn errors_have_the_envelope_of_their_protocol() {
    assert_eq!(
        error(&ec2::SERVICE),
        r#"400
content-type: "text/xml;charset=UTF-8"
x-amzn-requestid: "id-1"
<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>Bad</Code><Message>a &lt; b</Message><Resource>x</Resource></Error></Errors><RequestID>id-1</RequestID></Response>"#
    );
    assert_eq!(
        error(&iam::SERVICE),
        r#"400
content-type: "text/xml"
x-amzn-requestid: "id-1"
<?xml version="1.0" encoding="UTF-8"?>
<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>Bad</Code><Message>a &lt; b</Message><Resource>x</Resource></Error><RequestId>id-1</RequestId></ErrorResponse>"#
    );
    assert_eq!(
        error(&ecs::SERVICE),
        r#"400
content-type: "application/x-amz-json-1.1"
x-amzn-requestid: "id-1"
{"__type":"Bad","message":"a < b","Resource":"x"}"#
    );
    assert_eq!(
        error(&lambda::SERVICE),
        r#"400
content-type: "application/json"
x-amzn-errortype: "Bad"
x-amzn-requestid: "id-1"
{"message":"a < b","Resource":"x"}"#
    );
    assert_eq!(
        error(&s3::SERVICE),
        r#"400
content-type: "application/xml"
x-amz-id-2: "id-1"
x-amz-request-id: "id-1"
<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>Bad</Code><Message>a &lt; b</Message><Resource>x</Resource><RequestId>id-1</RequestId><HostId>id-1</HostId></Error>"#
    );
}

#[test]
fn an_output_that_cannot_be_written_is_an_internal_error() {
    let value = s3::HeadObjectOutput {
        e_tag: Some("line\nbreak".into()),
        ..Default::default()
    };
    let shown = output(&s3::operations::HEAD_OBJECT, &value);
    assert!(
        shown.starts_with("500\n") && shown.contains("<Code>InternalError</Code>"),
        "{shown}"
    );
}

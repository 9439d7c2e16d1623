//! Requests that are wrong, one a row, and the AWS error that each gets; then anything at all, which must get one.

use aws_shapes::ServiceSchema;
use aws_shapes::proof::{dynamodb, ecs, iam, lambda, route53, s3};
use aws_shapes::{ec2, sts};
use aws_types::AwsError;
use aws_wire::{Detected, decode_into, detect_operation, encode_error};
use bytes::Bytes;
use http::Request;
use proptest::prelude::{any, proptest};

/// Runs a request through detection and decoding. `head` is `METHOD target [header: value]…`, split at ` | `.
fn attempt(service: &'static ServiceSchema, head: &str, body: &[u8]) -> Result<&'static str, AwsError> {
    let mut pieces = head.split(" | ");
    let (method, target) = pieces
        .next()
        .and_then(|line| line.split_once(' '))
        .expect("a method and a target");
    let mut request = Request::builder().method(method).uri(target);
    for header in pieces {
        let (name, value) = header.split_once(": ").expect("a header");
        request = request.header(name, value);
    }
    let parts = request.body(()).expect("a request").into_parts().0;
    let body = Bytes::copy_from_slice(body);
    match detect_operation(service, &parts, &body)? {
        Detected::Unbuilt(name) => Ok(name),
        Detected::Known(operation) => {
            let mut input = (operation.new_input)();
            decode_into(operation, &parts, &body, input.as_mut())?;
            Ok(operation.name)
        }
    }
}

#[test]
fn wrong_requests_get_the_error_of_their_service() {
    let ec2 = &ec2::SERVICE;
    let list_users = "Action=ListUsers&Version=2010-05-08";
    let target = |name: &str| format!("POST / | x-amz-target: AmazonEC2ContainerServiceV20141113.{name}");
    let list_clusters = target("ListClusters");
    let register = target("RegisterTaskDefinition");
    let put_item = "POST / | x-amz-target: DynamoDB_20120810.PutItem";
    let functions = "POST /2015-03-31/functions";
    let change = "POST /2013-04-01/hostedzone/Z1/rrset/";
    let rows: &[(&'static ServiceSchema, &str, &str, &str)] = &[
        (ec2, "POST /", "", "MissingAction"),
        (ec2, "POST /", "action=DescribeRegions", "MissingAction"),
        (ec2, "POST /", "Action=", "InvalidAction"),
        (ec2, "POST /", "Action=describeregions", "InvalidAction"),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Version=2999-01-01",
            "NoSuchVersion",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Version=latest",
            "NoSuchVersion",
        ),
        (ec2, "POST /", "Action=%ZZ", "MalformedQueryString"),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&A=%",
            "MalformedQueryString",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&DryRun=%FF",
            "MalformedQueryString",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&DryRun=true&DryRun=true",
            "MalformedQueryString",
        ),
        (
            ec2,
            "POST /?Action=DescribeRegions",
            "Action=TerminateInstances",
            "MalformedQueryString",
        ),
        (
            ec2,
            "POST /",
            "Action=CreateTags&Tag.1.Key=a%00b",
            "MalformedQueryString",
        ),
        (ec2, "POST /", "Action=DescribeRegions&Foo=1", "UnknownParameter"),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Filter.2.Name=a",
            "MalformedQueryString",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Filter.0.Name=a",
            "MalformedQueryString",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Filter=a",
            "UnknownParameter",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Filter.1=a",
            "UnknownParameter",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&RegionName.1.a=b",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&DryRun=maybe",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&DryRun=",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=RunInstances&MinCount=one",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=RunInstances&MinCount=2147483648",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=RunInstances&MinCount=1.5",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=ImportKeyPair&PublicKeyMaterial=%2A%2A",
            "InvalidParameterValue",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1",
            "InvalidParameterValue",
        ),
        (ec2, "POST /", "{\"Action\":\"DescribeRegions\"}", "MissingAction"),
        (&sts::SERVICE, "POST /", "Action=RunInstances", "InvalidAction"),
        (
            &sts::SERVICE,
            "POST /",
            "Action=GetCallerIdentity&Version=2016-11-15",
            "InvalidAction",
        ),
        (
            &iam::SERVICE,
            "POST /",
            "Action=ListUsers&MaxItems=many",
            "MalformedInput",
        ),
        (
            &iam::SERVICE,
            "POST /",
            "Action=CreateUser&A=%",
            "MalformedQueryString",
        ),
        (&ecs::SERVICE, "POST /", "{}", "UnknownOperationException"),
        (
            &ecs::SERVICE,
            &target("Nothing"),
            "{}",
            "UnknownOperationException",
        ),
        (
            &ecs::SERVICE,
            "POST / | x-amz-target: Other.ListClusters",
            "{}",
            "UnknownOperationException",
        ),
        (&ecs::SERVICE, &list_clusters, "{", "SerializationException"),
        (&ecs::SERVICE, &list_clusters, "[]", "SerializationException"),
        (
            &ecs::SERVICE,
            &list_clusters,
            "\u{FEFF}{}",
            "SerializationException",
        ),
        (
            &ecs::SERVICE,
            &list_clusters,
            "{\"maxResults\":\"5\"}",
            "SerializationException",
        ),
        (
            &ecs::SERVICE,
            &list_clusters,
            "{\"maxResults\":5.5}",
            "SerializationException",
        ),
        (
            &ecs::SERVICE,
            &list_clusters,
            "{\"nextToken\":5}",
            "SerializationException",
        ),
        (
            &ecs::SERVICE,
            &register,
            "{\"containerDefinitions\":{}}",
            "SerializationException",
        ),
        (
            &ecs::SERVICE,
            &register,
            "{\"containerDefinitions\":[null]}",
            "SerializationException",
        ),
        (
            &dynamodb::SERVICE,
            put_item,
            "{\"Item\":{\"a\":{\"B\":\"%\"}}}",
            "SerializationException",
        ),
        (&lambda::SERVICE, "GET /nowhere", "", "UnknownOperationException"),
        (
            &lambda::SERVICE,
            "PATCH /2015-03-31/functions",
            "",
            "UnknownOperationException",
        ),
        (
            &lambda::SERVICE,
            functions,
            "{\"Timeout\":\"x\"}",
            "SerializationException",
        ),
        (&lambda::SERVICE, functions, "no JSON", "SerializationException"),
        (
            &lambda::SERVICE,
            "GET /2015-03-31/functions?MaxItems=x",
            "",
            "SerializationException",
        ),
        (
            &lambda::SERVICE,
            "GET /2015-03-31/functions/%FF",
            "",
            "SerializationException",
        ),
        (
            &route53::SERVICE,
            change,
            "<ChangeResourceRecordSetsRequest>",
            "MalformedInput",
        ),
        (&route53::SERVICE, change, "<Other/>", "MalformedInput"),
        (
            &route53::SERVICE,
            change,
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "MalformedInput",
        ),
        (&s3::SERVICE, "PUT /b?tagging", "<Tagging>", "MalformedXML"),
        (
            &s3::SERVICE,
            "PUT /b?tagging",
            "<Tagging>&nbsp;</Tagging>",
            "MalformedXML",
        ),
        (
            &s3::SERVICE,
            "PUT /b?tagging",
            "<Tagging/><Tagging/>",
            "MalformedXML",
        ),
        (
            &s3::SERVICE,
            "PUT /b?tagging",
            "<Tagging></tagging>",
            "MalformedXML",
        ),
        (&s3::SERVICE, "PUT /b?tagging", "<a>&#0;</a>", "MalformedXML"),
        (&s3::SERVICE, "PUT /b?tagging", "text", "MalformedXML"),
        (
            &s3::SERVICE,
            "GET /b?list-type=2&max-keys=x",
            "",
            "InvalidArgument",
        ),
        (&s3::SERVICE, "PATCH /b", "", "MethodNotAllowed"),
    ];
    for (service, head, body, code) in rows {
        let error = attempt(service, head, body.as_bytes()).expect_err(&format!("{head} {body}"));
        assert_eq!(error.code, *code, "{}: {head} {body}: {error}", service.name);
        assert!((400..500).contains(&error.status), "{head} {body}: {error}");
        assert!(!encode_error(service, &error, "req-0123").body().is_empty());
    }
    for (service, head, body, name) in [
        (
            ec2,
            "GET /?Action=DescribeRegions&Version=2016-11-15&X-Amz-Date=1&Signature=x",
            "",
            "DescribeRegions",
        ),
        (
            ec2,
            "POST /",
            "Action=DescribeRegions&Version=2013-10-15&AllRegions=True",
            "DescribeRegions",
        ),
        (ec2, "POST /", "Action=CreateVpc&CidrBlock=x", "CreateVpc"),
        (
            &iam::SERVICE,
            "POST /",
            &format!("{list_users}&Unknown=1"),
            "ListUsers",
        ),
        (&ecs::SERVICE, &list_clusters, "", "ListClusters"),
        (&s3::SERVICE, "GET /b/k?uploadId=1", "", "ListParts"),
        (&s3::SERVICE, "GET /", "", "ListBuckets"),
    ] {
        assert_eq!(attempt(service, head, body.as_bytes()), Ok(name), "{head} {body}");
    }
}

#[test]
fn messages_name_the_parameter_as_it_was_sent() {
    let message = |body: &str| {
        attempt(&ec2::SERVICE, "POST /", body.as_bytes())
            .expect_err(body)
            .message
    };
    assert_eq!(
        message("Action=RunInstances&NetworkInterface.1.DeviceIndex=x"),
        "Value (x) for parameter NetworkInterface.1.DeviceIndex is invalid. Expected an integer."
    );
    assert_eq!(
        message("Action=DescribeInstances&Filter.1.Values.1=x"),
        "The parameter Filter.1.Values.1 is not recognized"
    );
    let long = "9".repeat(5000);
    assert!(message(&format!("Action=RunInstances&MinCount={long}")).len() < 300);
    assert!(message(&format!("Action={long}")).len() < 300);
}

proptest! {
    #[test]
    fn any_body_gets_an_answer(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = attempt(&ec2::SERVICE, "POST /?Action=RunInstances", &body);
        let _ = attempt(&ecs::SERVICE, "POST / | x-amz-target: AmazonEC2ContainerServiceV20141113.ListClusters", &body);
        let _ = attempt(&s3::SERVICE, "PUT /b?tagging", &body);
        let _ = attempt(&lambda::SERVICE, "POST /2015-03-31/functions", &body);
    }

    #[test]
    fn any_markup_gets_an_answer(pieces in proptest::collection::vec(
        proptest::sample::select(vec!["<Tagging>", "</Tagging>", "<TagSet>", "</TagSet>", "<Tag/>", "<Tag>", "</Tag>",
            "<Key>", "</Key>", "&amp;", "&#65;", "&", "<![CDATA[x]]>", "<!--", "-->", "<?xml version='1.0'?>", "x",
            " a='b'", "<a b='&lt;'>", "<!DOCTYPE x>"]), 0..20)) {
        let _ = attempt(&s3::SERVICE, "PUT /b?tagging", pieces.concat().as_bytes());
    }

    #[test]
    fn any_parameters_get_an_answer(pairs in proptest::collection::vec((
        "(MinCount|ImageId|NetworkInterface|Filter|Tag|BlockDeviceMapping)(\\.[0-9]{1,2})?(\\.(Ebs|Key|Groups?)){0,2}",
        "[a-z0-9 %+]{0,6}"), 0..8)) {
        let form: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let _ = attempt(&ec2::SERVICE, "POST /?Action=RunInstances", form.join("&").as_bytes());
    }
}

//! JSON against literal documents.

use aws_shapes::ec2::{DescribeRegionsRequest, DescribeRegionsResult, Region, RunInstancesRequest};
use aws_shapes::value::DynShape;

use super::{JsonWriter, decode};

fn write(value: &dyn DynShape) -> String {
    let mut out = JsonWriter::default();
    out.object(&mut |out| value.serialize(out)).expect("writing");
    String::from_utf8(out.into_bytes()).expect("JSON is UTF-8")
}

#[test]
fn documents_are_well_formed() {
    let region = |name: &str| Region {
        region_name: Some(name.into()),
        ..Default::default()
    };
    let value = DescribeRegionsResult {
        regions: vec![region("a\"\\\n\u{1}é"), region("b")],
    };
    let written = write(&value);
    assert_eq!(
        written,
        r#"{"regionInfo":[{"geographySet":[],"regionName":"a\"\\\n\u0001é"},{"geographySet":[],"regionName":"b"}]}"#
    );
    assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
}

#[test]
fn other_types_are_refused_and_null_is_absent() {
    let mut request = DescribeRegionsRequest::default();
    let mut read = |body: &str| decode(body.as_bytes(), &mut request).map_err(|error| error.to_string());
    assert_eq!(read(""), Ok(()));
    assert_eq!(read(r#"{"dryRun":null,"unknown":[1,{}]}"#), Ok(()));
    assert_eq!(read(r#"{"dryRun":true,"AllRegions":false}"#), Ok(()));
    for body in [
        "[]",
        "1",
        "{",
        r#"{"dryRun":"true"}"#,
        r#"{"dryRun":1}"#,
        r#"{"Filter":{}}"#,
        r#"{"Filter":[null]}"#,
    ] {
        assert!(read(body).is_err(), "{body}");
    }
    assert_eq!((request.dry_run, request.all_regions), (Some(true), Some(false)));
    let mut request = RunInstancesRequest::default();
    assert!(decode(br#"{"MinCount":1.0}"#, &mut request).is_ok());
    assert_eq!(request.min_count, Some(1));
    for number in ["1.5", "2147483648", "\"1\"", "1e30"] {
        assert!(
            decode(format!("{{\"MinCount\":{number}}}").as_bytes(), &mut request).is_err(),
            "{number}"
        );
    }
}

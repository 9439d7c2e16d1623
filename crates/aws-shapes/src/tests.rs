//! Tests of the generated shapes against what the model says, with known examples.

use crate::ec2::{self, DescribeInstancesRequest, RunInstancesRequest};
use crate::schema::{Location, Protocol, ShapeKind};
use crate::validate::{Constraint, validate};
use crate::{DynShape, OperationShape, Shape};

#[test]
fn services_know_their_protocols_and_the_rest_of_their_operations() {
    assert_eq!(ec2::SERVICE.protocol, Protocol::Ec2Query);
    assert_eq!(ec2::SERVICE.api_version, "2016-11-15");
    assert_eq!(ec2::SERVICE.operations.len(), 42);
    assert_eq!(ec2::SERVICE.find_unbuilt("CreateVpc"), Some("CreateVpc"));
    assert_eq!(ec2::SERVICE.find_unbuilt("RunInstances"), None);
    assert_eq!(crate::sts::SERVICE.protocol, Protocol::Query);
    assert!(crate::iam::SERVICE.operations.is_empty());
    assert!(
        crate::SERVICES
            .iter()
            .all(|service| service.unbuilt_operations.is_sorted())
    );
}

#[test]
fn operations_tie_shapes_schemas_tokens_and_paginators_together() {
    let schema = ec2::operations::RunInstances::SCHEMA;
    assert!(std::ptr::eq(schema.input, RunInstancesRequest::SCHEMA));
    assert_eq!(schema.idempotency_token, Some("ClientToken"));
    let paginator = ec2::operations::DESCRIBE_INSTANCES
        .paginator
        .expect("DescribeInstances is paged");
    assert_eq!(paginator.input_tokens, ["NextToken"]);
    assert_eq!(paginator.result_keys, ["Reservations"]);
    assert!(!ec2::operations::CREATE_TAGS.has_output);
    assert!(
        ((schema.new_input)())
            .into_any()
            .downcast::<RunInstancesRequest>()
            .is_ok()
    );
}

#[test]
fn wire_names_follow_the_rules_of_the_protocol() {
    let ids = &DescribeInstancesRequest::SCHEMA.members[0];
    assert_eq!((ids.name, ids.query_name), ("InstanceIds", "InstanceId"));
    assert_eq!(ids.location, Location::Body);
    let ShapeKind::List(element) = ids.shape.kind else {
        panic!("InstanceIds is a list")
    };
    assert_eq!(element.wire_name, "InstanceId");
}

#[test]
fn sensitive_members_are_hidden_in_debug_output() {
    let request = RunInstancesRequest {
        user_data: Some("the secret".into()),
        ..Default::default()
    };
    let shown = format!("{request:?}");
    assert!(!shown.contains("secret"), "{shown}");
    assert!(shown.contains("<redacted>"), "{shown}");
}

#[test]
fn validation_reports_required_members_bounds_and_enumerations() {
    let request = RunInstancesRequest {
        instance_type: Some("x9.huge".into()),
        network_interfaces: vec![Default::default()],
        ..Default::default()
    };
    let found: Vec<(String, Constraint)> = validate(&request)
        .into_iter()
        .map(|violation| (violation.path, violation.constraint))
        .collect();
    assert!(
        found.contains(&("MinCount".into(), Constraint::Required)),
        "{found:?}"
    );
    assert!(
        found.contains(&("MaxCount".into(), Constraint::Required)),
        "{found:?}"
    );
    assert!(found.contains(&(
        "InstanceType".into(),
        Constraint::Enum(ec2::enums::instance_type::VALUES)
    )));
    assert_eq!(found.len(), 3, "{found:?}");

    let paths =
        |value: &dyn DynShape| -> Vec<String> { validate(value).into_iter().map(|v| v.path).collect() };
    assert_eq!(paths(&ec2::TerminateInstancesRequest::default()), ["InstanceIds"]);
    let page = ec2::DescribeInstanceTypesRequest {
        max_results: Some(2),
        ..Default::default()
    };
    assert_eq!(validate(&page)[0].constraint, Constraint::Min(5.0));
    let tags = ec2::DescribeSecurityGroupsRequest {
        max_results: Some(2000),
        ..Default::default()
    };
    assert_eq!(validate(&tags)[0].constraint, Constraint::Max(1000.0));
}

/// Patterns that `validate` lets through unchecked; a new one must be looked at and added here.
#[cfg(feature = "protocol-proof")]
#[test]
fn every_pattern_compiles_but_the_known_ones() {
    use crate::schema::ShapeSchema;
    use std::collections::BTreeSet;

    fn walk(
        shape: &'static ShapeSchema,
        seen: &mut BTreeSet<*const ShapeSchema>,
        failed: &mut BTreeSet<&'static str>,
    ) {
        if !seen.insert(shape) {
            return;
        }
        if let Some(pattern) = shape.pattern
            && regex::Regex::new(&format!("^(?:{pattern})$")).is_err()
        {
            failed.insert(pattern);
        }
        match &shape.kind {
            ShapeKind::List(element) => walk(element.shape, seen, failed),
            ShapeKind::Map(key, value) => {
                walk(key.shape, seen, failed);
                walk(value.shape, seen, failed);
            }
            ShapeKind::Structure(schema) => schema.members.iter().for_each(|m| walk(m.shape, seen, failed)),
            _ => {}
        }
    }
    let (mut seen, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for service in crate::SERVICES.iter().chain(crate::proof::SERVICES) {
        for operation in service.operations {
            for schema in [operation.input, operation.output] {
                schema
                    .members
                    .iter()
                    .for_each(|m| walk(m.shape, &mut seen, &mut failed));
            }
        }
    }
    assert_eq!(
        failed.into_iter().collect::<Vec<_>>(),
        [r"[0-9A-Za-z\.\-_]*(?<!\.)"]
    );
}

//! Every operation of the whole models, built or not, is found in the request that botocore makes for it.

use aws_wire::detect_operation;
use serde_json::json;

use crate::botocore::{Peer, request_of, services};

/// Operations at the same place as another one, which is the one that is found: deprecated forms, and one that AWS
/// serves on another host only.
const SHADOWED: &[&str] = &[
    "GetBucketLifecycle",
    "GetBucketNotification",
    "ListDirectoryBuckets",
    "PutBucketLifecycle",
    "PutBucketNotification",
];

#[test]
fn every_operation_of_every_service_is_told_apart() {
    let mut peer = Peer::start();
    let mut faults = Vec::new();
    let mut seen = 0;
    for service in services() {
        let answer = peer.ask(&json!({"do": "requests", "service": service.name}));
        assert!(answer.get("failure").is_none(), "{}: {answer}", service.name);
        for (operation, sample) in answer["requests"].as_object().expect("requests") {
            let (parts, body) = request_of(sample);
            if SHADOWED.contains(&operation.as_str()) {
                continue;
            }
            seen += 1;
            match detect_operation(service, &parts, &body) {
                Ok(found) if found.name() == operation => {}
                other => {
                    let found = other.map(|found| found.name()).map_err(|error| error.to_string());
                    faults.push(format!(
                        "{}:{operation} is taken for {found:?}: {}",
                        service.name, parts.uri
                    ));
                }
            }
        }
    }
    println!("{seen} operations told apart");
    assert!(
        faults.is_empty(),
        "{} operations are not found:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

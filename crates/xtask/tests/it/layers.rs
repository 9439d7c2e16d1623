//! The layering of DESIGN §2, checked over `cargo metadata`: which room may know which.
//!
//! Cargo refuses cycles; this test refuses edges that are no cycle but still wrong, such as an engine that learns an
//! AWS word or a service that reaches into its sibling. A new room must be listed here before it compiles into the
//! house. Dev-dependencies are free, except that nobody's product code may depend on `lab`.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

/// Each room with the rooms of ours that its product code may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("aws-types", &[]),
    ("aws-shapes", &["aws-types"]),
    ("policy", &["aws-types"]),
    ("aws-wire", &["aws-types", "aws-shapes", "policy"]),
    ("state", &["aws-types"]),
    ("node-spec", &["aws-types", "state"]),
    ("block", &[]),
    ("vnet", &[]),
    ("vmm", &[]),
    ("machine-image", &[]),
    ("iam", &["aws-types", "aws-shapes", "aws-wire", "policy", "state"]),
    (
        "network",
        &[
            "aws-types",
            "aws-shapes",
            "aws-wire",
            "policy",
            "state",
            "iam",
            "node-spec",
        ],
    ),
    (
        "compute",
        &[
            "aws-types",
            "aws-shapes",
            "aws-wire",
            "policy",
            "state",
            "iam",
            "network",
            "node-spec",
        ],
    ),
    (
        "gateway",
        &["aws-types", "aws-shapes", "aws-wire", "policy", "state", "iam"],
    ),
    (
        "node",
        &["aws-types", "state", "node-spec", "block", "vnet", "vmm"],
    ),
    ("guest", &["aws-types"]),
    ("lab", &["aws-types", "state"]),
    ("xtask", &[]),
    // The binary wires everything together.
    (
        "spx",
        &[
            "aws-types",
            "aws-shapes",
            "aws-wire",
            "policy",
            "state",
            "node-spec",
            "block",
            "vnet",
            "vmm",
            "machine-image",
            "iam",
            "network",
            "compute",
            "gateway",
            "node",
        ],
    ),
];

#[test]
fn every_room_knows_only_what_it_may() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo metadata runs");
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ALLOWED
        .iter()
        .map(|(room, may)| (*room, may.iter().copied().collect()))
        .collect();
    let rooms: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        rooms,
        allowed.keys().copied().collect(),
        "the list of rooms here is not the list of crates"
    );

    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let may = &allowed[package.name.as_str()];
        for dependency in &package.dependencies {
            let ours = rooms.contains(dependency.name.as_str());
            let product = dependency.kind != DependencyKind::Development;
            if ours && product && !may.contains(dependency.name.as_str()) {
                wrong.push(format!("{} -> {}", package.name, dependency.name));
            }
        }
    }
    assert!(wrong.is_empty(), "edges that DESIGN §2 does not allow: {wrong:?}");
}

//! Every third-party crate of the workspace has its row and its reason in docs/dependencies.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_dependency_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))
        .expect("the manifest")
        .parse()
        .expect("TOML");
    let declared = manifest["workspace"]["dependencies"]
        .as_table()
        .expect("workspace dependencies");
    let third_party: BTreeSet<&str> = declared
        .iter()
        .filter(|(_, spec)| spec.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let page = fs::read_to_string(root.join("docs/dependencies.md")).expect("the page");
    let missing: Vec<&str> = third_party
        .into_iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "no row in docs/dependencies.md for {missing:?}"
    );
}

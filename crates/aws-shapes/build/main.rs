//! Generates the structs and schemas of aws-shapes from `models/*.json` (and `models/proof/*.json` under the feature
//! `protocol-proof`) into `$OUT_DIR/services.rs`.
//!
//! `model` reads a file and resolves what AWS's models leave implicit, `names` makes Rust names, `types` writes the
//! structs and enums, `schemas` writes the statics. A model that uses something the codecs cannot do (event streams,
//! document types) stops the build with a message that names the shape: it must not be half generated.

mod model;
mod names;
mod schemas;
mod types;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::Model;

/// Names, in the generated code, everything that generated modules use.
const PRELUDE: &str = "
    use std::collections::BTreeMap;
    use bytes::Bytes;
    use time::OffsetDateTime;
    use crate::schema::{OperationShape, ServiceSchema, StructSchema};
    use crate::value::{DynShape, Shape, Value, debug_redacted, no_such_field, structure_item};
";

fn main() {
    println!("cargo::rerun-if-changed=models");
    println!("cargo::rerun-if-changed=build");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    emit_folder(&root.join("models"), &mut code);
    if std::env::var_os("CARGO_FEATURE_PROTOCOL_PROOF").is_some() {
        code.push_str("/// Shapes that only tests use: they prove the codecs of protocols without a service yet.\npub mod proof {\n");
        emit_folder(&root.join("models/proof"), &mut code);
        code.push_str("}\n");
    }
    let path = PathBuf::from(variable("OUT_DIR")).join("services.rs");
    // An unchanged file keeps its time, so that nothing that uses it is built again.
    if std::fs::read_to_string(&path).is_ok_and(|old| old == code) {
        return;
    }
    std::fs::write(&path, code).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}

/// Writes one module per model in the folder, and the list `SERVICES`.
fn emit_folder(folder: &Path, code: &mut String) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("listing {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| {
            entry
                .unwrap_or_else(|error| panic!("listing {}: {error}", folder.display()))
                .path()
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut services = Vec::new();
    for path in paths {
        let model = Model::read(&path);
        let module = names::snake(&model.name);
        let _ = writeln!(
            code,
            "/// Shapes of {}, API version {}.\n#[allow(missing_docs, unused_imports, clippy::all)]\npub mod {module} {{{PRELUDE}",
            model.metadata("serviceId"),
            model.metadata("apiVersion")
        );
        types::emit(&model, code);
        schemas::emit(&model, code);
        code.push_str("}\n");
        services.push(format!("&{module}::SERVICE"));
    }
    let _ = writeln!(
        code,
        "/// Every service of this module.\npub static SERVICES: &[&crate::schema::ServiceSchema] = &[{}];",
        services.join(", ")
    );
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}

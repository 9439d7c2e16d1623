//! `cargo xtask models`: cuts the service models down to what we implement.
//!
//! Reads `operations.toml` of aws-shapes and the models inside the Python package `botocore` (Apache-2.0, pinned
//! version), and writes one JSON file per service: the named operations, the shapes they reach, their paginators, and
//! the bare names (for REST protocols also the routes) of all other operations. No documentation text is taken over;
//! every attribute is copied by an allow list, so a new kind of prose cannot slip in. Product models go to `models/`,
//! those for the codec proofs to `models/proof/`. `build/` of aws-shapes turns these files into Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const METADATA_KEYS: &[&str] = &[
    "apiVersion",
    "endpointPrefix",
    "globalEndpoint",
    "jsonVersion",
    "protocol",
    "protocols",
    "serviceId",
    "signingName",
    "targetPrefix",
    "xmlNamespace",
];
const OPERATION_KEYS: &[&str] = &["name", "http", "input", "output"];
const SHAPE_KEYS: &[&str] = &[
    "type",
    "required",
    "enum",
    "min",
    "max",
    "pattern",
    "sensitive",
    "flattened",
    "locationName",
    "payload",
    "xmlNamespace",
    "timestampFormat",
    "document",
    "eventstream",
    "union",
];
const REFERENCE_KEYS: &[&str] = &[
    "shape",
    "location",
    "locationName",
    "queryName",
    "flattened",
    "idempotencyToken",
    "streaming",
    "xmlAttribute",
    "xmlNamespace",
    "timestampFormat",
    "resultWrapper",
    "jsonvalue",
    "eventpayload",
    "hostLabel",
];
const ERROR_KEYS: &[&str] = &["error", "fault"];
const PAGINATOR_KEYS: &[&str] = &[
    "input_token",
    "output_token",
    "limit_key",
    "more_results",
    "result_key",
];

/// `operations.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    botocore: String,
    services: BTreeMap<String, WantedService>,
}

/// One `[services.<name>]`. Without `operations` the service is not part of the product at all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedService {
    operations: Option<Vec<String>>,
    #[serde(default)]
    proof: Vec<String>,
}

/// Writes (or, with `check`, compares) all model files.
pub fn run(check: bool) -> Result<()> {
    let shapes_crate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../aws-shapes");
    let toml_path = shapes_crate.join("operations.toml");
    let text =
        std::fs::read_to_string(&toml_path).with_context(|| format!("reading {}", toml_path.display()))?;
    let wanted: Wanted = toml::from_str(&text).with_context(|| format!("parsing {}", toml_path.display()))?;
    let botocore = locate_botocore(&wanted.botocore)?;

    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (service, want) in &wanted.services {
        let source = read_service(&botocore, service)?;
        let mut emit = |folder: &str, names: &[String]| -> Result<()> {
            let model = reduce(&source, names).with_context(|| format!("reducing the model of {service}"))?;
            let mut text = serde_json::to_string_pretty(&model)?;
            text.push('\n');
            files.insert(shapes_crate.join(folder).join(format!("{service}.json")), text);
            Ok(())
        };
        if let Some(operations) = &want.operations {
            emit("models", operations)?;
        }
        if !want.proof.is_empty() {
            emit("models/proof", &want.proof)?;
        }
    }
    settle(&shapes_crate, &files, check)
}

/// Brings the folders to exactly `files`, or says what differs.
fn settle(shapes_crate: &Path, files: &BTreeMap<PathBuf, String>, check: bool) -> Result<()> {
    let mut differing = Vec::new();
    for folder in ["models", "models/proof"] {
        let folder = shapes_crate.join(folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        for entry in std::fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json") && !files.contains_key(&path) {
                if !check {
                    std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
                }
                differing.push(path);
            }
        }
    }
    for (path, text) in files {
        if std::fs::read_to_string(path).is_ok_and(|old| old == *text) {
            continue;
        }
        if !check {
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        differing.push(path.clone());
    }
    for path in &differing {
        println!("{} {}", if check { "differs:" } else { "wrote" }, path.display());
    }
    ensure!(
        !check || differing.is_empty(),
        "run `cargo xtask models` and commit what it writes"
    );
    Ok(())
}

/// The data folder of the installed botocore, if it has exactly the pinned version.
fn locate_botocore(pinned: &str) -> Result<PathBuf> {
    let output = Command::new("python3")
        .args([
            "-c",
            "import botocore, os; print(botocore.__version__); print(os.path.dirname(botocore.__file__))",
        ])
        .output()
        .context("running python3 to find botocore")?;
    ensure!(
        output.status.success(),
        "python3 cannot import botocore; run `pip install botocore=={pinned}`: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8(output.stdout).context("reading where botocore is")?;
    let (version, folder) = text
        .trim_end()
        .split_once('\n')
        .context("python3 did not say where botocore is")?;
    ensure!(
        version == pinned,
        "operations.toml pins botocore {pinned}, but {version} is installed"
    );
    Ok(Path::new(folder).join("data"))
}

/// The newest model and paginators of one service.
struct Source {
    model: Value,
    paginators: Value,
}

fn read_service(data: &Path, service: &str) -> Result<Source> {
    let folder = data.join(service);
    let version = std::fs::read_dir(&folder)
        .with_context(|| format!("listing {}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.is_dir())
        .max()
        .with_context(|| format!("no API version in {}", folder.display()))?;
    let model = read_json(&version.join("service-2.json"))?
        .with_context(|| format!("no service model in {}", version.display()))?;
    let paginators =
        read_json(&version.join("paginators-1.json"))?.unwrap_or_else(|| json!({"pagination": {}}));
    Ok(Source { model, paginators })
}

/// Reads a JSON file that botocore ships plain or gzipped. Python unpacks it: it is needed to find botocore anyway.
fn read_json(path: &Path) -> Result<Option<Value>> {
    let zipped = PathBuf::from(format!("{}.gz", path.display()));
    let bytes = if path.exists() {
        std::fs::read(path).with_context(|| format!("reading {}", path.display()))?
    } else if zipped.exists() {
        let output = Command::new("python3")
            .args([
                "-c",
                "import gzip, sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())",
            ])
            .arg(&zipped)
            .output()
            .with_context(|| format!("unpacking {}", zipped.display()))?;
        ensure!(
            output.status.success(),
            "python3 could not unpack {}",
            zipped.display()
        );
        output.stdout
    } else {
        return Ok(None);
    };
    Ok(Some(
        serde_json::from_slice(&bytes).with_context(|| format!("parsing {}", path.display()))?,
    ))
}

/// Cuts a model down to `names` and what they reach.
fn reduce(source: &Source, names: &[String]) -> Result<Value> {
    let all = source.model["operations"]
        .as_object()
        .context("the model has no operations")?;
    let metadata = &source.model["metadata"];
    let rest = metadata["protocol"]
        .as_str()
        .is_some_and(|p| p.starts_with("rest-"));
    let mut operations = Map::new();
    let mut reached = BTreeSet::new();
    let mut known_errors = Map::new();
    let mut paginators = Map::new();
    for name in names.iter().collect::<BTreeSet<_>>() {
        let Some(source_operation) = all.get(name) else {
            bail!("the model has no operation {name}")
        };
        let mut operation = pick(source_operation, OPERATION_KEYS);
        for side in ["input", "output"] {
            if let Some(reference) = operation.get(side).cloned() {
                reach(&source.model["shapes"], &reference, &mut reached)?;
                operation.insert(side.into(), pick(&reference, REFERENCE_KEYS).into());
            }
        }
        let mut errors = Vec::new();
        for error in source_operation["errors"].as_array().into_iter().flatten() {
            let name = error["shape"].as_str().context("an error names no shape")?;
            errors.push(name);
            known_errors.insert(name.to_owned(), reduce_error(&source.model["shapes"][name]));
        }
        operation.insert("errors".into(), errors.into());
        if rest {
            operation.insert(
                "needs".into(),
                needs(&source.model["shapes"], source_operation).into(),
            );
        }
        operations.insert(name.clone(), operation.into());
        if let Some(paginator) = source.paginators["pagination"].get(name) {
            paginators.insert(name.clone(), pick(paginator, PAGINATOR_KEYS).into());
        }
    }
    let mut shapes = Map::new();
    for name in &reached {
        shapes.insert(name.clone(), reduce_shape(&source.model["shapes"][name]));
    }
    let mut unbuilt = Map::new();
    for (name, operation) in all.iter().filter(|(name, _)| !operations.contains_key(*name)) {
        let mut words = Vec::new();
        if rest {
            // A deprecated operation whose place another one has taken cannot be told from it.
            let same_place =
                |other: &&Value| other["http"] == operation["http"] && other["deprecated"] != true;
            if operation["deprecated"] == true && all.values().any(|other| same_place(&other)) {
                continue;
            }
            words.push(text(&operation["http"]["method"])?.to_owned());
            words.push(text(&operation["http"]["requestUri"])?.to_owned());
            words.extend(needs(&source.model["shapes"], operation));
        }
        unbuilt.insert(name.clone(), words.join(" ").into());
    }
    unbuilt.sort_keys();
    known_errors.sort_keys();
    Ok(json!({
        "metadata": pick(metadata, METADATA_KEYS),
        "operations": operations,
        "shapes": shapes,
        "errors": known_errors,
        "paginators": paginators,
        "unbuilt": unbuilt,
    }))
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("the model lacks a route")
}

/// Adds the shape that `reference` names, and everything below it, to `reached`.
fn reach(shapes: &Value, reference: &Value, reached: &mut BTreeSet<String>) -> Result<()> {
    let name = reference["shape"]
        .as_str()
        .context("a reference names no shape")?;
    if !reached.insert(name.to_owned()) {
        return Ok(());
    }
    let shape = shapes
        .get(name)
        .with_context(|| format!("the model has no shape {name}"))?;
    let members = shape["members"]
        .as_object()
        .into_iter()
        .flat_map(|members| members.values());
    let inner = ["member", "key", "value"]
        .iter()
        .filter_map(|part| shape.get(*part));
    for reference in members.chain(inner) {
        reach(shapes, reference, reached)?;
    }
    Ok(())
}

/// The required members of a REST operation that are neither in the path nor in the body: `?name` for the query
/// string, `name` for a header. Some operations share a path and differ only in these.
fn needs(shapes: &Value, operation: &Value) -> Vec<String> {
    let input = operation["input"]["shape"]
        .as_str()
        .map(|name| &shapes[name])
        .unwrap_or(&Value::Null);
    let required = input["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    required
        .filter_map(|name| {
            let member = &input["members"][name];
            let wire = member["locationName"].as_str().unwrap_or(name);
            match member["location"].as_str() {
                Some("querystring") => Some(format!("?{wire}")),
                Some("header") => Some(wire.to_owned()),
                _ => None,
            }
        })
        .collect()
}

/// An error's code, status and blame, and how its message member is spelled.
fn reduce_error(shape: &Value) -> Value {
    let mut reduced = pick(shape, ERROR_KEYS);
    let members = shape["members"].as_object();
    let message =
        members.and_then(|members| members.keys().find(|name| name.eq_ignore_ascii_case("message")));
    if let Some(message) = message {
        reduced.insert("message".into(), message.clone().into());
    }
    reduced.into()
}

fn reduce_shape(shape: &Value) -> Value {
    let mut reduced = pick(shape, SHAPE_KEYS);
    if let Some(members) = shape["members"].as_object() {
        let members: Map<String, Value> = members
            .iter()
            .map(|(name, member)| (name.clone(), pick(member, REFERENCE_KEYS).into()))
            .collect();
        reduced.insert("members".into(), members.into());
    }
    for part in ["member", "key", "value"] {
        if let Some(reference) = shape.get(part) {
            reduced.insert(part.into(), pick(reference, REFERENCE_KEYS).into());
        }
    }
    reduced.into()
}

/// The entries of `value` whose keys are allowed, in the order of `value`.
fn pick(value: &Value, keys: &[&str]) -> Map<String, Value> {
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter(|(key, _)| keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

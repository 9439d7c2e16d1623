//! One model file, with the lookups that the emitters need.
//!
//! AWS's own clients merge a shape's traits with those of the reference to it, the reference's winning; `traits` does
//! the same, so that names and formats come out as those clients expect them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

/// A parsed model.
pub struct Model {
    /// The file's stem: `ec2`.
    pub name: String,
    root: Value,
    /// Structures that are reached, in name order.
    pub structures: Vec<String>,
    /// Shapes that another shape refers to.
    pub referenced: BTreeSet<String>,
}

impl Model {
    /// Reads a file that `cargo xtask models` wrote.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
        let root: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("parsing {}: {error}", path.display()));
        let name = path
            .file_stem()
            .expect("a model file has a name")
            .to_string_lossy()
            .into_owned();
        let mut model = Self {
            name,
            root,
            structures: Vec::new(),
            referenced: BTreeSet::new(),
        };
        model.structures = model
            .shapes()
            .filter(|(_, shape)| shape["type"] == "structure")
            .map(|(name, shape)| {
                for refused in ["document", "eventstream"] {
                    assert!(
                        shape.get(refused).is_none(),
                        "{}: {name} is of kind {refused}",
                        model.name
                    );
                }
                name.clone()
            })
            .collect();
        model.referenced = model
            .shapes()
            .flat_map(|(_, shape)| {
                let inner = ["member", "key", "value"]
                    .into_iter()
                    .filter_map(|part| shape.get(part));
                object(&shape["members"]).values().chain(inner)
            })
            .map(|reference| model.target(reference).to_owned())
            .collect();
        model
    }

    /// A text of the metadata; empty if it is not there.
    pub fn metadata(&self, key: &str) -> &str {
        self.root["metadata"][key].as_str().unwrap_or_default()
    }

    /// True for the protocols in which an empty list cannot be told from an absent one.
    pub fn empty_is_absent(&self) -> bool {
        matches!(self.metadata("protocol"), "ec2" | "query")
    }

    /// All shapes, in name order.
    pub fn shapes(&self) -> impl Iterator<Item = (&String, &Value)> {
        object(&self.root["shapes"]).iter()
    }

    /// All operations, in name order.
    pub fn operations(&self) -> impl Iterator<Item = (&String, &Value)> {
        object(&self.root["operations"]).iter()
    }

    /// All errors, in name order.
    pub fn errors(&self) -> impl Iterator<Item = (&String, &Value)> {
        object(&self.root["errors"]).iter()
    }

    /// Names and routes of the operations without shapes.
    pub fn unbuilt(&self) -> impl Iterator<Item = (&String, &Value)> {
        object(&self.root["unbuilt"]).iter()
    }

    /// How an operation pages, if it does.
    pub fn paginator(&self, operation: &str) -> Option<&Value> {
        self.root["paginators"].get(operation)
    }

    /// A shape that must exist.
    pub fn shape(&self, name: &str) -> &Value {
        self.root["shapes"]
            .get(name)
            .unwrap_or_else(|| panic!("{}: no shape {name}", self.name))
    }

    /// The members of a structure, in the model's order.
    pub fn members(&self, structure: &str) -> Vec<(&String, &Value)> {
        object(&self.shape(structure)["members"]).iter().collect()
    }

    /// The shape that a reference names.
    pub fn target<'a>(&self, reference: &'a Value) -> &'a str {
        reference["shape"]
            .as_str()
            .unwrap_or_else(|| panic!("{}: a reference names no shape", self.name))
    }

    /// A trait of a reference, or else of the shape that it names.
    pub fn traits<'a>(&'a self, reference: &'a Value, name: &str) -> Option<&'a Value> {
        reference
            .get(name)
            .or_else(|| self.shape(self.target(reference)).get(name))
    }

    /// A text trait, as [`Model::traits`].
    pub fn text<'a>(&'a self, reference: &'a Value, name: &str) -> Option<&'a str> {
        self.traits(reference, name).and_then(Value::as_str)
    }

    /// A boolean trait, as [`Model::traits`].
    pub fn flag(&self, reference: &Value, name: &str) -> bool {
        self.traits(reference, name).is_some_and(|value| value == true)
    }

    /// True if a value of this structure can hold another one directly, not inside a list or map.
    pub fn is_recursive(&self, structure: &str, member_target: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![member_target];
        while let Some(name) = open.pop() {
            if name == structure {
                return true;
            }
            if self.shape(name)["type"] == "structure" && seen.insert(name) {
                open.extend(
                    self.members(name)
                        .into_iter()
                        .map(|(_, reference)| self.target(reference)),
                );
            }
        }
        false
    }
}

/// The entries of an object; none if there is no object.
fn object(value: &Value) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&NONE)
}

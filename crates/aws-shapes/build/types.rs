//! Writes the structs of a service and the known values of its enumerations.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::Model;
use crate::names;

/// Appends all types of the model.
pub fn emit(model: &Model, code: &mut String) {
    for structure in &model.structures {
        emit_structure(model, structure, code);
    }
    let all: Vec<String> = model
        .structures
        .iter()
        .map(|name| names::structure(name))
        .collect();
    let _ = writeln!(code, "structure_item!({});", all.join(" "));
    emit_enums(model, code);
}

fn emit_structure(model: &Model, structure: &str, code: &mut String) {
    let name = names::structure(structure);
    let members = model.members(structure);
    let fields: Vec<String> = members.iter().map(|(member, _)| names::field(member)).collect();
    let sensitive: Vec<bool> = members
        .iter()
        .map(|(_, reference)| is_sensitive(model, structure, reference))
        .collect();
    let hides = sensitive.contains(&true);

    let derives = if hides {
        "Clone, Default, PartialEq"
    } else {
        "Clone, Debug, Default, PartialEq"
    };
    let _ = writeln!(code, "#[derive({derives})]\npub struct {name} {{");
    for ((_, reference), field) in members.iter().zip(&fields) {
        let _ = writeln!(code, "pub {field}: {},", member_type(model, structure, reference));
    }
    code.push_str("}\n");

    if hides {
        let shown: Vec<String> = fields
            .iter()
            .zip(&sensitive)
            .map(|(field, hide)| match hide {
                true => format!("(\"{field}\", None)"),
                false => format!("(\"{field}\", Some(&self.{field}))"),
            })
            .collect();
        let _ = writeln!(
            code,
            "impl std::fmt::Debug for {name} {{ fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result \
             {{ debug_redacted(\"{name}\", &[{}], f) }} }}",
            shown.join(", ")
        );
    }

    let arms = |borrow: &str| -> String {
        fields
            .iter()
            .enumerate()
            .map(|(index, field)| format!("{index} => {borrow}self.{field}, "))
            .collect()
    };
    let _ = writeln!(
        code,
        "impl DynShape for {name} {{\n\
         fn schema(&self) -> &'static StructSchema {{ &shapes::{structure}_ }}\n\
         fn field(&self, index: usize) -> &dyn Value {{ match index {{ {}_ => no_such_field(\"{name}\", index) }} }}\n\
         fn field_mut(&mut self, index: usize) -> &mut dyn Value {{ match index {{ {}_ => no_such_field(\"{name}\", index) }} }}\n\
         fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {{ self }}\n}}\n\
         impl Shape for {name} {{ const SCHEMA: &'static StructSchema = &shapes::{structure}_; }}",
        arms("&"),
        arms("&mut "),
    );
}

/// True if the member, the shape that it names, or the whole structure is sensitive.
pub fn is_sensitive(model: &Model, structure: &str, reference: &Value) -> bool {
    model.flag(reference, "sensitive") || model.shape(structure)["sensitive"] == true
}

/// The type of a struct's field.
fn member_type(model: &Model, structure: &str, reference: &Value) -> String {
    let target = model.target(reference);
    match model.shape(target)["type"].as_str() {
        Some("list" | "map") if model.empty_is_absent() => item_type(model, target),
        Some("structure") if model.is_recursive(structure, target) => {
            format!("Option<Box<{}>>", item_type(model, target))
        }
        _ => format!("Option<{}>", item_type(model, target)),
    }
}

/// The type of a value that is there.
fn item_type(model: &Model, target: &str) -> String {
    let shape = model.shape(target);
    match shape["type"].as_str() {
        Some("string" | "character") => "String".into(),
        Some("boolean") => "bool".into(),
        Some("integer") => "i32".into(),
        Some("long") => "i64".into(),
        Some("float" | "double") => "f64".into(),
        Some("timestamp") => "OffsetDateTime".into(),
        Some("blob") => "Bytes".into(),
        Some("structure") => names::structure(target),
        Some("list") => format!("Vec<{}>", item_type(model, model.target(&shape["member"]))),
        Some("map") => format!(
            "BTreeMap<String, {}>",
            item_type(model, model.target(&shape["value"]))
        ),
        other => panic!("{}: shape {target} is of the unknown type {other:?}", model.name),
    }
}

/// The values of an enumeration shape.
pub fn enum_values(shape: &Value) -> Option<Vec<&str>> {
    shape["enum"]
        .as_array()
        .map(|values| values.iter().filter_map(Value::as_str).collect())
}

fn emit_enums(model: &Model, code: &mut String) {
    code.push_str("/// The known values of every enumeration.\npub mod enums {\n");
    for (name, shape) in model.shapes() {
        let Some(values) = enum_values(shape) else {
            continue;
        };
        let _ = writeln!(code, "pub mod {} {{", names::field(name));
        let constants = names::constants(&values);
        for (constant, value) in constants.iter().zip(&values) {
            let _ = writeln!(code, "pub const {constant}: &str = {value:?};");
        }
        let _ = writeln!(
            code,
            "pub const VALUES: &[&str] = &[{}];\n}}",
            constants.join(", ")
        );
    }
    code.push_str("}\n");
}

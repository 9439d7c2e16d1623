//! Writes the statics of a service: shapes, operations, errors and the service itself.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::Model;
use crate::{names, types};

/// Appends all statics of the model.
pub fn emit(model: &Model, code: &mut String) {
    code.push_str(
        "#[allow(non_upper_case_globals)]\nmod shapes {\nuse crate::schema::{Location, MemberSchema, ShapeKind, \
         ShapeSchema, StructSchema, TimestampFormat};\n",
    );
    for (name, shape) in model.shapes() {
        if shape["type"] == "structure" {
            emit_struct(model, name, shape, code);
        }
        // The inputs and outputs of operations are mostly named by nothing else.
        if model.referenced.contains(name) {
            emit_shape(model, name, shape, code);
        }
    }
    code.push_str("}\n");
    emit_operations(model, code);
    emit_service(model, code);
}

fn emit_shape(model: &Model, name: &str, shape: &Value, code: &mut String) {
    let kind = match shape["type"].as_str() {
        Some("string" | "character") if shape.get("enum").is_some() => {
            format!("Enum(super::enums::{}::VALUES)", names::field(name))
        }
        Some("string" | "character") => "String".into(),
        Some("boolean") => "Boolean".into(),
        Some("integer") => "Integer".into(),
        Some("long") => "Long".into(),
        Some("float" | "double") => "Double".into(),
        Some("timestamp") => "Timestamp".into(),
        Some("blob") => "Blob".into(),
        Some("list") => format!("List(&{})", item(model, "member", &shape["member"])),
        Some("map") => {
            format!(
                "Map(&{}, &{})",
                item(model, "key", &shape["key"]),
                item(model, "value", &shape["value"])
            )
        }
        Some("structure") => format!("Structure(&{name}_)"),
        other => panic!("{}: shape {name} is of the unknown type {other:?}", model.name),
    };
    let bound = |key: &str| shape[key].as_f64().map(|bound| format!("Some({bound:?})"));
    let pattern = shape["pattern"]
        .as_str()
        .map(|pattern| format!("Some({pattern:?})"));
    let mut constraints = String::new();
    for (field, value) in [("min", bound("min")), ("max", bound("max")), ("pattern", pattern)] {
        if let Some(value) = value {
            let _ = write!(constraints, "{field}: {value}, ");
        }
    }
    let plain = format!("ShapeSchema::new({name:?}, ShapeKind::{kind})");
    let value = match constraints.is_empty() {
        true => plain,
        false => format!("ShapeSchema {{ {constraints}..{plain} }}"),
    };
    let _ = writeln!(code, "pub static {name}: ShapeSchema = {value};");
}

fn emit_struct(model: &Model, name: &str, shape: &Value, code: &mut String) {
    let members = model.members(name);
    let payload = shape["payload"].as_str().map(|payload| {
        members
            .iter()
            .position(|(member, _)| *member == payload)
            .expect("the payload is one of the members")
    });
    let required: Vec<&str> = shape["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let _ = writeln!(
        code,
        "pub static {name}_: StructSchema = StructSchema {{ name: {name:?}, payload: {payload:?}, wire_name: {:?}, \
         union: {}, empty_is_absent: {}, members: &[",
        shape["locationName"].as_str(),
        shape["union"] == true,
        model.empty_is_absent(),
    );
    for (member, reference) in members {
        let mut value = member_value(model, member, member, reference);
        if required.contains(&member.as_str()) {
            value.push_str(".required()");
        }
        if types::is_sensitive(model, name, reference) {
            value.push_str(".sensitive()");
        }
        let _ = writeln!(code, "{value},");
    }
    code.push_str("] };\n");
}

/// The element of a list, or the key or value of a map.
fn item(model: &Model, part: &str, reference: &Value) -> String {
    let mut value = member_value(model, part, part, reference);
    if model.flag(reference, "sensitive") {
        value.push_str(".sensitive()");
    }
    value
}

fn member_value(model: &Model, name: &str, default: &str, reference: &Value) -> String {
    let target = model.target(reference);
    for refused in ["jsonvalue", "eventpayload", "hostLabel"] {
        assert!(
            reference.get(refused).is_none(),
            "{}: member {name} uses {refused}",
            model.name
        );
    }
    let mut value = format!("MemberSchema::new({name:?}, &{target})");
    let location_name = model.text(reference, "locationName");
    let wire = location_name.unwrap_or(default);
    let flattened = model.flag(reference, "flattened");
    // The items of a flattened list take the element's name, if that has one of its own.
    let element = &model.shape(target)["member"];
    let element_name = match flattened && element.is_object() {
        true => model.text(element, "locationName"),
        false => None,
    };
    let query = match (model.metadata("protocol"), location_name) {
        ("ec2", _) if reference.get("queryName").is_some() => {
            model.text(reference, "queryName").unwrap_or(default).to_owned()
        }
        ("ec2", Some(location_name)) => capitalised(location_name),
        ("query", _) => element_name.unwrap_or(wire).to_owned(),
        _ => default.to_owned(),
    };
    let item = element_name.unwrap_or(wire);
    if [wire, &query, item].iter().any(|other| *other != name) {
        let _ = write!(value, ".named({wire:?}, {query:?}, {item:?})");
    }
    if let Some(location) = model.text(reference, "location") {
        let location = match location {
            "header" => "Header",
            "headers" => "HeaderPrefix",
            "querystring" => "QueryString",
            "uri" => "Uri",
            "statusCode" => "StatusCode",
            other => panic!("{}: member {name} is at the unknown location {other}", model.name),
        };
        let _ = write!(value, ".at(Location::{location})");
    }
    if flattened {
        value.push_str(".flattened()");
    }
    if model.flag(reference, "xmlAttribute") {
        value.push_str(".attribute()");
    }
    if let Some(format) = model.text(reference, "timestampFormat") {
        let format = match format {
            "iso8601" => "Iso8601",
            "rfc822" => "Rfc822",
            "unixTimestamp" => "UnixTimestamp",
            other => panic!(
                "{}: member {name} has the unknown time format {other}",
                model.name
            ),
        };
        let _ = write!(value, ".time(TimestampFormat::{format})");
    }
    if let Some((prefix, uri)) = namespace(model.traits(reference, "xmlNamespace")) {
        let _ = write!(value, ".namespace({prefix:?}, {uri:?})");
    }
    value
}

/// A namespace is given as its URI, or as an object that may name a prefix.
fn namespace(value: Option<&Value>) -> Option<(Option<&str>, &str)> {
    let value = value?;
    match value.as_str() {
        Some(uri) => Some((None, uri)),
        None => Some((value["prefix"].as_str(), value["uri"].as_str()?)),
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn emit_operations(model: &Model, code: &mut String) {
    code.push_str(
        "/// The operations: a schema and a marker type each.\npub mod operations {\nuse crate::schema::{ErrorSchema, \
         OperationSchema, OperationShape, PaginatorSchema, Route, XmlRoot};\n",
    );
    for (name, error) in model.errors() {
        let code_on_wire = error["error"]["code"].as_str().unwrap_or(name);
        let status = error["error"]["httpStatusCode"].as_u64();
        let _ = writeln!(
            code,
            "static {}_ERROR: ErrorSchema = ErrorSchema {{ name: {name:?}, code: {code_on_wire:?}, status: \
             {status:?}, fault: {}, message_member: {:?} }};",
            names::upper(name),
            error["fault"] == true,
            error["message"].as_str(),
        );
    }
    for (name, operation) in model.operations() {
        emit_operation(model, name, operation, code);
    }
    code.push_str("}\n");
}

fn emit_operation(model: &Model, name: &str, operation: &Value, code: &mut String) {
    let upper = names::upper(name);
    let type_of = |side: &str| match operation[side]["shape"].as_str() {
        Some(shape) => format!("super::{}", names::structure(shape)),
        None => "crate::value::Unit".into(),
    };
    let (input, output) = (type_of("input"), type_of("output"));
    let token = operation["input"]["shape"].as_str().and_then(|shape| {
        model
            .members(shape)
            .into_iter()
            .find(|(_, member)| model.flag(member, "idempotencyToken"))
    });
    let errors: Vec<String> = operation["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|error| format!("&{}_ERROR", names::upper(error)))
        .collect();
    let paginator = match model.paginator(name) {
        Some(paginator) => format!(
            "Some(&PaginatorSchema {{ input_tokens: &{:?}, output_tokens: &{:?}, limit_key: {:?}, more_results: \
             {:?}, result_keys: &{:?} }})",
            texts(&paginator["input_token"]),
            texts(&paginator["output_token"]),
            paginator["limit_key"].as_str(),
            paginator["more_results"].as_str(),
            texts(&paginator["result_key"]),
        ),
        None => "None".into(),
    };
    let root = match operation["input"]["locationName"].as_str() {
        Some(root) => format!(
            "Some(XmlRoot {{ name: {root:?}, namespace: {:?} }})",
            namespace(operation["input"].get("xmlNamespace")).map(|(_, uri)| uri)
        ),
        None => "None".into(),
    };
    let http = &operation["http"];
    let _ = writeln!(
        code,
        "pub static {upper}: OperationSchema = OperationSchema {{ name: {name:?}, service: &super::SERVICE, \
         input: <{input} as crate::Shape>::SCHEMA, output: <{output} as crate::Shape>::SCHEMA, has_output: {}, \
         route: Route {{ method: {:?}, uri: {:?}, needs: &{:?} }}, response_code: {}, result_wrapper: {:?}, input_root: {root}, \
         idempotency_token: {:?}, paginator: {paginator}, errors: &[{}], \
         new_input: || Box::new(<{input}>::default()), new_output: || Box::new(<{output}>::default()) }};",
        operation.get("output").is_some(),
        http["method"].as_str().unwrap_or("POST"),
        http["requestUri"].as_str().unwrap_or("/"),
        texts(&operation["needs"]),
        http["responseCode"].as_u64().unwrap_or(200),
        operation["output"]["resultWrapper"].as_str(),
        token.map(|(member, _)| member),
        errors.join(", "),
    );
    let marker = names::structure(name);
    let _ = writeln!(
        code,
        "#[derive(Clone, Copy, Debug)]\npub struct {marker};\nimpl OperationShape for {marker} {{ type Input = \
         {input}; type Output = {output}; const SCHEMA: &'static OperationSchema = &{upper}; }}"
    );
}

/// One text or a list of them.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    }
}

fn emit_service(model: &Model, code: &mut String) {
    let protocol = match (model.metadata("protocol"), model.metadata("jsonVersion")) {
        ("ec2", _) => "Ec2Query",
        ("query", _) => "Query",
        ("json", "1.0") => "Json10",
        ("json", _) => "Json11",
        ("rest-json", _) => "RestJson",
        ("rest-xml", _) => "RestXml",
        (other, _) => panic!("{}: unknown protocol {other}", model.name),
    };
    let optional = |key: &str| Some(model.metadata(key)).filter(|text| !text.is_empty());
    let operations: Vec<String> = model
        .operations()
        .map(|(name, _)| format!("&operations::{}", names::upper(name)))
        .collect();
    let unbuilt: Vec<&String> = model.unbuilt().map(|(name, _)| name).collect();
    let routes: Vec<String> = model
        .unbuilt()
        .filter_map(|(_, route)| {
            let mut words = route.as_str()?.split_whitespace();
            let (method, uri) = (words.next()?, words.next()?);
            let needs: Vec<&str> = words.collect();
            Some(format!(
                "crate::schema::Route {{ method: {method:?}, uri: {uri:?}, needs: &{needs:?} }}"
            ))
        })
        .collect();
    let _ = writeln!(
        code,
        "pub static SERVICE: ServiceSchema = ServiceSchema {{ name: {:?}, service_id: {:?}, api_version: {:?}, \
         endpoint_prefix: {:?}, signing_name: {:?}, global: {}, protocol: crate::schema::Protocol::{protocol}, \
         target_prefix: {:?}, xml_namespace: {:?}, operations: &[{}], unbuilt_operations: &{unbuilt:?}, \
         unbuilt_routes: &[{}] }};",
        model.name,
        model.metadata("serviceId"),
        model.metadata("apiVersion"),
        model.metadata("endpointPrefix"),
        optional("signingName").unwrap_or_else(|| model.metadata("endpointPrefix")),
        optional("globalEndpoint").is_some(),
        optional("targetPrefix"),
        optional("xmlNamespace"),
        operations.join(", "),
        routes.join(", "),
    );
}

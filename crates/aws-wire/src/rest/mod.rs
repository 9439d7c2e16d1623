//! The REST protocols: members are spread over path, query string, headers and body.
//!
//! `route` finds an operation by method and path, `read` and `write` take care of members outside of the body; this
//! file puts the parts together. Bodies are JSON or XML, or the bytes of one payload member as they are.

mod read;
mod route;
mod write;

use aws_shapes::schema::{Location, MemberSchema, OperationSchema, Protocol, ServiceSchema, ShapeKind};
use aws_shapes::value::{DecodeError, DynShape, EncodeError};
use aws_types::AwsError;
use bytes::Bytes;
use http::request::Parts;

use crate::json::{self, JsonWriter};
use crate::protocol::{Detected, Message};
use crate::refusal::Refusal;
use crate::xml::{self, XmlWriter};

/// Finds the operation by method, path, query string and headers.
pub(crate) fn detect(service: &'static ServiceSchema, parts: &Parts) -> Result<Detected, AwsError> {
    route::find(service, parts).ok_or_else(|| {
        let message = format!(
            "No operation of this service is at {} {}.",
            parts.method,
            parts.uri.path()
        );
        Refusal::UnknownAction.error_with(service, message)
    })
}

/// Decodes all parts of a request.
pub(crate) fn decode(
    operation: &'static OperationSchema,
    parts: &Parts,
    body: &Bytes,
    target: &mut dyn DynShape,
) -> Result<(), DecodeError> {
    read::members(operation, parts, target)?;
    let xml = Protocol::for_service(operation.service) == Protocol::RestXml;
    match operation.input.payload {
        Some(index) => payload(index, body, xml, target),
        None if !operation.input.members.iter().any(is_in_body) => Ok(()),
        None if !xml => json::decode_where(body, target, &is_in_body),
        None if body.is_empty() => Ok(()),
        None => {
            let root = xml::parse(body)?;
            if let Some(expected) = operation.input_root.filter(|expected| expected.name != root.name) {
                let detail = format!("The root element is {} instead of {}.", root.name, expected.name);
                return Err(DecodeError::Malformed { detail });
            }
            xml::read_members(&root, target, &is_in_body)
        }
    }
}

fn is_in_body(member: &MemberSchema) -> bool {
    member.location == Location::Body
}

/// Reads the member that is the whole body. An empty body leaves it absent.
fn payload(index: usize, body: &Bytes, xml: bool, target: &mut dyn DynShape) -> Result<(), DecodeError> {
    if body.is_empty() {
        return Ok(());
    }
    let member = &target.schema().members[index];
    match &member.shape.kind {
        ShapeKind::Structure(_) if xml => {
            target.deserialize_member(index, &mut xml::reader_of_root(&xml::parse(body)?, member))
        }
        ShapeKind::Structure(_) => {
            target.deserialize_member(index, &mut json::reader_of_root(&json::parse(body)?))
        }
        _ => target.deserialize_member(index, &mut read::RawBody(body)),
    }
}

/// An answer with its members where the schema wants them.
pub(crate) fn encode(
    operation: &'static OperationSchema,
    output: &dyn DynShape,
) -> Result<Message, EncodeError> {
    let xml = Protocol::for_service(operation.service) == Protocol::RestXml;
    let body = match operation.output.payload {
        Some(index) => encode_payload(index, xml, output)?,
        None => encode_body(operation, xml, output)?,
    };
    let content_type = match operation
        .output
        .payload
        .map(|index| &operation.output.members[index].shape.kind)
    {
        Some(ShapeKind::Structure(_)) | None if xml => xml::REST_CONTENT_TYPE,
        Some(ShapeKind::Structure(_)) | None => json::content_type(operation.service),
        Some(_) => "application/octet-stream",
    };
    let mut message = Message::new(operation.response_code, content_type, body);
    // Where the operation says itself what its body is, nothing is said in its place.
    let says_type = |member: &MemberSchema| member.wire_name.eq_ignore_ascii_case("content-type");
    if message.body.is_empty() || operation.output.members.iter().any(says_type) {
        message.headers.clear();
    }
    write::members(output, &mut message)?;
    Ok(message)
}

/// The members that are in no other part, as a document; nothing if there are none.
fn encode_body(
    operation: &'static OperationSchema,
    xml: bool,
    output: &dyn DynShape,
) -> Result<Vec<u8>, EncodeError> {
    let schema = operation.output;
    let in_body = || {
        schema
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| is_in_body(member))
    };
    if in_body().next().is_none() {
        return Ok(Vec::new());
    }
    if xml {
        let root = schema
            .wire_name
            .map_or_else(|| format!("{}Result", operation.name), str::to_owned);
        let mut out = XmlWriter::document();
        out.root(&root, operation.service.xml_namespace, &mut |out| {
            in_body().try_for_each(|(index, member)| output.field(index).write(member, out))
        })?;
        return Ok(out.into_bytes());
    }
    let mut out = JsonWriter::default();
    out.object(&mut |out| in_body().try_for_each(|(index, member)| output.field(index).write(member, out)))?;
    Ok(out.into_bytes())
}

/// The member that is the whole body.
fn encode_payload(index: usize, xml: bool, output: &dyn DynShape) -> Result<Vec<u8>, EncodeError> {
    let member = &output.schema().members[index];
    match &member.shape.kind {
        ShapeKind::Structure(_) if xml => {
            let mut out = XmlWriter::document();
            output.field(index).write(member, &mut out)?;
            Ok(out.into_bytes())
        }
        ShapeKind::Structure(_) => {
            let mut out = JsonWriter::nameless();
            output.field(index).write(member, &mut out)?;
            Ok(out.into_bytes())
        }
        _ => {
            let mut out = write::RawBody::default();
            output.field(index).write(member, &mut out)?;
            Ok(out.0)
        }
    }
}

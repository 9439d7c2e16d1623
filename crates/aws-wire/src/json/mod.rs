//! JSON in both directions, and the JSON protocols (1.0 and 1.1) that have nothing else.
//!
//! `read` walks a parsed body, `write` writes straight to bytes. The REST flavour is in `rest`; it uses both.

mod read;
mod write;

pub(crate) use read::{decode_where, parse, reader_of_root};
pub(crate) use write::JsonWriter;

use aws_shapes::schema::{OperationSchema, Protocol, ServiceSchema};
use aws_shapes::value::{DecodeError, DynShape, EncodeError};
use aws_types::AwsError;
use http::request::Parts;

use crate::protocol::{Detected, Message, lookup};
use crate::refusal::Refusal;

/// The content type of a JSON protocol's messages.
pub(crate) fn content_type(service: &ServiceSchema) -> &'static str {
    match Protocol::for_service(service) {
        Protocol::Json10 => "application/x-amz-json-1.0",
        Protocol::Json11 => "application/x-amz-json-1.1",
        _ => "application/json",
    }
}

/// Finds the operation by the header `X-Amz-Target`.
pub(crate) fn detect(service: &'static ServiceSchema, parts: &Parts) -> Result<Detected, AwsError> {
    let Some(target) = parts.headers.get("x-amz-target") else {
        return Err(Refusal::NoAction.error_with(service, "The request must contain the header X-Amz-Target"));
    };
    let name = target
        .to_str()
        .ok()
        .and_then(|target| match target.rsplit_once('.') {
            Some((prefix, name)) if service.target_prefix == Some(prefix) => Some(name),
            _ => None,
        });
    name.and_then(|name| lookup(service, name)).ok_or_else(|| {
        Refusal::UnknownAction.error_with(service, "The operation of X-Amz-Target is not known")
    })
}

/// Decodes a body.
pub(crate) fn decode(body: &[u8], target: &mut dyn DynShape) -> Result<(), DecodeError> {
    decode_where(body, target, &|_| true)
}

/// An answer.
pub(crate) fn encode(
    operation: &'static OperationSchema,
    output: &dyn DynShape,
) -> Result<Message, EncodeError> {
    let mut out = JsonWriter::default();
    if operation.has_output {
        out.object(&mut |out| output.serialize(out))?;
    }
    Ok(Message::new(
        operation.response_code,
        content_type(operation.service),
        out.into_bytes(),
    ))
}

/// The body of an error. `with_type` where the code is not in a header.
pub(crate) fn error_body(service: &ServiceSchema, error: &AwsError, with_type: bool) -> Vec<u8> {
    let known = service.operations.iter().flat_map(|operation| operation.errors);
    let message_member = known
        .filter(|known| known.code == error.code || known.name == error.code)
        .find_map(|known| known.message_member);
    let mut out = JsonWriter::default();
    out.raw_object(&mut |out| {
        if with_type {
            out.text_member("__type", &error.code);
        }
        out.text_member(message_member.unwrap_or("message"), &error.message);
        for (name, value) in &error.fields {
            out.text_member(name, value);
        }
    });
    out.into_bytes()
}

#[cfg(test)]
mod tests;

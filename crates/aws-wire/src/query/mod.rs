//! The query protocol and its EC2 dialect: forms in, XML out.
//!
//! A parameter's name is a path (`Filter.1.Value.1`); `form` parses a body or query string into a tree of those names
//! within bounds, `decode` reads a shape out of the tree. The dialects differ in lists (`Filter.1` against
//! `Names.member.1`), in parameters that nobody asked for (EC2 refuses them, query services ignore them), and in the
//! envelope of answers.

mod decode;
mod form;

use aws_shapes::schema::{OperationSchema, Protocol, ServiceSchema};
use aws_shapes::value::{DecodeError, DynShape, EncodeError};
use aws_types::AwsError;
use http::request::Parts;

use crate::error_envelope;
use crate::limits::ECHOED_VALUE_MAX;
use crate::protocol::{Detected, Message, lookup};
use crate::refusal::Refusal;
use crate::xml::{self, XmlWriter};

/// Parameters of every request: the operation, the API version, and the signature when it is in the query string.
fn is_common(name: &str) -> bool {
    const COMMON: &[&str] = &[
        "AWSAccessKeyId",
        "Action",
        "Expires",
        "SecurityToken",
        "Signature",
        "SignatureMethod",
        "SignatureVersion",
        "Timestamp",
        "Version",
    ];
    COMMON.contains(&name)
        || name
            .get(..6)
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case("X-Amz-"))
}

/// Finds the operation by the parameter `Action`, without decoding the others, and checks the API version.
pub(crate) fn detect(
    service: &'static ServiceSchema,
    parts: &Parts,
    body: &[u8],
) -> Result<Detected, AwsError> {
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let value_of = |name: &str| {
        let found = match form::find_value(query, name) {
            Ok(None) => form::find_value(body, name),
            found => found,
        };
        found.map_err(|error| error_envelope::decode_error(service, error))
    };
    let Some(action) = value_of("Action")? else {
        return Err(Refusal::NoAction.error_with(service, "The request must contain the parameter Action"));
    };
    // A request without a version is taken to be of the current one: only people at a keyboard leave it out.
    if let Some(version) = value_of("Version")?
        && !has_version(service, &version)
    {
        let message = format!(
            "The requested version ({}) of the service does not exist",
            echoed(&version)
        );
        return Err(Refusal::UnknownVersion.error_with(service, message));
    }
    lookup(service, &action).ok_or_else(|| {
        let message = format!(
            "The action {} is not valid for this web service.",
            echoed(&action)
        );
        Refusal::UnknownAction.error_with(service, message)
    })
}

/// EC2 still serves every version since its first; the other services have one.
fn has_version(service: &ServiceSchema, version: &str) -> bool {
    let is_date = version.len() == 10
        && version.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    match Protocol::for_service(service) {
        Protocol::Ec2Query => is_date && ("2006-06-26"..=service.api_version).contains(&version),
        _ => version == service.api_version,
    }
}

/// As much of a caller's text as an error message repeats.
fn echoed(text: &str) -> &str {
    &text[..text.floor_char_boundary(ECHOED_VALUE_MAX)]
}

/// Decodes a form, and the parameters in the query string as if they were part of it.
pub(crate) fn decode(
    operation: &'static OperationSchema,
    parts: &Parts,
    body: &[u8],
    target: &mut dyn DynShape,
) -> Result<(), DecodeError> {
    let mut root = form::Node::default();
    root.add_all(parts.uri.query().unwrap_or_default().as_bytes())?;
    root.add_all(body)?;
    let ec2 = Protocol::for_service(operation.service) == Protocol::Ec2Query;
    decode::read(&root, ec2, target)?;
    match root.first_unread() {
        Some(path) if ec2 => Err(DecodeError::UnknownParameter { path }),
        _ => Ok(()),
    }
}

/// An answer of EC2: the members beside the request id; a mere `return` where the model has no output.
pub(crate) fn encode_ec2(
    operation: &'static OperationSchema,
    output: &dyn DynShape,
    request_id: &str,
) -> Result<Message, EncodeError> {
    // The namespace ends in a slash on the wire but not in the model.
    let namespace = operation.service.xml_namespace.map(|uri| format!("{uri}/"));
    let root = format!("{}Response", operation.name);
    let mut out = XmlWriter::document();
    out.open(&root, namespace.as_deref());
    out.text_element("requestId", request_id);
    if operation.has_output {
        output.serialize(&mut out)?;
    } else {
        out.text_element("return", "true");
    }
    out.close(&root);
    Ok(Message::new(
        operation.response_code,
        xml::EC2_CONTENT_TYPE,
        out.into_bytes(),
    ))
}

/// An answer of the query protocol: the members in the result's wrapper, then the metadata.
pub(crate) fn encode(
    operation: &'static OperationSchema,
    output: &dyn DynShape,
    request_id: &str,
) -> Result<Message, EncodeError> {
    let root = format!("{}Response", operation.name);
    let mut out = XmlWriter::document();
    out.open(&root, operation.service.xml_namespace);
    if let Some(wrapper) = operation.result_wrapper {
        out.open(wrapper, None);
        output.serialize(&mut out)?;
        out.close(wrapper);
    }
    out.open("ResponseMetadata", None);
    out.text_element("RequestId", request_id);
    out.close("ResponseMetadata");
    out.close(&root);
    Ok(Message::new(
        operation.response_code,
        xml::QUERY_CONTENT_TYPE,
        out.into_bytes(),
    ))
}

//! The door to the codecs: one function per step of a request, the same for all protocols.
//!
//! A request passes `detect_operation` (cheap: nothing is decoded, so it can come before authentication), then
//! `decode_input`; the answer goes out through `encode_output` or `encode_error`. The protocol is always the
//! service's, so that a client gets an error it can parse even when its request was not understood at all. Model
//! constraints are not checked here but by [`aws_shapes::validate`], after the policy decision.
//!
//! Generic callers (the registry) use [`decode_into`] and trait objects; the functions for known types wrap them.

use aws_shapes::Shape;
use aws_shapes::schema::{OperationSchema, Protocol, ServiceSchema};
use aws_shapes::value::{DecodeError, DynShape, EncodeError};
use aws_types::AwsError;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::{error_envelope, json, query, rest};

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Detected {
    /// An operation with shapes. Whether it is registered is the registry's to know.
    Known(&'static OperationSchema),
    /// An operation that exists at AWS but not here.
    Unbuilt(&'static str),
}

impl Detected {
    /// The operation's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Known(operation) => operation.name,
            Self::Unbuilt(name) => name,
        }
    }
}

/// Finds the operation of a request to `service`. Errors are AWS's for a missing or unknown action.
pub fn detect_operation(
    service: &'static ServiceSchema,
    parts: &Parts,
    body: &[u8],
) -> Result<Detected, AwsError> {
    match Protocol::for_service(service) {
        Protocol::Ec2Query | Protocol::Query => query::detect(service, parts, body),
        Protocol::Json10 | Protocol::Json11 => json::detect(service, parts),
        Protocol::RestJson | Protocol::RestXml => rest::detect(service, parts),
    }
}

/// Finds an operation by name, for the protocols whose requests carry it.
pub(crate) fn lookup(service: &'static ServiceSchema, name: &str) -> Option<Detected> {
    let known = service.find_operation(name).map(Detected::Known);
    known.or_else(|| service.find_unbuilt(name).map(Detected::Unbuilt))
}

/// Decodes the input of `operation`. The error is what the client gets.
pub fn decode_input<I: Shape>(
    operation: &'static OperationSchema,
    parts: &Parts,
    body: &Bytes,
) -> Result<I, AwsError> {
    let mut input = I::default();
    decode_into(operation, parts, body, &mut input)?;
    Ok(input)
}

/// As [`decode_input`], into a value whose type the caller need not know (see [`OperationSchema::new_input`]).
///
/// # Panics
/// If `target` is not the operation's input.
pub fn decode_into(
    operation: &'static OperationSchema,
    parts: &Parts,
    body: &Bytes,
    target: &mut dyn DynShape,
) -> Result<(), AwsError> {
    assert!(
        std::ptr::eq(target.schema(), operation.input),
        "{} does not take {target:?}",
        operation.name
    );
    let decoded: Result<(), DecodeError> = match Protocol::for_service(operation.service) {
        Protocol::Ec2Query | Protocol::Query => query::decode(operation, parts, body, target),
        Protocol::Json10 | Protocol::Json11 => json::decode(body, target),
        Protocol::RestJson | Protocol::RestXml => rest::decode(operation, parts, body, target),
    };
    decoded.map_err(|error| error_envelope::decode_error(operation.service, error))
}

/// The answer to a success. If the output cannot be written, which is our mistake, the answer is an internal error.
///
/// # Panics
/// If `output` is not the operation's output.
pub fn encode_output(
    operation: &'static OperationSchema,
    output: &dyn DynShape,
    request_id: &str,
) -> Response<Bytes> {
    assert!(
        std::ptr::eq(output.schema(), operation.output),
        "{} does not answer {output:?}",
        operation.name
    );
    let encoded: Result<Message, EncodeError> = match Protocol::for_service(operation.service) {
        Protocol::Ec2Query => query::encode_ec2(operation, output, request_id),
        Protocol::Query => query::encode(operation, output, request_id),
        Protocol::Json10 | Protocol::Json11 => json::encode(operation, output),
        Protocol::RestJson | Protocol::RestXml => rest::encode(operation, output),
    };
    match encoded {
        Ok(message) => message.into_response(operation.service, request_id),
        Err(error) => {
            tracing::error!(operation = operation.name, request_id, %error, "the output could not be encoded");
            encode_error(operation.service, &AwsError::internal(), request_id)
        }
    }
}

/// The answer to a failure, in the envelope of the service's protocol.
pub fn encode_error(service: &'static ServiceSchema, error: &AwsError, request_id: &str) -> Response<Bytes> {
    error_envelope::encode(service, error, request_id).into_response(service, request_id)
}

/// An answer before it becomes a response.
pub(crate) struct Message {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// A message with a content type.
    pub(crate) fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self {
            status,
            headers,
            body,
        }
    }

    /// Adds the headers that every answer has.
    fn into_response(self, service: &ServiceSchema, request_id: &str) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.body));
        // A status of the catalogue or of a model is a valid one.
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = self.headers;
        // Request ids are made by the gateway, of characters that headers allow.
        if let Ok(id) = HeaderValue::from_str(request_id) {
            if error_envelope::is_s3(service) {
                response.headers_mut().insert("x-amz-id-2", id.clone());
                response.headers_mut().insert("x-amz-request-id", id);
            } else {
                response.headers_mut().insert("x-amzn-requestid", id);
            }
        }
        response
    }
}

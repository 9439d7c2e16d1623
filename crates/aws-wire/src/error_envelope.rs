//! Errors on the wire: the envelope of each protocol, and which AWS error a request that cannot be read gets.
//!
//! This is the one place that turns a [`DecodeError`] into an [`AwsError`]; the codes differ by protocol and, for XML
//! bodies, by service. Modelled members beyond code and message travel as `AwsError::fields`, in order.

use aws_shapes::schema::{Protocol, ServiceSchema};
use aws_shapes::value::DecodeError;
use aws_types::{AwsError, Fault, catalogue};

use http::HeaderValue;

use crate::json;
use crate::protocol::Message;
use crate::xml::{self, XmlWriter};

/// S3 differs from other services in headers and in the error envelope.
pub(crate) fn is_s3(service: &ServiceSchema) -> bool {
    service.service_id == "S3"
}

/// The AWS error for a request that could not be decoded.
pub(crate) fn decode_error(service: &ServiceSchema, error: DecodeError) -> AwsError {
    let protocol = Protocol::for_service(service);
    let malformed = match protocol {
        Protocol::Ec2Query | Protocol::Query => catalogue::MALFORMED_QUERY_STRING,
        Protocol::Json10 | Protocol::Json11 | Protocol::RestJson => catalogue::SERIALIZATION_EXCEPTION,
        Protocol::RestXml if is_s3(service) => catalogue::MALFORMED_XML,
        Protocol::RestXml => catalogue::MALFORMED_INPUT,
    };
    match error {
        DecodeError::Malformed { detail } => malformed.error(detail),
        DecodeError::UnknownParameter { path } => {
            catalogue::UNKNOWN_PARAMETER.error(format!("The parameter {path} is not recognized"))
        }
        DecodeError::InvalidValue {
            path,
            value,
            expected,
        } => match protocol {
            Protocol::Ec2Query => AwsError::invalid_value(&value, &path, &format!("Expected {expected}.")),
            Protocol::Query => catalogue::MALFORMED_INPUT.error(format!(
                "Value ({value}) for parameter {path} is invalid: expected {expected}."
            )),
            Protocol::RestXml if is_s3(service) => {
                catalogue::INVALID_ARGUMENT.error(format!("{path} must be {expected}."))
            }
            _ => malformed.error(format!("{path} must be {expected}.")),
        },
        DecodeError::TooLarge { .. } => match protocol {
            Protocol::Ec2Query => catalogue::INVALID_PARAMETER_VALUE.error(capitalised(&error)),
            _ => malformed.error(capitalised(&error)),
        },
    }
}

fn capitalised(error: &DecodeError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// An error in the envelope of the service's protocol.
pub(crate) fn encode(service: &ServiceSchema, error: &AwsError, request_id: &str) -> Message {
    match Protocol::for_service(service) {
        Protocol::Ec2Query => {
            let mut out = XmlWriter::document();
            out.open("Response", None);
            out.open("Errors", None);
            write_error(&mut out, error, None, &[]);
            out.close("Errors");
            out.text_element("RequestID", request_id);
            out.close("Response");
            Message::new(error.status, xml::EC2_CONTENT_TYPE, out.into_bytes())
        }
        Protocol::Query => Message::new(
            error.status,
            xml::QUERY_CONTENT_TYPE,
            error_response(service, error, request_id),
        ),
        Protocol::Json10 | Protocol::Json11 => Message::new(
            error.status,
            json::content_type(service),
            json::error_body(service, error, true),
        ),
        Protocol::RestJson => {
            let body = json::error_body(service, error, false);
            let mut message = Message::new(error.status, json::content_type(service), body);
            // Codes are of the catalogue, of letters and dots.
            if let Ok(code) = HeaderValue::from_str(&error.code) {
                message.headers.insert("x-amzn-errortype", code);
            }
            message
        }
        Protocol::RestXml if is_s3(service) => {
            let mut out = XmlWriter::document();
            write_error(
                &mut out,
                error,
                None,
                &[("RequestId", request_id), ("HostId", request_id)],
            );
            Message::new(error.status, xml::REST_CONTENT_TYPE, out.into_bytes())
        }
        Protocol::RestXml => Message::new(
            error.status,
            xml::REST_CONTENT_TYPE,
            error_response(service, error, request_id),
        ),
    }
}

/// `<ErrorResponse>` of the query protocol and of rest-xml services other than S3.
fn error_response(service: &ServiceSchema, error: &AwsError, request_id: &str) -> Vec<u8> {
    let mut out = XmlWriter::document();
    out.open("ErrorResponse", service.xml_namespace);
    let blame = match error.fault() {
        Fault::Client => "Sender",
        Fault::Server => "Receiver",
    };
    write_error(&mut out, error, Some(blame), &[]);
    out.text_element("RequestId", request_id);
    out.close("ErrorResponse");
    out.into_bytes()
}

fn write_error(out: &mut XmlWriter, error: &AwsError, blame: Option<&str>, ids: &[(&str, &str)]) {
    out.open("Error", None);
    if let Some(blame) = blame {
        out.text_element("Type", blame);
    }
    out.text_element("Code", &error.code);
    out.text_element("Message", &error.message);
    for (name, value) in &error.fields {
        out.text_element(name, value);
    }
    for (name, value) in ids {
        out.text_element(name, value);
    }
    out.close("Error");
}

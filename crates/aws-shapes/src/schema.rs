//! What the model says about services, operations and shapes, as static data.
//!
//! The generator writes one static per shape and per operation; the codecs of `aws-wire` read them. Names on the wire
//! are resolved at generation (a reference's traits win over those of the shape it names, as in AWS's own clients), so
//! that a codec only looks up fields. Statics point at each other, also in cycles: recursive shapes are fine.

use crate::value::DynShape;

/// How a service talks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Form in, XML out, the EC2 dialect of [`Protocol::Query`].
    Ec2Query,
    /// Form in, XML out with a result wrapper.
    Query,
    /// JSON both ways, the operation in `X-Amz-Target`, content type `application/x-amz-json-1.0`.
    Json10,
    /// As [`Protocol::Json10`] with `application/x-amz-json-1.1`.
    Json11,
    /// Method and path name the operation, JSON bodies.
    RestJson,
    /// Method and path name the operation, XML bodies.
    RestXml,
}

impl Protocol {
    /// The protocol of a service.
    pub fn for_service(service: &ServiceSchema) -> Self {
        service.protocol
    }
}

/// A service as its model describes it.
#[derive(Debug)]
pub struct ServiceSchema {
    /// The name of the model, which is also the module's (`ec2`).
    pub name: &'static str,
    /// The service id of AWS's SDKs (`Route 53`).
    pub service_id: &'static str,
    /// The date that names the API's version.
    pub api_version: &'static str,
    /// First label of the service's host names.
    pub endpoint_prefix: &'static str,
    /// The service's name in a signature's credential scope.
    pub signing_name: &'static str,
    /// True for services with one endpoint for all regions.
    pub global: bool,
    /// How it talks.
    pub protocol: Protocol,
    /// What precedes the operation in `X-Amz-Target` (JSON protocols).
    pub target_prefix: Option<&'static str>,
    /// Namespace of XML answers.
    pub xml_namespace: Option<&'static str>,
    /// Operations with shapes.
    pub operations: &'static [&'static OperationSchema],
    /// Names of all other operations of the service, sorted.
    pub unbuilt_operations: &'static [&'static str],
    /// The routes of `unbuilt_operations`, in the same order; empty unless the protocol is a REST one.
    pub unbuilt_routes: &'static [Route],
}

impl ServiceSchema {
    /// The schema of an operation that has shapes.
    pub fn find_operation(&self, name: &str) -> Option<&'static OperationSchema> {
        self.operations
            .iter()
            .copied()
            .find(|operation| operation.name == name)
    }

    /// The static name of an operation that exists at AWS but has no shapes here.
    pub fn find_unbuilt(&self, name: &str) -> Option<&'static str> {
        self.unbuilt_operations
            .binary_search(&name)
            .ok()
            .map(|index| self.unbuilt_operations[index])
    }
}

/// How a request shows that it wants an operation, in the REST protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// `GET`, `POST`, …
    pub method: &'static str,
    /// A template such as `/{Bucket}/{Key+}?tagging`.
    pub uri: &'static str,
    /// Required members outside of the path: `?uploadId` in the query string, `x-amz-copy-source` as a header. Some
    /// operations share a template and differ only in these.
    pub needs: &'static [&'static str],
}

/// One operation.
#[derive(Debug)]
pub struct OperationSchema {
    /// The operation's name, also AWS's `Action`.
    pub name: &'static str,
    /// The service it belongs to.
    pub service: &'static ServiceSchema,
    /// The request's shape.
    pub input: &'static StructSchema,
    /// The answer's shape.
    pub output: &'static StructSchema,
    /// False if the model has no output shape at all ([`crate::value::Unit`] stands in).
    pub has_output: bool,
    /// Where it is served.
    pub route: Route,
    /// HTTP status of a success.
    pub response_code: u16,
    /// The element around the result (query protocol).
    pub result_wrapper: Option<&'static str>,
    /// Root element and namespace of the request (rest-xml).
    pub input_root: Option<XmlRoot>,
    /// The member that carries the client token, if the operation is idempotent by token.
    pub idempotency_token: Option<&'static str>,
    /// How its answers are paged.
    pub paginator: Option<&'static PaginatorSchema>,
    /// The errors that the model names.
    pub errors: &'static [&'static ErrorSchema],
    /// An empty input, for callers that do not know its type.
    pub new_input: fn() -> Box<dyn DynShape>,
    /// An empty output, for callers that do not know its type.
    pub new_output: fn() -> Box<dyn DynShape>,
}

/// Ties the types of an operation together; implemented by the marker types in `<service>::operations`.
pub trait OperationShape: Send + Sync + 'static {
    /// The request.
    type Input: crate::value::Shape;
    /// The answer.
    type Output: crate::value::Shape;
    /// The operation's schema.
    const SCHEMA: &'static OperationSchema;
}

/// Root element of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XmlRoot {
    /// The element's name.
    pub name: &'static str,
    /// The namespace that clients put on it.
    pub namespace: Option<&'static str>,
}

/// How an operation pages. Names are member names; output names may be paths (`ListBucketResult.Contents`).
#[derive(Debug)]
pub struct PaginatorSchema {
    /// Members of the input that take the token.
    pub input_tokens: &'static [&'static str],
    /// Members of the output that give the next token, parallel to `input_tokens`.
    pub output_tokens: &'static [&'static str],
    /// The member of the input that caps a page.
    pub limit_key: Option<&'static str>,
    /// The member of the output that says whether there is more, for operations that have one.
    pub more_results: Option<&'static str>,
    /// Members of the output that hold the page's items.
    pub result_keys: &'static [&'static str],
}

/// An error named by a model.
#[derive(Debug)]
pub struct ErrorSchema {
    /// The name of its shape.
    pub name: &'static str,
    /// The code on the wire.
    pub code: &'static str,
    /// Its HTTP status, if the model fixes one.
    pub status: Option<u16>,
    /// True if the fault is the server's.
    pub fault: bool,
    /// The member that holds the message; services do not agree on its spelling.
    pub message_member: Option<&'static str>,
}

/// A structure.
#[derive(Debug)]
pub struct StructSchema {
    /// The shape's name in the model.
    pub name: &'static str,
    /// Its members, in the model's order; their index is what [`DynShape::field`] takes.
    pub members: &'static [MemberSchema],
    /// Index of the member that is the whole HTTP body (REST protocols).
    pub payload: Option<usize>,
    /// Element name of the shape where nothing else names it (rest-xml).
    pub wire_name: Option<&'static str>,
    /// Exactly one member may be set.
    pub union: bool,
    /// Lists and maps are plain `Vec` and `BTreeMap` because the protocol cannot tell empty from absent.
    pub empty_is_absent: bool,
}

/// A reference to a shape: a member of a structure, the element of a list, the key or value of a map.
#[derive(Debug)]
pub struct MemberSchema {
    /// The name in the model (`member`, `key`, `value` inside lists and maps).
    pub name: &'static str,
    /// The name in XML, JSON, headers, query strings and URIs.
    pub wire_name: &'static str,
    /// The name in the forms of the query protocols.
    pub query_name: &'static str,
    /// Element name of the items if this is a flattened list, else the same as `wire_name`.
    pub item_name: &'static str,
    /// Which part of the HTTP message carries it (REST protocols).
    pub location: Location,
    /// Must be present.
    pub required: bool,
    /// The items of a list or map are not wrapped.
    pub flattened: bool,
    /// An XML attribute of the parent's element.
    pub xml_attribute: bool,
    /// Must not be shown in logs.
    pub sensitive: bool,
    /// How a timestamp is written, where that differs from the protocol's habit.
    pub timestamp_format: Option<TimestampFormat>,
    /// Namespace declared at the element.
    pub xml_namespace: Option<XmlNamespace>,
    /// What it refers to.
    pub shape: &'static ShapeSchema,
}

impl MemberSchema {
    /// A plain body member; the generator chains the setters below for all that is not plain.
    pub const fn new(name: &'static str, shape: &'static ShapeSchema) -> Self {
        Self {
            name,
            wire_name: name,
            query_name: name,
            item_name: name,
            location: Location::Body,
            required: false,
            flattened: false,
            xml_attribute: false,
            sensitive: false,
            timestamp_format: None,
            xml_namespace: None,
            shape,
        }
    }

    /// Sets the three wire names.
    pub const fn named(mut self, wire: &'static str, query: &'static str, item: &'static str) -> Self {
        self.wire_name = wire;
        self.query_name = query;
        self.item_name = item;
        self
    }

    /// Moves the member out of the body.
    pub const fn at(mut self, location: Location) -> Self {
        self.location = location;
        self
    }

    /// Marks the member as required.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Marks the member as flattened.
    pub const fn flattened(mut self) -> Self {
        self.flattened = true;
        self
    }

    /// Marks the member as an XML attribute.
    pub const fn attribute(mut self) -> Self {
        self.xml_attribute = true;
        self
    }

    /// Marks the member as sensitive.
    pub const fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// Fixes the format of a timestamp.
    pub const fn time(mut self, format: TimestampFormat) -> Self {
        self.timestamp_format = Some(format);
        self
    }

    /// Declares a namespace at the member's element.
    pub const fn namespace(mut self, prefix: Option<&'static str>, uri: &'static str) -> Self {
        self.xml_namespace = Some(XmlNamespace { prefix, uri });
        self
    }
}

/// An XML namespace declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XmlNamespace {
    /// `xsi` in `xmlns:xsi`.
    pub prefix: Option<&'static str>,
    /// The namespace.
    pub uri: &'static str,
}

/// Which part of an HTTP message carries a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The body.
    Body,
    /// The header named `wire_name`.
    Header,
    /// All headers that start with `wire_name`, as a map.
    HeaderPrefix,
    /// The query string.
    QueryString,
    /// A label of the URI template.
    Uri,
    /// The status code of the answer.
    StatusCode,
}

/// How a timestamp is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampFormat {
    /// `2026-11-30T13:10:00Z`, with a fraction if there is one.
    Iso8601,
    /// `Mon, 30 Nov 2026 13:10:00 GMT`.
    Rfc822,
    /// Seconds since 1970, with a fraction if there is one.
    UnixTimestamp,
}

/// A shape and its constraints. Bounds are of the length for strings, lists, maps and blobs, else of the number.
#[derive(Debug)]
pub struct ShapeSchema {
    /// The shape's name in the model.
    pub name: &'static str,
    /// What it is.
    pub kind: ShapeKind,
    /// The lower bound.
    pub min: Option<f64>,
    /// The upper bound.
    pub max: Option<f64>,
    /// A regular expression that strings must match.
    pub pattern: Option<&'static str>,
}

impl ShapeSchema {
    /// A shape without constraints.
    pub const fn new(name: &'static str, kind: ShapeKind) -> Self {
        Self {
            name,
            kind,
            min: None,
            max: None,
            pattern: None,
        }
    }
}

/// The kinds of shapes.
#[derive(Debug)]
pub enum ShapeKind {
    /// Text.
    String,
    /// Text of which these values are known. Others are let through: the service decides.
    Enum(&'static [&'static str]),
    /// `true` or `false`.
    Boolean,
    /// 32 bits, signed.
    Integer,
    /// 64 bits, signed.
    Long,
    /// A floating-point number of either width.
    Double,
    /// A point in time.
    Timestamp,
    /// Bytes; base64 in text formats.
    Blob,
    /// A list of this element.
    List(&'static MemberSchema),
    /// A map of this key (always text) and value.
    Map(&'static MemberSchema, &'static MemberSchema),
    /// A structure.
    Structure(&'static StructSchema),
}

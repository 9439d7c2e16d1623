//! XML in both directions, for the query protocols' answers and for rest-xml.

mod read;
mod write;

pub(crate) use read::{parse, read_members, reader_of_root};
pub(crate) use write::XmlWriter;

/// Content type of EC2's answers.
pub(crate) const EC2_CONTENT_TYPE: &str = "text/xml;charset=UTF-8";

/// Content type of the query protocol's answers.
pub(crate) const QUERY_CONTENT_TYPE: &str = "text/xml";

/// Content type of rest-xml's answers.
pub(crate) const REST_CONTENT_TYPE: &str = "application/xml";

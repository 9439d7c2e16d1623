//! Reads the members of a REST request that are outside of its body.

use aws_shapes::schema::{Location, MemberSchema, OperationSchema};
use aws_shapes::value::{DecodeError, DynShape, EachEntry, EachItem, ShapeDeserializer};
use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use time::OffsetDateTime;

use super::route;
use crate::codec::{Path, text};

/// Reads path, query string and headers into `target`.
pub(super) fn members(
    operation: &'static OperationSchema,
    parts: &Parts,
    target: &mut dyn DynShape,
) -> Result<(), DecodeError> {
    let labels = route::labels(operation, parts)?;
    let query = query_pairs(parts)?;
    for (index, member) in operation.input.members.iter().enumerate() {
        let values: Vec<String> = match member.location {
            Location::Body | Location::StatusCode => continue,
            Location::Uri => named(&labels, member.wire_name),
            Location::QueryString => named(&query, member.wire_name),
            Location::Header => header_values(&parts.headers, member)?,
            Location::HeaderPrefix => {
                let entries = prefixed(&parts.headers, member)?;
                if !entries.is_empty() {
                    target.deserialize_member(index, &mut Prefixed { entries })?;
                }
                continue;
            }
        };
        if !values.is_empty() {
            let path = Path::ROOT.join(member.wire_name);
            target.deserialize_member(
                index,
                &mut TextReader {
                    values: &values,
                    path,
                },
            )?;
        }
    }
    Ok(())
}

fn named<N: AsRef<str>>(pairs: &[(N, String)], name: &str) -> Vec<String> {
    pairs
        .iter()
        .filter(|(given, _)| given.as_ref() == name)
        .map(|(_, value)| value.clone())
        .collect()
}

fn query_pairs(parts: &Parts) -> Result<Vec<(String, String)>, DecodeError> {
    let unescape = |text: &str| match percent_decode_str(&text.replace('+', " ")).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(DecodeError::Malformed {
            detail: "The query string is not valid UTF-8.".into(),
        }),
    };
    let pieces = parts
        .uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            Ok((unescape(name)?, unescape(value)?))
        })
        .collect()
}

fn header_text(value: &http::HeaderValue, name: &str) -> Result<String, DecodeError> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| DecodeError::Malformed {
        detail: format!("The header {name} is not UTF-8."),
    })
}

fn header_values(headers: &HeaderMap, member: &MemberSchema) -> Result<Vec<String>, DecodeError> {
    headers
        .get_all(member.wire_name)
        .iter()
        .map(|value| header_text(value, member.wire_name))
        .collect()
}

fn prefixed(headers: &HeaderMap, member: &MemberSchema) -> Result<Vec<(String, String)>, DecodeError> {
    let prefix = member.wire_name.to_ascii_lowercase();
    let named = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(&prefix)?, value)));
    named
        .map(|(name, value)| Ok((name.to_owned(), header_text(value, name)?)))
        .collect()
}

/// One or several texts: a label, a query parameter, a header.
struct TextReader<'a> {
    values: &'a [String],
    path: Path<'a>,
}

impl<'a> TextReader<'a> {
    fn text(&self) -> &'a str {
        self.values.first().map_or("", |value| value.trim_ascii())
    }

    fn misplaced(&self, member: &'static MemberSchema) -> DecodeError {
        text::invalid(&self.path, member, self.text(), "text")
    }
}

impl ShapeDeserializer for TextReader<'_> {
    fn boolean(&mut self, member: &'static MemberSchema) -> Result<bool, DecodeError> {
        text::read_boolean(&self.path, member, self.text())
    }
    fn integer(&mut self, member: &'static MemberSchema, bits: u32) -> Result<i64, DecodeError> {
        text::read_integer(&self.path, member, self.text(), bits)
    }
    fn double(&mut self, member: &'static MemberSchema) -> Result<f64, DecodeError> {
        text::read_double(&self.path, member, self.text())
    }
    fn string(&mut self, _: &'static MemberSchema) -> Result<String, DecodeError> {
        Ok(self.values.first().cloned().unwrap_or_default())
    }
    fn timestamp(&mut self, member: &'static MemberSchema) -> Result<OffsetDateTime, DecodeError> {
        text::read_timestamp(&self.path, member, self.text())
    }
    fn blob(&mut self, member: &'static MemberSchema) -> Result<Bytes, DecodeError> {
        text::read_blob(&self.path, member, self.text())
    }
    fn structure(&mut self, member: &'static MemberSchema, _: &mut dyn DynShape) -> Result<(), DecodeError> {
        Err(self.misplaced(member))
    }
    fn list(&mut self, member: &'static MemberSchema, each: EachItem<'_>) -> Result<(), DecodeError> {
        let items: Vec<String> = match member.location {
            Location::Header => self
                .values
                .iter()
                .flat_map(|value| split_header_list(value))
                .collect(),
            _ => self.values.to_vec(),
        };
        items.iter().try_for_each(|item| {
            each(&mut TextReader {
                values: std::slice::from_ref(item),
                path: self.path,
            })
        })
    }
    fn map(&mut self, member: &'static MemberSchema, _: EachEntry<'_>) -> Result<(), DecodeError> {
        Err(self.misplaced(member))
    }
}

/// The items of a header that is a list. Items with commas or quotes are quoted; so is nothing else, except that times
/// of the mail format have one comma of their own.
fn split_header_list(value: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut item = String::new();
    let mut quoted = false;
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' if quoted => item.extend(letters.next()),
            ',' if !quoted => items.push(std::mem::take(&mut item).trim_ascii().to_owned()),
            _ => item.push(letter),
        }
    }
    items.push(item.trim_ascii().to_owned());
    items
}

/// Headers that share a prefix.
struct Prefixed {
    entries: Vec<(String, String)>,
}

/// Forwards what a map of headers can hold and refuses the rest.
macro_rules! refuse {
    ($($name:ident($($arg:ty),*) -> $type:ty;)*) => {$(
        fn $name(&mut self, member: &'static MemberSchema, $(_: $arg),*) -> Result<$type, DecodeError> {
            Err(text::invalid(&Path::ROOT.join(member.wire_name), member, "", "another kind of value"))
        }
    )*};
}

impl ShapeDeserializer for Prefixed {
    refuse! {
        boolean() -> bool;
        integer(u32) -> i64;
        double() -> f64;
        string() -> String;
        timestamp() -> OffsetDateTime;
        blob() -> Bytes;
        structure(&mut dyn DynShape) -> ();
        list(EachItem<'_>) -> ();
    }
    fn map(&mut self, _: &'static MemberSchema, each: EachEntry<'_>) -> Result<(), DecodeError> {
        self.entries.iter().try_for_each(|(name, value)| {
            let values = std::slice::from_ref(value);
            each(
                name.clone(),
                &mut TextReader {
                    values,
                    path: Path::ROOT.join(name),
                },
            )
        })
    }
}

/// A body that is one member as it is.
pub(super) struct RawBody<'a>(pub(super) &'a Bytes);

impl ShapeDeserializer for RawBody<'_> {
    refuse! {
        boolean() -> bool;
        integer(u32) -> i64;
        double() -> f64;
        timestamp() -> OffsetDateTime;
        structure(&mut dyn DynShape) -> ();
        list(EachItem<'_>) -> ();
        map(EachEntry<'_>) -> ();
    }
    fn string(&mut self, _: &'static MemberSchema) -> Result<String, DecodeError> {
        let text = std::str::from_utf8(self.0);
        text.map(str::to_owned).map_err(|_| DecodeError::Malformed {
            detail: "The body is not UTF-8.".into(),
        })
    }
    fn blob(&mut self, _: &'static MemberSchema) -> Result<Bytes, DecodeError> {
        Ok(self.0.clone())
    }
}

//! Reads a shape out of parsed JSON.
//!
//! Members that are `null` are absent, unknown members are ignored, as AWS does; a value of another type is refused.
//! The depth is bounded by `serde_json` (128).

use aws_shapes::schema::{MemberSchema, ShapeKind};
use aws_shapes::value::{DecodeError, DynShape, EachEntry, EachItem, ShapeDeserializer};
use bytes::Bytes;
use serde_json::Value;
use time::OffsetDateTime;

use crate::codec::{Path, text};

/// Parses a body; an empty one is an empty object.
pub(crate) fn parse(body: &[u8]) -> Result<Value, DecodeError> {
    if body.trim_ascii().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_slice(body).map_err(|error| DecodeError::Malformed {
        detail: format!("The body is not valid JSON: {error}"),
    })
}

/// Decodes the members of the root object that are `wanted`.
pub(crate) fn decode_where(
    body: &[u8],
    target: &mut dyn DynShape,
    wanted: &dyn Fn(&MemberSchema) -> bool,
) -> Result<(), DecodeError> {
    reader_of_root(&parse(body)?).members(target, wanted)
}

/// A reader of a document that is one structure.
pub(crate) fn reader_of_root(value: &Value) -> JsonReader<'_> {
    JsonReader {
        value,
        path: Path::ROOT,
    }
}

/// A value of a document.
pub(crate) struct JsonReader<'a> {
    value: &'a Value,
    path: Path<'a>,
}

impl<'a> JsonReader<'a> {
    fn wrong(&self, member: &'static MemberSchema, expected: &'static str) -> DecodeError {
        text::invalid(&self.path, member, &self.value.to_string(), expected)
    }

    fn str(&self, member: &'static MemberSchema, expected: &'static str) -> Result<&'a str, DecodeError> {
        self.value.as_str().ok_or_else(|| self.wrong(member, expected))
    }

    fn members(
        &self,
        target: &mut dyn DynShape,
        wanted: &dyn Fn(&MemberSchema) -> bool,
    ) -> Result<(), DecodeError> {
        let Some(object) = self.value.as_object() else {
            let detail = format!(
                "{} must be a JSON object.",
                if self.path.is_root() {
                    "The body".into()
                } else {
                    self.path.to_string()
                }
            );
            return Err(DecodeError::Malformed { detail });
        };
        for (index, member) in target
            .schema()
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| wanted(member))
        {
            if let Some(value) = object.get(member.wire_name).filter(|value| !value.is_null()) {
                let path = self.path.join(member.wire_name);
                target.deserialize_member(index, &mut JsonReader { value, path })?;
            }
        }
        Ok(())
    }
}

impl ShapeDeserializer for JsonReader<'_> {
    fn boolean(&mut self, member: &'static MemberSchema) -> Result<bool, DecodeError> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wrong(member, "true or false"))
    }

    fn integer(&mut self, member: &'static MemberSchema, bits: u32) -> Result<i64, DecodeError> {
        // Some clients write whole numbers as 1.0; beyond 2^53 a double does not know which number it is.
        let whole = |value: f64| {
            (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
        };
        let value = self
            .value
            .as_i64()
            .or_else(|| self.value.as_f64().and_then(whole));
        let value = value.filter(|value| bits >= 64 || i32::try_from(*value).is_ok());
        value.ok_or_else(|| self.wrong(member, "an integer"))
    }

    fn double(&mut self, member: &'static MemberSchema) -> Result<f64, DecodeError> {
        match self.value {
            Value::String(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => {
                text::read_double(&self.path, member, text)
            }
            value => value.as_f64().ok_or_else(|| self.wrong(member, "a number")),
        }
    }

    fn string(&mut self, member: &'static MemberSchema) -> Result<String, DecodeError> {
        self.str(member, "a string").map(str::to_owned)
    }

    fn timestamp(&mut self, member: &'static MemberSchema) -> Result<OffsetDateTime, DecodeError> {
        match self.value.as_f64() {
            Some(seconds) => text::from_unix(seconds).ok_or_else(|| self.wrong(member, "a timestamp")),
            None => text::read_timestamp(&self.path, member, self.str(member, "a timestamp")?),
        }
    }

    fn blob(&mut self, member: &'static MemberSchema) -> Result<Bytes, DecodeError> {
        text::read_blob(&self.path, member, self.str(member, "a base64 string")?)
    }

    fn structure(&mut self, _: &'static MemberSchema, target: &mut dyn DynShape) -> Result<(), DecodeError> {
        self.members(target, &|_| true)
    }

    fn list(&mut self, member: &'static MemberSchema, each: EachItem<'_>) -> Result<(), DecodeError> {
        let items = self
            .value
            .as_array()
            .ok_or_else(|| self.wrong(member, "a list"))?;
        for (index, value) in items.iter().enumerate() {
            let number = (index + 1).to_string();
            each(&mut JsonReader {
                value,
                path: self.path.join(&number),
            })?;
        }
        Ok(())
    }

    fn map(&mut self, member: &'static MemberSchema, each: EachEntry<'_>) -> Result<(), DecodeError> {
        debug_assert!(matches!(member.shape.kind, ShapeKind::Map(..)));
        let entries = self
            .value
            .as_object()
            .ok_or_else(|| self.wrong(member, "an object"))?;
        for (key, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
            each(
                key.clone(),
                &mut JsonReader {
                    value,
                    path: self.path.join(key),
                },
            )?;
        }
        Ok(())
    }
}

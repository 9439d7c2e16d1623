//! A JSON reader for policy documents: refuses duplicate keys at any depth and nesting beyond the bound.
//!
//! `serde_json::Value` keeps the last of two equal keys silently, and a policy in which a reader sees one
//! `Condition` and the evaluator another is a hole. Numbers and Booleans are kept as the strings that policies
//! compare (identity.md R38).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::limits::DEPTH_MAX;

/// A JSON value as policies see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    /// A number or Boolean, as text.
    Bare(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Reads one whole document.
pub(crate) fn read(text: &str) -> Result<Json, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Depth(DEPTH_MAX).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Levels of nesting still allowed.
struct Depth(usize);

impl Depth {
    fn deeper<E: serde::de::Error>(&self) -> Result<Depth, E> {
        self.0
            .checked_sub(1)
            .map(Depth)
            .ok_or_else(|| E::custom(format_args!("nested deeper than {DEPTH_MAX} levels")))
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bare(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Bare(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Bare(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Bare(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            if members.iter().any(|(existing, _)| *existing == key) {
                return Err(A::Error::custom(format_args!("duplicate key \"{key}\"")));
            }
            let value = access.next_value_seed(self.deeper()?)?;
            members.push((key, value));
        }
        Ok(Json::Object(members))
    }
}

//! The canonical JSON in which values cross to the Python side: structures by member name, times as milliseconds in
//! `{"$time": …}`, bytes as base64 in `{"$blob": …}`. In services where empty is absent, empty containers are left out.

use aws_shapes::schema::{MemberSchema, ShapeKind};
use aws_shapes::value::{
    DecodeError, DynShape, EachEntry, EachItem, EncodeError, Entries, Items, ShapeDeserializer,
    ShapeSerializer,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

/// A shape as canonical JSON.
pub fn write(value: &dyn DynShape) -> Value {
    let mut out = Writer {
        members: Map::new(),
        drop_empty: value.schema().empty_is_absent,
    };
    value
        .serialize(&mut out)
        .expect("the canonical form holds everything");
    Value::Object(out.members)
}

/// Fills a shape from canonical JSON.
pub fn read(value: &Value, target: &mut dyn DynShape) {
    Reader(value).members(target).expect("the samples fit the model");
}

struct Writer {
    members: Map<String, Value>,
    drop_empty: bool,
}

impl Writer {
    fn put(&mut self, member: &'static MemberSchema, value: Value) -> Result<(), EncodeError> {
        let earlier = self.members.insert(member.name.to_owned(), value);
        assert!(earlier.is_none(), "{} is written twice", member.name);
        Ok(())
    }

    fn inner(&self) -> Self {
        Self {
            members: Map::new(),
            drop_empty: self.drop_empty,
        }
    }
}

impl ShapeSerializer for Writer {
    fn boolean(&mut self, member: &'static MemberSchema, value: bool) -> Result<(), EncodeError> {
        self.put(member, value.into())
    }
    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        self.put(member, value.into())
    }
    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        self.put(member, value.into())
    }
    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.put(member, value.into())
    }
    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError> {
        let milliseconds =
            i64::try_from(value.unix_timestamp_nanos() / 1_000_000).expect("a time of our age");
        self.put(member, json!({ "$time": milliseconds }))
    }
    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.put(member, json!({ "$blob": STANDARD.encode(value) }))
    }
    fn structure(&mut self, member: &'static MemberSchema, value: &dyn DynShape) -> Result<(), EncodeError> {
        let mut inner = self.inner();
        value.serialize(&mut inner)?;
        if self.drop_empty && inner.members.is_empty() {
            return Ok(());
        }
        self.put(member, Value::Object(inner.members))
    }
    fn list(&mut self, member: &'static MemberSchema, items: &dyn Items) -> Result<(), EncodeError> {
        let ShapeKind::List(element) = member.shape.kind else {
            panic!("{} is no list", member.name)
        };
        if self.drop_empty && items.count() == 0 {
            return Ok(());
        }
        let mut values = Vec::new();
        items.each(&mut |item| {
            let mut inner = self.inner();
            item.write(element, &mut inner)?;
            values.push(inner.members.remove(element.name).unwrap_or_else(|| json!({})));
            Ok(())
        })?;
        self.put(member, values.into())
    }
    fn map(&mut self, member: &'static MemberSchema, entries: &dyn Entries) -> Result<(), EncodeError> {
        let ShapeKind::Map(_, element) = member.shape.kind else {
            panic!("{} is no map", member.name)
        };
        if self.drop_empty && entries.count() == 0 {
            return Ok(());
        }
        let mut values = Map::new();
        entries.each(&mut |key, value| {
            let mut inner = self.inner();
            value.write(element, &mut inner)?;
            values.insert(
                key.to_owned(),
                inner.members.remove(element.name).unwrap_or_else(|| json!({})),
            );
            Ok(())
        })?;
        self.put(member, Value::Object(values))
    }
}

struct Reader<'a>(&'a Value);

impl Reader<'_> {
    fn members(&self, target: &mut dyn DynShape) -> Result<(), DecodeError> {
        let object = self.0.as_object().expect("a structure");
        let schema = target.schema();
        for name in object.keys() {
            assert!(
                schema.members.iter().any(|m| m.name == *name),
                "{} has no member {name}",
                schema.name
            );
        }
        for (index, member) in schema.members.iter().enumerate() {
            if let Some(value) = object.get(member.name) {
                target.deserialize_member(index, &mut Reader(value))?;
            }
        }
        Ok(())
    }
}

impl ShapeDeserializer for Reader<'_> {
    fn boolean(&mut self, _: &'static MemberSchema) -> Result<bool, DecodeError> {
        Ok(self.0.as_bool().expect("a boolean"))
    }
    fn integer(&mut self, _: &'static MemberSchema, _: u32) -> Result<i64, DecodeError> {
        Ok(self.0.as_i64().expect("an integer"))
    }
    fn double(&mut self, _: &'static MemberSchema) -> Result<f64, DecodeError> {
        Ok(self.0.as_f64().expect("a number"))
    }
    fn string(&mut self, member: &'static MemberSchema) -> Result<String, DecodeError> {
        Ok(self
            .0
            .as_str()
            .unwrap_or_else(|| panic!("{} is {} and no string", member.name, self.0))
            .to_owned())
    }
    fn timestamp(&mut self, _: &'static MemberSchema) -> Result<OffsetDateTime, DecodeError> {
        let milliseconds = self.0["$time"].as_i64().expect("a time");
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
        Ok(time.expect("a time of our age"))
    }
    fn blob(&mut self, _: &'static MemberSchema) -> Result<Bytes, DecodeError> {
        Ok(STANDARD
            .decode(self.0["$blob"].as_str().expect("bytes"))
            .expect("base64")
            .into())
    }
    fn structure(&mut self, _: &'static MemberSchema, target: &mut dyn DynShape) -> Result<(), DecodeError> {
        self.members(target)
    }
    fn list(&mut self, _: &'static MemberSchema, each: EachItem<'_>) -> Result<(), DecodeError> {
        self.0
            .as_array()
            .expect("a list")
            .iter()
            .try_for_each(|item| each(&mut Reader(item)))
    }
    fn map(&mut self, _: &'static MemberSchema, each: EachEntry<'_>) -> Result<(), DecodeError> {
        let entries = self.0.as_object().expect("a map");
        entries
            .iter()
            .try_for_each(|(key, value)| each(key.clone(), &mut Reader(value)))
    }
}

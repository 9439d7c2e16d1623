//! Writes the members of a REST answer that are outside of its body.

use aws_shapes::schema::{Location, MemberSchema, ShapeKind, TimestampFormat};
use aws_shapes::value::{DynShape, EncodeError, Entries, Items, ShapeSerializer};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use time::OffsetDateTime;

use crate::codec::text;
use crate::protocol::Message;

/// Writes headers and status of `output` into `message`.
pub(super) fn members(output: &dyn DynShape, message: &mut Message) -> Result<(), EncodeError> {
    for (index, member) in output.schema().members.iter().enumerate() {
        match member.location {
            Location::Header | Location::HeaderPrefix | Location::StatusCode => {
                output.field(index).write(member, &mut HeaderWriter { message })?;
            }
            Location::Body | Location::QueryString | Location::Uri => {}
        }
    }
    Ok(())
}

struct HeaderWriter<'a> {
    message: &'a mut Message,
}

impl HeaderWriter<'_> {
    fn put(&mut self, member: &'static MemberSchema, name: &str, value: &str) -> Result<(), EncodeError> {
        let unrepresentable = |_| EncodeError::Unrepresentable { member: member.name };
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unrepresentable(()))?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unrepresentable(()))?;
        self.message.headers.insert(name, value);
        Ok(())
    }

    fn text(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.put(member, member.wire_name, value)
    }
}

impl ShapeSerializer for HeaderWriter<'_> {
    fn boolean(&mut self, member: &'static MemberSchema, value: bool) -> Result<(), EncodeError> {
        self.text(member, if value { "true" } else { "false" })
    }

    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        if member.location == Location::StatusCode {
            self.message.status =
                u16::try_from(value).map_err(|_| EncodeError::Misplaced { member: member.name })?;
            return Ok(());
        }
        self.text(member, itoa::Buffer::new().format(value))
    }

    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        self.text(member, &text::write_double(value))
    }

    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.text(member, value)
    }

    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError> {
        self.text(
            member,
            &text::write_timestamp(member, value, TimestampFormat::Rfc822)?,
        )
    }

    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.text(member, &text::write_blob(value))
    }

    fn structure(&mut self, member: &'static MemberSchema, _: &dyn DynShape) -> Result<(), EncodeError> {
        Err(EncodeError::Misplaced { member: member.name })
    }

    fn list(&mut self, member: &'static MemberSchema, items: &dyn Items) -> Result<(), EncodeError> {
        let ShapeKind::List(element) = member.shape.kind else {
            return Ok(());
        };
        let mut texts = Vec::new();
        items.each(&mut |item| {
            let mut text = PlainText::default();
            item.write(element, &mut text)?;
            let quote = text.0.contains([',', '"']) && !matches!(element.shape.kind, ShapeKind::Timestamp);
            texts.push(if quote {
                format!("\"{}\"", text.0.replace('"', "\\\""))
            } else {
                text.0
            });
            Ok(())
        })?;
        if texts.is_empty() {
            Ok(())
        } else {
            self.text(member, &texts.join(","))
        }
    }

    fn map(&mut self, member: &'static MemberSchema, entries: &dyn Entries) -> Result<(), EncodeError> {
        let ShapeKind::Map(_, value_member) = member.shape.kind else {
            return Ok(());
        };
        entries.each(&mut |key, value| {
            let mut text = PlainText::default();
            value.write(value_member, &mut text)?;
            self.put(member, &format!("{}{key}", member.wire_name), &text.0)
        })
    }
}

/// Refuses what one text cannot hold.
macro_rules! refuse {
    ($($name:ident($type:ty);)*) => {$(
        fn $name(&mut self, member: &'static MemberSchema, _: $type) -> Result<(), EncodeError> {
            Err(EncodeError::Misplaced { member: member.name })
        }
    )*};
}

/// A scalar inside of a header.
#[derive(Default)]
struct PlainText(String);

impl ShapeSerializer for PlainText {
    fn boolean(&mut self, _: &'static MemberSchema, value: bool) -> Result<(), EncodeError> {
        self.0 = value.to_string();
        Ok(())
    }
    fn integer(&mut self, _: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        self.0 = value.to_string();
        Ok(())
    }
    fn double(&mut self, _: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        self.0 = text::write_double(value);
        Ok(())
    }
    fn string(&mut self, _: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.0 = value.to_owned();
        Ok(())
    }
    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError> {
        self.0 = text::write_timestamp(member, value, TimestampFormat::Rfc822)?;
        Ok(())
    }
    fn blob(&mut self, _: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.0 = text::write_blob(value);
        Ok(())
    }
    refuse! {
        structure(&dyn DynShape);
        list(&dyn Items);
        map(&dyn Entries);
    }
}

/// A body that is one member as it is.
#[derive(Default)]
pub(super) struct RawBody(pub(super) Vec<u8>);

impl ShapeSerializer for RawBody {
    fn string(&mut self, _: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.0 = value.as_bytes().to_vec();
        Ok(())
    }
    fn blob(&mut self, _: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.0 = value.to_vec();
        Ok(())
    }
    refuse! {
        boolean(bool);
        integer(i64);
        double(f64);
        timestamp(OffsetDateTime);
        structure(&dyn DynShape);
        list(&dyn Items);
        map(&dyn Entries);
    }
}

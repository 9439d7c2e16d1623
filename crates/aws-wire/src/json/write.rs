//! Writes shapes as JSON, straight to bytes.

use aws_shapes::schema::{MemberSchema, ShapeKind, TimestampFormat};
use aws_shapes::value::{DynShape, EncodeError, Entries, Items, ShapeSerializer};
use bytes::Bytes;
use time::OffsetDateTime;

use crate::codec::text;

/// A document being written.
#[derive(Default)]
pub(crate) struct JsonWriter {
    out: Vec<u8>,
    /// The next member of the object or item of the list is not the first.
    comma: bool,
    /// The next value has no name: an item of a list, or a map's value whose key is written already.
    nameless: bool,
}

impl JsonWriter {
    /// A document whose root is one structure.
    pub(crate) fn nameless() -> Self {
        Self {
            nameless: true,
            ..Self::default()
        }
    }

    /// What was written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Writes the root object.
    pub(crate) fn object(
        &mut self,
        write: &mut dyn FnMut(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.container(b'{', b'}', write)
    }

    /// As [`JsonWriter::object`], for what cannot fail.
    pub(crate) fn raw_object(&mut self, write: &mut dyn FnMut(&mut Self)) {
        let written = self.container(b'{', b'}', &mut |out| {
            write(out);
            Ok(())
        });
        debug_assert_eq!(written, Ok(()));
    }

    /// Writes a member that no schema names.
    pub(crate) fn text_member(&mut self, name: &str, value: &str) {
        self.name(name);
        self.quoted(value);
    }

    fn container(
        &mut self,
        start: u8,
        end: u8,
        write: &mut dyn FnMut(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.out.push(start);
        self.comma = false;
        write(self)?;
        self.out.push(end);
        self.comma = true;
        Ok(())
    }

    fn name(&mut self, name: &str) {
        if std::mem::take(&mut self.nameless) {
            return;
        }
        self.separate();
        self.quoted(name);
        self.out.push(b':');
    }

    fn separate(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }

    fn quoted(&mut self, value: &str) {
        self.out.push(b'"');
        let mut plain = 0;
        for (at, byte) in value.bytes().enumerate() {
            let escaped = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0..=0x1F => "",
                _ => continue,
            };
            self.out.extend_from_slice(&value.as_bytes()[plain..at]);
            if escaped.is_empty() {
                self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            } else {
                self.out.extend_from_slice(escaped.as_bytes());
            }
            plain = at + 1;
        }
        self.out.extend_from_slice(&value.as_bytes()[plain..]);
        self.out.push(b'"');
    }

    fn raw(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.name(member.wire_name);
        self.out.extend_from_slice(value.as_bytes());
        Ok(())
    }
}

impl ShapeSerializer for JsonWriter {
    fn boolean(&mut self, member: &'static MemberSchema, value: bool) -> Result<(), EncodeError> {
        self.raw(member, if value { "true" } else { "false" })
    }

    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        self.raw(member, itoa::Buffer::new().format(value))
    }

    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        let written = text::write_double(value);
        if value.is_finite() {
            self.raw(member, &written)
        } else {
            self.string(member, &written)
        }
    }

    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.name(member.wire_name);
        self.quoted(value);
        Ok(())
    }

    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError> {
        let written = text::write_timestamp(member, value, TimestampFormat::UnixTimestamp)?;
        match member.timestamp_format {
            None | Some(TimestampFormat::UnixTimestamp) => self.raw(member, &written),
            Some(_) => self.string(member, &written),
        }
    }

    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.string(member, &text::write_blob(value))
    }

    fn structure(&mut self, member: &'static MemberSchema, value: &dyn DynShape) -> Result<(), EncodeError> {
        self.name(member.wire_name);
        self.container(b'{', b'}', &mut |out| value.serialize(out))
    }

    fn list(&mut self, member: &'static MemberSchema, items: &dyn Items) -> Result<(), EncodeError> {
        let ShapeKind::List(element) = member.shape.kind else {
            return Ok(());
        };
        self.name(member.wire_name);
        self.container(b'[', b']', &mut |out| {
            items.each(&mut |item| {
                out.separate();
                out.nameless = true;
                item.write(element, out)
            })
        })
    }

    fn map(&mut self, member: &'static MemberSchema, entries: &dyn Entries) -> Result<(), EncodeError> {
        let ShapeKind::Map(_, value_member) = member.shape.kind else {
            return Ok(());
        };
        self.name(member.wire_name);
        self.container(b'{', b'}', &mut |out| {
            entries.each(&mut |key, value| {
                out.name(key);
                out.nameless = true;
                value.write(value_member, out)
            })
        })
    }
}

//! Writes shapes as XML, straight to bytes.
//!
//! Members become elements named by the schema. Text that XML cannot carry even escaped is replaced by U+FFFD rather
//! than failing: one bad byte in a tag must not make a whole listing unreadable (requests with such text are refused,
//! see `query::form`).

use aws_shapes::schema::{MemberSchema, ShapeKind, TimestampFormat, XmlNamespace};
use aws_shapes::value::{DynShape, EncodeError, Entries, Items, ShapeSerializer};
use bytes::Bytes;
use time::OffsetDateTime;

use crate::codec::text;

/// A document being written.
pub(crate) struct XmlWriter {
    out: Vec<u8>,
    /// Name of the next element where that is not its member's own: an item of a flattened list.
    item_name: Option<&'static str>,
}

impl XmlWriter {
    /// A document with its declaration.
    pub(crate) fn document() -> Self {
        Self {
            out: b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec(),
            item_name: None,
        }
    }

    /// What was written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Opens an element that is not a member.
    pub(crate) fn open(&mut self, name: &str, namespace: Option<&str>) {
        self.start(name, namespace.map(|uri| (None, uri)));
        self.out.push(b'>');
    }

    /// Closes an element.
    pub(crate) fn close(&mut self, name: &str) {
        self.out.extend_from_slice(b"</");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'>');
    }

    /// Writes an element of text that is not a member.
    pub(crate) fn text_element(&mut self, name: &str, content: &str) {
        self.open(name, None);
        self.escape(content);
        self.close(name);
    }

    /// Writes a start tag without its end, for attributes to follow.
    fn start(&mut self, name: &str, namespace: Option<(Option<&str>, &str)>) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        if let Some((prefix, uri)) = namespace {
            self.out.extend_from_slice(b" xmlns");
            if let Some(prefix) = prefix {
                self.out.push(b':');
                self.out.extend_from_slice(prefix.as_bytes());
            }
            self.out.extend_from_slice(b"=\"");
            self.escape(uri);
            self.out.push(b'"');
        }
    }

    fn escape(&mut self, content: &str) {
        let mut plain = 0;
        for (at, letter) in content.char_indices() {
            let escaped: &[u8] = match letter {
                '&' => b"&amp;",
                '<' => b"&lt;",
                '>' => b"&gt;",
                '"' => b"&quot;",
                // Parsers turn a bare carriage return into a line feed.
                '\r' => b"&#13;",
                _ if text::is_xml_char(letter) => continue,
                _ => "\u{FFFD}".as_bytes(),
            };
            self.out.extend_from_slice(&content.as_bytes()[plain..at]);
            self.out.extend_from_slice(escaped);
            plain = at + letter.len_utf8();
        }
        self.out.extend_from_slice(&content.as_bytes()[plain..]);
    }

    fn name(&mut self, member: &'static MemberSchema) -> &'static str {
        self.item_name.take().unwrap_or(member.wire_name)
    }

    fn scalar(&mut self, member: &'static MemberSchema, content: &str) {
        // Attributes are written by the parent, which looks ahead.
        if member.xml_attribute {
            return;
        }
        let name = self.name(member);
        self.start(name, split(member.xml_namespace));
        self.out.push(b'>');
        self.escape(content);
        self.close(name);
    }

    fn attributes(&mut self, value: &dyn DynShape) -> Result<(), EncodeError> {
        for (index, member) in value
            .schema()
            .members
            .iter()
            .enumerate()
            .filter(|(_, m)| m.xml_attribute)
        {
            value.field(index).write(member, &mut Attribute { out: self })?;
        }
        Ok(())
    }

    /// Writes a structure as an element with a name of the caller's choice: the root of a document.
    pub(crate) fn root(
        &mut self,
        name: &str,
        namespace: Option<&str>,
        write: &mut dyn FnMut(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.open(name, namespace);
        write(self)?;
        self.close(name);
        Ok(())
    }
}

fn split(namespace: Option<XmlNamespace>) -> Option<(Option<&'static str>, &'static str)> {
    namespace.map(|namespace| (namespace.prefix, namespace.uri))
}

impl ShapeSerializer for XmlWriter {
    fn boolean(&mut self, member: &'static MemberSchema, value: bool) -> Result<(), EncodeError> {
        self.scalar(member, if value { "true" } else { "false" });
        Ok(())
    }

    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        self.scalar(member, itoa::Buffer::new().format(value));
        Ok(())
    }

    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        self.scalar(member, &text::write_double(value));
        Ok(())
    }

    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.scalar(member, value);
        Ok(())
    }

    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError> {
        self.scalar(
            member,
            &text::write_timestamp(member, value, TimestampFormat::Iso8601)?,
        );
        Ok(())
    }

    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.scalar(member, &text::write_blob(value));
        Ok(())
    }

    fn structure(&mut self, member: &'static MemberSchema, value: &dyn DynShape) -> Result<(), EncodeError> {
        let name = self.name(member);
        self.start(name, split(member.xml_namespace));
        self.attributes(value)?;
        self.out.push(b'>');
        value.serialize(self)?;
        self.close(name);
        Ok(())
    }

    fn list(&mut self, member: &'static MemberSchema, items: &dyn Items) -> Result<(), EncodeError> {
        let ShapeKind::List(element) = member.shape.kind else {
            return Ok(());
        };
        if member.flattened {
            return items.each(&mut |item| {
                self.item_name = Some(member.item_name);
                item.write(element, self)
            });
        }
        let name = self.name(member);
        self.start(name, split(member.xml_namespace));
        self.out.push(b'>');
        items.each(&mut |item| item.write(element, self))?;
        self.close(name);
        Ok(())
    }

    fn map(&mut self, member: &'static MemberSchema, entries: &dyn Entries) -> Result<(), EncodeError> {
        let ShapeKind::Map(key_member, value_member) = member.shape.kind else {
            return Ok(());
        };
        let name = self.name(member);
        let entry = if member.flattened { name } else { "entry" };
        if !member.flattened {
            self.start(name, split(member.xml_namespace));
            self.out.push(b'>');
        }
        entries.each(&mut |key, value| {
            self.open(entry, None);
            self.scalar(key_member, key);
            value.write(value_member, self)?;
            self.close(entry);
            Ok(())
        })?;
        if !member.flattened {
            self.close(name);
        }
        Ok(())
    }
}

/// Writes one member into the start tag of its parent.
struct Attribute<'a> {
    out: &'a mut XmlWriter,
}

impl Attribute<'_> {
    fn put(&mut self, member: &'static MemberSchema, content: &str) -> Result<(), EncodeError> {
        self.out.out.push(b' ');
        self.out.out.extend_from_slice(member.wire_name.as_bytes());
        self.out.out.extend_from_slice(b"=\"");
        self.out.escape(content);
        self.out.out.push(b'"');
        Ok(())
    }
}

impl ShapeSerializer for Attribute<'_> {
    fn boolean(&mut self, member: &'static MemberSchema, value: bool) -> Result<(), EncodeError> {
        self.put(member, if value { "true" } else { "false" })
    }
    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        self.put(member, itoa::Buffer::new().format(value))
    }
    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        self.put(member, &text::write_double(value))
    }
    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.put(member, value)
    }
    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError> {
        self.put(
            member,
            &text::write_timestamp(member, value, TimestampFormat::Iso8601)?,
        )
    }
    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.put(member, &text::write_blob(value))
    }
    fn structure(&mut self, member: &'static MemberSchema, _: &dyn DynShape) -> Result<(), EncodeError> {
        Err(EncodeError::Misplaced { member: member.name })
    }
    fn list(&mut self, member: &'static MemberSchema, _: &dyn Items) -> Result<(), EncodeError> {
        Err(EncodeError::Misplaced { member: member.name })
    }
    fn map(&mut self, member: &'static MemberSchema, _: &dyn Entries) -> Result<(), EncodeError> {
        Err(EncodeError::Misplaced { member: member.name })
    }
}

//! Reads a shape out of a form's tree.

use aws_shapes::schema::{MemberSchema, ShapeKind};
use aws_shapes::value::{DecodeError, DynShape, EachEntry, EachItem, ShapeDeserializer};
use bytes::Bytes;
use time::OffsetDateTime;

use super::form::Node;
use crate::codec::{Path, text};

/// Reads the request's own members into `target`.
pub(super) fn read(root: &Node, ec2: bool, target: &mut dyn DynShape) -> Result<(), DecodeError> {
    FormReader {
        node: root,
        path: Path::ROOT,
        ec2,
    }
    .members(target)
}

struct FormReader<'a> {
    node: &'a Node,
    path: Path<'a>,
    ec2: bool,
}

impl<'a> FormReader<'a> {
    fn text(&self, member: &'static MemberSchema, expected: &'static str) -> Result<&'a str, DecodeError> {
        self.node
            .value()
            .ok_or_else(|| text::invalid(&self.path, member, "", expected))
    }

    fn members(&self, target: &mut dyn DynShape) -> Result<(), DecodeError> {
        self.node.enter();
        for (index, member) in target.schema().members.iter().enumerate() {
            if let Some(node) = self.node.child(member.query_name) {
                let path = self.path.join(member.query_name);
                target.deserialize_member(
                    index,
                    &mut FormReader {
                        node,
                        path,
                        ec2: self.ec2,
                    },
                )?;
            }
        }
        Ok(())
    }

    /// The node whose children are numbered: the list itself, or what wraps its items.
    fn numbered(&self, flat: bool, wrapper: &str) -> Result<Vec<(String, &'a Node)>, DecodeError> {
        self.node.enter();
        let container = if flat {
            Some(self.node)
        } else {
            self.node.child(wrapper)
        };
        container.map_or_else(|| Ok(Vec::new()), Node::numbered)
    }
}

impl ShapeDeserializer for FormReader<'_> {
    fn boolean(&mut self, member: &'static MemberSchema) -> Result<bool, DecodeError> {
        text::read_boolean(&self.path, member, self.text(member, "true or false")?)
    }

    fn integer(&mut self, member: &'static MemberSchema, bits: u32) -> Result<i64, DecodeError> {
        text::read_integer(&self.path, member, self.text(member, "an integer")?, bits)
    }

    fn double(&mut self, member: &'static MemberSchema) -> Result<f64, DecodeError> {
        text::read_double(&self.path, member, self.text(member, "a number")?)
    }

    fn string(&mut self, member: &'static MemberSchema) -> Result<String, DecodeError> {
        self.text(member, "text").map(str::to_owned)
    }

    fn timestamp(&mut self, member: &'static MemberSchema) -> Result<OffsetDateTime, DecodeError> {
        text::read_timestamp(&self.path, member, self.text(member, "a timestamp")?)
    }

    fn blob(&mut self, member: &'static MemberSchema) -> Result<Bytes, DecodeError> {
        text::read_blob(&self.path, member, self.text(member, "base64")?)
    }

    fn structure(&mut self, _: &'static MemberSchema, target: &mut dyn DynShape) -> Result<(), DecodeError> {
        self.members(target)
    }

    fn list(&mut self, member: &'static MemberSchema, each: EachItem<'_>) -> Result<(), DecodeError> {
        let ShapeKind::List(element) = member.shape.kind else {
            return Ok(());
        };
        let flat = self.ec2 || member.flattened;
        for (number, node) in self.numbered(flat, element.query_name)? {
            let wrapper = self.path.join(element.query_name);
            let path = if flat {
                self.path.join(&number)
            } else {
                wrapper.join(&number)
            };
            each(&mut FormReader {
                node,
                path,
                ec2: self.ec2,
            })?;
        }
        Ok(())
    }

    fn map(&mut self, member: &'static MemberSchema, each: EachEntry<'_>) -> Result<(), DecodeError> {
        let ShapeKind::Map(key_member, value_member) = member.shape.kind else {
            return Ok(());
        };
        let flat = self.ec2 || member.flattened;
        for (number, entry) in self.numbered(flat, "entry")? {
            let path = self.path.join(&number);
            let part = |part: &'static MemberSchema| {
                let missing = || text::invalid(&path, part, "", "a key and a value");
                entry.child(part.query_name).ok_or_else(missing)
            };
            let key = part(key_member)?.value().unwrap_or_default().to_owned();
            let node = part(value_member)?;
            each(
                key,
                &mut FormReader {
                    node,
                    path: path.join(value_member.query_name),
                    ec2: self.ec2,
                },
            )?;
        }
        Ok(())
    }
}

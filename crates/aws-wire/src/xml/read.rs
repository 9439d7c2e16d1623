//! Parses an XML body into elements, within bounds, and reads shapes out of them.
//!
//! Namespaces are dropped (AWS ignores them), document types are refused, so that no entity can be declared. Unknown
//! elements are ignored.

use aws_shapes::schema::{MemberSchema, ShapeKind};
use aws_shapes::value::{DecodeError, DynShape, EachEntry, EachItem, ShapeDeserializer};
use bytes::Bytes;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use time::OffsetDateTime;

use crate::codec::{Path, text};
use crate::limits::{XML_ELEMENTS_MAX, XML_NESTING_MAX};

/// An element with what it holds. Text is that of the element itself, all pieces joined.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Names as written, with their prefix.
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// Parses a document and answers its root.
pub(crate) fn parse(body: &[u8]) -> Result<Element, DecodeError> {
    let broken = |detail: String| DecodeError::Malformed {
        detail: format!("The XML is not well formed: {detail}"),
    };
    let document = std::str::from_utf8(body).map_err(|_| broken("it is not UTF-8".into()))?;
    let mut reader = Reader::from_str(document.trim_start_matches('\u{FEFF}'));
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut elements = 0;
    loop {
        let event = reader.read_event().map_err(|error| broken(error.to_string()))?;
        match event {
            Event::Start(ref start) | Event::Empty(ref start) => {
                elements += 1;
                if elements > XML_ELEMENTS_MAX {
                    return Err(DecodeError::TooLarge {
                        what: "XML elements",
                        limit: XML_ELEMENTS_MAX,
                    });
                }
                if open.len() >= XML_NESTING_MAX {
                    return Err(DecodeError::TooLarge {
                        what: "nested XML elements",
                        limit: XML_NESTING_MAX,
                    });
                }
                if open.is_empty() && root.is_some() {
                    return Err(broken("there is a second root".into()));
                }
                let element = element(start).map_err(broken)?;
                match event {
                    Event::Start(_) => open.push(element),
                    _ => attach(&mut open, &mut root, element),
                }
            }
            Event::End(_) => {
                // The reader has checked that the tag closes the one that is open.
                let Some(element) = open.pop() else {
                    return Err(broken("an element ends twice".into()));
                };
                attach(&mut open, &mut root, element);
            }
            Event::Text(text) => {
                let text = text.xml_content(XmlVersion::Implicit1_0);
                match open.last_mut() {
                    Some(element) => element.text.push_str(&text),
                    None if text.trim_ascii().is_empty() => {}
                    None => return Err(broken("there is text outside of the root".into())),
                }
            }
            Event::CData(data) => match open.last_mut() {
                Some(element) => element.text.push_str(&data.xml_content(XmlVersion::Implicit1_0)),
                None => return Err(broken("there is text outside of the root".into())),
            },
            Event::GeneralRef(reference) => {
                let resolved = reference
                    .resolve_char_ref()
                    .map_err(|error| broken(error.to_string()))?;
                let letter = match resolved {
                    Some(letter) if text::is_xml_char(letter) => letter,
                    Some(_) => return Err(broken("a character reference is not allowed in XML".into())),
                    None => predefined(&reference.into_inner())
                        .ok_or_else(|| broken("an entity is unknown".into()))?,
                };
                match open.last_mut() {
                    Some(element) => element.text.push(letter),
                    None => return Err(broken("there is text outside of the root".into())),
                }
            }
            Event::DocType(_) => return Err(broken("document types are not allowed".into())),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof if open.is_empty() => return root.ok_or_else(|| broken("there is no root".into())),
            Event::Eof => return Err(broken("an element does not end".into())),
        }
    }
}

fn predefined(entity: &str) -> Option<char> {
    Some(match entity {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

fn attach(open: &mut [Element], root: &mut Option<Element>, element: Element) {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None => *root = Some(element),
    }
}

fn element(start: &BytesStart<'_>) -> Result<Element, String> {
    let name = start.local_name().as_ref().to_owned();
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| error.to_string())?;
        attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(Element {
        name,
        attributes,
        ..Element::default()
    })
}

/// A reader of a document that is one structure. Its root may have any name: AWS's clients do not agree on it.
pub(crate) fn reader_of_root<'a>(root: &'a Element, member: &'static MemberSchema) -> XmlReader<'a> {
    XmlReader {
        source: Source::Element(root),
        path: Path::ROOT.join(member.wire_name),
    }
}

/// Reads members out of an element: those of its members that `wanted` names.
pub(crate) fn read_members(
    element: &Element,
    target: &mut dyn DynShape,
    wanted: &dyn Fn(&MemberSchema) -> bool,
) -> Result<(), DecodeError> {
    members(element, Path::ROOT, target, wanted)
}

fn members(
    element: &Element,
    path: Path<'_>,
    target: &mut dyn DynShape,
    wanted: &dyn Fn(&MemberSchema) -> bool,
) -> Result<(), DecodeError> {
    for (index, member) in target
        .schema()
        .members
        .iter()
        .enumerate()
        .filter(|(_, member)| wanted(member))
    {
        let path = path.join(member.wire_name);
        if member.xml_attribute {
            if let Some(value) = attribute(element, member.wire_name) {
                target.deserialize_member(
                    index,
                    &mut XmlReader {
                        source: Source::Text(value),
                        path,
                    },
                )?;
            }
        } else if member.flattened {
            let named = |child: &&Element| child.name == member.wire_name || child.name == member.item_name;
            let items: Vec<&Element> = element.children.iter().filter(named).collect();
            if !items.is_empty() {
                target.deserialize_member(
                    index,
                    &mut XmlReader {
                        source: Source::Siblings(&items),
                        path,
                    },
                )?;
            }
        } else if let Some(child) = element.child(member.wire_name) {
            target.deserialize_member(
                index,
                &mut XmlReader {
                    source: Source::Element(child),
                    path,
                },
            )?;
        }
    }
    Ok(())
}

/// An attribute by its name; the prefix is the client's to choose, so only what follows it counts.
fn attribute<'a>(element: &'a Element, name: &str) -> Option<&'a str> {
    let local = |name: &str| name.rsplit(':').next().unwrap_or_default().to_owned();
    let exact = element.attributes.iter().find(|(written, _)| written == name);
    let found = exact.or_else(|| {
        element
            .attributes
            .iter()
            .find(|(written, _)| local(written) == local(name))
    });
    found.map(|(_, value)| value.as_str())
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Element(&'a Element),
    /// The items of a flattened list or map.
    Siblings(&'a [&'a Element]),
    /// The value of an attribute.
    Text(&'a str),
}

/// A value of a document.
pub(crate) struct XmlReader<'a> {
    source: Source<'a>,
    path: Path<'a>,
}

impl<'a> XmlReader<'a> {
    fn text(&self, member: &'static MemberSchema, expected: &'static str) -> Result<&'a str, DecodeError> {
        match self.source {
            Source::Element(element) if element.children.is_empty() => Ok(&element.text),
            Source::Text(text) => Ok(text),
            _ => Err(text::invalid(&self.path, member, "", expected)),
        }
    }

    /// The elements inside, or the siblings if the list or map is flattened.
    fn items(&self, item_name: Option<&str>) -> Vec<&'a Element> {
        match self.source {
            Source::Siblings(siblings) => siblings.to_vec(),
            Source::Element(element) => {
                let named = |child: &&Element| item_name.is_none_or(|name| child.name == name);
                element.children.iter().filter(named).collect()
            }
            Source::Text(_) => Vec::new(),
        }
    }
}

impl ShapeDeserializer for XmlReader<'_> {
    fn boolean(&mut self, member: &'static MemberSchema) -> Result<bool, DecodeError> {
        text::read_boolean(
            &self.path,
            member,
            self.text(member, "true or false")?.trim_ascii(),
        )
    }

    fn integer(&mut self, member: &'static MemberSchema, bits: u32) -> Result<i64, DecodeError> {
        text::read_integer(
            &self.path,
            member,
            self.text(member, "an integer")?.trim_ascii(),
            bits,
        )
    }

    fn double(&mut self, member: &'static MemberSchema) -> Result<f64, DecodeError> {
        text::read_double(&self.path, member, self.text(member, "a number")?.trim_ascii())
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

    fn structure(
        &mut self,
        member: &'static MemberSchema,
        target: &mut dyn DynShape,
    ) -> Result<(), DecodeError> {
        match self.source {
            Source::Element(element) => members(element, self.path, target, &|_| true),
            _ => Err(text::invalid(&self.path, member, "", "one element")),
        }
    }

    fn list(&mut self, member: &'static MemberSchema, each: EachItem<'_>) -> Result<(), DecodeError> {
        let ShapeKind::List(element) = member.shape.kind else {
            return Ok(());
        };
        for (index, item) in self.items(Some(element.wire_name)).into_iter().enumerate() {
            let number = (index + 1).to_string();
            each(&mut XmlReader {
                source: Source::Element(item),
                path: self.path.join(&number),
            })?;
        }
        Ok(())
    }

    fn map(&mut self, member: &'static MemberSchema, each: EachEntry<'_>) -> Result<(), DecodeError> {
        let ShapeKind::Map(key_member, value_member) = member.shape.kind else {
            return Ok(());
        };
        for entry in self.items(Some("entry")) {
            let part = |part: &'static MemberSchema| {
                let missing = || text::invalid(&self.path, part, "", "a key and a value");
                entry.child(part.wire_name).ok_or_else(missing)
            };
            let key = part(key_member)?.text.clone();
            let value = Source::Element(part(value_member)?);
            each(
                key.clone(),
                &mut XmlReader {
                    source: value,
                    path: self.path.join(&key),
                },
            )?;
        }
        Ok(())
    }
}

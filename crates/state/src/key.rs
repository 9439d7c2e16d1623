//! Keys: the tuple codec, key ranges, and the key spaces of the store.
//!
//! A key is a tuple of components. The encoding is injective (two tuples never share bytes) and keeps order
//! (bytes compare as the tuples do), so a prefix of components is one contiguous range:
//!
//! | component | bytes |
//! |---|---|
//! | text | `02`, the UTF-8 bytes with each `00` written as `00 FF`, then `00` |
//! | number | `03`, then eight bytes, most significant first |
//!
//! No component starts with `FF`, hence everything below a prefix `p` lies in `[p 01, p FF)`. The property tests are
//! beside this file in `key/tests.rs`. Key spaces: `t` records, `i` index entries, `u` unique values, `x` commit markers,
//! `meta`; `p` presence, `l` leases, `c` claims and `a` acknowledgements are reserved for the next step of `state`.

use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

#[cfg(test)]
mod tests;

const TEXT: u8 = 0x02;
const NUMBER: u8 = 0x03;
const ESCAPE: u8 = 0xFF;
const BELOW_CHILDREN: u8 = 0x01;
const ABOVE_CHILDREN: u8 = 0xFF;

/// One component of a key. Text sorts before numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Any text, the empty one included.
    Text(String),
    /// A number, ordered by value.
    Number(u64),
}

impl From<&str> for Component {
    fn from(text: &str) -> Self {
        Component::Text(text.to_owned())
    }
}

impl From<String> for Component {
    fn from(text: String) -> Self {
        Component::Text(text)
    }
}

impl From<u64> for Component {
    fn from(number: u64) -> Self {
        Component::Number(number)
    }
}

/// Why bytes are not a key of this codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyDecodeError {
    /// A component starts with an unknown tag.
    #[error("unknown component tag {tag:#04x} at byte {at}")]
    Tag {
        /// The tag found.
        tag: u8,
        /// Its offset in the key.
        at: usize,
    },
    /// The key ends inside a component.
    #[error("the key ends inside a component")]
    Truncated,
    /// A text component is not UTF-8.
    #[error("a text component is not UTF-8")]
    Utf8(#[source] std::string::FromUtf8Error),
    /// The components are valid but do not have the expected shape.
    #[error("expected {expected}")]
    Shape {
        /// What was expected.
        expected: &'static str,
    },
}

/// An encoded key. Cheap to clone; ordered as its bytes are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// The key of these components.
    pub fn new<C: Into<Component>>(components: impl IntoIterator<Item = C>) -> Key {
        let mut out = BytesMut::with_capacity(64);
        for component in components {
            match component.into() {
                Component::Text(text) => put_text(&mut out, &text),
                Component::Number(number) => {
                    out.put_u8(NUMBER);
                    out.put_u64(number);
                }
            }
        }
        Key(out.freeze())
    }

    /// The key of these texts; the usual case, without intermediate strings.
    pub fn of(texts: &[&str]) -> Key {
        let mut out = BytesMut::with_capacity(texts.iter().map(|text| text.len() + 2).sum());
        for text in texts {
            put_text(&mut out, text);
        }
        Key(out.freeze())
    }

    /// This key with one more text component.
    pub fn child(&self, text: &str) -> Key {
        let mut out = BytesMut::with_capacity(self.0.len() + text.len() + 2);
        out.put_slice(&self.0);
        put_text(&mut out, text);
        Key(out.freeze())
    }

    /// Bytes that an engine stored earlier; they are not checked until [`Key::components`].
    pub fn from_bytes(bytes: Bytes) -> Key {
        Key(bytes)
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The encoded bytes, shared.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for the key of no component, which no engine accepts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything strictly below this key as a prefix of components.
    pub fn children(&self) -> KeyRange {
        KeyRange {
            start: self.followed_by(BELOW_CHILDREN),
            end: self.followed_by(ABOVE_CHILDREN),
        }
    }

    /// The first key after this one and after everything below it.
    pub fn after_children(&self) -> Key {
        self.followed_by(ABOVE_CHILDREN)
    }

    /// The smallest key greater than this one.
    pub fn successor(&self) -> Key {
        self.followed_by(0)
    }

    fn followed_by(&self, byte: u8) -> Key {
        let mut out = BytesMut::with_capacity(self.0.len() + 1);
        out.put_slice(&self.0);
        out.put_u8(byte);
        Key(out.freeze())
    }

    /// Decodes the components.
    pub fn components(&self) -> Result<Vec<Component>, KeyDecodeError> {
        let bytes = &self.0[..];
        let mut at = 0;
        let mut components = Vec::with_capacity(6);
        while at < bytes.len() {
            match bytes[at] {
                TEXT => {
                    let (text, next) = take_text(bytes, at + 1)?;
                    components.push(Component::Text(text));
                    at = next;
                }
                NUMBER => {
                    let end = at + 9;
                    let digits = bytes.get(at + 1..end).ok_or(KeyDecodeError::Truncated)?;
                    let digits: [u8; 8] = digits.try_into().map_err(|_| KeyDecodeError::Truncated)?;
                    components.push(Component::Number(u64::from_be_bytes(digits)));
                    at = end;
                }
                tag => return Err(KeyDecodeError::Tag { tag, at }),
            }
        }
        Ok(components)
    }

    /// Decodes a key whose components are all text.
    pub fn texts(&self) -> Result<Vec<String>, KeyDecodeError> {
        self.components()?
            .into_iter()
            .map(|component| match component {
                Component::Text(text) => Ok(text),
                Component::Number(_) => Err(KeyDecodeError::Shape {
                    expected: "only text components",
                }),
            })
            .collect()
    }
}

/// Renders as a path (`t/instances/000000000001/i-0a`), for logs and errors.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.components() {
            Ok(components) => {
                for (position, component) in components.iter().enumerate() {
                    if position > 0 {
                        f.write_str("/")?;
                    }
                    match component {
                        Component::Text(text) => write!(f, "{}", text.escape_debug())?,
                        Component::Number(number) => write!(f, "#{number}")?,
                    }
                }
                Ok(())
            }
            Err(_) => write!(f, "{}", hex::encode(&self.0)),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u8(TEXT);
    let bytes = text.as_bytes();
    if bytes.contains(&0) {
        for &byte in bytes {
            out.put_u8(byte);
            if byte == 0 {
                out.put_u8(ESCAPE);
            }
        }
    } else {
        out.put_slice(bytes);
    }
    out.put_u8(0);
}

fn take_text(bytes: &[u8], mut at: usize) -> Result<(String, usize), KeyDecodeError> {
    let mut text = Vec::new();
    loop {
        let byte = *bytes.get(at).ok_or(KeyDecodeError::Truncated)?;
        at += 1;
        if byte != 0 {
            text.push(byte);
        } else if bytes.get(at) == Some(&ESCAPE) {
            text.push(0);
            at += 1;
        } else {
            let text = String::from_utf8(text).map_err(KeyDecodeError::Utf8)?;
            return Ok((text, at));
        }
    }
}

/// A half-open range of keys: `start` is in it, `end` is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// First key of the range.
    pub start: Key,
    /// First key after the range.
    pub end: Key,
}

impl KeyRange {
    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && *key < self.end
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// The part of the range after `key`; the same range if `key` is below it.
    pub fn after(&self, key: &Key) -> KeyRange {
        KeyRange {
            start: key.successor().max(self.start.clone()),
            end: self.end.clone(),
        }
    }
}

/// The key spaces of the store.
pub mod space {
    /// Records: `t/<table>/<scope or ->/<id>`.
    pub const RECORD: &str = "t";
    /// Index entries: `i/<table>/<index>/<value…>/<scope or ->/<id>`.
    pub const INDEX: &str = "i";
    /// Unique values: `u/<table>/<index>/<value…>`.
    pub const UNIQUE: &str = "u";
    /// Commit markers: `x/<txn id>`.
    pub const MARKER: &str = "x";
    /// Facts of the store itself, and the canary.
    pub const META: &str = "meta";
}

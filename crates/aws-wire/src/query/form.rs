//! Parses `application/x-www-form-urlencoded` text into a tree of dotted names, within bounds.
//!
//! Strict where leniency would let two readers disagree: broken percent-encoding, text that is not UTF-8 and a
//! parameter given twice are refused. Each value remembers whether somebody read it, so that EC2 can name a parameter
//! that nobody did.

use std::cell::Cell;
use std::collections::BTreeMap;

use aws_shapes::value::DecodeError;

use crate::codec::text::is_xml_char;
use crate::limits::{FORM_LIST_MAX, FORM_NESTING_MAX, FORM_PARAMETERS_MAX};

/// A name and what is below it.
#[derive(Debug, Default)]
pub(super) struct Node {
    value: Option<String>,
    read: Cell<bool>,
    children: BTreeMap<String, Node>,
    /// At the root: how many parameters there are below.
    parameters: usize,
}

impl Node {
    /// Adds all parameters of a form.
    pub(super) fn add_all(&mut self, form: &[u8]) -> Result<(), DecodeError> {
        for (name, value) in pairs(form) {
            self.parameters += 1;
            if self.parameters > FORM_PARAMETERS_MAX {
                return Err(DecodeError::TooLarge {
                    what: "parameters",
                    limit: FORM_PARAMETERS_MAX,
                });
            }
            self.add(&unescape(name)?, unescape(value)?)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, value: String) -> Result<(), DecodeError> {
        if let Some(bad) = name
            .chars()
            .chain(value.chars())
            .find(|letter| !is_xml_char(*letter))
        {
            // Answers are XML: what could not be shown again is not let in.
            let detail = format!(
                "The request contains the character U+{:04X}, which is not allowed.",
                bad as u32
            );
            return Err(DecodeError::Malformed { detail });
        }
        let mut node = self;
        for (depth, step) in name.split('.').enumerate() {
            if depth >= FORM_NESTING_MAX {
                return Err(DecodeError::TooLarge {
                    what: "names in a parameter",
                    limit: FORM_NESTING_MAX,
                });
            }
            node = node.children.entry(step.to_owned()).or_default();
        }
        if node.value.replace(value).is_some() {
            let detail = format!("The parameter {name} is given more than once.");
            return Err(DecodeError::Malformed { detail });
        }
        Ok(())
    }

    /// The value with this very name; it counts as read.
    pub(super) fn value(&self) -> Option<&str> {
        self.read.set(true);
        self.value.as_deref()
    }

    /// A container has no value of its own; the empty one by which clients show an empty list counts as read.
    pub(super) fn enter(&self) {
        if self.value.as_deref() == Some("") {
            self.read.set(true);
        }
    }

    /// What is below a name.
    pub(super) fn child(&self, name: &str) -> Option<&Node> {
        self.children.get(name)
    }

    /// The entries numbered from 1. A list with a hole is refused (identity.md R12): whoever left one out by mistake
    /// must not act on the rest.
    pub(super) fn numbered(&self) -> Result<Vec<(String, &Node)>, DecodeError> {
        let mut entries = Vec::new();
        loop {
            let number = (entries.len() + 1).to_string();
            let Some(node) = self.children.get(&number) else {
                let is_number = |name: &String| name.bytes().all(|letter| letter.is_ascii_digit());
                if self.children.keys().filter(|name| is_number(name)).count() > entries.len() {
                    let detail = format!("The list has an entry beyond a missing number {number}.");
                    return Err(DecodeError::Malformed { detail });
                }
                return Ok(entries);
            };
            if entries.len() == FORM_LIST_MAX {
                return Err(DecodeError::TooLarge {
                    what: "entries in a list",
                    limit: FORM_LIST_MAX,
                });
            }
            entries.push((number, node));
        }
    }

    /// The name of a parameter that nobody read, apart from those that every request has.
    pub(super) fn first_unread(&self) -> Option<String> {
        let mut children = self.children.iter();
        children.find_map(|(name, child)| {
            if super::is_common(name) {
                None
            } else {
                child.unread_below(name)
            }
        })
    }

    fn unread_below(&self, path: &str) -> Option<String> {
        if self.value.is_some() && !self.read.get() {
            return Some(path.to_owned());
        }
        self.children
            .iter()
            .find_map(|(name, child)| child.unread_below(&format!("{path}.{name}")))
    }
}

/// The value of one parameter, without parsing the others.
pub(super) fn find_value(form: &[u8], wanted: &str) -> Result<Option<String>, DecodeError> {
    let found = pairs(form).find(|(name, _)| *name == wanted.as_bytes());
    found.map(|(_, value)| unescape(value)).transpose()
}

fn pairs(form: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pieces = form
        .trim_ascii_end()
        .split(|byte| *byte == b'&')
        .filter(|piece| !piece.is_empty());
    pieces.map(|piece| match memchr::memchr(b'=', piece) {
        Some(at) => (&piece[..at], &piece[at + 1..]),
        None => (piece, &[][..]),
    })
}

/// Undoes the escaping of forms.
fn unescape(text: &[u8]) -> Result<String, DecodeError> {
    let malformed = |detail: &str| DecodeError::Malformed {
        detail: detail.into(),
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                match (digit(), digit()) {
                    // Two hexadecimal digits make a byte.
                    (Some(high), Some(low)) => (high * 16 + low) as u8,
                    _ => return Err(malformed("The query string contains an invalid escape.")),
                }
            }
            other => other,
        });
    }
    String::from_utf8(out).map_err(|_| malformed("The query string is not valid UTF-8."))
}

#[cfg(test)]
mod tests;

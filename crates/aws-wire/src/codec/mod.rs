//! What the codecs share: scalars in text, and where in a request a value stood.
//!
//! Forms, XML, headers, query strings and JSON strings write numbers, times and bytes the same way; `text` reads and
//! writes them once. `Path` names a value for error messages without allocating until there is an error.

pub(crate) mod text;

use std::fmt;

/// Where a value stands in a request: a list of names that ends at the root.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    name: &'a str,
}

impl<'a> Path<'a> {
    /// A value of the request itself.
    pub(crate) const ROOT: Path<'static> = Path {
        parent: None,
        name: "",
    };

    /// True for the request itself.
    pub(crate) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// A value inside of this one.
    pub(crate) fn join(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            name,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) if !parent.name.is_empty() => write!(f, "{parent}.{}", self.name),
            _ => f.write_str(self.name),
        }
    }
}

//! What a request says about itself: condition keys and their values.
//!
//! [`Facts`] is asked by folded (ASCII lower-case) key, so a caller may compute a value only when some policy
//! asks for it. [`Context`] is the plain holder that operations fill. Key names are matched without case, tag
//! keys inside them too (identity.md R42); values keep their case.

use std::borrow::Cow;

/// The values of one condition key. One value and a list of one are different: only the first can be
/// substituted for a policy variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values<'a> {
    /// A single-valued key.
    One(Cow<'a, str>),
    /// A multi-valued key, possibly present and empty.
    Many(Cow<'a, [String]>),
}

impl Values<'_> {
    /// The values one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (one, many): (Option<&str>, &[String]) = match self {
            Values::One(value) => (Some(value), &[]),
            Values::Many(values) => (None, values),
        };
        one.into_iter().chain(many.iter().map(String::as_str))
    }
}

/// A source of condition key values, constant for the length of one decision.
pub trait Facts {
    /// The values of `key`, or `None` where the request does not have the key. `key` is in ASCII lower case.
    fn find(&self, key: &str) -> Option<Values<'_>>;
}

/// Condition keys and values in the order in which they were set. Built by operations with [`Context::with`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    entries: Vec<(String, Values<'static>)>,
}

impl Context {
    /// No keys at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a single-valued key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(key, Values::One(Cow::Owned(value.into())));
        self
    }

    /// Adds a single-valued key where there is a value.
    #[must_use]
    pub fn with_some(self, key: impl Into<String>, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds or replaces a multi-valued key. An empty list is present and empty, which is not absent.
    #[must_use]
    pub fn with_many<S: Into<String>>(
        mut self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = S>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.set(key, Values::Many(Cow::Owned(values)));
        self
    }

    /// `<prefix>/<tag key>` for each tag, for example with the prefix `aws:ResourceTag`.
    #[must_use]
    pub fn with_tags<K: AsRef<str>, V: Into<String>>(
        mut self,
        prefix: &str,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        for (key, value) in tags {
            self.set(
                format!("{prefix}/{}", key.as_ref()),
                Values::One(Cow::Owned(value.into())),
            );
        }
        self
    }

    /// The keys of a request that carries tags: `aws:RequestTag/k` for each and `aws:TagKeys`.
    #[must_use]
    pub fn with_request_tags<K: AsRef<str>, V: Into<String>>(
        self,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let tags: Vec<(String, String)> = tags
            .into_iter()
            .map(|(key, value)| (key.as_ref().to_owned(), value.into()))
            .collect();
        if tags.is_empty() {
            return self;
        }
        let keys: Vec<String> = tags.iter().map(|(key, _)| key.clone()).collect();
        self.with_tags("aws:RequestTag", tags)
            .with_many("aws:TagKeys", keys)
    }

    /// True without any key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn set(&mut self, key: impl Into<String>, values: Values<'static>) {
        let mut key = key.into();
        key.make_ascii_lowercase();
        match self.entries.iter_mut().find(|(existing, _)| *existing == key) {
            Some((_, slot)) => *slot = values,
            None => self.entries.push((key, values)),
        }
    }
}

impl Facts for Context {
    fn find(&self, key: &str) -> Option<Values<'_>> {
        self.entries
            .iter()
            .find(|(existing, _)| existing == key)
            .map(|(_, values)| match values {
                Values::One(value) => Values::One(Cow::Borrowed(value)),
                Values::Many(values) => Values::Many(Cow::Borrowed(values)),
            })
    }
}

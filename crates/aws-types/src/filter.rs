//! EC2's filters, once for all operations: names are ANDed, values ORed, unknown names refused.
//!
//! An operation lists the names it knows and gives each record's values for a name; parsing, wildcards, `tag:<key>`
//! and `tag-key` live here. A name that AWS documents but whose property this product never sets is listed as known
//! and yields no values, so that it matches nothing (identity.md R29, compute.md 2.7).

use crate::error::{AwsError, catalogue};
use crate::limits;
use crate::pattern::Pattern;
use crate::tag::Tags;
use std::borrow::Cow;

/// One filter as the request names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawFilter {
    /// `Filter.N.Name`.
    pub name: Option<String>,
    /// `Filter.N.Value.M`.
    pub values: Vec<String>,
}

/// The parsed filters of one request.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    filters: Vec<Filter>,
}

#[derive(Clone, Debug)]
struct Filter {
    name: String,
    patterns: Vec<Pattern>,
}

/// What a record answers for one filter name.
pub type Values<'a> = Vec<Cow<'a, str>>;

impl Filters {
    /// Parses the filters of a request against the names the operation knows. A known name of `tag` admits
    /// `tag:<key>`.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an unknown name, no values or too many; `MissingParameter` without a name.
    pub fn parse(raw: impl IntoIterator<Item = RawFilter>, known: &[&str]) -> Result<Filters, AwsError> {
        let mut filters = Vec::new();
        for RawFilter { name, values } in raw {
            let name = name.ok_or_else(|| AwsError::missing_parameter("Filter.Name"))?;
            let is_known = match name.strip_prefix("tag:") {
                Some(key) => !key.is_empty() && known.contains(&"tag"),
                None => name != "tag" && known.contains(&name.as_str()),
            };
            if !is_known {
                return Err(
                    catalogue::INVALID_PARAMETER_VALUE.error(format!("The filter '{name}' is invalid"))
                );
            }
            if values.is_empty() {
                return Err(catalogue::INVALID_PARAMETER_VALUE
                    .error(format!("The filter '{name}' must have at least one value")));
            }
            if values.len() > limits::FILTER_VALUES_MAX || filters.len() == limits::FILTERS_MAX {
                return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                    "The maximum number of filter values is {}",
                    limits::FILTER_VALUES_MAX
                )));
            }
            let patterns = values.iter().map(|v| Pattern::new(v)).collect();
            filters.push(Filter { name, patterns });
        }
        Ok(Filters { filters })
    }

    /// True if the request filters on nothing.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// The names filtered on, so that an operation can load only what they need.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.filters.iter().map(|f| f.name.as_str())
    }

    /// The exact values of a filter, if it is present and has no wildcard: lets an operation use an index.
    pub fn exact_values(&self, name: &str) -> Option<Vec<&str>> {
        let filter = self.filters.iter().find(|f| f.name == name)?;
        filter.patterns.iter().map(Pattern::literal).collect()
    }

    /// True if a record passes every filter. `values` answers for names other than tags.
    pub fn matches<'a>(&self, tags: &Tags, values: impl Fn(&str) -> Values<'a>) -> bool {
        self.filters.iter().all(|filter| {
            let hit = |value: &str| filter.patterns.iter().any(|p| p.matches(value));
            match filter.name.strip_prefix("tag:") {
                Some(key) => tags.get(key).is_some_and(|v| hit(v)),
                None if filter.name == "tag-key" => tags.keys().any(|k| hit(k)),
                None if filter.name == "tag-value" => tags.values().any(|v| hit(v)),
                None => values(&filter.name).iter().any(|v| hit(v)),
            }
        })
    }
}

/// Values of an optional property.
pub fn optional<'a, T: Into<Cow<'a, str>>>(value: Option<T>) -> Values<'a> {
    value.map(Into::into).into_iter().collect()
}

/// Values of a property that is always there.
pub fn one<'a>(value: impl Into<Cow<'a, str>>) -> Values<'a> {
    vec![value.into()]
}

/// Values of a flag, as AWS spells it.
pub fn flag<'a>(value: bool) -> Values<'a> {
    vec![Cow::Borrowed(if value { "true" } else { "false" })]
}

#[cfg(test)]
mod tests {
    use super::{Filters, RawFilter, one};
    use crate::tag::Tags;

    fn raw(name: &str, values: &[&str]) -> RawFilter {
        RawFilter {
            name: Some(name.into()),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        }
    }

    #[test]
    fn names_are_anded_and_values_ored() {
        let filters =
            Filters::parse([raw("a", &["1", "2"]), raw("tag:k", &["v*"])], &["a", "tag"]).expect("known");
        let tags = Tags::from([("k".to_owned(), "value".to_owned())]);
        assert!(filters.matches(&tags, |_| one("2")));
        assert!(!filters.matches(&tags, |_| one("3")));
        assert!(!filters.matches(&Tags::new(), |_| one("2")));
    }

    #[test]
    fn unknown_names_are_refused_by_name() {
        let error = Filters::parse([raw("color", &["x"])], &["a", "tag"]).expect_err("unknown");
        assert_eq!(error.code, "InvalidParameterValue");
        assert!(error.message.contains("'color'"), "{}", error.message);
        assert!(Filters::parse([raw("tag:", &["x"])], &["tag"]).is_err());
        assert!(Filters::parse([raw("tag", &["x"])], &["tag"]).is_err());
        assert!(Filters::parse([raw("tag:k", &["x"])], &["a"]).is_err());
    }
}

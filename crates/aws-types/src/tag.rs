//! Tags: keys and values with AWS's bounds and reserved prefix.
//!
//! Source: "Tag your Amazon EC2 resources", tag restrictions. Where tags are stored is `network`'s affair; this
//! file only decides whether a set of tags may exist.

use crate::error::{AwsError, catalogue};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tags of one resource, ordered by key.
pub type Tags = BTreeMap<String, String>;

/// One tag as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tag {
    /// 1 to 128 characters, not beginning with `aws:`.
    pub key: String,
    /// 0 to 256 characters.
    pub value: String,
}

/// Checks one tag a caller wants to write.
///
/// # Errors
/// `InvalidParameterValue` in EC2's wording for a key or value out of bounds or in the reserved `aws:` space.
pub fn check_tag(key: &str, value: &str) -> Result<(), AwsError> {
    if key.is_empty() || key.chars().count() > limits::TAG_KEY_CHARS_MAX {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Tag key length must be between 1 and {} characters",
            limits::TAG_KEY_CHARS_MAX
        )));
    }
    if value.chars().count() > limits::TAG_VALUE_CHARS_MAX {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Tag value exceeds the maximum length of {} characters",
            limits::TAG_VALUE_CHARS_MAX
        )));
    }
    check_key_is_not_reserved(key)
}

/// Refuses keys in AWS's own space, as CreateTags and DeleteTags do.
///
/// # Errors
/// `InvalidParameterValue`.
pub fn check_key_is_not_reserved(key: &str) -> Result<(), AwsError> {
    if key.get(..4).is_some_and(|p| p.eq_ignore_ascii_case("aws:")) {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error(format!("Value ( {key} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use")));
    }
    Ok(())
}

/// Turns the tags of a request into a map.
///
/// # Errors
/// `InvalidParameterValue` for a bad tag or a key named twice; `TagLimitExceeded` above 50.
pub fn collect_tags(tags: impl IntoIterator<Item = Tag>) -> Result<Tags, AwsError> {
    let mut map = Tags::new();
    for tag in tags {
        check_tag(&tag.key, &tag.value)?;
        if map.contains_key(&tag.key) {
            return Err(catalogue::INVALID_PARAMETER_VALUE
                .error(format!("Duplicate tag key '{}' specified.", tag.key)));
        }
        map.insert(tag.key, tag.value);
    }
    if map.len() > limits::TAGS_PER_RESOURCE_MAX {
        return Err(catalogue::TAG_LIMIT_EXCEEDED.error(format!(
            "The maximum number of tags per resource is {}",
            limits::TAGS_PER_RESOURCE_MAX
        )));
    }
    Ok(map)
}

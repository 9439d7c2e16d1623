//! What requests of this room have in common: filters, ids, enumerations, tags.
//!
//! Ids are checked before any lookup, and all of them before anything changes (R2); duplicates collapse to one.

use crate::error::malformed;
use aws_shapes::ec2;
use aws_types::filter::{Filters, RawFilter};
use aws_types::{AwsError, ErrorCode, catalogue};
use std::collections::BTreeSet;

/// The filters of a request.
///
/// # Errors
/// See [`Filters::parse`].
pub fn filters(raw: Vec<ec2::Filter>, known: &[&str]) -> Result<Filters, AwsError> {
    Filters::parse(
        raw.into_iter().map(|filter| RawFilter {
            name: filter.name,
            values: filter.values,
        }),
        known,
    )
}

/// Ids of one kind as named, without repeats.
///
/// # Errors
/// `code` for the first malformed one; `InvalidParameterValue` above `ids_max`.
pub fn ids<Id>(
    named: &[String],
    ids_max: usize,
    code: ErrorCode,
    parse: impl Fn(&str) -> Option<Id>,
) -> Result<Vec<Id>, AwsError> {
    if named.len() > ids_max {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error(format!("The maximum number of ids in one request is {ids_max}")));
    }
    let mut seen = BTreeSet::new();
    let mut ids = Vec::with_capacity(named.len());
    for text in named {
        let id = parse(text).ok_or_else(|| malformed(code, text))?;
        if seen.insert(text.as_str()) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The value of an enumeration member that `parse` knows.
///
/// # Errors
/// `InvalidParameterValue` in EC2's wording.
pub fn choice<T>(value: &str, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, AwsError> {
    parse(value).ok_or_else(|| {
        catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid value '{value}' for {name}."))
    })
}

/// `enabled` and `disabled`.
pub fn switch(value: &str) -> Option<bool> {
    match value {
        "enabled" => Some(true),
        "disabled" => Some(false),
        _ => None,
    }
}

/// A count that the wire carries signed.
pub fn count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// A number that the wire carries signed.
pub fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

//! Scalars in text.
//!
//! Reading is a little more lenient than AWS's clients are in writing (`True`, unpadded base64, dates without a time),
//! never ambiguous. Writing is exact: times have milliseconds only where there are some, numbers never an exponent
//! that XML Schema would refuse.

use aws_shapes::schema::{MemberSchema, TimestampFormat};
use aws_shapes::value::{DecodeError, EncodeError};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose};
use bytes::Bytes;
use time::format_description::well_known::{Rfc2822, Rfc3339};
use time::{Date, OffsetDateTime};

use super::Path;
use crate::limits::ECHOED_VALUE_MAX;

const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The error for a value that is not what the member wants. Sensitive values are not repeated.
pub(crate) fn invalid(
    path: &Path<'_>,
    member: &MemberSchema,
    value: &str,
    expected: &'static str,
) -> DecodeError {
    let cut = value.floor_char_boundary(ECHOED_VALUE_MAX);
    let value = if member.sensitive { "" } else { &value[..cut] };
    DecodeError::InvalidValue {
        path: path.to_string(),
        value: value.to_owned(),
        expected,
    }
}

pub(crate) fn read_boolean(path: &Path<'_>, member: &MemberSchema, text: &str) -> Result<bool, DecodeError> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Ok(true),
        _ if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(invalid(path, member, text, "true or false")),
    }
}

pub(crate) fn read_integer(
    path: &Path<'_>,
    member: &MemberSchema,
    text: &str,
    bits: u32,
) -> Result<i64, DecodeError> {
    let parsed = text
        .parse()
        .ok()
        .filter(|value: &i64| bits >= 64 || i32::try_from(*value).is_ok());
    parsed.ok_or_else(|| invalid(path, member, text, "an integer"))
}

pub(crate) fn read_double(path: &Path<'_>, member: &MemberSchema, text: &str) -> Result<f64, DecodeError> {
    text.parse().map_err(|_| invalid(path, member, text, "a number"))
}

pub(crate) fn read_blob(path: &Path<'_>, member: &MemberSchema, text: &str) -> Result<Bytes, DecodeError> {
    let decoded = LENIENT_BASE64.decode(text.trim_ascii());
    decoded
        .map(Bytes::from)
        .map_err(|_| invalid(path, member, text, "base64"))
}

/// Reads a time in any of the formats: they cannot be mistaken for each other.
pub(crate) fn read_timestamp(
    path: &Path<'_>,
    member: &MemberSchema,
    text: &str,
) -> Result<OffsetDateTime, DecodeError> {
    parse_timestamp(text.trim_ascii()).ok_or_else(|| invalid(path, member, text, "a timestamp"))
}

fn parse_timestamp(text: &str) -> Option<OffsetDateTime> {
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Some(time);
    }
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc2822) {
        return Some(time);
    }
    if let Ok(date) = Date::parse(text, time::macros::format_description!("[year]-[month]-[day]")) {
        return Some(date.midnight().assume_utc());
    }
    text.parse().ok().and_then(from_unix)
}

/// The time this many seconds after 1970, to the microsecond (a double holds no more).
pub(crate) fn from_unix(seconds: f64) -> Option<OffsetDateTime> {
    // The years 1 to 9999, as everywhere.
    if !(-62_135_596_800.0..253_402_300_800.0).contains(&seconds) {
        return None;
    }
    OffsetDateTime::from_unix_timestamp_nanos((seconds * 1e6).round() as i128 * 1000).ok()
}

pub(crate) fn write_blob(value: &[u8]) -> String {
    general_purpose::STANDARD.encode(value)
}

/// A number as XML Schema and JSON take it; the three that are none are JSON strings.
pub(crate) fn write_double(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => ryu::Buffer::new().format_finite(value).into(),
    }
}

/// Writes a time in UTC.
pub(crate) fn write_timestamp(
    member: &'static MemberSchema,
    value: OffsetDateTime,
    habit: TimestampFormat,
) -> Result<String, EncodeError> {
    let out_of_range = EncodeError::TimeOutOfRange { member: member.name };
    let value = value
        .checked_to_offset(time::UtcOffset::UTC)
        .ok_or(out_of_range.clone())?;
    if !(1..=9999).contains(&value.year()) {
        return Err(out_of_range);
    }
    let milliseconds = value.millisecond();
    Ok(match member.timestamp_format.unwrap_or(habit) {
        TimestampFormat::Iso8601 => {
            let (year, month, day) = value.to_calendar_date();
            let (hour, minute, second) = value.to_hms();
            let month = u8::from(month);
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
        }
        TimestampFormat::Rfc822 => {
            // Formatting to a string cannot fail for a UTC time of these years.
            let text = value.format(&Rfc2822).map_err(|_| out_of_range)?;
            text.replace("+0000", "GMT")
        }
        TimestampFormat::UnixTimestamp if milliseconds == 0 => value.unix_timestamp().to_string(),
        TimestampFormat::UnixTimestamp => {
            // Before 1970 the fraction still counts upwards from the second below.
            write_double((value.unix_timestamp_nanos() / 1_000_000) as f64 / 1000.0)
        }
    })
}

/// False for characters that XML 1.0 cannot carry, not even escaped.
pub(crate) fn is_xml_char(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests;

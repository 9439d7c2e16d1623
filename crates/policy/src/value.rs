//! The typed values that condition operators compare: decimals, instants, addresses, bytes.
//!
//! Each parser accepts what AWS documents for its operator and nothing else; a request value that does not parse
//! matches nothing.

use std::net::IpAddr;

use ipnet::IpNet;
use time::{Date, Month, Time, UtcOffset};

/// Digits kept before and behind the decimal point.
const DECIMAL_DIGITS: usize = 18;

/// A decimal number scaled by 10^18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decimal(i128);

impl Decimal {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        if whole.len() > DECIMAL_DIGITS + 1 || fraction.len() > DECIMAL_DIGITS {
            return None;
        }
        let scaled: i128 = format!("0{whole}{fraction:0<DECIMAL_DIGITS$}").parse().ok()?;
        Some(Self(if negative { -scaled } else { scaled }))
    }
}

/// An instant in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(i128);

impl Instant {
    /// W3C's profile of ISO 8601 (year to fraction of a second, with a zone where there is a time), or seconds
    /// since the epoch.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let epoch_digits = text.strip_prefix('-').unwrap_or(text);
        if epoch_digits.len() > 4 && epoch_digits.bytes().all(|b| b.is_ascii_digit()) {
            let seconds: i64 = text.parse().ok()?;
            return Some(Self(i128::from(seconds) * 1_000_000_000));
        }
        let (date, time) = match text.split_once('T') {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut parts = date.split('-');
        let year = number(parts.next()?, 4)?;
        let month = parts.next().map_or(Some(1), |part| number(part, 2))?;
        let day = parts.next().map_or(Some(1), |part| number(part, 2))?;
        if parts.next().is_some() {
            return None;
        }
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        let date =
            Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
        let Some(time) = time else {
            return Some(Self(date.midnight().assume_utc().unix_timestamp_nanos()));
        };
        let zone_at = time.find(['Z', '+', '-'])?;
        let (clock, zone) = time.split_at(zone_at);
        let instant = date
            .with_time(parse_clock(clock)?)
            .assume_offset(parse_zone(zone)?);
        Some(Self(instant.unix_timestamp_nanos()))
    }
}

fn number(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn parse_clock(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':');
    let hour = u8::try_from(number(parts.next()?, 2)?).ok()?;
    let minute = u8::try_from(number(parts.next()?, 2)?).ok()?;
    let second = u8::try_from(parts.next().map_or(Some(0), |part| number(part, 2))?).ok()?;
    if parts.next().is_some() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let nanos: u32 = number(&format!("{fraction:0<9}"), 9)?;
    Time::from_hms_nano(hour, minute, second, nanos).ok()
}

fn parse_zone(text: &str) -> Option<UtcOffset> {
    if text == "Z" {
        return Some(UtcOffset::UTC);
    }
    let sign: i8 = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text[1..].split_once(':')?;
    let hours = i8::try_from(number(hours, 2)?).ok()?;
    let minutes = i8::try_from(number(minutes, 2)?).ok()?;
    UtcOffset::from_hms(sign * hours, sign * minutes, 0).ok()
}

/// A network in CIDR form, or one bare address.
pub(crate) fn parse_network(text: &str) -> Option<IpNet> {
    match text.parse::<IpNet>() {
        Ok(network) => Some(network),
        Err(_) => text.parse::<IpAddr>().ok().map(IpNet::from),
    }
}

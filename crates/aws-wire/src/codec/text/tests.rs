//! Scalars against literal expectations.

use aws_shapes::schema::{MemberSchema, ShapeKind, ShapeSchema, TimestampFormat};
use time::macros::datetime;

use super::{
    Path, from_unix, parse_timestamp, read_blob, read_boolean, read_integer, write_double, write_timestamp,
};

static TEXT: ShapeSchema = ShapeSchema::new("Text", ShapeKind::String);
static PLAIN: MemberSchema = MemberSchema::new("Plain", &TEXT);
static SECRET: MemberSchema = MemberSchema::new("Secret", &TEXT).sensitive();

#[test]
fn times_are_read_in_every_format() {
    let noon = Some(datetime!(2026-11-30 12:00:00 UTC));
    for text in [
        "2026-11-30T12:00:00Z",
        "2026-11-30T12:00:00.000Z",
        "2026-11-30T13:00:00+01:00",
        "Mon, 30 Nov 2026 12:00:00 GMT",
        "1796040000",
        "1796040000.0",
    ] {
        assert_eq!(parse_timestamp(text), noon, "{text}");
    }
    assert_eq!(
        parse_timestamp("2026-11-30"),
        Some(datetime!(2026-11-30 00:00:00 UTC))
    );
    for text in ["", "yesterday", "2026-13-01", "NaN", "1e300", "-1e300"] {
        assert_eq!(parse_timestamp(text), None, "{text}");
    }
}

#[test]
fn times_are_written_in_every_format() {
    let write = |time, format| write_timestamp(&PLAIN, time, format).expect("the time is in range");
    let time = datetime!(2026-11-30 13:04:05.678 +1);
    assert_eq!(write(time, TimestampFormat::Iso8601), "2026-11-30T12:04:05.678Z");
    assert_eq!(
        write(time, TimestampFormat::Rfc822),
        "Mon, 30 Nov 2026 12:04:05 GMT"
    );
    assert_eq!(write(time, TimestampFormat::UnixTimestamp), "1796040245.678");
    assert_eq!(
        write(datetime!(2026-11-30 12:00 UTC), TimestampFormat::UnixTimestamp),
        "1796040000"
    );
    assert_eq!(
        from_unix(1796040245.678),
        Some(time.to_offset(time::UtcOffset::UTC))
    );
}

#[test]
fn numbers_keep_their_range() {
    let read = |text, bits| read_integer(&Path::ROOT.join("Count"), &PLAIN, text, bits).ok();
    assert_eq!(read("2147483647", 32), Some(2_147_483_647));
    assert_eq!(read("2147483648", 32), None);
    assert_eq!(read("2147483648", 64), Some(2_147_483_648));
    assert_eq!(read("1.0", 64), None);
    assert_eq!(write_double(0.1), "0.1");
    assert_eq!(write_double(f64::NEG_INFINITY), "-Infinity");
}

#[test]
fn wrong_values_are_named_but_secrets_are_not_repeated() {
    let error =
        read_boolean(&Path::ROOT.join("Ebs").join("Encrypted"), &PLAIN, "maybe").expect_err("no boolean");
    assert_eq!(
        error.to_string(),
        "value (maybe) for parameter Ebs.Encrypted is invalid: expected true or false"
    );
    let error = read_blob(&Path::ROOT.join("Secret"), &SECRET, "hunter2!").expect_err("no base64");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

//! Golden bytes of the envelope and of the keys. They are the format on disk: a change here needs a new version.

use super::{
    Index, Record, RecordKey, Scope, encode, index_key, index_range, key_of, same_record, unique_key,
};
use crate::key::Key;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Sample {
    id: String,
    size: u64,
    note: Option<String>,
}

impl Record for Sample {
    const TABLE: &'static str = "samples";
    const VERSION: u32 = 3;

    fn key(&self) -> RecordKey {
        RecordKey::account("000000000001", &self.id)
    }
}

#[test]
fn the_bytes_of_an_envelope_are_fixed() {
    let sample = Sample {
        id: "s-1".to_owned(),
        size: 7,
        note: None,
    };
    let bytes = encode(&sample).expect("encoded");
    let golden = r#"{"v":3,"w":"spx 0.1.0","d":{"id":"s-1","size":7,"note":null}}"#;
    assert_eq!(std::str::from_utf8(&bytes).expect("text"), golden);
}

#[test]
fn the_bytes_of_keys_are_fixed() {
    let scope = Scope::account("000000000001");
    let record = key_of::<Sample>(&scope, "s-1");
    assert_eq!(
        record.as_bytes(),
        b"\x02t\0\x02samples\0\x02000000000001\0\x02s-1\0"
    );
    assert_eq!(
        key_of::<Sample>(&Scope::NONE, "s-1").to_string(),
        "t/samples/-/s-1"
    );
    let index = Index::new("by-size", ["7", ""]);
    let entry = index_key(
        "samples",
        &index,
        &RecordKey {
            scope,
            id: "s-1".to_owned(),
        },
    );
    assert_eq!(
        entry.as_bytes(),
        b"\x02i\0\x02samples\0\x02by-size\0\x027\0\x02\0\x02000000000001\0\x02s-1\0"
    );
    assert_eq!(super::indexed_record("samples", &entry).expect("decoded"), record);
    assert_eq!(
        unique_key("samples", "name", &["a", "b"]).to_string(),
        "u/samples/name/a/b"
    );
}

#[test]
fn an_index_value_is_not_found_by_a_prefix_of_its_text() {
    let key = RecordKey::global("x");
    let entry = index_key("samples", &Index::new("name", ["abc"]), &key);
    assert!(index_range("samples", "name", &["abc"]).contains(&entry));
    assert!(index_range("samples", "name", &[]).contains(&entry));
    assert!(!index_range("samples", "name", &["ab"]).contains(&entry));
    assert!(!index_range("sample", "name", &[]).contains(&entry));
    assert!(!Key::of(&["t"]).children().contains(&entry));
}

#[test]
fn the_writer_does_not_make_a_record_different() {
    let a = br#"{"v":3,"w":"spx 0.1.0","d":{"id":"s-1"}}"#;
    let b = br#"{"v":3,"w":"spx 0.2.0","d":{"id":"s-1"}}"#;
    let c = br#"{"v":4,"w":"spx 0.1.0","d":{"id":"s-1"}}"#;
    let d = br#"{"v":3,"w":"spx 0.1.0","d":{"id":"s-2"}}"#;
    assert!(same_record(a, b));
    assert!(!same_record(a, c) && !same_record(a, d) && !same_record(a, b""));
}

#[test]
fn the_order_of_an_envelopes_fields_does_not_matter() {
    let stored = |value: &str| crate::engine::KeyValue {
        key: key_of::<Sample>(&Scope::account("000000000001"), "s-1"),
        value: value.to_owned().into(),
        create_revision: crate::result::Revision(1),
        mod_revision: crate::result::Revision(1),
        version: 1,
    };
    for value in [
        r#"{"v":3,"w":"spx","d":{"id":"s-1","size":7,"note":"x"}}"#,
        r#"{"v":3,"d":{"id":"s-1","size":7,"note":"x"}}"#,
        r#"{ "d" : {"id":"s-1","size":7,"note":"x"}, "w":"spx", "v":3 }"#,
    ] {
        let sample: Sample = super::decode(&stored(value)).expect(value);
        assert_eq!((sample.size, sample.note.as_deref()), (7, Some("x")));
    }
    for value in [
        r#"{"v":31,"w":"spx","d":{"id":"s-1","size":7,"note":"x"}}"#,
        r#"{"v":3"#,
        r#"{"v":,"d":{}}"#,
    ] {
        assert!(super::decode::<Sample>(&stored(value)).is_err(), "{value}");
    }
}

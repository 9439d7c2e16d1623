//! Records: the typed values of a table, and the envelope they are stored in.
//!
//! The envelope is JSON, `{"v":<version>,"w":"<build that wrote it>","d":<the record>}`. Reading brings an older version
//! up by its table's migration chain; a newer version, a key that differs from the record's own, and a field out of
//! bounds are *unreadable*, never absent, and are neither rewritten nor dropped (R8, R9). Whoever changes a record's
//! shape or its indexes raises `VERSION`, adds a migration, and adds golden bytes to the tests.

use crate::engine::KeyValue;
use crate::error::StoreError;
use crate::key::{Key, KeyRange, space};
use crate::result::{DecodeError, Unreadable};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

#[cfg(test)]
mod tests;

/// The build named in envelopes that this process writes.
pub const WRITER: &str = concat!("spx ", env!("CARGO_PKG_VERSION"));

/// A stored type: one table.
pub trait Record: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The table's name; part of every key, never changed.
    const TABLE: &'static str;
    /// The version that this build writes; from one upwards.
    const VERSION: u32;

    /// Where the record is stored. A pure function of fields that never change.
    fn key(&self) -> RecordKey;

    /// Its entries in plain indexes.
    fn indexes(&self) -> Vec<Index> {
        Vec::new()
    }

    /// The values that no other record of the table may have. A value that is unique only within an account names the
    /// account first.
    fn uniques(&self) -> Vec<Index> {
        Vec::new()
    }

    /// The steps from older versions: entry `n` takes version `n + 1` to `n + 2`.
    fn migrations() -> &'static [Migration] {
        &[]
    }

    /// Refuses fields out of bounds, on writing and on reading.
    fn validate(&self) -> Result<(), InvalidField> {
        Ok(())
    }
}

/// One step of a migration chain, on the record's JSON.
pub type Migration = fn(serde_json::Value) -> Result<serde_json::Value, MigrationError>;

/// A migration found something it does not understand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {field} is missing or malformed")]
pub struct MigrationError {
    /// The field.
    pub field: &'static str,
}

/// A field is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {field} must be {must}")]
pub struct InvalidField {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub must: &'static str,
}

/// Which part of a table a record belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scope(Cow<'static, str>);

impl Scope {
    /// No account and no node: the record belongs to the cloud.
    pub const NONE: Scope = Scope(Cow::Borrowed("-"));

    /// Belongs to an account.
    pub fn account(id: impl fmt::Display) -> Scope {
        Scope(Cow::Owned(id.to_string()))
    }

    /// Belongs to a node.
    pub fn node(id: impl fmt::Display) -> Scope {
        Scope(Cow::Owned(id.to_string()))
    }

    /// The key component: the id, or `-`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a record is within its table. An id is unique within its scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordKey {
    /// The scope.
    pub scope: Scope,
    /// The id.
    pub id: String,
}

impl RecordKey {
    /// A record of an account.
    pub fn account(account: impl fmt::Display, id: impl fmt::Display) -> RecordKey {
        RecordKey {
            scope: Scope::account(account),
            id: id.to_string(),
        }
    }

    /// A record of a node.
    pub fn node(node: impl fmt::Display, id: impl fmt::Display) -> RecordKey {
        RecordKey {
            scope: Scope::node(node),
            id: id.to_string(),
        }
    }

    /// A record of the cloud.
    pub fn global(id: impl fmt::Display) -> RecordKey {
        RecordKey {
            scope: Scope::NONE,
            id: id.to_string(),
        }
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope, self.id)
    }
}

/// A record's entry in an index, plain or unique. All entries of one index have the same number of components, so that
/// an index can be listed by any leading part of its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Index {
    /// The index.
    pub name: &'static str,
    /// The value, component by component.
    pub value: Vec<String>,
}

impl Index {
    /// An entry of `name` under `value`.
    pub fn new<S: Into<String>>(name: &'static str, value: impl IntoIterator<Item = S>) -> Index {
        Index {
            name,
            value: value.into_iter().map(Into::into).collect(),
        }
    }
}

/// Everything of a table, as a key range.
pub fn table_range(table: &str) -> KeyRange {
    Key::of(&[space::RECORD, table]).children()
}

/// The records of one scope of a table.
pub fn scope_range(table: &str, scope: &Scope) -> KeyRange {
    Key::of(&[space::RECORD, table, scope.as_str()]).children()
}

/// The entries of an index whose value starts with these components.
pub fn index_range(table: &str, index: &str, value: &[&str]) -> KeyRange {
    prefixed(space::INDEX, table, index, value).children()
}

/// Where a record is stored.
pub fn key_of<T: Record>(scope: &Scope, id: &str) -> Key {
    Key::of(&[space::RECORD, T::TABLE, scope.as_str(), id])
}

pub(crate) fn unique_key(table: &str, index: &str, value: &[&str]) -> Key {
    prefixed(space::UNIQUE, table, index, value)
}

/// The id is (scope, id), because some ids (key pair names) are unique only within their account.
pub(crate) fn index_key(table: &str, index: &Index, key: &RecordKey) -> Key {
    let value: Vec<&str> = index.value.iter().map(String::as_str).collect();
    prefixed(space::INDEX, table, index.name, &value)
        .child(key.scope.as_str())
        .child(&key.id)
}

fn prefixed(space: &str, table: &str, index: &str, value: &[&str]) -> Key {
    let mut parts = Vec::with_capacity(3 + value.len());
    parts.extend([space, table, index]);
    parts.extend_from_slice(value);
    Key::of(&parts)
}

/// The record that an index entry of `table` names.
pub(crate) fn indexed_record(table: &str, entry: &Key) -> Result<Key, Unreadable> {
    let undecodable = |source| Unreadable::Undecodable {
        key: entry.clone(),
        source,
    };
    let mut parts = entry
        .texts()
        .map_err(|error| undecodable(DecodeError::Key(error)))?;
    match (parts.pop(), parts.pop()) {
        (Some(id), Some(scope)) => Ok(Key::of(&[space::RECORD, table, &scope, &id])),
        _ => Err(undecodable(DecodeError::Row)),
    }
}

/// The key parts of a stored record.
pub(crate) fn record_key(key: &Key) -> Result<RecordKey, DecodeError> {
    let [_, _, scope, id]: [String; 4] = key.texts()?.try_into().map_err(|_| DecodeError::Row)?;
    Ok(RecordKey {
        scope: Scope(Cow::Owned(scope)),
        id,
    })
}

#[derive(Serialize)]
struct EnvelopeOut<'a, T> {
    v: u32,
    w: &'static str,
    d: &'a T,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    v: u32,
    #[serde(borrow, default)]
    w: Cow<'a, str>,
    #[serde(borrow)]
    d: &'a RawValue,
}

/// An envelope known to be of the current version.
#[derive(Deserialize)]
struct CurrentEnvelope<T> {
    d: T,
}

/// Validates and encodes a record.
pub(crate) fn encode<T: Record>(record: &T) -> Result<Bytes, StoreError> {
    record.validate().map_err(|source| StoreError::InvalidRecord {
        table: T::TABLE,
        source,
    })?;
    let envelope = EnvelopeOut {
        v: T::VERSION,
        w: WRITER,
        d: record,
    };
    let bytes = serde_json::to_vec(&envelope).map_err(|source| StoreError::Encode {
        table: T::TABLE,
        source,
    })?;
    Ok(bytes.into())
}

/// Decodes a stored record, migrating it if it is older.
pub(crate) fn decode<T: Record>(stored: &KeyValue) -> Result<T, Unreadable> {
    let undecodable = |source| Unreadable::Undecodable {
        key: stored.key.clone(),
        source,
    };
    let json = |error| undecodable(DecodeError::Json(error));
    let record: T = if is_current(&stored.value, T::VERSION) {
        // The usual case, in one pass over the bytes.
        serde_json::from_slice::<CurrentEnvelope<T>>(&stored.value)
            .map_err(json)?
            .d
    } else {
        let envelope: Envelope<'_> = serde_json::from_slice(&stored.value).map_err(json)?;
        if envelope.v > T::VERSION {
            return Err(Unreadable::NewerVersion {
                key: stored.key.clone(),
                found: envelope.v,
                known: T::VERSION,
                writer: envelope.w.into_owned(),
            });
        }
        migrate::<T>(&envelope).map_err(undecodable)?
    };
    let own = record.key();
    let named = key_of::<T>(&own.scope, &own.id);
    if named != stored.key {
        return Err(undecodable(DecodeError::OtherKey { named }));
    }
    record
        .validate()
        .map_err(|error| undecodable(DecodeError::Invalid(error)))?;
    Ok(record)
}

/// Whether an envelope that we wrote is of this version, by its first bytes; false sends it the long way.
fn is_current(bytes: &[u8], version: u32) -> bool {
    let digits = bytes.strip_prefix(br#"{"v":"#).unwrap_or_default();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(0);
    std::str::from_utf8(&digits[..end]).is_ok_and(|digits| digits.parse() == Ok(version))
        && digits.get(end) == Some(&b',')
}

fn migrate<T: Record>(envelope: &Envelope<'_>) -> Result<T, DecodeError> {
    let mut value: serde_json::Value = serde_json::from_str(envelope.d.get())?;
    for from in envelope.v..T::VERSION {
        let step = (from as usize)
            .checked_sub(1)
            .and_then(|position| T::migrations().get(position))
            .ok_or(DecodeError::NoMigration { found: from })?;
        value = step(value).map_err(|source| DecodeError::Migration { from, source })?;
    }
    Ok(serde_json::from_value(value)?)
}

/// Whether two envelopes hold the same record in the same version, whoever wrote them.
pub(crate) fn same_record(a: &[u8], b: &[u8]) -> bool {
    match (
        serde_json::from_slice::<Envelope<'_>>(a),
        serde_json::from_slice::<Envelope<'_>>(b),
    ) {
        (Ok(a), Ok(b)) => a.v == b.v && a.d.get() == b.d.get(),
        _ => false,
    }
}

/// The version of a stored record.
pub(crate) fn stored_version(stored: &KeyValue) -> Result<u32, Unreadable> {
    serde_json::from_slice::<Envelope<'_>>(&stored.value)
        .map(|envelope| envelope.v)
        .map_err(|error| Unreadable::Undecodable {
            key: stored.key.clone(),
            source: DecodeError::Json(error),
        })
}

//! Names of things at a provider: ids that callers choose, handles that the provider mints, generations.
//!
//! An id is opaque text (`vol-0abc…`) and may be used again after a delete. A handle is 128 random bits, names one
//! incarnation of a volume or snapshot, and is never used twice. A generation orders the owners of one volume: a lower
//! one can change nothing once a higher one exists.

use std::fmt;
use std::str::FromStr;

use rand::TryRngCore;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits;

/// Text that is not an id, handle or generation of this contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    /// Ids have 1 to [`limits::ID_LEN_MAX`] characters of `[a-z0-9-]`.
    #[error("{kind} {text:?} is not 1 to {max} characters of [a-z0-9-]", max = limits::ID_LEN_MAX)]
    Id {
        /// Which id was parsed.
        kind: &'static str,
        /// The text as given, cut at twice the permitted length.
        text: String,
    },
    /// Handles are 32 lower-case hex digits.
    #[error("{kind} {text:?} is not 32 lower-case hex digits")]
    Handle {
        /// Which handle was parsed.
        kind: &'static str,
        /// The text as given, cut at twice the permitted length.
        text: String,
    },
}

fn shorten(text: &str) -> String {
    text.chars().take(2 * limits::ID_LEN_MAX).collect()
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks and takes `text`: 1 to 64 characters of `[a-z0-9-]`.
            pub fn new(text: impl Into<String>) -> Result<Self, ParseIdError> {
                let text = text.into();
                let ok = (1..=limits::ID_LEN_MAX).contains(&text.len())
                    && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
                if ok { Ok(Self(text)) } else { Err(ParseIdError::Id { kind: $kind, text: shorten(&text) }) }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

macro_rules! handle_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// A fresh handle from the operating system's random source.
            ///
            /// # Panics
            /// If the operating system has no randomness to give; nothing safe could follow.
            pub fn mint() -> Self {
                let mut bytes = [0u8; 16];
                rand::rngs::OsRng.try_fill_bytes(&mut bytes).expect("the operating system gives randomness");
                Self(bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let bad = || ParseIdError::Handle { kind: $kind, text: shorten(text) };
                if text.bytes().any(|b| b.is_ascii_uppercase()) {
                    return Err(bad());
                }
                let mut bytes = [0u8; 16];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| bad())?;
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

id_type!(
    /// A volume's name, chosen by the caller.
    VolumeId, "volume id"
);
id_type!(
    /// A snapshot's name, chosen by the caller. Images are snapshots.
    SnapshotId, "snapshot id"
);
id_type!(
    /// The machine a volume is published to.
    NodeId, "node id"
);
handle_type!(
    /// One incarnation of a volume.
    VolumeHandle, "volume handle"
);
handle_type!(
    /// One incarnation of a snapshot.
    SnapshotHandle, "snapshot handle"
);

/// The order of a volume's owners: the fencing token. 0 is "never published".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation after this one.
    ///
    /// # Panics
    /// After 2^64 publications of one volume.
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("generations do not run out"))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeId, VolumeHandle, VolumeId};

    #[test]
    fn ids_are_checked() {
        assert!(VolumeId::new("vol-0123456789abcdef0").is_ok());
        assert!(NodeId::new("a".repeat(64)).is_ok());
        for bad in ["", "Vol-1", "vol_1", "../x", "a/b", "ä", &"a".repeat(65)] {
            assert!(VolumeId::new(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<VolumeId>("\"..\"").is_err());
    }

    #[test]
    fn handles_round_trip() {
        let handle = VolumeHandle::mint();
        assert_eq!(handle.to_string().parse::<VolumeHandle>().unwrap(), handle);
        assert_ne!(handle, VolumeHandle::mint());
        assert!("AA".repeat(16).parse::<VolumeHandle>().is_err());
        assert!("00".parse::<VolumeHandle>().is_err());
    }
}

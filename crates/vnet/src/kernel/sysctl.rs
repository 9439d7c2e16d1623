//! Network settings under `/proc/sys/net`, which shows the namespace of the thread that opens a file.
//!
//! Writing is done only when the value differs, so that a pass without differences changes nothing.

use std::io;

use crate::error::VnetError;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    /// Path under `/proc/sys/net`.
    pub(crate) path: String,
    /// The value as the kernel prints it.
    pub(crate) value: &'static str,
    /// Whether a kernel without this setting will do (a part that was not built in).
    pub(crate) optional: bool,
}

/// A setting that must exist.
pub(crate) fn setting(path: impl Into<String>, value: &'static str) -> Setting {
    Setting {
        path: path.into(),
        value,
        optional: false,
    }
}

/// Reads a setting; none if the kernel has no such setting.
pub(crate) fn find(path: &str) -> Result<Option<String>, VnetError> {
    match std::fs::read_to_string(format!("/proc/sys/net/{path}")) {
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(VnetError::Setting {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Writes a setting.
pub(crate) fn write(path: &str, value: &str) -> Result<(), VnetError> {
    std::fs::write(format!("/proc/sys/net/{path}"), value).map_err(|source| VnetError::Setting {
        path: path.to_owned(),
        source,
    })
}

/// Makes a setting so; says whether it was not.
pub(crate) fn ensure(setting: &Setting) -> Result<bool, VnetError> {
    match find(&setting.path)? {
        Some(value) if value == setting.value => Ok(false),
        None if setting.optional => Ok(false),
        _ => write(&setting.path, setting.value).map(|()| true),
    }
}

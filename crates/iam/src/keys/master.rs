//! The master key's file: 32 bytes, mode 0600, written once and never replaced here.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use super::{KeysError, SealKey};

/// Name of the file within the directory for keys.
pub(super) const FILE: &str = "master.key";

/// Permission bits that nobody but the owner may have.
const FOREIGN_BITS: u32 = 0o177;

/// Reads the key, or nothing if there is no file.
pub(super) fn read(path: &Path) -> Result<Option<SealKey>, KeysError> {
    let failed = |source| KeysError::File {
        attempted: "read",
        path: path.to_owned(),
        source,
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & FOREIGN_BITS != 0 {
        return Err(KeysError::Mode {
            path: path.to_owned(),
            mode,
        });
    }
    // One byte more than a key, so that a longer file is seen.
    let mut bytes = Zeroizing::new(Vec::with_capacity(64));
    (&mut file).take(33).read_to_end(&mut bytes).map_err(failed)?;
    let length = bytes.len();
    SealKey::from_secret(&bytes)
        .map(Some)
        .map_err(|_| KeysError::Length {
            path: path.to_owned(),
            bytes: length,
        })
}

/// Makes a new key in `dir`; fails if there is one. Durable when this returns.
pub(super) fn create(dir: &Path) -> Result<SealKey, KeysError> {
    let path = dir.join(FILE);
    let failed = |source| KeysError::File {
        attempted: "create",
        path: path.clone(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    let key = SealKey::random();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    file.write_all(key.bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    Ok(key)
}

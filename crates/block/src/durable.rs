//! Small files that are replaced whole and survive a power cut, and reads that tell "absent" from "unreadable".
//!
//! [`replace`] writes a temporary name beside the target, syncs it, renames it over the target and syncs the directory: a
//! reader sees the old or the new content, never a part. Used for records, ownership, receipts and status files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What reading a file gave.
#[derive(Debug)]
pub enum Found<T> {
    /// The content.
    Present(T),
    /// The file definitely does not exist.
    Absent,
    /// The file may exist, and its content is unknown.
    Unreadable(io::Error),
}

/// Makes the names in `directory` durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// A name that nobody else writes to, whatever process and thread replaces the same file.
fn temporary_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(
        ".{}-{}.new",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

/// Replaces `path` by `content`, mode 0600. With `durable` it survives a power cut when this returns.
pub fn replace(path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    let temporary = temporary_name(path);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        if durable {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // The temporary name is never read; a leftover goes with its directory.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    if durable && let Some(parent) = path.parent() {
        sync_directory(parent)?;
    }
    Ok(())
}

/// [`replace`] with a value as JSON.
pub fn replace_json(path: &Path, value: &impl Serialize, durable: bool) -> io::Result<()> {
    let mut content = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
    content.push(b'\n');
    replace(path, &content, durable)
}

/// Reads a whole file of at most `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> Found<Vec<u8>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Absent,
        Err(error) => return Found::Unreadable(error),
    };
    let mut content = Vec::new();
    match file.take(bytes_max + 1).read_to_end(&mut content) {
        Ok(_) if content.len() as u64 > bytes_max => Found::Unreadable(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{} is too large", path.display()),
        )),
        Ok(_) => Found::Present(content),
        Err(error) => Found::Unreadable(error),
    }
}

/// [`read`] of a value as JSON. Text that is no such value is unreadable, not absent.
pub fn read_json<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> Found<T> {
    match read(path, bytes_max) {
        Found::Present(content) => match serde_json::from_slice(&content) {
            Ok(value) => Found::Present(value),
            Err(error) => Found::Unreadable(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {error}", path.display()),
            )),
        },
        Found::Absent => Found::Absent,
        Found::Unreadable(error) => Found::Unreadable(error),
    }
}

/// Milliseconds since 1970 on the system clock; 0 if it is set before.
pub fn now_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

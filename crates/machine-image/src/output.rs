//! Results that appear whole or not at all: everything is written under a temporary name in the result's own
//! directory, synced, and renamed at the end. Dropping an unfinished [`Output`] removes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ImageError, file};
use crate::limits::GIB;

/// What a machine needs to start from a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootMode {
    /// SeaBIOS.
    Bios,
    /// OVMF.
    Uefi,
}

/// A finished raw disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub path: PathBuf,
    /// Its length: a whole number of GiB.
    pub bytes: u64,
    /// What it takes of the host's disk.
    pub allocated_bytes: u64,
    /// How it starts.
    pub boot_mode: BootMode,
}

impl Built {
    /// The smallest volume that it fits.
    #[must_use]
    pub const fn size_gib(&self) -> u64 {
        self.bytes / GIB
    }
}

/// A disk in the making.
#[derive(Debug)]
pub(crate) struct Output {
    wanted: PathBuf,
    temporary: PathBuf,
    finished: bool,
}

impl Output {
    /// Makes an empty temporary file beside `wanted`.
    pub(crate) fn create(wanted: &Path) -> Result<Self, ImageError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(wanted.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let temporary = wanted.with_file_name(name);
        let created = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary);
        created.map_err(file("making", &temporary))?;
        Ok(Self {
            wanted: wanted.to_owned(),
            temporary,
            finished: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.temporary
    }

    pub(crate) fn open(&self) -> Result<File, ImageError> {
        let opened = OpenOptions::new().read(true).write(true).open(&self.temporary);
        opened.map_err(file("opening", &self.temporary))
    }

    /// Rounds the length up to GiB, makes the bytes durable and gives the file its name.
    pub(crate) fn finish(mut self, boot_mode: BootMode) -> Result<Built, ImageError> {
        let disk = self.open()?;
        let finish = || -> io::Result<(u64, u64)> {
            let bytes = disk.metadata()?.len().max(1).next_multiple_of(GIB);
            disk.set_len(bytes)?;
            disk.sync_all()?;
            fs::rename(&self.temporary, &self.wanted)?;
            if let Some(dir) = self.wanted.parent().filter(|dir| !dir.as_os_str().is_empty()) {
                File::open(dir)?.sync_all()?;
            }
            Ok((bytes, disk.metadata()?.blocks() * 512))
        };
        let (bytes, allocated_bytes) = finish().map_err(file("finishing", &self.wanted))?;
        self.finished = true;
        Ok(Built {
            path: self.wanted.clone(),
            bytes,
            allocated_bytes,
            boot_mode,
        })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = fs::remove_file(&self.temporary)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = ?self.temporary, %error, "an unfinished image stays behind");
        }
    }
}

/// Copies a whole file to `at` in `disk`, leaving holes where it is zero.
pub(crate) fn copy_into(disk: &File, at: u64, source: &Path) -> Result<(), ImageError> {
    const CHUNK: usize = 64 << 10;
    let copy = || -> io::Result<()> {
        let from = File::open(source)?;
        let length = from.metadata()?.len();
        let mut chunk = vec![0; CHUNK];
        let mut offset = 0;
        while offset < length {
            let size = usize::try_from(length - offset).map_or(CHUNK, |left| left.min(CHUNK));
            from.read_exact_at(&mut chunk[..size], offset)?;
            if chunk[..size].iter().any(|&byte| byte != 0) {
                disk.write_all_at(&chunk[..size], at + offset)?;
            }
            offset += size as u64;
        }
        Ok(())
    };
    copy().map_err(file("copying", source))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::{BootMode, Output, copy_into};
    use crate::limits::GIB;

    #[test]
    fn a_result_is_whole_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("disk.raw");
        let output = Output::create(&wanted).unwrap();
        output.open().unwrap().write_all_at(b"x", 5).unwrap();
        assert!(!wanted.exists());
        drop(output);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "an unfinished one is removed"
        );

        let part = dir.path().join("part");
        let mut bytes = vec![0; 300_000];
        bytes[200_000] = 1;
        std::fs::write(&part, &bytes).unwrap();
        let output = Output::create(&wanted).unwrap();
        copy_into(&output.open().unwrap(), GIB, &part).unwrap();
        let built = output.finish(BootMode::Bios).unwrap();
        assert_eq!((built.bytes, built.size_gib()), (2 * GIB, 2));
        assert!(
            built.allocated_bytes < 200_000,
            "holes stay holes: {}",
            built.allocated_bytes
        );
        let mut byte = [0];
        std::fs::File::open(&wanted)
            .unwrap()
            .read_exact_at(&mut byte, GIB + 200_000)
            .unwrap();
        assert_eq!(byte, [1]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}

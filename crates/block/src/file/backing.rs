//! The calls that a `file` volume makes on its data: one trait, so that tests can make any of them fail.
//!
//! [`HostFile`] is the real one. Every call here may block.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::{Errno, ReadWriteFlags};

/// A volume's data.
pub trait BackingFile: Send + Sync + std::fmt::Debug {
    /// Reads exactly the buffer, if that needs no disk; `false` if it might.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool>;
    /// Reads exactly the buffer.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of the buffer.
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()>;
    /// Makes everything written durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Zeroes a range and gives up its whole blocks.
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Zeroes a range and keeps it allocated.
    fn zero_allocated(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Whether the byte at `offset` is in a hole, and where that run ends (at most at the end of the file).
    fn run_at(&self, offset: u64) -> io::Result<(bool, u64)>;
    /// Bytes of the file.
    fn length(&self) -> io::Result<u64>;
    /// Bytes free in the file system, for anybody.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// A file of the host.
#[derive(Debug)]
pub struct HostFile {
    file: File,
    /// For SEEK_DATA and SEEK_HOLE, whose result is the descriptor's position: nobody else may move it.
    seeker: std::sync::Mutex<File>,
}

impl HostFile {
    /// Takes a file and a second, separate open of it.
    pub fn new(file: File, seeker: File) -> Self {
        Self {
            file,
            seeker: std::sync::Mutex::new(seeker),
        }
    }
}

/// Where the run that holds `offset` ends, and whether it is a hole.
pub fn run_at(seeker: &File, offset: u64, length: u64) -> io::Result<(bool, u64)> {
    let data = match seek(seeker, SeekFrom::Data(offset)) {
        Ok(data) => data,
        // No data from here to the end.
        Err(Errno::NXIO) => return Ok((true, length)),
        Err(error) => return Err(error.into()),
    };
    if data > offset {
        return Ok((true, data.min(length)));
    }
    let hole = seek(seeker, SeekFrom::Hole(offset))?;
    Ok((false, hole.min(length)))
}

/// Bytes that storage is allocated for.
pub fn allocated_bytes(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks() * 512)
}

/// Bytes free on the file system that holds `file`, for an unprivileged process.
pub fn free_bytes(file: &File) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

impl BackingFile for HostFile {
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let wanted = buffer.len();
        let mut slices = [io::IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == wanted),
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, offset, length)?)
    }

    fn zero_allocated(&self, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, offset, length)?)
    }

    fn run_at(&self, offset: u64) -> io::Result<(bool, u64)> {
        let seeker = self
            .seeker
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = seeker.metadata()?.len();
        run_at(&seeker, offset, length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.file)
    }
}

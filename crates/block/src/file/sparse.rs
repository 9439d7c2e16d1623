//! Copies of sparse files: by reference where the file system can, else only what is not a hole.
//!
//! The caller checks the space and syncs the destination; a failed copy is thrown away with its directory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{copy_file_range, ioctl_ficlone};
use rustix::io::Errno;

use super::backing::run_at;
use crate::limits;

/// Makes `destination` share `source`'s blocks; `false` if the file system cannot.
pub fn reflink(source: &File, destination: &File) -> io::Result<bool> {
    match ioctl_ficlone(destination, source) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Bytes of `source` that are not in holes.
pub fn data_bytes(source: &File) -> io::Result<u64> {
    let length = source.metadata()?.len();
    let (mut offset, mut data) = (0, 0);
    while offset < length {
        let (hole, end) = run_at(source, offset, length)?;
        if !hole {
            data += end - offset;
        }
        offset = end;
    }
    Ok(data)
}

/// How to copy a run of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// As it is.
    Verbatim,
    /// Blocks of zeros become holes.
    ZerosToHoles,
}

/// Copies every run of data into `destination`, which is as long and all holes.
pub fn copy(source: &File, destination: &File, content: Content) -> io::Result<()> {
    let length = source.metadata()?.len();
    let mut offset = 0;
    while offset < length {
        let (hole, end) = run_at(source, offset, length)?;
        if !hole {
            match content {
                Content::Verbatim => copy_run(source, destination, offset, end)?,
                Content::ZerosToHoles => copy_nonzero(source, destination, offset, end)?,
            }
        }
        offset = end;
    }
    Ok(())
}

fn copy_run(source: &File, destination: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut from, mut to) = (start, start);
    while from < end {
        let chunk = usize::try_from(end - from)
            .unwrap_or(usize::MAX)
            .min(64 * limits::COPY_CHUNK_BYTES);
        match copy_file_range(source, Some(&mut from), destination, Some(&mut to), chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOSYS) => {
                return copy_nonzero(source, destination, from, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_nonzero(source: &File, destination: &File, start: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; limits::COPY_CHUNK_BYTES];
    let block = usize::try_from(limits::BLOCK_BYTES).unwrap_or(usize::MAX);
    let mut offset = start;
    while offset < end {
        let chunk = usize::try_from(end - offset)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let chunk = &mut buffer[..chunk];
        source.read_exact_at(chunk, offset)?;
        let mut run: Option<usize> = None;
        let mut place = 0;
        for piece in chunk.chunks(block) {
            match (is_zero(piece), run) {
                (false, None) => run = Some(place),
                (true, Some(from)) => {
                    destination.write_all_at(&chunk[from..place], offset + from as u64)?;
                    run = None;
                }
                _ => {}
            }
            place += piece.len();
        }
        if let Some(from) = run {
            destination.write_all_at(&chunk[from..], offset + from as u64)?;
        }
        offset += chunk.len() as u64;
    }
    Ok(())
}

/// Whether all bytes are 0.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Sixteen bytes a step: this runs over every byte of an imported image.
    let (steps, rest) = bytes.as_chunks::<16>();
    steps.iter().all(|step| u128::from_ne_bytes(*step) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::{Content, copy, data_bytes, is_zero};

    fn file(length: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        file
    }

    #[test]
    fn copies_only_data() {
        let length = 64 << 20;
        let source = file(length);
        source.write_all_at(b"first", 4096 * 3 + 7).unwrap();
        source.write_all_at(b"last", length - 4).unwrap();
        source.write_all_at(&[0; 1 << 20], 8 << 20).unwrap();
        for (content, most) in [(Content::Verbatim, 2 << 20), (Content::ZerosToHoles, 64 << 10)] {
            let destination = file(length);
            copy(&source, &destination, content).unwrap();
            let mut bytes = [0; 5];
            destination.read_exact_at(&mut bytes, 4096 * 3 + 7).unwrap();
            assert_eq!(&bytes, b"first");
            destination.read_exact_at(&mut bytes[..4], length - 4).unwrap();
            assert_eq!(&bytes[..4], b"last");
            assert!(
                destination.metadata().unwrap().blocks() * 512 <= most,
                "{content:?}"
            );
            assert!(data_bytes(&destination).unwrap() <= most);
        }
    }

    #[test]
    fn zeros() {
        assert!(is_zero(&[0; 4096]) && is_zero(&[0; 3]) && is_zero(&[]));
        for place in [0, 15, 16, 4094, 4095] {
            let mut bytes = [0; 4096];
            bytes[place] = 1;
            assert!(!is_zero(&bytes));
        }
    }
}

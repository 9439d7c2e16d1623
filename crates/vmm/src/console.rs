//! The serial console's log, bounded without a process of its own.
//!
//! QEMU appends to the log itself (so nothing is lost while no agent runs), and two things bound it: the agent
//! calls [`trim`] now and then, which keeps the newest part; and the kernel refuses QEMU any growth over
//! [`GUEST_FILE_BYTES_MAX`](crate::limits::GUEST_FILE_BYTES_MAX) (`RLIMIT_FSIZE`, set at start), so a guest that
//! floods while the agent is away costs 2 MiB and then loses its newest output until the agent is back.
//!
//! Trimming cuts whole blocks off the front with `FALLOC_FL_COLLAPSE_RANGE`, which is atomic against an appender
//! (ext4, xfs). Elsewhere the tail is copied and the file cut to zero: output printed in that instant can be lost.
//! Rejected: a pump process per guest (memory), QEMU's `ringbuf` (gone with the process), `chardev-change` to a
//! new file (drops the interactive client).

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::limits::{CONSOLE_KEPT_BYTES, CONSOLE_TRIMMED_BYTES};

/// Reading or trimming a console log failed.
#[derive(Debug, thiserror::Error)]
#[error("{attempt} the console log {path:?}")]
pub struct ConsoleError {
    attempt: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The last `bytes_max` bytes of the log; empty when there is none yet.
///
/// # Errors
/// The log exists but cannot be read.
pub fn find_tail(log: &Path, bytes_max: u64) -> Result<Vec<u8>, ConsoleError> {
    read_tail(log, bytes_max).map_err(|source| ConsoleError {
        attempt: "reading",
        path: log.to_owned(),
        source,
    })
}

fn read_tail(log: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut tail = Vec::new();
    file.take(bytes_max).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Cuts the log to about [`CONSOLE_TRIMMED_BYTES`] of its newest output if it is longer than
/// [`CONSOLE_KEPT_BYTES`]; true if it was. No log yet is fine. Blocking, a few milliseconds at most.
///
/// # Errors
/// The log cannot be opened or changed.
pub fn trim(log: &Path) -> Result<bool, ConsoleError> {
    cut_front(log).map_err(|source| ConsoleError {
        attempt: "trimming",
        path: log.to_owned(),
        source,
    })
}

fn cut_front(log: &Path) -> io::Result<bool> {
    let mut file = match OpenOptions::new().read(true).append(true).open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length <= CONSOLE_KEPT_BYTES {
        return Ok(false);
    }
    // Whole blocks only; 64 KiB is a multiple of every block size in use.
    let surplus = (length - CONSOLE_TRIMMED_BYTES) & !0xffff;
    match fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, surplus) {
        Ok(()) => return Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(surplus))?;
    file.read_to_end(&mut tail)?;
    file.set_len(0)?;
    file.write_all(&tail)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{find_tail, trim};
    use crate::limits::{CONSOLE_KEPT_BYTES, CONSOLE_TRIMMED_BYTES};

    #[test]
    fn the_newest_output_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("console.log");
        assert!(!trim(&log).unwrap(), "no log is fine");
        assert!(find_tail(&log, 10).unwrap().is_empty());

        let mut guest = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        guest.write_all(b"short").unwrap();
        assert!(!trim(&log).unwrap());
        assert_eq!(find_tail(&log, 3).unwrap(), b"ort");

        for line in 0..(CONSOLE_KEPT_BYTES / 8 + 1000) {
            writeln!(guest, "{line:07}").unwrap();
        }
        assert!(trim(&log).unwrap());
        let length = std::fs::metadata(&log).unwrap().len();
        assert!(
            (CONSOLE_TRIMMED_BYTES..CONSOLE_KEPT_BYTES).contains(&length),
            "{length}"
        );
        guest.write_all(b"the newest\n").unwrap();
        let expected = format!("{:07}\nthe newest\n", CONSOLE_KEPT_BYTES / 8 + 999);
        assert_eq!(
            find_tail(&log, expected.len() as u64).unwrap(),
            expected.as_bytes()
        );
    }
}

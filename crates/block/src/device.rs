//! An open volume: reads and writes by byte range, with the durability rules that guests rely on.
//!
//! What every implementation keeps:
//! * a write that was answered is seen by every later read, on any connection;
//! * [`BlockDevice::flush`] answers after a sync that *started after* the flush was asked, covering every write answered
//!   before, and shares that sync's error; `fua` makes one request durable on its own;
//! * after a failed sync the device is poisoned: writes and flushes fail until it is opened anew, reads go on;
//! * overlapping concurrent writes leave every byte from one of them, and later reads agree; parts of one block written
//!   by two writers are both kept.
//!
//! The NBD server is the caller; providers make the devices. Ranges are checked by [`check_range`] in the implementation.

use async_trait::async_trait;
use bytes::Bytes;

use crate::id::Generation;

/// Why a request on an open volume was not done.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The range reaches beyond the volume.
    #[error("{length} bytes at {offset} reach beyond the volume's {size} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        length: u64,
        /// Bytes of the volume.
        size: u64,
    },
    /// The volume was opened read-only.
    #[error("the volume is open read-only")]
    ReadOnly,
    /// No space is left above the pool's reserve. Nothing outside the range changed.
    #[error("the pool has no space for new blocks")]
    NoSpace,
    /// The zeroing would not have been faster than writing zeros, and only a fast one was asked for. Nothing changed.
    #[error("zeroing this range is not fast")]
    NotFast,
    /// An earlier sync failed; what was written since the last good one may be lost. Only opening anew clears it.
    #[error("an earlier sync failed, the volume refuses changes until it is opened anew")]
    Poisoned,
    /// A higher generation owns the volume. This owner can change nothing more.
    #[error("generation {held} is fenced by generation {current}")]
    Fenced {
        /// The generation of this open.
        held: Generation,
        /// The generation that owns the volume now.
        current: Generation,
    },
    /// The device is being closed.
    #[error("the volume is closing")]
    Closed,
    /// The system refused.
    #[error("{operation} of {length} bytes at {offset} failed")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// First byte of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The system's error.
        source: std::io::Error,
    },
}

/// How to zero a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZeroMode {
    /// Keep the range allocated, so that later writes to it need no space.
    pub no_hole: bool,
    /// Refuse with [`DeviceError::NotFast`] rather than write zeros.
    pub fast_only: bool,
    /// Durable before the answer.
    pub fua: bool,
}

/// What is known of a run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentKind {
    /// Allocated; may hold anything.
    Data,
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated; reads as zeros.
    Zero,
}

/// A run of bytes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes in the run; more than 0.
    pub length: u64,
    /// What is known of them.
    pub kind: ExtentKind,
}

/// An open volume or snapshot.
#[async_trait]
pub trait BlockDevice: Send + Sync + std::fmt::Debug {
    /// Bytes of the volume as last seen. Grows when the volume is grown, never shrinks.
    fn size(&self) -> u64;

    /// Looks again how large the volume is, for a client that connects or asks beyond the known end.
    async fn refresh_size(&self) -> Result<u64, DeviceError>;

    /// Whether changes are refused with [`DeviceError::ReadOnly`].
    fn is_read_only(&self) -> bool;

    /// Reads exactly `length` bytes.
    async fn read_at(&self, offset: u64, length: u32) -> Result<Bytes, DeviceError>;

    /// Writes `data`. Answered writes survive a kill of the process; with `fua` also a power cut.
    async fn write_at(&self, offset: u64, data: Bytes, fua: bool) -> Result<(), DeviceError>;

    /// Makes every write answered so far durable.
    async fn flush(&self) -> Result<(), DeviceError>;

    /// Gives up the whole blocks within the range; they read as zeros afterwards. Bytes of partly covered blocks stay.
    async fn trim(&self, offset: u64, length: u64, fua: bool) -> Result<(), DeviceError>;

    /// Makes the whole range read as zeros.
    async fn write_zeroes(&self, offset: u64, length: u64, mode: ZeroMode) -> Result<(), DeviceError>;

    /// The runs of the range from `offset` on, in order: at least one, at most `extents_max`, together at most `length` bytes.
    async fn block_status(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError>;

    /// Whether this open still owns the volume; [`DeviceError::Fenced`] once a higher generation does.
    async fn check_owner(&self) -> Result<(), DeviceError>;

    /// Finishes what was admitted, flushes, seals the generation with a durable receipt, and lets the volume go. Everything
    /// later is refused with [`DeviceError::Closed`]. A second close does nothing. A poisoned or fenced device is not sealed.
    async fn close(&self) -> Result<(), DeviceError>;
}

/// Refuses a range that is not inside a volume of `size` bytes.
pub fn check_range(offset: u64, length: u64, size: u64) -> Result<(), DeviceError> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(DeviceError::OutOfRange { offset, length, size }),
    }
}

/// The whole blocks inside a range, as (offset, length); `None` if there are none. The end of the volume ends a block.
pub fn whole_blocks(offset: u64, length: u64, size: u64, block: u64) -> Option<(u64, u64)> {
    let start = offset.next_multiple_of(block);
    let end = offset + length;
    let end = if end == size { end } else { end - end % block };
    (end > start).then(|| (start, end - start))
}

#[cfg(test)]
mod tests {
    use super::{check_range, whole_blocks};

    #[test]
    fn ranges() {
        assert!(check_range(0, 10, 10).is_ok());
        assert!(check_range(10, 0, 10).is_ok());
        assert!(check_range(1, 10, 10).is_err());
        assert!(check_range(u64::MAX, 2, 10).is_err());
    }

    #[test]
    fn blocks_inside() {
        assert_eq!(whole_blocks(0, 4096, 8192, 4096), Some((0, 4096)));
        assert_eq!(whole_blocks(1, 4096, 8192, 4096), None);
        assert_eq!(whole_blocks(1, 8191, 8192, 4096), Some((4096, 4096)));
        assert_eq!(whole_blocks(4096, 100, 4196, 4096), Some((4096, 100)));
        assert_eq!(whole_blocks(5000, 0, 8192, 4096), None);
    }
}

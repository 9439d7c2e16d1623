//! An open volume of a `memory` pool, and the map of blocks behind it.
//!
//! A block is absent (a hole), zero (allocated by a zeroing that asked for that) or bytes. Every request is one critical section
//! under the volume's lock, so requests are atomic and in one order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::device::{BlockDevice, DeviceError, Extent, ExtentKind, ZeroMode, check_range, whole_blocks};
use crate::id::Generation;
use crate::limits;

const BLOCK: usize = limits::BLOCK_BYTES as usize;

#[derive(Debug, Clone)]
enum Block {
    Zero,
    Bytes(Arc<[u8; BLOCK]>),
}

/// Blocks by number, and the size in bytes.
#[derive(Debug, Clone, Default)]
pub struct Content {
    blocks: BTreeMap<u64, Block>,
    /// Bytes of the volume.
    pub size: u64,
}

/// The pieces of a range: block number, first byte in the block, bytes.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length;
    let mut place = offset;
    std::iter::from_fn(move || {
        if place >= end {
            return None;
        }
        let (block, within) = (place / limits::BLOCK_BYTES, place % limits::BLOCK_BYTES);
        let count = (limits::BLOCK_BYTES - within).min(end - place);
        place += count;
        // Both are at most a block, so they fit.
        Some((block, within as usize, count as usize))
    })
}

impl Content {
    /// Writes bytes; the range is inside the volume.
    pub fn write(&mut self, offset: u64, mut data: &[u8]) {
        for (number, within, count) in pieces(offset, data.len() as u64) {
            let (piece, rest) = data.split_at(count);
            data = rest;
            let block = self.blocks.entry(number).or_insert(Block::Zero);
            if let Block::Zero = block {
                *block = Block::Bytes(Arc::new([0; BLOCK]));
            }
            if let Block::Bytes(bytes) = block {
                Arc::make_mut(bytes)[within..within + count].copy_from_slice(piece);
            }
        }
    }

    /// Writes bytes from the start, leaving blocks of zeros as holes.
    pub fn write_sparse(&mut self, data: &[u8]) {
        for (number, block) in (0u64..).zip(data.chunks(BLOCK)) {
            if block.iter().any(|byte| *byte != 0) {
                self.write(number * limits::BLOCK_BYTES, block);
            }
        }
    }

    /// Bytes in blocks that are no holes.
    pub fn allocated_bytes(&self) -> u64 {
        self.blocks.len() as u64 * limits::BLOCK_BYTES
    }

    fn read(&self, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length as usize);
        for (number, within, count) in pieces(offset, u64::from(length)) {
            match self.blocks.get(&number) {
                Some(Block::Bytes(block)) => bytes.extend_from_slice(&block[within..within + count]),
                Some(Block::Zero) | None => bytes.resize(bytes.len() + count, 0),
            }
        }
        bytes
    }

    fn zero(&mut self, offset: u64, length: u64, no_hole: bool) {
        let whole = whole_blocks(offset, length, self.size, limits::BLOCK_BYTES);
        let (start, end) = whole.map_or((offset, offset), |(start, count)| (start, start + count));
        let zeros = [0; BLOCK];
        for (from, to) in [(offset, start), (end, offset + length)] {
            for (number, within, count) in pieces(from, to.saturating_sub(from)) {
                if no_hole || self.blocks.contains_key(&number) {
                    self.write(number * limits::BLOCK_BYTES + within as u64, &zeros[..count]);
                }
            }
        }
        // Without a whole block, `start` and `end` are the same place and may lie inside a block.
        if whole.is_none() {
            return;
        }
        self.unmap(start, end);
        if no_hole {
            for number in start / limits::BLOCK_BYTES..end.div_ceil(limits::BLOCK_BYTES) {
                self.blocks.entry(number).or_insert(Block::Zero);
            }
        }
    }

    /// Makes holes of the blocks from `start` to `end`, both at block borders or the end of the volume.
    fn unmap(&mut self, start: u64, end: u64) {
        let (first, past) = (start / limits::BLOCK_BYTES, end.div_ceil(limits::BLOCK_BYTES));
        if first < past {
            let mut tail = self.blocks.split_off(&first);
            let mut kept = tail.split_off(&past);
            self.blocks.append(&mut kept);
        }
    }

    fn kind(&self, number: u64) -> ExtentKind {
        match self.blocks.get(&number) {
            Some(Block::Bytes(_)) => ExtentKind::Data,
            Some(Block::Zero) => ExtentKind::Zero,
            None => ExtentKind::Hole,
        }
    }

    fn status(&self, offset: u64, length: u64, extents_max: usize) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for (number, _, count) in pieces(offset, length) {
            let (kind, count) = (self.kind(number), count as u64);
            let full = extents.len() == extents_max;
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.length += count,
                _ if full => break,
                _ => extents.push(Extent { length: count, kind }),
            }
        }
        extents
    }
}

/// A volume: its content and who may change it.
#[derive(Debug)]
pub struct VolumeCell {
    content: Mutex<Content>,
    owner: Mutex<Owner>,
}

#[derive(Debug, Default)]
struct Owner {
    fence: Generation,
    open: bool,
    last_opened: Option<(Generation, bool)>,
}

impl VolumeCell {
    /// A volume that nobody has opened.
    pub fn new(content: Content) -> Self {
        Self {
            content: Mutex::new(content),
            owner: Mutex::default(),
        }
    }

    /// The content, locked.
    pub fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on lower generations change nothing.
    pub fn raise_fence(&self, generation: Generation) {
        self.owner().fence = generation;
    }

    /// Whether somebody has it open.
    pub fn is_open(&self) -> bool {
        self.owner().open
    }

    /// The generation that opened it last, and whether that one was sealed.
    pub fn last_opened(&self) -> Option<(Generation, bool)> {
        self.owner().last_opened
    }

    /// Opens it; `None` if it is open.
    pub fn open(self: &Arc<Self>, generation: Generation) -> Option<Tenure> {
        let mut owner = self.owner();
        if owner.open {
            return None;
        }
        owner.open = true;
        owner.last_opened = Some((generation, false));
        Some(Tenure {
            cell: Arc::clone(self),
            generation,
            let_go: AtomicBool::new(false),
        })
    }
}

/// The right to change a volume, as long as no higher generation exists.
#[derive(Debug)]
pub struct Tenure {
    cell: Arc<VolumeCell>,
    generation: Generation,
    let_go: AtomicBool,
}

impl Tenure {
    fn let_go(&self, sealed: bool) {
        if !self.let_go.swap(true, Ordering::AcqRel) {
            let mut owner = self.cell.owner();
            owner.open = false;
            owner.last_opened = Some((self.generation, sealed));
        }
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.let_go(false);
    }
}

#[derive(Debug)]
enum Source {
    Volume(Tenure),
    Snapshot(Mutex<Content>),
}

/// See the module.
#[derive(Debug)]
pub struct MemoryDevice {
    source: Source,
    read_only: bool,
    closed: AtomicBool,
}

impl MemoryDevice {
    /// A device on an open volume.
    pub fn of_volume(tenure: Tenure, read_only: bool) -> Self {
        Self {
            source: Source::Volume(tenure),
            read_only,
            closed: AtomicBool::new(false),
        }
    }

    /// A read-only device on a snapshot's content.
    pub fn of_snapshot(content: Content) -> Self {
        Self {
            source: Source::Snapshot(Mutex::new(content)),
            read_only: true,
            closed: AtomicBool::new(false),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        match &self.source {
            Source::Volume(tenure) => tenure.cell.content(),
            Source::Snapshot(content) => content.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn readable(&self, offset: u64, length: u64) -> Result<MutexGuard<'_, Content>, DeviceError> {
        let content = self.content();
        if self.closed.load(Ordering::Acquire) {
            return Err(DeviceError::Closed);
        }
        check_range(offset, length, content.size)?;
        Ok(content)
    }

    fn check_fence(&self) -> Result<(), DeviceError> {
        if let Source::Volume(tenure) = &self.source {
            let current = tenure.cell.owner().fence;
            if current != tenure.generation {
                return Err(DeviceError::Fenced {
                    held: tenure.generation,
                    current,
                });
            }
        }
        Ok(())
    }

    fn writable(&self, offset: u64, length: u64) -> Result<MutexGuard<'_, Content>, DeviceError> {
        let content = self.readable(offset, length)?;
        if self.read_only {
            return Err(DeviceError::ReadOnly);
        }
        self.check_fence()?;
        Ok(content)
    }
}

#[async_trait]
impl BlockDevice for MemoryDevice {
    fn size(&self) -> u64 {
        self.content().size
    }

    async fn refresh_size(&self) -> Result<u64, DeviceError> {
        Ok(self.size())
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    async fn read_at(&self, offset: u64, length: u32) -> Result<Bytes, DeviceError> {
        Ok(Bytes::from(
            self.readable(offset, u64::from(length))?.read(offset, length),
        ))
    }

    async fn write_at(&self, offset: u64, data: Bytes, _fua: bool) -> Result<(), DeviceError> {
        self.writable(offset, data.len() as u64)?.write(offset, &data);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        drop(self.readable(0, 0)?);
        if self.read_only {
            Ok(())
        } else {
            self.check_fence()
        }
    }

    async fn trim(&self, offset: u64, length: u64, _fua: bool) -> Result<(), DeviceError> {
        let mut content = self.writable(offset, length)?;
        if let Some((start, count)) = whole_blocks(offset, length, content.size, limits::BLOCK_BYTES) {
            content.unmap(start, start + count);
        }
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, length: u64, mode: ZeroMode) -> Result<(), DeviceError> {
        self.writable(offset, length)?.zero(offset, length, mode.no_hole);
        Ok(())
    }

    async fn block_status(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        let extents_max = extents_max.clamp(1, limits::EXTENTS_MAX);
        Ok(self.readable(offset, length)?.status(offset, length, extents_max))
    }

    async fn check_owner(&self) -> Result<(), DeviceError> {
        self.check_fence()
    }

    async fn close(&self) -> Result<(), DeviceError> {
        let _content = self.content();
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_fence()?;
        self.closed.store(true, Ordering::Release);
        if let Source::Volume(tenure) = &self.source {
            tenure.let_go(true);
        }
        Ok(())
    }
}

//! An open volume or snapshot of a `file` pool.
//!
//! Reads that the page cache can answer are done at once, and so are small writes as long as they are quick: they are a copy
//! into the page cache, and a hand-over to another thread costs more than that. One that turns out slow (the kernel throttles
//! writers when too much is dirty) sends those of the next moment to tokio's blocking threads, where everything else is. A change is admitted
//! (closed? read-only? fenced? poisoned? space?), done, and answered; [`close`](BlockDevice::close) waits for what was
//! admitted, so a seal covers it. One descriptor does all writes and syncs: the kernel reports a failed write-back to it once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use super::backing::BackingFile;
use super::layout::VolumeDirectory;
use crate::device::{BlockDevice, DeviceError, Extent, ExtentKind, ZeroMode, check_range, whole_blocks};
use crate::durable::now_unix_ms;
use crate::id::{Generation, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::{SealReceipt, SealedBy};
use crate::sync_gate::SyncGate;

/// The right to change a volume, as long as no higher generation exists.
#[derive(Debug)]
pub struct Tenure {
    /// The volume.
    pub volume: VolumeId,
    /// Its incarnation.
    pub handle: VolumeHandle,
    /// The generation that opened it.
    pub generation: Generation,
    /// Where its receipt goes.
    pub directory: VolumeDirectory,
    /// Read with every change.
    pub fence: File,
    /// The volume's lock; given back by close, or when the device is dropped.
    pub lock: Mutex<Option<File>>,
}

impl Tenure {
    fn check(&self) -> Result<(), DeviceError> {
        let mut bytes = [0; 8];
        // A fence that cannot be read is no permission.
        let read = self.fence.read_exact_at(&mut bytes, 0);
        read.map_err(|source| DeviceError::Io {
            operation: "reading the fence",
            offset: 0,
            length: 8,
            source,
        })?;
        let current = Generation(u64::from_le_bytes(bytes));
        if current == self.generation {
            Ok(())
        } else {
            Err(DeviceError::Fenced {
                held: self.generation,
                current,
            })
        }
    }
}

#[derive(Debug)]
struct Inner {
    file: Box<dyn BackingFile>,
    size: AtomicU64,
    read_only: bool,
    /// `None` for snapshots, which nobody changes.
    tenure: Option<Tenure>,
    gate: Arc<SyncGate>,
    reserve_bytes: u64,
    /// Bytes that may be allocated before the pool's fullness is looked at again.
    budget: AtomicU64,
    closed: AtomicBool,
    /// Small writes are handed over until then, in milliseconds after `opened`.
    hand_over_until_ms: AtomicU64,
    opened: Instant,
}

/// See the module.
#[derive(Debug)]
pub struct FileDevice {
    inner: Arc<Inner>,
    /// Read by each admitted change, written by close.
    admission: Arc<RwLock<()>>,
}

type Admitted = OwnedRwLockReadGuard<()>;

fn failed(operation: &'static str, offset: u64, length: u64) -> impl FnOnce(io::Error) -> DeviceError {
    move |source| match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => DeviceError::NoSpace,
        _ => DeviceError::Io {
            operation,
            offset,
            length,
            source,
        },
    }
}

fn not_supported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

impl FileDevice {
    /// A device on `file`. `tenure` is absent for snapshots, which are always read-only.
    pub fn new(
        file: Box<dyn BackingFile>,
        tenure: Option<Tenure>,
        read_only: bool,
        reserve_bytes: u64,
    ) -> io::Result<Self> {
        let size = AtomicU64::new(file.length()?);
        let read_only = read_only || tenure.is_none();
        let inner = Inner {
            file,
            size,
            read_only,
            tenure,
            gate: Arc::new(SyncGate::default()),
            reserve_bytes,
            budget: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            hand_over_until_ms: AtomicU64::new(0),
            opened: Instant::now(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            admission: Arc::default(),
        })
    }

    /// Runs `work` on a blocking thread. It is finished even if the caller is gone.
    async fn blocking<T: Send + 'static>(
        &self,
        admitted: Option<Admitted>,
        work: impl FnOnce(&Inner) -> Result<T, DeviceError> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&inner);
            drop(admitted);
            result
        });
        done.await.unwrap_or_else(|error| {
            let source = io::Error::other(error);
            Err(DeviceError::Io {
                operation: "running a request",
                offset: 0,
                length: 0,
                source,
            })
        })
    }

    /// Admits a change of a range.
    async fn admit(&self, offset: u64, length: u64) -> Result<Admitted, DeviceError> {
        self.covers(offset, length).await?;
        let admitted = Arc::clone(&self.admission).read_owned().await;
        self.inner.check_open()?;
        if self.inner.read_only {
            return Err(DeviceError::ReadOnly);
        }
        self.inner.check_tenure()?;
        self.inner.gate.check()?;
        Ok(admitted)
    }

    /// Refuses a range outside the volume, after looking whether the volume was grown.
    async fn covers(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        if check_range(offset, length, self.size()).is_ok() {
            return Ok(());
        }
        check_range(offset, length, self.refresh_size().await?)
    }

    /// Forgets what may be allocated without looking, as time and other volumes do.
    #[cfg(test)]
    pub fn spend_budget(&self) {
        self.inner.budget.store(0, Ordering::Relaxed);
    }

    async fn sync(&self) -> Result<(), DeviceError> {
        let inner = Arc::clone(&self.inner);
        let sync = move || {
            let result = inner.file.sync_data();
            if result.is_err() {
                inner.note_failed_sync();
            }
            result
        };
        self.inner.gate.flush(sync).await
    }

    async fn sync_if(&self, fua: bool) -> Result<(), DeviceError> {
        if fua { self.sync().await } else { Ok(()) }
    }
}

impl Inner {
    fn check_open(&self) -> Result<(), DeviceError> {
        if self.closed.load(Ordering::Acquire) {
            Err(DeviceError::Closed)
        } else {
            Ok(())
        }
    }

    fn check_tenure(&self) -> Result<(), DeviceError> {
        self.tenure.as_ref().map_or(Ok(()), Tenure::check)
    }

    fn note_failed_sync(&self) {
        if let Some(tenure) = &self.tenure
            && let Err(error) = tenure.directory.mark_sync_failed(tenure.generation)
        {
            tracing::error!(volume = %tenure.volume, %error, "the mark of a failed sync could not be written");
        }
    }

    /// Admits `length` bytes at `offset` that may need new blocks.
    fn take_space(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let spend = |budget: u64| budget.checked_sub(length);
        if self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
            .is_ok()
        {
            return Ok(());
        }
        let free = self
            .file
            .free_bytes()
            .map_err(failed("looking for space", offset, length))?;
        let available = free.saturating_sub(self.reserve_bytes);
        if available > length {
            // A part only: other volumes spend from the same pool.
            let budget = ((available - length) / 8).min(limits::SPACE_BUDGET_BYTES_MAX);
            self.budget.store(budget, Ordering::Relaxed);
            return Ok(());
        }
        // Rewriting what is allocated needs no space.
        match self.file.run_at(offset) {
            Ok((false, end)) if end >= offset + length => Ok(()),
            Ok(_) => Err(DeviceError::NoSpace),
            Err(source) => Err(failed("looking for holes", offset, length)(source)),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let length = data.len() as u64;
        self.take_space(offset, length)?;
        self.file
            .write_all_at(data, offset)
            .map_err(failed("write", offset, length))
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn writes_are_quick(&self) -> bool {
        let until = self.hand_over_until_ms.load(Ordering::Relaxed);
        until == 0 || self.elapsed_ms() >= until
    }

    /// A write whose slowness sends the next ones to another thread.
    fn timed_write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let started = Instant::now();
        let result = self.write(offset, data);
        if started.elapsed() >= limits::INLINE_WRITE_SLOW {
            let until = self.elapsed_ms().saturating_add(limits::INLINE_WRITE_PAUSE_MS);
            self.hand_over_until_ms.store(until, Ordering::Relaxed);
        }
        result
    }

    fn write_zeros_as_data(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let zeros = vec![0; limits::COPY_CHUNK_BYTES];
        let mut done = 0;
        while done < length {
            let chunk = usize::try_from(length - done)
                .unwrap_or(usize::MAX)
                .min(zeros.len());
            self.write(offset + done, &zeros[..chunk])?;
            done += chunk as u64;
        }
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64, mode: ZeroMode) -> Result<(), DeviceError> {
        let result = if mode.no_hole {
            self.take_space(offset, length)?;
            self.file.zero_allocated(offset, length)
        } else {
            self.file.punch_hole(offset, length)
        };
        match result {
            Err(error) if not_supported(&error) && mode.fast_only => Err(DeviceError::NotFast),
            Err(error) if not_supported(&error) => self.write_zeros_as_data(offset, length),
            other => other.map_err(failed("write zeroes", offset, length)),
        }
    }

    fn status(&self, offset: u64, length: u64, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        let end = offset + length;
        let mut extents: Vec<Extent> = Vec::new();
        let mut place = offset;
        while place < end && extents.len() < extents_max {
            let (hole, run_end) = self
                .file
                .run_at(place)
                .map_err(failed("block status", offset, length))?;
            // A run is never empty, whatever the file system says.
            let run_end = run_end.clamp(place + 1, end);
            let kind = if hole { ExtentKind::Hole } else { ExtentKind::Data };
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.length += run_end - place,
                _ => extents.push(Extent {
                    length: run_end - place,
                    kind,
                }),
            }
            place = run_end;
        }
        Ok(extents)
    }

    fn seal(&self) -> Result<(), DeviceError> {
        let Some(tenure) = &self.tenure else { return Ok(()) };
        let mut lock = tenure.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let receipt = SealReceipt {
            volume: tenure.volume.clone(),
            handle: tenure.handle,
            generation: tenure.generation,
            sealed_by: SealedBy::Owner,
            sync_failed: false,
            sealed_at_unix_ms: now_unix_ms(),
        };
        let put = tenure.directory.put_receipt(&receipt);
        put.map_err(|source| DeviceError::Io {
            operation: "writing the seal receipt",
            offset: 0,
            length: 0,
            source,
        })?;
        drop(lock.take());
        Ok(())
    }
}

#[async_trait]
impl BlockDevice for FileDevice {
    fn size(&self) -> u64 {
        self.inner.size.load(Ordering::Acquire)
    }

    async fn refresh_size(&self) -> Result<u64, DeviceError> {
        let work = |inner: &Inner| inner.file.length().map_err(failed("looking for the size", 0, 0));
        let length = self.blocking(None, work).await?;
        Ok(self.inner.size.fetch_max(length, Ordering::AcqRel).max(length))
    }

    fn is_read_only(&self) -> bool {
        self.inner.read_only
    }

    async fn read_at(&self, offset: u64, length: u32) -> Result<Bytes, DeviceError> {
        self.inner.check_open()?;
        self.covers(offset, u64::from(length)).await?;
        let mut buffer = vec![0; length as usize];
        // What fails here fails again below, with the same text.
        if self.inner.file.read_cached(&mut buffer, offset).unwrap_or(false) {
            return Ok(Bytes::from(buffer));
        }
        self.blocking(None, move |inner| {
            let read = inner.file.read_exact_at(&mut buffer, offset);
            read.map_err(failed("read", offset, u64::from(length)))?;
            Ok(Bytes::from(buffer))
        })
        .await
    }

    async fn write_at(&self, offset: u64, data: Bytes, fua: bool) -> Result<(), DeviceError> {
        let admitted = self.admit(offset, data.len() as u64).await?;
        if data.is_empty() {
            return self.sync_if(fua).await;
        }
        if data.len() <= limits::INLINE_WRITE_BYTES_MAX && self.inner.writes_are_quick() {
            let written = self.inner.timed_write(offset, &data);
            drop(admitted);
            written?;
        } else {
            self.blocking(Some(admitted), move |inner| inner.write(offset, &data))
                .await?;
        }
        self.sync_if(fua).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.inner.check_open()?;
        if self.inner.read_only {
            return Ok(());
        }
        self.inner.check_tenure()?;
        self.sync().await
    }

    async fn trim(&self, offset: u64, length: u64, fua: bool) -> Result<(), DeviceError> {
        let admitted = self.admit(offset, length).await?;
        if let Some((offset, length)) = whole_blocks(offset, length, self.size(), limits::BLOCK_BYTES) {
            self.blocking(Some(admitted), move |inner| {
                match inner.file.punch_hole(offset, length) {
                    // A hint that the file system cannot follow.
                    Err(error) if not_supported(&error) => inner.write_zeros_as_data(offset, length),
                    other => other.map_err(failed("trim", offset, length)),
                }
            })
            .await?;
        }
        self.sync_if(fua).await
    }

    async fn write_zeroes(&self, offset: u64, length: u64, mode: ZeroMode) -> Result<(), DeviceError> {
        let admitted = self.admit(offset, length).await?;
        if length > 0 {
            self.blocking(Some(admitted), move |inner| inner.zero(offset, length, mode))
                .await?;
        }
        self.sync_if(mode.fua).await
    }

    async fn block_status(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.inner.check_open()?;
        self.covers(offset, length).await?;
        let extents_max = extents_max.clamp(1, limits::EXTENTS_MAX);
        self.blocking(None, move |inner| inner.status(offset, length, extents_max))
            .await
    }

    async fn check_owner(&self) -> Result<(), DeviceError> {
        self.inner.check_tenure()
    }

    async fn close(&self) -> Result<(), DeviceError> {
        let alone = Arc::clone(&self.admission).write_owned().await;
        if self.inner.check_open().is_err() {
            return Ok(());
        }
        if self.inner.tenure.is_some() {
            self.inner.check_tenure()?;
            self.sync().await?;
            self.inner.check_tenure()?;
        }
        self.inner.closed.store(true, Ordering::Release);
        let sealed = self.blocking(None, Inner::seal).await;
        drop(alone);
        if sealed.is_err() {
            // Not sealed: the caller may try again.
            self.inner.closed.store(false, Ordering::Release);
        }
        sealed
    }
}

//! Opening a published volume for I/O: lock, then look, then serve. Used by export processes and by the pool itself.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::backing::HostFile;
use super::device::{FileDevice, Tenure};
use super::layout::{Layout, must};
use crate::device::BlockDevice;
use crate::durable::Found;
use crate::limits;
use crate::provider::{OpenVolume, ProviderError};

const OPERATION: &str = "open volume";

/// What stays free by default on the file system that holds `root` (R101).
pub fn default_reserve_bytes(root: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(root)?;
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    Ok((total / 100 * limits::RESERVE_PERCENT).max(limits::RESERVE_BYTES_MIN))
}

/// Opens the data of a volume or snapshot.
pub fn host_file(path: &Path, read_only: bool) -> io::Result<HostFile> {
    let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
    Ok(HostFile::new(file, File::open(path)?))
}

/// Opens a volume of the pool in `root` under the generation of its publication. Waits a moment for a killed predecessor's
/// lock. The generation is noted durably before anything can be written.
pub async fn open_published(
    root: &Path,
    reserve_bytes: u64,
    request: OpenVolume,
) -> Result<Arc<dyn BlockDevice>, ProviderError> {
    let layout = Layout::new(root);
    let unavailable = |source| ProviderError::Unavailable {
        operation: OPERATION,
        source,
    };
    let waited = tokio::time::Instant::now();
    let lock = loop {
        if let Some(lock) = layout.lock_volume(request.handle).map_err(unavailable)? {
            break lock;
        }
        if waited.elapsed() >= limits::LOCK_WAIT {
            return Err(ProviderError::VolumeInUse(request.volume));
        }
        tokio::time::sleep(limits::LOCK_POLL).await;
    };
    let opened = tokio::task::spawn_blocking(move || open_locked(&layout, reserve_bytes, &request, lock));
    opened
        .await
        .unwrap_or_else(|error| Err(unavailable(io::Error::other(error))))
}

fn open_locked(
    layout: &Layout,
    reserve_bytes: u64,
    request: &OpenVolume,
    lock: File,
) -> Result<Arc<dyn BlockDevice>, ProviderError> {
    let volume = &request.volume;
    let unreadable = |source| ProviderError::Unreadable {
        object: volume.into(),
        source,
    };
    let directory = layout.volume(request.handle);
    let record = match directory.record() {
        Found::Present(record) => record,
        Found::Unreadable(source) => return Err(unreadable(source)),
        Found::Absent if directory.0.exists() => {
            return Err(unreadable(io::Error::new(
                io::ErrorKind::InvalidData,
                "its record is missing",
            )));
        }
        Found::Absent => {
            layout.forget_lock(request.handle);
            return Err(ProviderError::NotFound(volume.into()));
        }
    };
    if record.volume != *volume || record.handle != request.handle {
        return Err(ProviderError::NotFound(volume.into()));
    }
    let ownership = must(directory.ownership(), "ownership").map_err(unreadable)?;
    let Some(publication) = ownership.publication else {
        return Err(ProviderError::NotPublished(volume.clone()));
    };
    if publication.generation != request.generation {
        return Err(ProviderError::Fenced {
            volume: volume.clone(),
            held: request.generation,
            current: publication.generation,
        });
    }
    let internal = |step| {
        move |source| ProviderError::Internal {
            operation: OPERATION,
            step,
            source,
        }
    };
    directory
        .mark_opened(request.generation)
        .map_err(internal("noting the generation"))?;
    let file = host_file(&directory.data(), publication.read_only).map_err(unreadable)?;
    let tenure = Tenure {
        volume: volume.clone(),
        handle: request.handle,
        generation: request.generation,
        fence: directory.fence().map_err(unreadable)?,
        directory,
        lock: Mutex::new(Some(lock)),
    };
    let device = FileDevice::new(Box::new(file), Some(tenure), publication.read_only, reserve_bytes);
    Ok(Arc::new(device.map_err(unreadable)?))
}

//! Reading what a pool holds when its keeper opens it.
//!
//! A record that cannot be read is kept as unreadable, under its id if that can be told: it is neither absent nor a reason to
//! refuse the rest of the pool.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::layout::{Layout, StoredVolume, VolumeDirectory, must, snapshot_data, snapshot_record};
use crate::id::{SnapshotHandle, VolumeHandle};
use crate::provider::catalog::{Catalog, Entry, SnapshotRecord, VolumeRecord};

pub(super) fn empty_directory(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        tracing::info!(path = %path.display(), "removing what a crash left unfinished");
        std::fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// Reads every record. One that cannot be read is kept as unreadable; only the pool's own directories failing fails this.
pub(super) fn load(layout: &Layout) -> io::Result<Catalog> {
    let mut catalog = Catalog::default();
    for entry in std::fs::read_dir(layout.volumes())? {
        let name = entry?.file_name();
        let Some(handle) = name.to_str().and_then(|name| name.parse::<VolumeHandle>().ok()) else {
            tracing::warn!(?name, "not a volume of ours");
            continue;
        };
        let directory = layout.volume(handle);
        match must(directory.record(), "the volume's record") {
            Ok(stored) if stored.handle == handle => {
                let id = stored.volume.clone();
                let entry = load_volume(&directory, stored).map_or_else(unreadable_entry, Entry::Readable);
                put_once(&mut catalog.volumes, id, entry);
            }
            Ok(_) | Err(_) => catalog.nameless.push(directory.0.display().to_string()),
        }
    }
    for entry in std::fs::read_dir(layout.snapshots())? {
        let name = entry?.file_name();
        let Some(handle) = name.to_str().and_then(|name| name.parse::<SnapshotHandle>().ok()) else {
            tracing::warn!(?name, "not a snapshot of ours");
            continue;
        };
        let directory = layout.snapshot(handle);
        match must(snapshot_record(&directory), "the snapshot's record") {
            Ok(record) if record.view.handle == handle => {
                let id = record.view.snapshot.clone();
                let entry = load_snapshot(&directory, record).map_or_else(unreadable_entry, Entry::Readable);
                put_once(&mut catalog.snapshots, id, entry);
            }
            Ok(_) | Err(_) => catalog.nameless.push(directory.display().to_string()),
        }
    }
    for place in &catalog.nameless {
        tracing::error!(
            place,
            "unreadable record in the pool: listings fail until it is repaired"
        );
    }
    Ok(catalog)
}

fn load_volume(directory: &VolumeDirectory, stored: StoredVolume) -> io::Result<VolumeRecord> {
    let ownership = must(directory.ownership(), "the volume's ownership")?;
    let capacity_bytes = std::fs::metadata(directory.data())?.len();
    // A crash between the two writes of put_ownership leaves an old fence.
    let mut fence = [0; 8];
    let read = directory
        .fence()
        .and_then(|file| file.read_exact_at(&mut fence, 0));
    if read.is_err() || u64::from_le_bytes(fence) != ownership.last_generation.0 {
        directory.put_fence(ownership.last_generation)?;
    }
    let StoredVolume {
        volume,
        handle,
        original,
        ..
    } = stored;
    Ok(VolumeRecord {
        volume,
        handle,
        capacity_bytes,
        original,
        ownership,
    })
}

fn load_snapshot(directory: &Path, record: SnapshotRecord) -> io::Result<SnapshotRecord> {
    let length = std::fs::metadata(snapshot_data(directory))?.len();
    if length != record.view.size_bytes {
        let text = format!(
            "the snapshot has {length} bytes, its record says {}",
            record.view.size_bytes
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(record)
}

fn unreadable_entry<R>(error: io::Error) -> Entry<R> {
    tracing::error!(%error, "unreadable object in the pool");
    Entry::Unreadable {
        kind: error.kind(),
        text: error.to_string(),
    }
}

fn put_once<K: Ord, R>(entries: &mut std::collections::BTreeMap<K, Entry<R>>, id: K, entry: Entry<R>) {
    let entry = if entries.contains_key(&id) {
        unreadable_entry(io::Error::new(
            io::ErrorKind::InvalidData,
            "two incarnations have this id",
        ))
    } else {
        entry
    };
    entries.insert(id, entry);
}

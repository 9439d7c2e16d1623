//! What is kept in the run directory, so that a restart adopts what runs: one file a network, one for the edge.
//!
//! A network's record is written before its namespace is made and removed after it is gone, so nothing in the
//! kernel is without a record. The program in it is the last one that was applied completely: from it the listeners
//! start before anybody applies anything. Files are replaced by rename; a lock file admits one engine at a time.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::VnetError;
use crate::program::{EdgeProgram, NetworkId, NetworkProgram};

/// The version of both formats.
const FORMAT: u32 = 1;

/// A network that was begun here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NetworkRecord {
    format: u32,
    pub(crate) network: NetworkId,
    /// Its number on this machine: names its namespace and its transit.
    pub(crate) number: u32,
    /// Inode of its namespace; none before it was made.
    pub(crate) namespace: Option<u64>,
    /// The last program that was applied completely.
    pub(crate) program: Option<NetworkProgram>,
}

impl NetworkRecord {
    pub(crate) fn new(network: NetworkId, number: u32) -> NetworkRecord {
        NetworkRecord {
            format: FORMAT,
            network,
            number,
            namespace: None,
            program: None,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct EdgeRecord {
    format: u32,
    program: EdgeProgram,
}

/// The run directory, locked.
#[derive(Debug)]
pub(crate) struct Records {
    directory: PathBuf,
    _lock: File,
}

fn kept(path: &Path) -> impl FnOnce(io::Error) -> VnetError {
    let path = path.to_owned();
    move |source| VnetError::Record { path, source }
}

impl Records {
    /// Opens the run directory, which is made if it is absent.
    pub(crate) fn open(directory: &Path) -> Result<Records, VnetError> {
        let networks = directory.join("networks");
        std::fs::create_dir_all(&networks).map_err(kept(&networks))?;
        let path = directory.join("lock");
        let lock = File::create(&path).map_err(kept(&path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Records {
                directory: directory.to_owned(),
                _lock: lock,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(VnetError::RunDirBusy {
                path: directory.to_owned(),
            }),
            Err(error) => Err(kept(&path)(error.into())),
        }
    }

    fn network_path(&self, number: u32) -> PathBuf {
        self.directory.join("networks").join(format!("{number}.json"))
    }

    fn edge_path(&self) -> PathBuf {
        self.directory.join("edge.json")
    }

    /// All networks that were begun and not removed.
    pub(crate) fn list_networks(&self) -> Result<Vec<NetworkRecord>, VnetError> {
        let directory = self.directory.join("networks");
        let mut records = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(kept(&directory))? {
            let path = entry.map_err(kept(&directory))?.path();
            if path.extension().is_some_and(|extension| extension == "json")
                && let Some(record) = read(&path)?
            {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// Keeps a network's record.
    pub(crate) fn put_network(&self, record: &NetworkRecord) -> Result<(), VnetError> {
        write(&self.network_path(record.number), record)
    }

    /// Forgets a network.
    pub(crate) fn delete_network(&self, number: u32) -> Result<(), VnetError> {
        delete(&self.network_path(number))
    }

    /// The last edge program that was applied completely.
    pub(crate) fn find_edge(&self) -> Result<Option<EdgeProgram>, VnetError> {
        Ok(read::<EdgeRecord>(&self.edge_path())?.map(|record| record.program))
    }

    /// Keeps the edge program.
    pub(crate) fn put_edge(&self, program: &EdgeProgram) -> Result<(), VnetError> {
        write(
            &self.edge_path(),
            &EdgeRecord {
                format: FORMAT,
                program: program.clone(),
            },
        )
    }

    /// Forgets the edge program.
    pub(crate) fn delete_edge(&self) -> Result<(), VnetError> {
        delete(&self.edge_path())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, VnetError> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| VnetError::RecordFormat {
                path: path.to_owned(),
                source,
            }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(kept(path)(error)),
    }
}

fn write(path: &Path, record: &impl Serialize) -> Result<(), VnetError> {
    let bytes = serde_json::to_vec_pretty(record).map_err(|source| VnetError::RecordFormat {
        path: path.to_owned(),
        source,
    })?;
    let fresh = path.with_extension("new");
    let replace = || -> io::Result<()> {
        let mut file = File::create(&fresh)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    replace().map_err(kept(path))
}

fn delete(path: &Path) -> Result<(), VnetError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(kept(path)(error)),
        _ => Ok(()),
    }
}

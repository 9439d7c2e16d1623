//! What the node itself remembers of a guest, on its own disk: enough to find the process again.
//!
//! `guests/<instance>/record.json` is written by rename and fsynced, before the step that it announces: first that a start
//! is about to happen, then which process it became, then that it ended. An agent that was killed in between reads it and
//! knows which of them may have happened.

use crate::limits;
use aws_types::ids::InstanceId;
use node_spec::ExitCause;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;
use vmm::{ConsoleFiles, GuestFiles};

/// Version of the record's file format.
const VERSION: u32 = 1;

/// Where a guest's start stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Stage {
    /// No process was started since the last one ended.
    Idle,
    /// A process is about to be executed, or was and is not known.
    Starting,
    /// This process was started. Its CPUs may not run yet.
    Started {
        /// The process.
        process: vmm::ProcessIdentity,
    },
}

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestRecord {
    version: u32,
    /// The guest.
    pub instance: InstanceId,
    /// Where its start stands.
    pub stage: Stage,
    /// The newest start that led to a process or definitely failed.
    pub applied_start: u64,
    /// The newest reboot that was done.
    pub applied_reboot: u64,
    /// How the last process ended.
    pub last_exit: Option<ExitCause>,
    /// Starts of a process.
    pub starts: u64,
    /// The start that `stage` belongs to.
    pub current_start: u64,
    /// Nothing is published for the guest.
    pub released: bool,
}

impl GuestRecord {
    /// The record of a guest that never had a process.
    pub fn new(instance: InstanceId) -> GuestRecord {
        GuestRecord {
            version: VERSION,
            instance,
            stage: Stage::Idle,
            applied_start: 0,
            applied_reboot: 0,
            last_exit: None,
            starts: 0,
            current_start: 0,
            released: true,
        }
    }
}

/// A record could not be read, or not made durable.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The file system refused.
    #[error("{attempt} {path}")]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not a record of this version.
    #[error("{path} is not a guest record")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file is of another version or guest.
    #[error("{path} is version {version} of {instance}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The guest it names.
        instance: InstanceId,
    },
}

/// The files of all guests of a node: what must last below `root`, sockets below `sockets`, whose path is short because the
/// kernel bounds it.
#[derive(Clone, Debug)]
pub struct GuestDirs {
    root: PathBuf,
    sockets: PathBuf,
}

impl GuestDirs {
    /// Guests live below `root` and have their sockets below `sockets`; both are made (0700) if missing.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn open(root: PathBuf, sockets: PathBuf) -> Result<GuestDirs, RecordError> {
        make_private_dir(&root)?;
        make_private_dir(&sockets)?;
        Ok(GuestDirs { root, sockets })
    }

    /// Where the hypervisor of a guest has its sockets and logs.
    pub fn files(&self, instance: &InstanceId) -> GuestFiles {
        let lasting = GuestFiles::in_dir(&self.dir(instance));
        let sockets = GuestFiles::in_dir(&self.sockets.join(instance.as_str()));
        GuestFiles {
            qmp_socket: sockets.qmp_socket,
            qmp_metrics_socket: sockets.qmp_metrics_socket,
            console: ConsoleFiles {
                socket: sockets.console.socket,
                ..lasting.console
            },
            ..lasting
        }
    }

    /// The guest's own directory.
    pub fn dir(&self, instance: &InstanceId) -> PathBuf {
        self.root.join(instance.as_str())
    }

    /// Makes the guest's directories (0700); answers the lasting one.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn ensure(&self, instance: &InstanceId) -> Result<PathBuf, RecordError> {
        let dir = self.dir(instance);
        make_private_dir(&dir)?;
        make_private_dir(&self.sockets.join(instance.as_str()))?;
        Ok(dir)
    }

    /// The guests that have a directory, whether or not anybody wants them.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn list(&self) -> Result<Vec<InstanceId>, RecordError> {
        let failed = |source| RecordError::Io {
            attempt: "listing",
            path: self.root.clone(),
            source,
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            found.extend(name.to_str().and_then(InstanceId::parse));
        }
        Ok(found)
    }

    /// The guest's record; nothing if it never had one.
    ///
    /// # Errors
    /// It exists and cannot be read: what it said is then not known.
    pub fn find(&self, instance: &InstanceId) -> Result<Option<GuestRecord>, RecordError> {
        let path = self.record_file(instance);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(RecordError::Io {
                    attempt: "reading",
                    path,
                    source,
                });
            }
        };
        if bytes.len() > limits::GUEST_RECORD_BYTES_MAX {
            let source = io::Error::from(io::ErrorKind::FileTooLarge);
            return Err(RecordError::Io {
                attempt: "reading",
                path,
                source,
            });
        }
        let record: GuestRecord =
            serde_json::from_slice(&bytes).map_err(|source| RecordError::Malformed {
                path: path.clone(),
                source,
            })?;
        if record.version != VERSION || record.instance != *instance {
            return Err(RecordError::Foreign {
                path,
                version: record.version,
                instance: record.instance,
            });
        }
        Ok(Some(record))
    }

    /// Makes the record durable.
    ///
    /// # Errors
    /// It is not durable; the old one may or may not still be there.
    pub fn put(&self, record: &GuestRecord) -> Result<(), RecordError> {
        let path = self.record_file(&record.instance);
        let bytes = serde_json::to_vec(record).map_err(|source| RecordError::Malformed {
            path: path.clone(),
            source,
        })?;
        replace_durably(&path, &bytes).map_err(|source| RecordError::Io {
            attempt: "writing",
            path,
            source,
        })
    }

    /// Removes everything of the guest. Already gone is success.
    ///
    /// # Errors
    /// Something is left.
    pub fn remove(&self, instance: &InstanceId) -> Result<(), RecordError> {
        for path in [self.sockets.join(instance.as_str()), self.dir(instance)] {
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RecordError::Io {
                        attempt: "removing",
                        path,
                        source: error,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn record_file(&self, instance: &InstanceId) -> PathBuf {
        self.dir(instance).join("record.json")
    }
}

fn make_private_dir(path: &Path) -> Result<(), RecordError> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| RecordError::Io {
            attempt: "making",
            path: path.to_owned(),
            source,
        })
}

/// Replaces a file so that after a power cut it is the old or the new one, whole.
pub(crate) fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension("new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{GuestDirs, GuestRecord, Stage};
    use aws_types::ids::InstanceId;

    #[test]
    fn a_record_comes_back_and_a_damaged_one_is_not_absent() {
        let dir = tempfile::tempdir().expect("a directory");
        let dirs = GuestDirs::open(dir.path().join("guests"), dir.path().join("s")).expect("opens");
        let instance = InstanceId::random();
        assert_eq!(dirs.find(&instance).expect("readable"), None);
        dirs.ensure(&instance).expect("made");
        let record = GuestRecord {
            stage: Stage::Starting,
            ..GuestRecord::new(instance.clone())
        };
        dirs.put(&record).expect("durable");
        assert_eq!(dirs.find(&instance).expect("readable"), Some(record));
        assert_eq!(dirs.list().expect("listed"), vec![instance.clone()]);
        std::fs::write(dirs.dir(&instance).join("record.json"), b"{").expect("damaged");
        dirs.find(&instance)
            .expect_err("a damaged record is unreadable, not absent");
        dirs.remove(&instance).expect("removed");
        dirs.remove(&instance).expect("already gone is success");
        assert_eq!(dirs.find(&instance).expect("readable"), None);
    }
}

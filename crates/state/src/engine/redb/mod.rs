//! The redb engine: one file, one process, every acknowledged transaction synced.
//!
//! Commits go through one bounded queue to one writer thread (`writer`), which puts all that wait under one sync.
//! Reads take a redb snapshot, which never waits for the writer: those of at most [`limits::READ_INLINE_KEYS_MAX`] keys
//! on the caller's thread (microseconds when cached), those that turn out longer on tokio's blocking pool. Tables and their encodings
//! are in `rows`. Watches pull from a ring of recent changes in memory and, behind that, from the log table, so they go on
//! across a restart. After a write or sync error the engine is poisoned: reads go on, writes are refused until a restart
//! (R1). Left for later: the space reserve (R7), writers slowed when history gets short, store leases.

mod rows;
#[cfg(test)]
mod tests;
mod writer;

use super::feed::{Feed, Log, watch_log};
use super::{
    Engine, EngineStatus, EngineWatch, HistoryLimits, ReadAnswer, ReadOp, ReadRequest, RevisionEvents, Txn,
    check_read, check_txn,
};
use crate::key::KeyRange;
use crate::limits;
use crate::result::{Change, Refusal, Revision, TxnId, Unreadable};
use ::redb::{Builder, Database, ReadableDatabase, StorageBackend};
use async_trait::async_trait;
use rows::{Position, ReadTables, RedbError};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// The version of the table layout; a file of a newer one is refused.
const FORMAT: u64 = 1;

/// The redb engine.
pub struct RedbEngine {
    shared: Arc<Shared>,
    queue: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

/// A transaction on its way to the writer.
struct Job {
    txn: Txn,
    bytes: usize,
    answer: oneshot::Sender<Change>,
}

struct Shared {
    db: Database,
    feed: Feed,
    recent: Mutex<Recent>,
    oldest: AtomicU64,
    poisoned: AtomicBool,
    history: HistoryLimits,
}

/// The newest revisions, decoded, without a gap up to the newest.
#[derive(Default)]
struct Recent {
    batches: VecDeque<(usize, Arc<RevisionEvents>)>,
    bytes: usize,
}

/// Why a redb file could not be opened. The file is untouched.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{path} is in use by {}", holder.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process, if it can be told.
        holder: Option<u32>,
    },
    /// A newer build wrote it.
    #[error("{path} has layout {found}, this build knows {known}")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The layout found.
        found: u64,
        /// The newest layout that this build knows.
        known: u64,
    },
    /// The file cannot be created or opened.
    #[error("could not open {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not a sound redb file.
    #[error("{path} is not a sound store")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What redb said.
        #[source]
        source: Box<::redb::Error>,
    },
}

impl RedbEngine {
    /// Opens or creates the file at `path` with mode 0600. Blocks while redb checks it.
    pub fn open(path: &Path, history: HistoryLimits) -> Result<RedbEngine, OpenError> {
        let io_error = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match created {
            Ok(file) => {
                file.sync_all().map_err(io_error)?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                // The file's name must survive a power cut as well.
                File::open(parent.unwrap_or(Path::new(".")))
                    .and_then(|dir| dir.sync_all())
                    .map_err(io_error)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error(error)),
        }
        let db = builder().create(path).map_err(|error| match error {
            ::redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse {
                path: path.to_owned(),
                holder: holder_of(path),
            },
            error => OpenError::Damaged {
                path: path.to_owned(),
                source: Box::new(error.into()),
            },
        })?;
        RedbEngine::start(db, path, history)
    }

    /// Opens a store on another storage than a file; the tests use it to make storage fail.
    pub fn open_on(storage: impl StorageBackend, history: HistoryLimits) -> Result<RedbEngine, OpenError> {
        let path = Path::new("<storage>");
        let db = builder()
            .create_with_backend(storage)
            .map_err(|error| OpenError::Damaged {
                path: path.to_owned(),
                source: Box::new(error.into()),
            })?;
        RedbEngine::start(db, path, history)
    }

    fn start(db: Database, path: &Path, history: HistoryLimits) -> Result<RedbEngine, OpenError> {
        let damaged = |source: RedbError| OpenError::Damaged {
            path: path.to_owned(),
            source: Box::new(source.into_redb()),
        };
        let (format, position) = rows::open_tables(&db, FORMAT).map_err(damaged)?;
        if format > FORMAT {
            return Err(OpenError::NewerFormat {
                path: path.to_owned(),
                found: format,
                known: FORMAT,
            });
        }
        let shared = Arc::new(Shared {
            db,
            feed: Feed::new(position.revision),
            recent: Mutex::default(),
            oldest: AtomicU64::new(position.oldest.0),
            poisoned: AtomicBool::new(false),
            history,
        });
        let (queue, jobs) = mpsc::channel(limits::WRITER_QUEUE_MAX);
        let writer = writer::Writer::new(shared.clone(), position);
        let writer = std::thread::Builder::new()
            .name("state-writer".to_owned())
            .spawn(move || writer.run(jobs))
            .map_err(|source| OpenError::Io {
                path: path.to_owned(),
                source,
            })?;
        Ok(RedbEngine {
            shared,
            queue: Some(queue),
            writer: Some(writer),
        })
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(limits::REDB_CACHE_BYTES);
    builder
}

/// The process that has `path` open, as far as `/proc` shows it.
fn holder_of(path: &Path) -> Option<u32> {
    let path = path.canonicalize().ok()?;
    let own = std::process::id();
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let mut files = std::fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let holds = files.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| target == path));
        (holds && pid != own).then_some(pid)
    })
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        // Closing the queue ends the writer after what it has taken on; then the file is closed.
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    fn tables(&self) -> Result<ReadTables, RedbError> {
        ReadTables::open(self.db.begin_read()?)
    }

    fn read(&self, request: &ReadRequest) -> Result<ReadAnswer, Unreadable> {
        let tables = self.tables()?;
        let at = tables.resolve(request.at)?;
        let pages = super::mvcc::answer(&tables.at(at), &request.ops)?;
        Ok(ReadAnswer { revision: at, pages })
    }

    /// Publishes committed revisions to the watchers.
    fn publish(&self, batches: Vec<Arc<RevisionEvents>>, position: Position) {
        {
            let mut recent = self.recent();
            for batch in batches {
                let bytes = rows::event_bytes(&batch.events);
                recent.bytes += bytes;
                recent.batches.push_back((bytes, batch));
            }
            while recent.bytes > limits::RECENT_BYTES_MAX {
                let Some((bytes, _)) = recent.batches.pop_front() else {
                    break;
                };
                recent.bytes -= bytes;
            }
        }
        self.oldest.store(position.oldest.0, Ordering::Release);
        self.feed.announce(position.revision);
    }
}

/// The request with its ranges cut to what may be read on the calling thread; `None` if it has too many for that.
fn first_rows(request: &ReadRequest) -> Option<ReadRequest> {
    let share = limits::READ_INLINE_KEYS_MAX / request.ops.len().max(1);
    if share < limits::READ_LOOK_KEYS_MIN {
        return None;
    }
    let mut look = request.clone();
    for op in &mut look.ops {
        if let ReadOp::Range { limit, .. } = op {
            *limit = share.min(*limit);
        }
    }
    Some(look)
}

#[async_trait]
impl Engine for RedbEngine {
    fn name(&self) -> &'static str {
        "redb"
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadAnswer, Unreadable> {
        check_read(&request).map_err(Unreadable::Bounds)?;
        let keys: usize = request
            .ops
            .iter()
            .map(|op| match op {
                ReadOp::Get(_) => 1,
                ReadOp::Range { limit, .. } => *limit,
            })
            .sum();
        if keys <= limits::READ_INLINE_KEYS_MAX {
            return self.shared.read(&request);
        }
        // Most lists are short, whatever they may be: a look at their first rows costs less than a change of threads.
        if let Some(look) = first_rows(&request) {
            let answer = self.shared.read(&look)?;
            if answer.pages.iter().all(|page| !page.more) {
                return Ok(answer);
            }
        }
        let shared = self.shared.clone();
        blocking(move || shared.read(&request)).await
    }

    async fn commit(&self, txn: Txn) -> Change {
        let id: TxnId = txn.id;
        let bytes = match check_txn(&txn) {
            Ok(bytes) => bytes,
            Err(bounds) => return Change::Refused(Refusal::Bounds(bounds)),
        };
        if self.shared.is_poisoned() {
            return Change::Refused(Refusal::Poisoned);
        }
        let Some(queue) = &self.queue else {
            return Change::Refused(Refusal::Closed);
        };
        let (answer, outcome) = oneshot::channel();
        if queue.send(Job { txn, bytes, answer }).await.is_err() {
            return Change::Refused(Refusal::Poisoned);
        }
        // The writer died with the transaction in hand: the marker will tell.
        outcome.await.unwrap_or(Change::Unknown(id))
    }

    async fn watch(
        &self,
        range: KeyRange,
        from: Option<Revision>,
    ) -> Result<Box<dyn EngineWatch>, Unreadable> {
        watch_log(&self.shared, range, from)
    }

    async fn status(&self) -> Result<EngineStatus, Unreadable> {
        let position = self.shared.tables()?.position();
        Ok(EngineStatus {
            revision: position.revision,
            oldest: position.oldest,
            history_changes: position.changes,
            writable: !self.shared.is_poisoned(),
        })
    }
}

#[async_trait]
impl Log for Shared {
    async fn log_after(self: Arc<Self>, after: Revision) -> Result<Vec<Arc<RevisionEvents>>, Unreadable> {
        if let Some(page) = self.recent().after(after) {
            return Ok(page);
        }
        blocking(move || self.tables()?.log_after(after)).await
    }

    fn oldest(&self) -> Revision {
        Revision(self.oldest.load(Ordering::Acquire))
    }

    fn feed(&self) -> &Feed {
        &self.feed
    }
}

impl Recent {
    /// A page of the changes after `after`, if they are all here.
    fn after(&self, after: Revision) -> Option<Vec<Arc<RevisionEvents>>> {
        let first = self.batches.front()?.1.revision;
        let skip = usize::try_from(after.next().0.checked_sub(first.0)?).ok()?;
        let mut changes = 0;
        let mut page = Vec::new();
        for (_, batch) in self.batches.iter().skip(skip) {
            if changes > 0 && changes + batch.events.len() > limits::WATCH_PAGE_CHANGES_MAX {
                break;
            }
            changes += batch.events.len();
            page.push(batch.clone());
        }
        Some(page)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Unreadable> + Send + 'static,
) -> Result<T, Unreadable> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Unreadable::Engine(Box::new(error))),
    }
}

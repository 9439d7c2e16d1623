//! Every bound of the store and of the reconcile loop, by name, in one place.
//!
//! The numbers come from `requirements/state-and-operations.md` §2.1 and R42–R43; they are the same on every
//! engine, so a request that one engine takes is taken by all. Tests that need smaller ones pass them in
//! (`HistoryLimits`, `Timing`) instead of sleeping.

use std::time::Duration;

/// Longest key in bytes; the shortest is one byte.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Largest value in bytes.
pub const VALUE_BYTES_MAX: usize = 512 * 1_024;
/// Most compares, and most operations per branch, of one transaction (the commit marker takes one of each).
pub const TXN_OPS_MAX: usize = 1_024;
/// Largest transaction in bytes, keys and values of compares and both branches together.
pub const TXN_BYTES_MAX: usize = 1_024 * 1_024;
/// Most keys in one page of a range.
pub const PAGE_KEYS_MAX: usize = 1_000;
/// Most bytes of keys and values in one answer to a read.
pub const READ_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Most operations in one read request.
pub const READ_OPS_MAX: usize = 1_024;
/// Reads of at most this many keys run on the calling thread; longer ones go to the blocking pool.
pub const READ_INLINE_KEYS_MAX: usize = 32;
/// A longer read is first looked at on the calling thread if each of its ranges may have at least so many keys.
pub const READ_LOOK_KEYS_MIN: usize = 4;
/// Most rows that `list` gathers over its pages; a longer list must be paged by its caller.
pub const LIST_ROWS_MAX: usize = 200_000;
/// Lists of more rows than this are decoded on the blocking pool.
pub const DECODE_INLINE_ROWS_MAX: usize = 64;
/// How often a list restarts when the revision it reads at is compacted away.
pub const LIST_RESTARTS_MAX: usize = 3;

/// How often `update` runs its closure before it answers `Contended`.
pub const UPDATE_ATTEMPTS_MAX: u32 = 8;
/// How long `update` keeps retrying.
pub const UPDATE_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest wait between two attempts of `update`.
pub const UPDATE_BACKOFF_MAX: Duration = Duration::from_millis(100);
/// How many lanes serialise the retries of contended updates in this process.
pub const RETRY_LANES: usize = 16;

/// A read that takes longer is `Unreadable`.
pub const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// A commit that takes longer is `Unknown`.
pub const COMMIT_TIME_MAX: Duration = Duration::from_secs(10);
/// Commit markers are kept at least this long, so that a lost answer can be resolved meanwhile.
pub const MARKER_KEPT: Duration = Duration::from_secs(3_600);
/// Old markers are looked for at most this often, and only after a commit.
pub const MARKER_SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Most transactions that the redb writer puts under one sync.
pub const BATCH_TXNS_MAX: usize = 512;
/// Most bytes that the redb writer puts under one sync.
pub const BATCH_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Most transactions waiting for the redb writer; one more waits in its caller.
pub const WRITER_QUEUE_MAX: usize = 1_024;
/// Memory that redb may use as its page cache, in bytes.
pub const REDB_CACHE_BYTES: usize = 64 * 1_024 * 1_024;
/// Most bytes of recent changes that redb keeps decoded for watchers; older ones are read from the log.
pub const RECENT_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Most log entries that one commit compacts away, beyond as many as it adds.
pub const COMPACT_STEP_MAX: usize = 1_024;

/// Most changes kept for watches and for reads at a past revision.
pub const HISTORY_CHANGES_MAX: u64 = 1_000_000;
/// Most bytes of changes kept.
pub const HISTORY_BYTES_MAX: u64 = 1_024 * 1_024 * 1_024;
/// Changes younger than this are kept unless one of the two bounds above is reached.
pub const HISTORY_SPAN_MIN: Duration = Duration::from_secs(600);

/// Most watchers on one engine.
pub const WATCHERS_MAX: usize = 4_096;
/// Most changes that one watcher takes from the log at once.
pub const WATCH_PAGE_CHANGES_MAX: usize = 1_000;
/// A watcher that saw nothing of its own for this many revisions reports its progress.
pub const WATCH_PROGRESS_REVISIONS: u64 = 1_000;

/// Changes that arrive within this time wake a reconciler once.
pub const WAKE_DEBOUNCE: Duration = Duration::from_millis(5);
/// A reconciler runs at least this often unless it names another interval.
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(300);
/// A pass that takes longer is cut off.
pub const PASS_TIME_MAX: Duration = Duration::from_secs(120);
/// Most items that one pass should examine; the rest is deferred.
pub const PASS_ITEMS_MAX: usize = 1_000;
/// First wait after a failed pass; it doubles from there.
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest wait after failed passes.
pub const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// How long shutdown waits for a running pass before it is dropped.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// Longest error chain shown in a reconciler's status.
pub const ERROR_CHAIN_MAX: usize = 8;

//! Every bound of this crate, by name. Numbers that the requirements fix (requirements/ebs.md §2.5) say so.

use std::time::Duration;

/// Longest id of the contract, in characters (§3.5).
pub const ID_LEN_MAX: usize = 64;
/// Block size: capacities are multiples of it and writes of an aligned block are old or new (§2.5).
pub const BLOCK_BYTES: u64 = 4096;
/// Largest volume: 64 TiB, the largest of the volume types (§2.4).
pub const VOLUME_BYTES_MAX: u64 = 64 << 40;
/// Most bytes that CreateVolume may carry as the volume's first content (§2.5).
pub const SEED_BYTES_MAX: u64 = 655_360;
/// Objects in one page of a list (§2.5).
pub const LIST_PAGE_MAX: usize = 1000;
/// Longest list token, in characters.
pub const LIST_TOKEN_LEN_MAX: usize = 256;
/// Entries in the parameter map of CreateVolume.
pub const VOLUME_PARAMETERS_MAX: usize = 32;
/// Longest key or value of a volume parameter, in bytes.
pub const VOLUME_PARAMETER_LEN_MAX: usize = 1024;

/// How long a fresh export process may take until it serves.
pub const EXPORT_READY_WAIT: Duration = Duration::from_secs(20);
/// How often a starting export is looked at.
pub const EXPORT_READY_POLL: Duration = Duration::from_millis(4);
/// How long an export may take to answer on its control socket.
pub const CONTROL_ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long a killed process may stay in the kernel before that is an error (§2.5).
pub const KILL_WAIT: Duration = Duration::from_secs(30);
/// Longest request or answer line on the control socket, in bytes.
pub const CONTROL_LINE_MAX: usize = 16 * 1024;
/// Control connections served at once by one export.
pub const CONTROL_CONNECTIONS_MAX: usize = 8;
/// How long an export waits for the volume's lock, which a killed predecessor may still hold for a moment.
pub const LOCK_WAIT: Duration = Duration::from_secs(3);
/// How often a waited-for lock is tried.
pub const LOCK_POLL: Duration = Duration::from_millis(20);
/// How often an idle export looks whether it is fenced; a busy one looks with every change.
pub const FENCE_POLL: Duration = Duration::from_millis(250);
/// Longest path of a unix socket on Linux, without its closing zero.
pub const SOCKET_PATH_MAX: usize = 107;
/// Bytes of an export's log that an error quotes.
pub const LOG_TAIL_BYTES: usize = 2048;
/// Status and configuration files larger than this are not ours.
pub const EXPORT_FILE_BYTES_MAX: u64 = 64 * 1024;
/// An export's log is emptied at its start when it has grown beyond this.
pub const EXPORT_LOG_BYTES_MAX: u64 = 1 << 20;
/// A record in a pool larger than this is not ours.
pub const STORED_BYTES_MAX: u64 = 256 * 1024;
/// Bytes copied or zeroed at a time.
pub const COPY_CHUNK_BYTES: usize = 1 << 20;
/// Bytes a volume may allocate before it looks again how full the pool is.
pub const SPACE_BUDGET_BYTES_MAX: u64 = 64 << 20;
/// The pool keeps this many hundredths of its file system free by default (R101)…
pub const RESERVE_PERCENT: u64 = 2;
/// …and at least this many bytes.
pub const RESERVE_BYTES_MIN: u64 = 1 << 30;
/// Extents that one block-status question may be answered with.
pub const EXTENTS_MAX: usize = 1024;
/// Largest NBD request (§2.5).
pub const NBD_REQUEST_BYTES_MAX: u32 = 32 << 20;
/// NBD connections of one export.
pub const NBD_CONNECTIONS_MAX: usize = 16;
/// Requests in flight on one connection.
pub const NBD_REQUESTS_MAX: usize = 128;
/// Bytes in flight on one connection: the largest request.
pub const NBD_CONNECTION_BYTES_MAX: u64 = NBD_REQUEST_BYTES_MAX as u64;
/// Bytes in flight of one export.
pub const NBD_EXPORT_BYTES_MAX: u64 = 64 << 20;
/// Options that a client may send before it starts.
pub const NBD_OPTIONS_MAX: usize = 64;
/// Largest option.
pub const NBD_OPTION_BYTES_MAX: usize = 8 * 1024;
/// Queries in one option about contexts.
pub const NBD_QUERIES_MAX: usize = 64;
/// How long the negotiation may take.
pub const NBD_NEGOTIATION_WAIT: Duration = Duration::from_secs(10);
/// How long the payload of a write may take to arrive once its header has.
pub const NBD_PAYLOAD_WAIT: Duration = Duration::from_secs(60);
/// How long a drained export waits for its last answers to leave.
pub const NBD_DRAIN_WAIT: Duration = Duration::from_secs(2);
/// Bytes read ahead from a client.
pub const NBD_READ_AHEAD_BYTES: usize = 128 * 1024;
/// Answers sent with one system call.
pub const NBD_ANSWERS_BATCH: usize = 32;
/// Reads from this size on are looked at for holes.
pub const NBD_HOLE_READ_BYTES_MIN: u32 = 64 * 1024;
/// Chunks that one read may be answered in.
pub const NBD_READ_CHUNKS_MAX: usize = 64;
/// Threads of an export that run its tasks.
pub const EXPORT_WORKERS: usize = 2;
/// Threads of an export that wait for disks.
pub const EXPORT_BLOCKING_THREADS_MAX: usize = 32;
/// `oom_score_adj` of an export: it is ended after guests.
pub const EXPORT_OOM_SCORE_ADJUSTMENT: &str = "-500";
/// What a new volume or snapshot needs besides its data: directories, records, ownership.
pub const OBJECT_BYTES: u64 = 64 * 1024;
/// Largest write that is done without a hand-over to another thread…
pub const INLINE_WRITE_BYTES_MAX: usize = 64 * 1024;
/// …unless one took this long…
pub const INLINE_WRITE_SLOW: Duration = Duration::from_millis(1);
/// …within so many milliseconds.
pub const INLINE_WRITE_PAUSE_MS: u64 = 200;

//! The bounds of the front door (identity.md 2.4). Durations, bytes, and rates per second.

use std::time::Duration;

/// Largest body of an ordinary operation, in bytes.
pub const BODY_BYTES_MAX: usize = 10 * 1_024 * 1_024;
/// Largest body of a request without credentials, in bytes.
pub const UNSIGNED_BODY_BYTES_MAX: usize = 64 * 1_024;
/// All bodies above [`UNSIGNED_BODY_BYTES_MAX`] that are held at once, in bytes.
pub const BODIES_BYTES_MAX: usize = 256 * 1_024 * 1_024;
/// A body over its cap is read on and dropped up to this many bytes, so that the client sees the answer.
pub const DRAINED_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// How long an oversized body is drained.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// A body must deliver something at least this often.
pub const BODY_IDLE_MAX: Duration = Duration::from_secs(30);
/// Time for the head of a request on HTTP/1.
pub const HEADER_READ_MAX: Duration = Duration::from_secs(10);
/// Time for the TLS handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// All headers of a request together, in bytes.
pub const HEADER_BYTES_MAX: usize = 32 * 1_024;
/// One header line, in bytes.
pub const HEADER_LINE_BYTES_MAX: usize = 16 * 1_024;
/// Headers of a request.
pub const HEADERS_MAX: usize = 100;
/// Path and query, in bytes.
pub const URL_BYTES_MAX: usize = 16 * 1_024;
/// Bytes that HTTP/1 buffers for a connection; a head that does not fit is refused.
pub const CONNECTION_BUFFER_BYTES: usize = 64 * 1_024;
/// Requests at once on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 256;
/// Connections at once; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 4_096;
/// How long a shutdown waits for requests in progress.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// Wait after an accept that failed for want of file descriptors.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Distinct failures of one (source, key) in [`LOCKOUT_WINDOW`] that lock it.
pub const LOCKOUT_FAILURES: usize = 10;
/// Failures of one source, whatever the key, that lock it.
pub const LOCKOUT_SOURCE_FAILURES: usize = 20 * LOCKOUT_FAILURES;
/// The time in which failures count together.
pub const LOCKOUT_WINDOW: Duration = Duration::from_secs(60);
/// The first lock; each further one of the same pair is twice as long.
pub const LOCKOUT_FIRST: Duration = Duration::from_secs(30);
/// The longest lock.
pub const LOCKOUT_LONGEST: Duration = Duration::from_secs(300);
/// Pairs and sources tracked.
pub const LOCKOUT_ENTRIES_MAX: usize = 100_000;

/// Buckets tracked by the throttle.
pub const THROTTLE_BUCKETS_MAX: usize = 100_000;

/// A rate: tokens per second, and the most that are saved up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens per second.
    pub per_second: f64,
    /// Most tokens.
    pub burst: f64,
}

/// Reads of one account and action.
pub const RATE_READ: Rate = Rate {
    per_second: 100.0,
    burst: 400.0,
};
/// Writes of one account and action.
pub const RATE_WRITE: Rate = Rate {
    per_second: 20.0,
    burst: 100.0,
};
/// RunInstances, StartInstances, StopInstances, TerminateInstances.
pub const RATE_INSTANCES: Rate = Rate {
    per_second: 2.0,
    burst: 40.0,
};
/// CreateAccount.
pub const RATE_CREATE_ACCOUNT: Rate = Rate {
    per_second: 1.0,
    burst: 5.0,
};
/// All actions of one account: ten times the write rate.
pub const RATE_ACCOUNT: Rate = Rate {
    per_second: 200.0,
    burst: 1_000.0,
};

/// One audit file, in bytes.
pub const AUDIT_FILE_BYTES_MAX: u64 = 256 * 1_024 * 1_024;
/// Audit files kept.
pub const AUDIT_FILES_MAX: u32 = 16;
/// Characters of `User-Agent` in an audit line.
pub const AUDIT_USER_AGENT_CHARS: usize = 256;

/// Validity of the CA made at first start.
pub const CA_DAYS: i64 = 3_650;
/// Validity of the server's certificate.
pub const CERTIFICATE_DAYS: i64 = 90;
/// It is renewed when this much of it is left: at two thirds.
pub const CERTIFICATE_RENEW_DAYS: i64 = 30;
/// How often that is looked at.
pub const CERTIFICATE_CHECK: Duration = Duration::from_secs(3_600);

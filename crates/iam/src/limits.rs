//! The bounds of this room.

use std::time::Duration;

/// Longest client token (AWS: 64 printable ASCII characters).
pub const CLIENT_TOKEN_CHARS_MAX: usize = 64;
/// How long a client token is remembered.
pub const CLIENT_TOKEN_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How long an SDK's invocation id is remembered, for operations without a client token.
pub const INVOCATION_KEPT: Duration = Duration::from_secs(3_600);
/// Most result ids that a client token remembers.
pub const CLIENT_TOKEN_RESULTS_MAX: usize = 1_000;
/// How often expired client tokens are looked for.
pub const CLIENT_TOKEN_SWEEP_EVERY: Duration = Duration::from_secs(600);
/// Most expired client tokens deleted in one transaction.
pub const CLIENT_TOKEN_SWEEP_BATCH: usize = 100;

/// Credentials kept ready: decoded, unsealed, with compiled policies.
pub const CREDENTIALS_CACHED_MAX: usize = 4_096;
/// Signing keys kept for each credential.
pub const SIGNING_KEYS_CACHED_MAX: usize = 8;
/// Account keys kept unwrapped.
pub const ACCOUNT_KEYS_CACHED_MAX: usize = 4_096;
/// Policies attached to one user (AWS's quota).
pub const ATTACHED_POLICIES_MAX: usize = 10;

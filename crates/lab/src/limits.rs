//! Bounds of the harness: a test that exceeds one fails with its name instead of running on.

use std::time::Duration;

/// Passes within which a reconciler must have converged.
pub const PASSES_MAX: usize = 50;
/// Steps that one scenario may take; a larger one is split by its author.
pub const STEPS_MAX: u64 = 2_000;
/// Longest single pass.
pub const PASS_TIME_MAX: Duration = Duration::from_secs(20);

//! Named points where a test can make the process abort, as a power cut would.
//!
//! `fault_point!("node/launch/recorded")` does nothing unless the crate feature `fault-points` is on, which release
//! builds never have. With it, the process aborts at the point named by `SPX_CRASH_AT`: `name` or `name:n`, the n-th
//! time it is passed (from one). Points are named `<room>/<operation>/<step just done>`.

/// Aborts here if `SPX_CRASH_AT` says so; only with the feature `fault-points`.
#[cfg(feature = "fault-points")]
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {
        $crate::fault::pass($name)
    };
}

/// Aborts here if `SPX_CRASH_AT` says so; only with the feature `fault-points`, which this build does not have.
#[cfg(not(feature = "fault-points"))]
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {{
        const _: &str = $name;
    }};
}

/// Passes the point `name`; called by [`fault_point!`](crate::fault_point).
#[cfg(feature = "fault-points")]
pub fn pass(name: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let Ok(wanted) = std::env::var("SPX_CRASH_AT") else {
        return;
    };
    let (wanted, nth) = match wanted.rsplit_once(':') {
        Some((point, nth)) => (point, nth.parse().unwrap_or(1)),
        None => (wanted.as_str(), 1),
    };
    if wanted == name && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == nth {
        eprintln!("fault point {name}: aborting");
        std::process::abort();
    }
}

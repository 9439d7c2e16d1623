//! Flushes that share syncs: each waits for a sync that started after it was asked, and gets that sync's error.
//!
//! ```text
//!  idle ──flush──▶ syncing ──done──▶ idle        flushes that arrive while syncing need the *next* sync,
//!                     └──error──▶ poisoned       and all of them share it
//! ```
//!
//! After an error the pages that were not written count as clean in the kernel, so a later sync that succeeds proves
//! nothing: the gate stays poisoned.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::device::DeviceError;

#[derive(Debug, Default)]
struct Rounds {
    started: u64,
    finished: u64,
}

/// Shares syncs among flushes.
#[derive(Debug, Default)]
pub struct SyncGate {
    rounds: Mutex<Rounds>,
    changed: Notify,
    poisoned: AtomicBool,
}

impl SyncGate {
    fn rounds(&self) -> MutexGuard<'_, Rounds> {
        // The rounds are two counters; a panic elsewhere cannot leave them half changed.
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a sync has failed.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Refuses once poisoned.
    pub fn check(&self) -> Result<(), DeviceError> {
        if self.is_poisoned() {
            Err(DeviceError::Poisoned)
        } else {
            Ok(())
        }
    }

    /// Returns after a sync that started after this call. `sync` starts one on its own task or thread and must not be lost
    /// with its caller: the future it returns may be dropped.
    pub async fn flush<F>(self: &std::sync::Arc<Self>, sync: F) -> Result<(), DeviceError>
    where
        F: FnOnce() -> io::Result<()> + Send + 'static,
    {
        let mut sync = Some(sync);
        let wanted = self.rounds().started + 1;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.check()?;
            let lead = {
                let mut rounds = self.rounds();
                if rounds.finished >= wanted {
                    return Ok(());
                }
                let idle = rounds.started == rounds.finished;
                if idle && sync.is_some() {
                    rounds.started += 1;
                }
                idle
            };
            if lead && let Some(sync) = sync.take() {
                let gate = std::sync::Arc::clone(self);
                // On a thread of its own: if this flush is given up, those that wait for the round still get its result.
                tokio::task::spawn_blocking(move || gate.finish(sync()));
            }
            changed.await;
        }
    }

    fn finish(&self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "sync failed, the volume takes no more changes");
            self.poisoned.store(true, Ordering::Release);
        }
        {
            let mut rounds = self.rounds();
            rounds.finished = rounds.started;
        }
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::SyncGate;
    use crate::device::DeviceError;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn flushes_share_syncs_that_started_after_them() {
        let gate = Arc::new(SyncGate::default());
        let (written, syncs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let durable = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..200 {
            let (gate, written, syncs, durable) =
                (gate.clone(), written.clone(), syncs.clone(), durable.clone());
            tasks.push(tokio::spawn(async move {
                let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                let seen = durable.clone();
                gate.flush(move || {
                    let snapshot = written.load(Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    syncs.fetch_add(1, Ordering::SeqCst);
                    durable.fetch_max(snapshot, Ordering::SeqCst);
                    Ok(())
                })
                .await
                .unwrap();
                assert!(
                    seen.load(Ordering::SeqCst) >= mine,
                    "answered before its write was synced"
                );
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(syncs.load(Ordering::SeqCst) < 200, "no sync was shared");
    }

    #[tokio::test]
    async fn an_error_poisons_for_good() {
        let gate = Arc::new(SyncGate::default());
        assert!(gate.flush(|| Ok(())).await.is_ok());
        let first = gate.flush(|| Err(io::Error::other("disk gone"))).await;
        assert!(matches!(first, Err(DeviceError::Poisoned)));
        assert!(matches!(gate.flush(|| Ok(())).await, Err(DeviceError::Poisoned)));
    }
}

//! `Store::update`: optimistic transactions with a bounded number of attempts.
//!
//! The closure runs on one revision and only gathers its writes; then everything it read is compared and everything it
//! wrote is committed in one transaction. If a compare fails the closure runs again with a fresh [`Tx`], up to
//! [`limits::UPDATE_ATTEMPTS_MAX`] times within [`limits::UPDATE_TIME_MAX`]. From the second attempt on it first takes
//! one of a few lanes, chosen by what it writes, so that in this process the losers of a race go one after another
//! instead of failing each other again; writers in other processes are met with random back-off.

use super::Store;
use super::tx::Tx;
use crate::engine::Txn;
use crate::error::{StoreError, UpdateError};
use crate::limits;
use crate::result::{Change, Refusal, Revision};
use rand::Rng;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

impl Store {
    /// Runs a transaction; the answer is the closure's own. The closure may run several times, each time from clean
    /// state: it must do nothing but read and write through its `Tx`. If it answers an error, nothing is written.
    pub async fn update<R, E, F, Fut>(&self, closure: F) -> Result<R, UpdateError<E>>
    where
        F: Fn(Tx) -> Fut,
        Fut: Future<Output = Result<R, E>>,
        E: From<StoreError>,
    {
        self.update_at(closure).await.map(|(answer, _)| answer)
    }

    /// As [`Store::update`], with the revision that the commit made. A transaction that changed nothing made none.
    pub async fn update_at<R, E, F, Fut>(&self, closure: F) -> Result<(R, Option<Revision>), UpdateError<E>>
    where
        F: Fn(Tx) -> Fut,
        Fut: Future<Output = Result<R, E>>,
        E: From<StoreError>,
    {
        let started = Instant::now();
        let mut lane: Option<usize> = None;
        for attempt in 1..=limits::UPDATE_ATTEMPTS_MAX {
            let place = match lane {
                None => None,
                Some(lane) => {
                    let wait = limits::UPDATE_TIME_MAX.saturating_sub(started.elapsed());
                    match tokio::time::timeout(wait, self.inner.lanes[lane].lock()).await {
                        Ok(place) => Some(place),
                        Err(_) => {
                            return Err(UpdateError::Contended {
                                attempts: attempt - 1,
                            });
                        }
                    }
                }
            };
            let tx = Tx::new(self.clone());
            let answer = closure(tx.clone()).await.map_err(UpdateError::Aborted)?;
            let txn = tx.prepare().await?.txn;
            if txn.then.is_empty() {
                // All reads were of one revision, so there is nothing to compare.
                return Ok((answer, None));
            }
            let next_lane = lane_of(&txn);
            match self.commit(txn).await {
                Change::Applied(revision) => return Ok((answer, Some(revision))),
                Change::Refused(Refusal::Compare { .. } | Refusal::Aborted) => {}
                Change::Refused(refusal) => return Err(UpdateError::Refused(refusal)),
                Change::Unknown(id) => return Err(UpdateError::Unknown(id)),
            }
            if attempt == limits::UPDATE_ATTEMPTS_MAX || started.elapsed() >= limits::UPDATE_TIME_MAX {
                return Err(UpdateError::Contended { attempts: attempt });
            }
            lane = Some(next_lane);
            drop(place);
            tokio::time::sleep(backoff(attempt)).await;
        }
        Err(UpdateError::Contended {
            attempts: limits::UPDATE_ATTEMPTS_MAX,
        })
    }
}

fn lane_of(txn: &Txn) -> usize {
    let mut hasher = DefaultHasher::new();
    // The first compare is the smallest key that was read; contending transactions mostly share it.
    if let Some(compare) = txn.compares.first()
        && let crate::engine::Over::Key(key) = &compare.over
    {
        key.hash(&mut hasher);
    }
    usize::try_from(hasher.finish() % limits::RETRY_LANES as u64).unwrap_or(0)
}

/// The first retry is immediate, since the lane already orders it; later ones wait for writers elsewhere.
fn backoff(attempt: u32) -> Duration {
    if attempt == 1 {
        return Duration::ZERO;
    }
    let ceiling = Duration::from_millis(1 << attempt.min(7)).min(limits::UPDATE_BACKOFF_MAX);
    ceiling.mul_f64(rand::rng().random::<f64>())
}

//! The owner task of an object that has no life of its own (a volume, a network): make each new spec true, say so.
//!
//! One task an object; the spec arrives in a watch channel, of which only the newest value matters. A spec whose generation
//! is applied already is left alone. Failures are tried again with back-off and reported by the object's own `apply`.

use crate::limits;
use std::future::Future;
use tokio::sync::watch;

/// What one try led to.
pub(crate) enum Applied {
    /// The spec is true and reported.
    Done,
    /// Not yet; the reason is logged and reported by whoever answers this.
    Again,
}

/// Converges until the channel closes. `applied` is the generation that is known to be true at the start.
pub(crate) async fn converge<S, F, Fut>(
    mut specs: watch::Receiver<S>,
    generation: fn(&S) -> u64,
    mut applied: Option<u64>,
    apply: F,
) where
    S: Clone,
    F: Fn(S) -> Fut,
    Fut: Future<Output = Applied>,
{
    let mut backoff = limits::RETRY_FIRST;
    loop {
        let spec = specs.borrow_and_update().clone();
        let wanted = generation(&spec);
        if applied == Some(wanted) {
            if specs.changed().await.is_err() {
                return;
            }
            continue;
        }
        match apply(spec).await {
            Applied::Done => {
                applied = Some(wanted);
                backoff = limits::RETRY_FIRST;
            }
            Applied::Again => {
                tokio::select! {
                    changed = specs.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(backoff) => {}
                }
                backoff = (backoff * 2).min(limits::RETRY_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Applied, converge};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::sync::watch;

    #[tokio::test(start_paused = true)]
    async fn the_newest_spec_is_applied_once_and_failures_are_repeated() {
        let (sender, receiver) = watch::channel(1u64);
        let (tries, done) = (Arc::new(AtomicU64::new(0)), watch::Sender::new(0u64));
        let (count, report) = (tries.clone(), done.clone());
        let task = tokio::spawn(converge(
            receiver,
            |s| *s,
            None,
            move |spec| {
                let (count, report) = (count.clone(), report.clone());
                async move {
                    if count.fetch_add(1, Ordering::SeqCst) < 2 {
                        return Applied::Again;
                    }
                    report.send_replace(spec);
                    Applied::Done
                }
            },
        ));
        let mut seen = done.subscribe();
        seen.wait_for(|s| *s == 1).await.expect("applied");
        assert_eq!(tries.load(Ordering::SeqCst), 3);
        sender.send_replace(2);
        seen.wait_for(|s| *s == 2).await.expect("applied");
        assert_eq!(tries.load(Ordering::SeqCst), 4);
        drop(sender);
        task.await.expect("ends with its channel");
    }
}

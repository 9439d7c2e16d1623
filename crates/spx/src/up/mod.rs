//! `spx up`: one process with all roles on one data directory.
//!
//! | Module | What |
//! |---|---|
//! | `init` | a new directory becomes a cloud: tag, pool, configuration |
//! | `operator` | what the operator's commands are answered from |
//! | `cloud` | opens the store, keys and pool, and starts agent, reconcilers and gateway, in that order |
//!
//! The order of the end is the reverse. An ordinary end touches no guest; `spx down` drains them and then removes what the
//! cloud made in the kernel.

mod cloud;
mod init;
mod operator;

pub use operator::Operator;

use crate::admin::server::{self, Ending};
use crate::cli::Up;
use crate::config::check_explicit;
use crate::layout::DataDir;
use anyhow::{Context, bail};
use cloud::Cloud;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

/// Runs a cloud until it is told to end.
///
/// # Errors
/// It could not start, or its end left something.
pub async fn up(arguments: &Up) -> anyhow::Result<()> {
    // Listened to before anything is started, so that no signal finds the default action.
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    if let Some(api) = arguments.api {
        check_explicit(api)?;
    }
    let dir = DataDir::new(&arguments.data)?;
    dir.ensure()
        .with_context(|| format!("making {}", dir.root().display()))?;
    let _lock = lock(&dir)?;
    let config = init::ensure(&dir, arguments.api)?;

    let cloud = Cloud::start(&dir, &config, arguments.api).await?;
    let (admin, mut ending) = server::start(&dir, cloud.operator()).context("opening the admin socket")?;
    cloud.write_env(&dir)?;
    println!(
        "spinifex is ready at {}; for a client: source {}",
        cloud.endpoint(),
        dir.env().display()
    );
    std::io::stdout().flush().context("writing the ready line")?;

    let asked = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        asked = ending.recv() => asked,
    };
    match asked {
        None => {
            let guests = cloud.stop().await;
            admin.close().await;
            info!(guests, "ended; guests run on and are adopted by the next start");
            if guests > 0 {
                eprintln!(
                    "{guests} guests keep running; `spx down --data {}` ends them",
                    dir.root().display()
                );
            }
            Ok(())
        }
        Some(Ending { progress, done }) => {
            let drain = Duration::from_secs(config.node.drain_seconds);
            let outcome = cloud
                .down(drain, |what| drop(progress.try_send(what.to_owned())))
                .await;
            // The asker reads lines until nobody can send one.
            drop(progress);
            let text = outcome.as_ref().err().map(|error| format!("{error:#}"));
            drop(done.send(text));
            admin.close().await;
            outcome
        }
    }
}

/// Ends a cloud whose `spx up` does not run.
///
/// # Errors
/// Something is left.
pub async fn down_alone(dir: &DataDir) -> anyhow::Result<()> {
    let _lock = lock(dir)?;
    let config = init::ensure(dir, None)?;
    let drain = Duration::from_secs(config.node.drain_seconds);
    cloud::down_alone(dir, &config, drain, |what| println!("{what}")).await
}

/// Waits until nobody runs a cloud on the directory.
///
/// # Errors
/// Somebody still does.
pub async fn await_free(dir: &DataDir, bound: Duration) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + bound;
    while lock(dir).is_err() {
        if tokio::time::Instant::now() >= deadline {
            bail!(
                "the process on {} is still there after {} s",
                dir.root().display(),
                bound.as_secs()
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Held while this process runs the cloud: a second one must not.
fn lock(dir: &DataDir) -> anyhow::Result<File> {
    let path = dir.lock();
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let pid = std::fs::read_to_string(&path).unwrap_or_default();
        bail!(
            "another spx (process {}) runs the cloud in {}",
            pid.trim(),
            dir.root().display()
        );
    }
    file.set_len(0)?;
    if let Err(error) = write!(file, "{}", std::process::id()) {
        warn!(%error, "the lock file does not name this process");
    }
    Ok(file)
}

//! `spx down`: ends a cloud, whether or not its `spx up` still runs.
//!
//! Guests outlive a killed `spx up`, so ending a cloud cannot depend on one. If nobody answers on the admin socket, this
//! process takes the directory over, adopts what runs, drains it and removes what was made.

use crate::admin::Question;
use crate::admin::client::{ask, is_running};
use crate::cli::DataDirArg;
use crate::layout::DataDir;
use crate::up;
use anyhow::{Context, bail};
use std::time::Duration;

/// Time the other process has to end after it said that it is done.
const EXIT_WAIT: Duration = Duration::from_secs(20);

/// Does `spx down`.
///
/// # Errors
/// Something of the cloud is left; the text says what.
pub async fn down(arg: &DataDirArg) -> anyhow::Result<()> {
    let dir = DataDir::new(&arg.data)?;
    if !dir.state().exists() {
        bail!("{} holds no cloud", dir.root().display());
    }
    if is_running(&dir).await {
        ask(&dir, &Question::Down, |what| println!("{what}")).await?;
        up::await_free(&dir, EXIT_WAIT)
            .await
            .context("waiting for spx up to end")?;
    } else {
        up::down_alone(&dir).await?;
    }
    println!(
        "nothing of this cloud runs; its data is in {}",
        dir.root().display()
    );
    Ok(())
}

//! Developer commands, run as `cargo xtask <command>`.
//!
//! `models` rewrites `crates/aws-shapes/models/` from the service models of the pinned PyPI package `botocore`; what
//! it does and why is told in `models.rs`. Commands here may use `anyhow`: nothing depends on this crate.

mod models;

use clap::{Parser, Subcommand};

/// Developer commands of Spinifex.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Rewrites crates/aws-shapes/models/*.json from botocore, as operations.toml asks.
    Models {
        /// Only says whether the committed files are what would be written; changes nothing.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Models { check } => models::run(check),
    }
}

//! The binary: CLI, roles, wiring. No logic.
//!
//! | Module | What |
//! |---|---|
//! | `cli` | the command tree |
//! | `layout`, `config` | the files of a cloud; `spx.toml` |
//! | `up` | wires every room together and runs them |
//! | `admin` | questions of the operator's commands to a running cloud |
//! | `commands`, `output` | the other commands |

mod admin;
mod cli;
mod commands;
mod config;
mod layout;
mod output;
mod up;

use clap::Parser;
use cli::{Cli, Command, VolumeCommand};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("SPX_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let outcome = match cli.command {
        Command::Volume(volume) => match volume.command {
            VolumeCommand::Serve { config } => return block::export::run(&config),
        },
        Command::Up(up) => run(up::up(&up)),
        Command::Down(arg) => run(commands::down::down(&arg)),
        Command::Status(show) => run(commands::get::status(&show)),
        Command::Get(get) => run(commands::get::get(&get)),
        Command::Image(image) => run(commands::image::image(&image.command)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spx: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(command)
}

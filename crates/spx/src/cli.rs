//! The command tree, as people type it.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// An AWS-compatible cloud on your own machine.
#[derive(Debug, Parser)]
#[command(
    name = "spx",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Starts the cloud on a data directory, in the foreground; makes the directory a new cloud if it is empty.
    ///
    /// Ends on SIGTERM or Ctrl-C; guests keep running and are adopted by the next `spx up`.
    Up(Up),
    /// Ends the cloud: guests are powered off in order, and everything that was started here is removed.
    Down(DataDirArg),
    /// Shows how the cloud is.
    Status(Show),
    /// Lists what the operator sees, over all accounts.
    Get(Get),
    /// Builds, imports, lists and removes machine images.
    Image(Image),
    /// Internal: the process that serves one volume.
    #[command(hide = true)]
    Volume(Volume),
}

/// The data directory of a cloud.
#[derive(Debug, Args)]
pub struct DataDirArg {
    /// Data directory of the cloud.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
}

/// `spx up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Data directory of the cloud.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Address of the AWS APIs (port 0: any free one). Default: the configuration's, 127.0.0.1:9999 in a new cloud.
    #[arg(long, value_name = "ADDR")]
    pub api: Option<SocketAddr>,
}

/// Output of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns for a person.
    Table,
    /// For scripts.
    Json,
}

/// `spx status`.
#[derive(Debug, Args)]
pub struct Show {
    /// The cloud.
    #[command(flatten)]
    pub dir: DataDirArg,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
}

/// `spx get`.
#[derive(Debug, Args)]
pub struct Get {
    /// What to list.
    #[arg(value_enum)]
    pub what: Listed,
    /// The cloud and the form.
    #[command(flatten)]
    pub show: Show,
}

/// What `spx get` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Machines.
    Nodes,
    /// Instances of all accounts.
    Instances,
    /// Reconcile loops.
    Reconcilers,
    /// Machine images.
    Images,
}

/// `spx image`.
#[derive(Debug, Args)]
pub struct Image {
    /// What to do.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// Commands on images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Builds an image from Debian's packages and registers it.
    Build(ImageBuild),
    /// Imports a disk (raw or qcow2) and registers it.
    Import(ImageImport),
    /// Lists images.
    List(Show),
    /// Removes an image that nothing uses.
    Remove(ImageRemove),
}

/// Images that can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Recipe {
    /// A few megabytes that boot in seconds: for demos and tests.
    Tiny,
    /// Debian 12 with cloud-init and OpenSSH, booted by UEFI.
    #[value(name = "debian-12")]
    Debian12,
}

/// `spx image build`.
#[derive(Debug, Args)]
pub struct ImageBuild {
    /// What to build.
    #[arg(value_enum)]
    pub recipe: Recipe,
    /// The cloud.
    #[command(flatten)]
    pub dir: DataDirArg,
    /// Name of the image; default: the recipe's and today's date.
    #[arg(long)]
    pub name: Option<String>,
    /// No progress bars.
    #[arg(long)]
    pub no_progress: bool,
}

/// Firmware of an imported disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BootMode {
    /// BIOS.
    LegacyBios,
    /// UEFI.
    Uefi,
}

/// `spx image import`.
#[derive(Debug, Args)]
pub struct ImageImport {
    /// The disk.
    pub file: PathBuf,
    /// The cloud.
    #[command(flatten)]
    pub dir: DataDirArg,
    /// Name of the image; default: the file's name.
    #[arg(long)]
    pub name: Option<String>,
    /// How the disk boots.
    #[arg(long, value_enum, default_value = "uefi")]
    pub boot_mode: BootMode,
    /// No progress bars.
    #[arg(long)]
    pub no_progress: bool,
}

/// `spx image remove`.
#[derive(Debug, Args)]
pub struct ImageRemove {
    /// Id of the image.
    pub image: String,
    /// The cloud.
    #[command(flatten)]
    pub dir: DataDirArg,
}

/// `spx volume`.
#[derive(Debug, Args)]
pub struct Volume {
    /// What to do.
    #[command(subcommand)]
    pub command: VolumeCommand,
}

/// Commands on volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Serves one published volume until it is told to end.
    Serve {
        /// Configuration written by the agent.
        #[arg(long)]
        config: PathBuf,
    },
}

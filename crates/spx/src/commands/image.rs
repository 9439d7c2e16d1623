//! `spx image`: builds or converts a disk here, then hands it to the running cloud, which makes it an image.
//!
//! The work is `machine-image`'s; this file draws its progress. Half-made disks are removed whatever happens.

use crate::admin::client::{ask, is_running};
use crate::admin::{Answer, ImportImage, Question};
use crate::cli::{self, ImageBuild, ImageImport, ImageRemove, Recipe, Show};
use crate::layout::DataDir;
use crate::output::{print_table, progress_bar};
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use machine_image::{BootMode, Built, DebianRequest, ImportRequest, Progress, TinyRequest};
use std::path::PathBuf;
use time::OffsetDateTime;

/// What builds keep between runs: packages. Shared by all clouds of a machine.
pub const CACHE: &str = "/var/cache/spinifex/images";

/// Does an `spx image` command.
///
/// # Errors
/// The build failed, or the cloud refused the image; nothing is left.
pub async fn image(command: &cli::ImageCommand) -> anyhow::Result<()> {
    match command {
        cli::ImageCommand::Build(build) => self::build(build).await,
        cli::ImageCommand::Import(import) => self::import(import).await,
        cli::ImageCommand::List(show) => list(show).await,
        cli::ImageCommand::Remove(remove) => self::remove(remove).await,
    }
}

async fn build(build: &ImageBuild) -> anyhow::Result<()> {
    let dir = running(&build.dir.data).await?;
    let today = OffsetDateTime::now_utc().date();
    let (recipe, description) = match build.recipe {
        Recipe::Tiny => ("tiny", "A few megabytes that boot in seconds"),
        Recipe::Debian12 => ("debian-12", "Debian 12 with cloud-init and OpenSSH"),
    };
    let name = build.name.clone().unwrap_or_else(|| format!("{recipe}-{today}"));
    let work = WorkFile::new(&dir, recipe)?;
    let bar = progress_bar(build.no_progress);
    let watch = |progress| show(&bar, progress);
    let built = match build.recipe {
        Recipe::Tiny => {
            let request = TinyRequest {
                out: work.path.clone(),
                cache: CACHE.into(),
                guest: guest_binary()?,
                extra_command_line: String::new(),
            };
            machine_image::build_tiny(&request, &watch).await
        }
        Recipe::Debian12 => {
            let request = DebianRequest {
                out: work.path.clone(),
                work: dir.images().join("debian"),
                mirror: None,
            };
            machine_image::build_debian12(&request, &watch).await
        }
    };
    let built = built.with_context(|| format!("building {recipe}"))?;
    register(&dir, &bar, built, name, description.to_owned()).await
}

async fn import(import: &ImageImport) -> anyhow::Result<()> {
    let dir = running(&import.dir.data).await?;
    let file = &import.file;
    let stem = file
        .file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = import.name.clone().unwrap_or(stem);
    let work = WorkFile::new(&dir, "import")?;
    let bar = progress_bar(import.no_progress);
    let request = ImportRequest {
        source: file.clone(),
        out: work.path.clone(),
        boot_mode: match import.boot_mode {
            cli::BootMode::LegacyBios => BootMode::Bios,
            cli::BootMode::Uefi => BootMode::Uefi,
        },
    };
    let built = machine_image::import(&request, &|progress| show(&bar, progress))
        .await
        .with_context(|| format!("importing {}", file.display()))?;
    register(
        &dir,
        &bar,
        built,
        name,
        format!("Imported from {}", file.display()),
    )
    .await
}

async fn list(show: &Show) -> anyhow::Result<()> {
    let dir = DataDir::new(&show.dir.data)?;
    print_table(ask(&dir, &Question::Images, |_| {}).await?, show.output)
}

async fn remove(remove: &ImageRemove) -> anyhow::Result<()> {
    let dir = DataDir::new(&remove.dir.data)?;
    ask(
        &dir,
        &Question::RemoveImage {
            image: remove.image.clone(),
        },
        |_| {},
    )
    .await?;
    println!("{} removed", remove.image);
    Ok(())
}

/// Asks before the work, not after it.
async fn running(data: &std::path::Path) -> anyhow::Result<DataDir> {
    let dir = DataDir::new(data)?;
    if !is_running(&dir).await {
        bail!(
            "no cloud runs on {0}; start it with: spx up --data {0}",
            dir.root().display()
        );
    }
    Ok(dir)
}

async fn register(
    dir: &DataDir,
    bar: &ProgressBar,
    built: Built,
    name: String,
    description: String,
) -> anyhow::Result<()> {
    let boot_mode = match built.boot_mode {
        BootMode::Bios => "legacy-bios",
        BootMode::Uefi => "uefi",
    };
    let question = Question::ImportImage(ImportImage {
        file: built.path,
        name: name.clone(),
        description,
        boot_mode: boot_mode.to_owned(),
    });
    let answer = ask(dir, &question, |what| bar.set_message(what.to_owned())).await;
    bar.finish_and_clear();
    let Answer::Image(image) = answer? else {
        bail!("the cloud answered something else than an image")
    };
    println!("{image}  {name}");
    Ok(())
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Step { number, of, what } => {
            bar.set_length(0);
            bar.set_position(0);
            bar.set_message(format!("{number}/{of} {what}"));
        }
        Progress::Done { done, total } => {
            bar.set_length(total);
            bar.set_position(done);
        }
    }
}

/// The guest agent that the tiny image gets: beside this binary.
fn guest_binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("finding this binary")?;
    let guest = own.with_file_name("spx-guest");
    if !guest.is_file() {
        bail!("{} is missing; `make build` makes it", guest.display());
    }
    Ok(guest)
}

/// A disk in the making; removed when dropped.
struct WorkFile {
    path: PathBuf,
}

impl WorkFile {
    fn new(dir: &DataDir, what: &str) -> anyhow::Result<WorkFile> {
        let images = dir.images();
        std::fs::create_dir_all(&images).with_context(|| format!("making {}", images.display()))?;
        Ok(WorkFile {
            path: images.join(format!("{what}-{}.raw", std::process::id())),
        })
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        // Absent if the build failed, which is fine; anything else is left for the operator to see.
        let _ = std::fs::remove_file(&self.path);
    }
}

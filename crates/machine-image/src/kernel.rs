//! Debian's kernel for clouds, fetched from the configured mirror and unpacked, not installed. Kept in a cache
//! directory by release, so that a second build needs no network; the accelerator probe boots it too.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{ImageError, file};
use crate::limits::{DOWNLOAD_MAX, TOOL_MAX};
use crate::tool::{APT_CACHE, APT_GET, DPKG_DEB, Run, require};

/// Depends on the newest kernel of the flavour.
const META_PACKAGE: &str = "linux-image-cloud-amd64";

/// An unpacked kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// For example `6.1.0-38-cloud-amd64`.
    pub release: String,
    /// The compressed image that boot loaders start.
    pub image: PathBuf,
    /// `lib/modules/<release>`.
    pub modules: PathBuf,
}

/// The newest kernel that apt knows, from `cache` or else downloaded into it. When apt knows none (no network yet),
/// the newest one in the cache is answered.
///
/// # Errors
/// There is none, or it cannot be fetched.
pub async fn fetch_kernel(cache: &Path) -> Result<Kernel, ImageError> {
    require(&[APT_CACHE, APT_GET, DPKG_DEB])?;
    fs::create_dir_all(cache).map_err(file("making", cache))?;
    let log = cache.join("kernel.log");
    let Some(package) = find_package(&log).await? else {
        let cached = find_cached(cache)?;
        return cached.ok_or(ImageError::NoKernelPackage {
            package: META_PACKAGE,
        });
    };
    let dir = cache.join(&package);
    if dir.is_dir() {
        return open(&dir);
    }
    download(&package, &dir, cache, &log).await?;
    open(&dir)
}

/// The package that the meta package depends on.
async fn find_package(log: &Path) -> Result<Option<String>, ImageError> {
    let run = Run::new(APT_CACHE, "looking for a kernel", log)?.with(|command| {
        command.args(["depends", META_PACKAGE]);
    });
    let text = match run.output(TOOL_MAX).await {
        Ok(text) => text,
        Err(ImageError::Failed { output, .. }) if output.contains("No packages found") => return Ok(None),
        Err(error) => return Err(error),
    };
    let depends = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    Ok(depends
        .into_iter()
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned))
}

async fn download(package: &str, dir: &Path, cache: &Path, log: &Path) -> Result<(), ImageError> {
    // Unpacked under another name and moved, so that an interrupted download is no kernel.
    let part = tempfile::Builder::new()
        .prefix(".kernel-")
        .tempdir_in(cache)
        .map_err(file("making", cache))?;
    let fetching = Run::new(APT_GET, "downloading a kernel", log)?.with(|command| {
        command
            .args(["download", "-qq", "-o", "APT::Sandbox::User=root", package])
            .current_dir(part.path());
    });
    fetching.finish(DOWNLOAD_MAX).await?;
    let listed = fs::read_dir(part.path()).map_err(file("listing", part.path()))?;
    let archive = listed.filter_map(|entry| Some(entry.ok()?.path())).next();
    let archive = archive.ok_or_else(|| ImageError::NoKernel {
        dir: part.path().to_owned(),
    })?;
    let unpacked = part.path().join("unpacked");
    let unpacking = Run::new(DPKG_DEB, "unpacking a kernel", log)?.with(|command| {
        command.arg("--extract").arg(&archive).arg(&unpacked);
    });
    unpacking.finish(TOOL_MAX).await?;
    match fs::rename(&unpacked, dir) {
        // Another build was quicker.
        Err(_) if dir.is_dir() => Ok(()),
        renamed => renamed.map_err(file("making", dir)),
    }
}

fn find_cached(cache: &Path) -> Result<Option<Kernel>, ImageError> {
    let mut dirs: Vec<PathBuf> = fs::read_dir(cache)
        .map_err(file("listing", cache))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("linux-image-"))
        })
        .collect();
    dirs.sort();
    dirs.pop().map(|dir| open(&dir)).transpose()
}

/// A kernel in an unpacked package; on a merged-/usr system the modules may be under `usr`.
fn open(dir: &Path) -> Result<Kernel, ImageError> {
    let boot = dir.join("boot");
    let missing = || ImageError::NoKernel { dir: dir.to_owned() };
    let listed = fs::read_dir(&boot).map_err(|_| missing())?;
    let image = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        })
        .ok_or_else(missing)?;
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let release = name.trim_start_matches("vmlinuz-").to_owned();
    let places = ["lib/modules", "usr/lib/modules"].map(|place| dir.join(place).join(&release));
    let modules = places
        .into_iter()
        .find(|path| path.is_dir())
        .ok_or_else(missing)?;
    Ok(Kernel {
        release,
        image,
        modules,
    })
}
/// The kernels that [`fetch_kernel`] left in `cache`, newest release last; none if there is no cache.
#[must_use]
pub fn cached_kernels(cache: &Path) -> Vec<PathBuf> {
    let Ok(packages) = std::fs::read_dir(cache) else {
        return Vec::new();
    };
    let mut images = Vec::new();
    for package in packages.flatten() {
        let Ok(files) = std::fs::read_dir(package.path().join("boot")) else {
            continue;
        };
        let kernel = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with("vmlinuz");
        images.extend(files.flatten().filter(kernel).map(|file| file.path()));
    }
    images.sort();
    images
}

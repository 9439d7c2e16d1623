//! What can go wrong with an image, by what was attempted.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// An image could not be made. Nothing is left under the result's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Programs or files of the system are missing.
    #[error("{missing} not installed; install with: apt-get install {packages}")]
    ToolsMissing {
        /// What was looked for.
        missing: String,
        /// Debian packages that have it.
        packages: String,
    },
    /// Building needs root (owners of files inside the image).
    #[error("building an image needs root")]
    NotRoot,
    /// A file or directory.
    #[error("{attempt} {path:?}")]
    File {
        /// Reading, writing, …
        attempt: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("starting {program}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed ({status}) while {attempt}; it said: {output}")]
    Failed {
        /// Which.
        program: String,
        /// What it was to do.
        attempt: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
    /// A program did not end.
    #[error("{program} did not end within {waited:?} while {attempt}")]
    Timeout {
        /// Which.
        program: String,
        /// What it was to do.
        attempt: &'static str,
        /// How long we waited.
        waited: Duration,
    },
    /// apt knows no kernel.
    #[error("apt knows no package {package}; run apt-get update, or check the sources")]
    NoKernelPackage {
        /// The package looked for.
        package: &'static str,
    },
    /// A kernel package without a kernel.
    #[error("{dir:?} has no kernel with its modules")]
    NoKernel {
        /// Where it should be.
        dir: PathBuf,
    },
    /// A module is neither a file nor built in.
    #[error("kernel {release} has no module {module}, neither as a file nor built in")]
    NoModule {
        /// The kernel.
        release: String,
        /// The module.
        module: String,
    },
    /// A library that a program needs was not found.
    #[error("program {program:?} needs {library}, which is not there")]
    NoLibrary {
        /// The program.
        program: PathBuf,
        /// The library.
        library: String,
    },
    /// Something does not fit its partition.
    #[error("{what} takes {bytes} bytes, more than the {bytes_max} there are")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// A file of a format that cannot be imported.
    #[error("{path:?} is {format}; only raw and qcow2 disks can be imported")]
    UnsupportedFormat {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        format: &'static str,
    },
    /// A raw file without a partition table.
    #[error("{path:?} is not a disk image: it has neither a known format nor a partition table")]
    NotADisk {
        /// The file.
        path: PathBuf,
    },
    /// A qcow2 that is not self-contained or not sound.
    #[error("{path:?} is refused: {why}")]
    RefusedQcow2 {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Turns an I/O error into one about a file.
pub(crate) fn file(attempt: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.into();
    move |source| ImageError::File {
        attempt,
        path,
        source,
    }
}

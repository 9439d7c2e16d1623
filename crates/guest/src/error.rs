//! What the agent can fail at, by what it attempted.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// A step of the agent failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
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
    /// A call to the kernel.
    #[error("{attempt}")]
    Kernel {
        /// What was asked.
        attempt: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A configuration of a network interface.
    #[error("{attempt} of interface {interface}")]
    Interface {
        /// Setting the address, …
        attempt: &'static str,
        /// Which.
        interface: String,
        /// Why.
        source: io::Error,
    },
    /// A program.
    #[error("running {program}")]
    Program {
        /// Which.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// No partition with the root label appeared.
    #[error("no partition labelled {label:?} appeared within {waited:?}")]
    NoRoot {
        /// The label.
        label: &'static str,
        /// How long we waited.
        waited: std::time::Duration,
    },
    /// A partition table that is not the one we made.
    #[error("the partition table of {disk:?} is not the image's own")]
    PartitionTable {
        /// The disk.
        disk: PathBuf,
    },
    /// The metadata service could not be reached or broke off.
    #[error("asking the metadata service for {path}")]
    Metadata {
        /// The path asked for.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The metadata service refused.
    #[error("the metadata service answered {status} for {path}")]
    MetadataStatus {
        /// The path asked for.
        path: String,
        /// HTTP status.
        status: u16,
    },
    /// A DHCP message could not be written.
    #[error("encoding a DHCP message")]
    DhcpEncode(#[source] dhcproto::error::EncodeError),
}

/// An error with its causes, on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Turns an I/O error into one about a file.
pub fn file(attempt: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> GuestError {
    let path = path.into();
    move |source| GuestError::File {
        attempt,
        path,
        source,
    }
}

/// Turns an error of the kernel into ours.
pub fn kernel<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> GuestError {
    move |source| GuestError::Kernel {
        attempt,
        source: source.into(),
    }
}

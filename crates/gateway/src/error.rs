//! Why the front door cannot be opened.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Errors of [`crate::Gateway::bind`].
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file of the gateway cannot be read or written.
    #[error("could not {attempted} {path}")]
    File {
        /// As in "could not …".
        attempted: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The CA key may be read by others than its owner.
    #[error("{path} has mode {mode:04o}; a key file must not be wider than 0600")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// One of the CA's two files is there without the other. A new CA is not made over it.
    #[error("{missing} is missing beside its counterpart")]
    HalfCa {
        /// The file that is not there.
        missing: PathBuf,
    },
    /// A certificate cannot be made.
    #[error("could not make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be set up.
    #[error("could not set up TLS")]
    Tls(#[from] rustls::Error),
}

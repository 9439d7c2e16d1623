//! The NBD server: shows one open volume to any number of clients on a unix socket.
//!
//! Fixed newstyle, structured replies, `base:allocation`, FUA, FLUSH, TRIM, WRITE_ZEROES (NO_HOLE, FAST_ZERO), CACHE, DF,
//! multi-conn. Durability is the device's: a flush on any connection covers the answered writes of all. Malformed input ends the
//! connection it came on and nothing else; memory is bounded for each connection and for the export.
//!
//! [`NbdServer::serve`] accepts until it is dropped; [`NbdServer::drain`] refuses new requests, finishes the admitted ones and
//! closes the device, which seals it.

mod connection;
mod negotiate;
mod wire;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::device::{BlockDevice, DeviceError};
use crate::limits;
use connection::{Shared, kib, serve_requests};
use negotiate::{Negotiated, negotiate};

/// Listens on `path`, mode 0600, in place of whatever socket was there. The socket appears under its name only when it
/// is ready.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&temporary)?;
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&temporary, path)?;
    Ok(listener)
}

/// Serves one device.
#[derive(Debug, Clone)]
pub struct NbdServer {
    shared: Arc<Shared>,
}

impl NbdServer {
    /// A server of `device`.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        let memory = Arc::new(Semaphore::new(kib(limits::NBD_EXPORT_BYTES_MAX) as usize));
        Self {
            shared: Arc::new(Shared {
                device,
                memory,
                draining: AtomicBool::new(false),
            }),
        }
    }

    /// Accepts clients. Dropping the future ends every connection.
    pub async fn serve(&self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < limits::NBD_CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&self.shared);
                        connections.spawn(async move {
                            if let Err(error) = serve_client(stream, shared).await {
                                tracing::debug!(%error, "an NBD connection ended");
                            }
                        });
                    }
                    Err(error) => {
                        // Out of descriptors or memory; those that exist go on.
                        tracing::warn!(%error, "accepting an NBD client failed");
                        tokio::time::sleep(limits::LOCK_POLL).await;
                    }
                },
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!(%error, "an NBD connection panicked");
                    }
                }
            }
        }
    }

    /// Refuses new requests (ESHUTDOWN), finishes the admitted ones, and closes the device. Answers get a moment to leave.
    pub async fn drain(&self) -> Result<(), DeviceError> {
        self.shared.draining.store(true, Ordering::Release);
        self.shared.device.close().await?;
        let all = kib(limits::NBD_EXPORT_BYTES_MAX);
        let _answered = timeout(limits::NBD_DRAIN_WAIT, self.shared.memory.acquire_many(all)).await;
        Ok(())
    }
}

async fn serve_client(mut stream: UnixStream, shared: Arc<Shared>) -> io::Result<()> {
    let negotiated = timeout(
        limits::NBD_NEGOTIATION_WAIT,
        negotiate(&mut stream, &shared.device),
    )
    .await;
    match negotiated.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? {
        Negotiated::Start(agreement) => serve_requests(stream, agreement, shared).await,
        Negotiated::Left => Ok(()),
    }
}

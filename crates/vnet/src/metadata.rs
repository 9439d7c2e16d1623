//! Metadata plumbing: accepts connections to 169.254.169.254:80 of one network and says which port each is from.
//!
//! The content is served elsewhere (`node`). A source address proves the port, because the port's ingress check lets
//! no other in and the service chain compares address and device again. Bounded: one queue for all networks.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::net::TcpListener;
use tokio::sync::mpsc::Sender;
use tracing::warn;

use crate::MetadataConnection;
use crate::compile::METADATA;
use crate::limits::ACCEPT_PAUSE;
use crate::program::{NetworkId, PortId};

/// Who a source address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) port: PortId,
    pub(crate) hop_limit: u8,
}

/// The callers of a network by address; replaced as a whole by every apply.
pub(crate) type Callers = Arc<RwLock<Arc<BTreeMap<Ipv4Addr, Caller>>>>;

/// Opens the listener in the calling thread's namespace.
pub(crate) fn open() -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind((METADATA, 80))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts until it is aborted. A connection from an address that no port has is closed.
pub(crate) async fn accept(
    network: NetworkId,
    listener: TcpListener,
    callers: Callers,
    queue: Sender<MetadataConnection>,
) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, %network, "cannot accept metadata connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let IpAddr::V4(source) = peer.ip() else { continue };
        let callers = Arc::clone(&callers.read().unwrap_or_else(PoisonError::into_inner));
        let Some(Caller { port, hop_limit }) = callers.get(&source).cloned() else {
            continue;
        };
        let connection = MetadataConnection {
            stream,
            network: network.clone(),
            port,
            source,
            hop_limit,
        };
        if queue.send(connection).await.is_err() {
            return;
        }
    }
}

//! The resolver of one network: on 169.254.169.253 and on the third address of the network's first block.
//!
//! Names of the network's own ports and of its addresses are answered from the program, absent ones with NXDOMAIN;
//! neither ever leaves the network. Everything else is passed on to the host's resolvers ([`upstream`]); without one
//! the answer is SERVFAIL at once, so that a guest does not hang while it boots. Sockets are opened inside the
//! namespace and served from here; queries in flight and connections are bounded, what is over the bound is dropped.

mod upstream;
mod view;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};

pub(crate) use upstream::Upstreams;
pub(crate) use view::View;

use crate::limits::{
    ACCEPT_PAUSE, DNS_CONNECTION_IDLE, DNS_CONNECTIONS_MAX, DNS_MESSAGE_BYTES_MAX, DNS_QUERIES_MAX,
};

const PORT: u16 = 53;

/// The names of a network; replaced as a whole by every apply.
pub(crate) type Views = Arc<RwLock<Arc<View>>>;

/// How a query came, which bounds its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

/// What the servers of a network share.
#[derive(Clone)]
pub(crate) struct Resolver {
    views: Views,
    upstreams: Arc<Upstreams>,
    queries: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

/// The listeners of a network on one address, fresh from the namespace.
pub(crate) struct Opened {
    udp: std::net::UdpSocket,
    tcp: std::net::TcpListener,
}

/// The listeners of a network on one address.
pub(crate) struct Listeners {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
}

impl Opened {
    /// Makes the current runtime watch them.
    pub(crate) fn register(self) -> io::Result<Listeners> {
        let udp = Arc::new(UdpSocket::from_std(self.udp)?);
        Ok(Listeners {
            udp,
            tcp: TcpListener::from_std(self.tcp)?,
        })
    }
}

/// Opens the listeners on an address in the calling thread's namespace.
pub(crate) fn open(address: Ipv4Addr) -> io::Result<Opened> {
    let udp = std::net::UdpSocket::bind((address, PORT))?;
    udp.set_nonblocking(true)?;
    let tcp = std::net::TcpListener::bind((address, PORT))?;
    tcp.set_nonblocking(true)?;
    Ok(Opened { udp, tcp })
}

impl Resolver {
    /// A resolver that answers from these views and else asks these upstreams.
    pub(crate) fn new(views: Views, upstreams: Arc<Upstreams>) -> Resolver {
        Resolver {
            views,
            upstreams,
            queries: Arc::new(Semaphore::new(DNS_QUERIES_MAX)),
            connections: Arc::new(Semaphore::new(DNS_CONNECTIONS_MAX)),
        }
    }

    /// Serves the listeners until it is aborted.
    pub(crate) async fn serve(self, listeners: Listeners) {
        tokio::join!(self.serve_udp(listeners.udp), self.serve_tcp(listeners.tcp));
    }

    async fn serve_udp(&self, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; DNS_MESSAGE_BYTES_MAX];
        loop {
            let (length, peer) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    debug!(%error, "cannot receive DNS queries");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.queries).try_acquire_owned() else {
                continue;
            };
            let (resolver, socket) = (self.clone(), Arc::clone(&socket));
            let query = buffer[..length].to_vec();
            tokio::spawn(async move {
                if let Some(answer) = resolver.answer(&query, Transport::Udp).await
                    && let Err(error) = socket.send_to(&answer, peer).await
                {
                    debug!(%error, %peer, "cannot answer a DNS query");
                }
                drop(permit);
            });
        }
    }

    async fn serve_tcp(&self, listener: TcpListener) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept DNS connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
                continue;
            };
            let resolver = self.clone();
            tokio::spawn(async move {
                if let Err(error) = resolver.converse(stream).await {
                    debug!(%error, %peer, "a DNS connection ended");
                }
                drop(permit);
            });
        }
    }

    /// Answers the queries of one connection, one after the other.
    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        while let Ok(query) = timeout(DNS_CONNECTION_IDLE, read_framed(&mut stream)).await {
            let query = query?;
            let Some(answer) = self.answer(&query, Transport::Tcp).await else {
                return Ok(());
            };
            timeout(DNS_CONNECTION_IDLE, write_framed(&mut stream, &answer)).await??;
        }
        Ok(())
    }

    /// The answer to a query; none if it deserves none.
    async fn answer(&self, bytes: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let query = Message::from_vec(bytes).ok()?;
        if query.metadata.message_type != MessageType::Query {
            return None;
        }
        if query.metadata.op_code != OpCode::Query || query.queries.len() != 1 {
            return view::refuse(&query, ResponseCode::NotImp).to_vec().ok();
        }
        let view = Arc::clone(&self.views.read().unwrap_or_else(PoisonError::into_inner));
        if let Some(answer) = view.answer(&query) {
            return answer.to_vec().ok();
        }
        match self.upstreams.ask(bytes, transport == Transport::Tcp).await {
            Some(answer) => Some(answer),
            None => view::refuse(&query, ResponseCode::ServFail).to_vec().ok(),
        }
    }
}

/// Reads a message with its length before it (RFC 1035 §4.2.2).
async fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_framed(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed).await
}

async fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let local: SocketAddr = if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(address).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests;

//! The listener: accept, TLS, HTTP/1.1 and HTTP/2, graceful shutdown.
//!
//! Each connection is a task; a slow or hostile one costs its own time-outs and never the accept loop. Plain HTTP on the
//! port is answered with a plain 400, so that the mistake explains itself.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aws_types::Region;
use aws_wire::registry::Registry;
use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use iam::Authenticator;
use time::OffsetDateTime;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::audit::Audit;
use crate::body::Room;
use crate::error::GatewayError;
use crate::limits;
use crate::lockout::Lockout;
use crate::pipeline::{Front, Peer};
use crate::throttle::Throttle;
use crate::tls::{Authority, ServerCertificate, server_config};

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// The answer to a client that speaks plain HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 49\r\n\
Connection: close\r\n\r\nThis port speaks HTTPS. Use an https:// address.\n";

/// How to open the front door.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// The cloud's directory; `tls` and `log` are made in it.
    pub dir: PathBuf,
    /// The region served.
    pub region: Region,
    /// Host names and addresses beyond `localhost`, `127.0.0.1`, `::1` and the address itself, for the certificate.
    pub names: Vec<String>,
}

/// The front door, bound and not yet serving.
pub struct Gateway {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    authority: Authority,
    certificate: Arc<ServerCertificate>,
    front: Front,
}

impl Gateway {
    /// Binds the address, opens or makes the CA, opens the audit log. Requests wait until [`Gateway::serve`].
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn bind(
        config: GatewayConfig,
        registry: Registry,
        authenticator: Authenticator,
    ) -> Result<Self, GatewayError> {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::open(&config.dir.join("tls"), now)?;
        let audit = Audit::open(&config.dir.join("log"))?;
        let certificate = Arc::new(ServerCertificate::new(&authority, server_names(&config), now)?);
        let acceptor = TlsAcceptor::from(Arc::new(server_config(Arc::clone(&certificate))?));
        let failed = |source| GatewayError::Bind {
            address: config.addr,
            source,
        };
        let listener = TcpListener::bind(config.addr).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let front = Front {
            registry: Arc::new(registry),
            authenticator,
            region: config.region,
            lockout: Lockout::new(),
            throttle: Throttle::new(true),
            audit,
            room: Room::new(),
            ca_pem: Bytes::from(authority.pem.clone()),
        };
        Ok(Self {
            listener,
            address,
            acceptor,
            authority,
            certificate,
            front,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The file with the CA's certificate, for `AWS_CA_BUNDLE`.
    pub fn ca_file(&self) -> &std::path::Path {
        &self.authority.path
    }

    /// Holds accounts to the rates of [`crate::limits`], as is the default, or does not: for measurements.
    #[must_use]
    pub fn with_throttle(mut self, throttle: bool) -> Self {
        self.front.throttle = Throttle::new(throttle);
        self
    }

    /// Serves until `shutdown` holds true or has lost its sender; then takes no more requests and waits a bounded time
    /// for those in progress.
    pub async fn serve(self, mut shutdown: watch::Receiver<bool>) {
        let front = Arc::new(self.front);
        let slots = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut renewal = tokio::time::interval(limits::CERTIFICATE_CHECK);
        let stopping = shutdown.clone();
        loop {
            // A slot first: connections beyond the bound stay in the kernel's queue.
            let accept = async {
                let slot = Arc::clone(&slots).acquire_owned().await.ok();
                (slot, self.listener.accept().await)
            };
            tokio::select! {
                () = stopped(&mut shutdown) => break,
                _ = renewal.tick() => renew(&self.certificate, &self.authority),
                Some(_) = connections.join_next() => {}
                (slot, accepted) = accept => match accepted {
                    Ok((stream, peer)) => {
                        let connection = Connection {
                            acceptor: self.acceptor.clone(),
                            front: Arc::clone(&front),
                            stopping: stopping.clone(),
                        };
                        connections.spawn(async move {
                            connection.run(stream, peer).await;
                            drop(slot);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection");
                        tokio::time::sleep(limits::ACCEPT_RETRY).await;
                    }
                },
            }
        }
        let drained = async { while connections.join_next().await.is_some() {} };
        if timeout(limits::SHUTDOWN_GRACE, drained).await.is_err() {
            tracing::warn!("requests were still running when the gateway closed");
        }
    }
}

/// Done when told to stop, or when there is nobody left to tell.
async fn stopped(signal: &mut watch::Receiver<bool>) {
    // The value answered holds a lock and must not live on in the caller's `select!`.
    let _ = signal.wait_for(|stop| *stop).await;
}

fn renew(certificate: &ServerCertificate, authority: &Authority) {
    match certificate.renew_if_due(authority, OffsetDateTime::now_utc()) {
        Ok(true) => tracing::info!("the server certificate was renewed"),
        Ok(false) => {}
        Err(error) => tracing::error!(%error, "could not renew the server certificate"),
    }
}

fn server_names(config: &GatewayConfig) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    if !config.addr.ip().is_unspecified() {
        names.push(config.addr.ip().to_string());
    }
    names.extend(config.names.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// What one connection needs.
struct Connection {
    acceptor: TlsAcceptor,
    front: Arc<Front>,
    stopping: watch::Receiver<bool>,
}

impl Connection {
    async fn run(self, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = self.serve(stream, peer).await {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
    }

    async fn serve(mut self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut first = [0_u8; 1];
        let begun = timeout(limits::HANDSHAKE_MAX, stream.peek(&mut first)).await??;
        if begun == 0 {
            return Ok(());
        }
        if first[0] != TLS_HANDSHAKE {
            timeout(limits::HANDSHAKE_MAX, stream.write_all(PLAIN_HTTP)).await??;
            return timeout(limits::HANDSHAKE_MAX, stream.shutdown()).await?;
        }
        let stream = timeout(limits::HANDSHAKE_MAX, self.acceptor.accept(stream)).await??;
        let tls = match stream.get_ref().1.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLS",
        };
        let peer = Peer {
            ip: peer.ip().to_canonical(),
            tls,
        };
        let front = self.front;
        let service = service_fn(move |request: Request<Incoming>| {
            let front = Arc::clone(&front);
            async move { Ok::<_, Infallible>(front.answer(request, peer).await) }
        });
        let builder = http_builder();
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut self.stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        ended.map_err(io::Error::other)
    }
}

fn http_builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_READ_MAX)
        .max_headers(limits::HEADERS_MAX)
        .max_buf_size(limits::CONNECTION_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS_MAX)
        .max_header_list_size(limits::HEADER_BYTES_MAX as u32)
        .keep_alive_interval(limits::BODY_IDLE_MAX);
    builder
}

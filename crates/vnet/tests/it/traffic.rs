//! Traffic between namespaces: small servers and clients whose sockets are made inside.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lab::within;

/// How long a packet that must arrive may take.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How long silence is listened to before it counts as such.
pub const SILENCE: Duration = Duration::from_millis(600);
const TICK: Duration = Duration::from_millis(20);

/// A server that tells each client its address on a line, then ticks a byte every 20 ms.
pub struct Ticker {
    stop: Arc<AtomicBool>,
}

impl Ticker {
    pub fn start(namespace: &str, port: u16) -> Ticker {
        let listener = within(namespace, || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .expect("the server listens");
        listener.set_nonblocking(true).expect("non-blocking works");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut clients: Vec<TcpStream> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((mut stream, peer)) = listener.accept() {
                    let _ = stream.set_nodelay(true);
                    let _ = writeln!(stream, "{}", peer.ip());
                    let _ = stream.set_nonblocking(true);
                    clients.push(stream);
                }
                for client in &mut clients {
                    let _ = client.write(b".");
                }
                std::thread::sleep(TICK);
            }
        });
        Ticker { stop }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A connection to a [`Ticker`].
pub struct Client {
    stream: TcpStream,
    /// The address that the server sees.
    pub seen_as: String,
}

impl Client {
    /// Connects from a namespace; none if nothing answers in time.
    pub fn connect(namespace: &str, to: Ipv4Addr, port: u16, patience: Duration) -> Option<Client> {
        Client::connect_from(namespace, None, to, port, patience)
    }

    /// Connects from an address of the namespace.
    pub fn connect_from(
        namespace: &str,
        from: Option<Ipv4Addr>,
        to: Ipv4Addr,
        port: u16,
        patience: Duration,
    ) -> Option<Client> {
        let connect = || match from {
            None => TcpStream::connect_timeout(&SocketAddr::from((to, port)), patience),
            Some(from) => connect_bound(from, to, port, patience),
        };
        let mut stream = within(namespace, connect).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
        let mut seen_as = String::new();
        let mut byte = [0];
        while stream.read(&mut byte).ok()? == 1 && byte[0] != b'\n' {
            seen_as.push(char::from(byte[0]));
        }
        Some(Client { stream, seen_as })
    }

    /// Whether bytes arrive within a time from now on; what is in flight is read away first.
    pub fn hears(&mut self, time: Duration) -> bool {
        let mut buffer = [0; 4096];
        self.stream.set_nonblocking(true).expect("non-blocking works");
        let _ = self.stream.read(&mut buffer);
        self.stream.set_nonblocking(false).expect("blocking works");
        self.stream
            .set_read_timeout(Some(time))
            .expect("a timeout is set");
        matches!(self.stream.read(&mut buffer), Ok(length) if length > 0)
    }
}

fn connect_bound(from: Ipv4Addr, to: Ipv4Addr, port: u16, patience: Duration) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, sockopt};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((from, 0)))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddr::from((to, port)))?;
    Ok(TcpStream::from(socket))
}

/// Whether a new connection gets through.
pub fn reaches(namespace: &str, to: Ipv4Addr, port: u16) -> bool {
    Client::connect(namespace, to, port, PATIENCE).is_some()
}

/// Whether a new connection gets no answer at all.
pub fn silent(namespace: &str, to: Ipv4Addr, port: u16) -> bool {
    Client::connect(namespace, to, port, SILENCE).is_none()
}

/// Whether an echo request is answered.
pub fn pings(namespace: &str, to: Ipv4Addr, patience: Duration) -> bool {
    let seconds = patience.as_secs_f32().ceil();
    let command = format!("busybox ping -c 1 -W {seconds} {to}");
    within(namespace, || {
        std::process::Command::new("sh")
            .args(["-c", &command])
            .output()
            .is_ok_and(|out| out.status.success())
    })
}

/// A UDP socket inside a namespace.
pub fn udp(namespace: &str, address: Ipv4Addr, port: u16) -> UdpSocket {
    let socket = within(namespace, || UdpSocket::bind((address, port))).expect("the socket binds");
    socket.set_read_timeout(Some(SILENCE)).expect("a timeout is set");
    socket
}

/// Whether a datagram from one socket arrives at the other.
pub fn delivers(from: &UdpSocket, to: SocketAddr, receiver: &UdpSocket) -> bool {
    let mut buffer = [0; 64];
    receiver.set_nonblocking(true).expect("non-blocking works");
    while receiver.recv(&mut buffer).is_ok() {}
    receiver.set_nonblocking(false).expect("blocking works");
    let _ = from.send_to(b"datagram", to);
    match receiver.recv(&mut buffer) {
        Ok(length) => &buffer[..length] == b"datagram",
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "{error}"
            );
            false
        }
    }
}

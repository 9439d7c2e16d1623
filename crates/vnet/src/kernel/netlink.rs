//! Netlink: building requests, sending them and reading answers, blocking, one request at a time.
//!
//! Hand-written because we need a dozen message kinds, synchronously, on threads that live for one operation; the
//! asynchronous crates want a runtime in each namespace. Bounds: one datagram, one timeout, so many dump tries.
//! The kinds of messages are in `links`, `routes` and `conntrack`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::error::VnetError;
use crate::limits::{NETLINK_DATAGRAM_BYTES_MAX, NETLINK_DUMP_TRIES_MAX, NETLINK_TIMEOUT};

pub(crate) const F_REQUEST: u16 = 1;
pub(crate) const F_ACK: u16 = 4;
pub(crate) const F_REPLACE: u16 = 0x100;
pub(crate) const F_EXCL: u16 = 0x200;
pub(crate) const F_CREATE: u16 = 0x400;
const F_DUMP: u16 = 0x300;
const F_DUMP_INTERRUPTED: u16 = 0x10;
const F_NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
const HEADER_BYTES: usize = 16;

/// A request under construction: a fixed header, then attributes.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Starts a request of this type with its fixed header.
    pub(crate) fn new(kind: u16, flags: u16, header: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(header);
        let mut request = Request { bytes };
        request.pad();
        request
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Appends an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Request {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends an attribute that holds what `fill` appends.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Request)) -> &mut Request {
        self.enclosed(kind | F_NESTED, &[], fill)
    }

    /// Like [`Request::nested`] with a fixed header before the inner attributes and no nesting bit.
    pub(crate) fn enclosed(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Request),
    ) -> &mut Request {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(header);
        self.pad();
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }
}

/// One message of an answer.
pub(crate) struct Message {
    /// The fixed header and the attributes.
    payload: Vec<u8>,
}

impl Message {
    /// The first bytes of the payload; shorter messages read as zeroes.
    pub(crate) fn header<const N: usize>(&self) -> [u8; N] {
        let mut header = [0; N];
        let length = N.min(self.payload.len());
        header[..length].copy_from_slice(&self.payload[..length]);
        header
    }

    /// The attributes after a fixed header of so many bytes.
    pub(crate) fn attributes(&self, header: usize) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(self.payload.get(header.next_multiple_of(4)..).unwrap_or_default())
    }
}

/// Reads attributes one after the other; stops at the first that is cut.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A native 32-bit attribute.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// A text attribute with its zero byte.
pub(crate) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

/// A netlink socket in the namespace of the thread that opened it.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// A socket for links, addresses, routes, neighbours and rules.
    pub(crate) fn route() -> Result<Netlink, VnetError> {
        Netlink::open(None)
    }

    /// A socket for connection tracking.
    pub(crate) fn netfilter() -> Result<Netlink, VnetError> {
        Netlink::open(Some(netlink::NETFILTER))
    }

    /// No protocol is number zero, which is NETLINK_ROUTE.
    fn open(protocol: Option<rustix::net::Protocol>) -> Result<Netlink, VnetError> {
        let open = || -> io::Result<OwnedFd> {
            let kind = SocketType::RAW;
            let socket =
                rustix::net::socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, protocol)?;
            rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(NETLINK_TIMEOUT))?;
            Ok(socket)
        };
        let socket = open().map_err(|source| VnetError::Netlink {
            attempt: "open a netlink socket",
            object: String::new(),
            source,
        })?;
        Ok(Netlink {
            socket,
            sequence: 0,
            buffer: vec![0; NETLINK_DATAGRAM_BYTES_MAX],
        })
    }

    fn send(&mut self, mut request: Request, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(request.bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        request.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        let flags = flags | u16::from_ne_bytes([request.bytes[6], request.bytes[7]]);
        request.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        request.bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        rustix::net::send(&self.socket, &request.bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Receives until the answer ends; interrupted says that the kernel changed under a dump.
    fn receive(&mut self) -> io::Result<(Vec<Message>, bool)> {
        let mut messages = Vec::new();
        let mut interrupted = false;
        loop {
            let (_, length) = rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            let mut rest = self.buffer.get(..length).ok_or(io::ErrorKind::InvalidData)?;
            while rest.len() >= HEADER_BYTES {
                let size = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
                let kind = u16::from_ne_bytes([rest[4], rest[5]]);
                let flags = u16::from_ne_bytes([rest[6], rest[7]]);
                let sequence = u32::from_ne_bytes([rest[8], rest[9], rest[10], rest[11]]);
                let payload = rest.get(HEADER_BYTES..size).ok_or(io::ErrorKind::InvalidData)?;
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
                if sequence != self.sequence {
                    continue;
                }
                interrupted |= flags & F_DUMP_INTERRUPTED != 0;
                match kind {
                    MESSAGE_DONE | MESSAGE_ERROR => {
                        let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                        return match code {
                            0 => Ok((messages, interrupted)),
                            code => Err(io::Error::from_raw_os_error(-code)),
                        };
                    }
                    _ => messages.push(Message {
                        payload: payload.to_owned(),
                    }),
                }
            }
        }
    }

    /// Sends a request that changes something and waits for its acknowledgement.
    pub(crate) fn change(
        &mut self,
        attempt: &'static str,
        object: impl std::fmt::Display,
        request: Request,
    ) -> Result<(), VnetError> {
        let done = self.send(request, F_ACK).and_then(|()| self.receive());
        done.map(|_| ()).map_err(|source| VnetError::Netlink {
            attempt,
            object: object.to_string(),
            source,
        })
    }

    /// Sends a dump request, made anew for each try, and returns a complete and uninterrupted answer.
    pub(crate) fn dump(
        &mut self,
        attempt: &'static str,
        request: impl Fn() -> Request,
    ) -> Result<Vec<Message>, VnetError> {
        let wrap = |source| VnetError::Netlink {
            attempt,
            object: String::new(),
            source,
        };
        for _ in 0..NETLINK_DUMP_TRIES_MAX {
            let (messages, interrupted) = self
                .send(request(), F_DUMP)
                .and_then(|()| self.receive())
                .map_err(wrap)?;
            if !interrupted {
                return Ok(messages);
            }
        }
        Err(wrap(io::ErrorKind::Interrupted.into()))
    }
}

//! DHCPv4 for the ports of one network: answers from the program, no lease file, the same address for ever.
//!
//! [`answer`] is pure: a lease and a message in, at most one message out. The server is one socket in the network's
//! namespace; a client is recognised by the interface it is behind and its Ethernet address, so it can ask for
//! nobody else's lease. Whatever a guest sends costs at most one answer to that guest.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError, RwLock};

use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode};
use dhcproto::{Decodable, Decoder, Encodable, Encoder};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tracing::{debug, warn};

use crate::limits::{ACCEPT_PAUSE, DHCP_LEASE, DHCP_MESSAGE_BYTES_MAX};
use crate::program::{DhcpOptions, MacAddress};
use crate::sys;

const CLIENT_PORT: u16 = 68;
/// BOOTP messages are at least this long; some clients drop shorter ones (RFC 1542 §2.1).
const MESSAGE_BYTES_MIN: usize = 300;

/// What one port is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) mac: MacAddress,
    pub(crate) address: Ipv4Addr,
    pub(crate) mask: Ipv4Addr,
    pub(crate) router: Ipv4Addr,
    pub(crate) mtu: u16,
    pub(crate) options: DhcpOptions,
}

/// The leases of a network by interface index; replaced as a whole by every apply.
pub(crate) type Leases = Arc<RwLock<Arc<BTreeMap<u32, Lease>>>>;

/// An answer and where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: Message,
    pub(crate) to: Ipv4Addr,
}

/// What a client of this lease is answered; none if the message deserves no answer.
pub(crate) fn answer(lease: &Lease, request: &Message) -> Option<Answer> {
    let is_ours = request.opcode() == Opcode::BootRequest
        && request.giaddr().is_unspecified()
        && request.chaddr() == lease.mac.0;
    if !is_ours {
        return None;
    }
    let requested = match request.opts().get(OptionCode::RequestedIpAddress) {
        Some(DhcpOption::RequestedIpAddress(address)) => *address,
        _ => request.ciaddr(),
    };
    let chosen = match request.opts().get(OptionCode::ServerIdentifier) {
        Some(DhcpOption::ServerIdentifier(server)) => *server == lease.router,
        _ => true,
    };
    match request.opts().msg_type()? {
        MessageType::Discover => Some(grant(lease, request, MessageType::Offer)),
        MessageType::Request if !chosen => None,
        MessageType::Request if requested == lease.address => Some(grant(lease, request, MessageType::Ack)),
        MessageType::Request => {
            let message = reply(lease, request, MessageType::Nak);
            Some(Answer {
                message,
                to: Ipv4Addr::BROADCAST,
            })
        }
        MessageType::Inform if request.ciaddr() == lease.address => {
            let mut message = reply(lease, request, MessageType::Ack);
            describe(lease, &mut message);
            Some(Answer {
                message,
                to: lease.address,
            })
        }
        MessageType::Decline => {
            warn!(address = %lease.address, "a guest declines its address: somebody else answers for it");
            None
        }
        _ => None,
    }
}

fn reply(lease: &Lease, request: &Message, kind: MessageType) -> Message {
    let none = Ipv4Addr::UNSPECIFIED;
    let mut message = Message::new_with_id(request.xid(), none, none, none, none, request.chaddr());
    let flags = if request.flags().broadcast() {
        Flags::default().set_broadcast()
    } else {
        Flags::default()
    };
    message.set_opcode(Opcode::BootReply).set_flags(flags);
    message.opts_mut().insert(DhcpOption::MessageType(kind));
    message
        .opts_mut()
        .insert(DhcpOption::ServerIdentifier(lease.router));
    message
}

fn grant(lease: &Lease, request: &Message, kind: MessageType) -> Answer {
    let mut message = reply(lease, request, kind);
    message.set_yiaddr(lease.address).set_ciaddr(request.ciaddr());
    describe(lease, &mut message);
    let seconds = u32::try_from(DHCP_LEASE.as_secs()).unwrap_or(u32::MAX);
    message.opts_mut().insert(DhcpOption::AddressLeaseTime(seconds));
    message.opts_mut().insert(DhcpOption::Renewal(seconds / 2));
    message.opts_mut().insert(DhcpOption::Rebinding(seconds / 8 * 7));
    let to = if request.flags().broadcast() {
        Ipv4Addr::BROADCAST
    } else {
        lease.address
    };
    Answer { message, to }
}

fn describe(lease: &Lease, message: &mut Message) {
    let options = message.opts_mut();
    options.insert(DhcpOption::SubnetMask(lease.mask));
    options.insert(DhcpOption::Router(vec![lease.router]));
    options.insert(DhcpOption::InterfaceMtu(lease.mtu));
    let DhcpOptions {
        hostname,
        domain,
        resolvers,
        time_servers,
    } = &lease.options;
    if let Some(hostname) = hostname {
        options.insert(DhcpOption::Hostname(hostname.clone()));
    }
    if let Some(domain) = domain {
        options.insert(DhcpOption::DomainName(domain.clone()));
    }
    if !resolvers.is_empty() {
        options.insert(DhcpOption::DomainNameServer(resolvers.clone()));
    }
    if !time_servers.is_empty() {
        options.insert(DhcpOption::NtpServers(time_servers.clone()));
    }
}

/// Opens the server's socket in the calling thread's namespace.
pub(crate) fn open() -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 67))?;
    socket.set_broadcast(true)?;
    socket.set_nonblocking(true)?;
    sys::enable_packet_info(socket.as_fd())?;
    Ok(socket)
}

/// Serves until it is aborted.
pub(crate) async fn serve(socket: UdpSocket, leases: Leases) {
    let mut buffer = vec![0; DHCP_MESSAGE_BYTES_MAX];
    loop {
        let received = socket
            .async_io(Interest::READABLE, || {
                sys::receive_with_interface(socket.as_fd(), &mut buffer)
            })
            .await;
        let (length, interface) = match received {
            Ok(received) => received,
            Err(error) => {
                warn!(%error, "cannot receive DHCP messages");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let leases = Arc::clone(&leases.read().unwrap_or_else(PoisonError::into_inner));
        let Some(lease) = leases.get(&interface) else {
            continue;
        };
        let Some((bytes, to)) = respond(lease, buffer.get(..length).unwrap_or_default()) else {
            continue;
        };
        let to = SocketAddrV4::new(to, CLIENT_PORT);
        if let Err(error) = sys::send_from(socket.as_fd(), &bytes, to, interface, lease.router) {
            debug!(%error, address = %lease.address, "cannot answer a DHCP client");
        }
    }
}

/// The options of a request that decide its answer, with the only length that each may have.
const OPTIONS_READ: [(u8, u8); 3] = [(50, 4), (53, 1), (54, 4)];
/// Fixed part and magic cookie.
const HEADER_BYTES: usize = 240;

/// Keeps of a guest's message only what is read: the decoder (dhcproto 0.15) asserts the length of some options, so
/// it must not see what a guest made up.
fn reduce(datagram: &[u8]) -> Option<Vec<u8>> {
    let mut reduced = datagram.get(..HEADER_BYTES)?.to_vec();
    let mut rest = datagram.get(HEADER_BYTES..)?;
    loop {
        match *rest {
            [0, ref after @ ..] => rest = after,
            [255, ..] | [] => break,
            [code, length, ref after @ ..] => {
                let (value, after) = after.split_at_checked(length.into())?;
                if OPTIONS_READ.contains(&(code, length)) {
                    reduced.extend_from_slice(&[code, length]);
                    reduced.extend_from_slice(value);
                }
                rest = after;
            }
            [_] => return None,
        }
    }
    reduced.push(255);
    Some(reduced)
}

fn respond(lease: &Lease, datagram: &[u8]) -> Option<(Vec<u8>, Ipv4Addr)> {
    let request = Message::decode(&mut Decoder::new(&reduce(datagram)?)).ok()?;
    if request.hlen() != 6 {
        return None;
    }
    let answer = answer(lease, &request)?;
    let mut bytes = Vec::new();
    answer.message.encode(&mut Encoder::new(&mut bytes)).ok()?;
    bytes.resize(bytes.len().max(MESSAGE_BYTES_MIN), 0);
    Some((bytes, answer.to))
}

#[cfg(test)]
mod tests;

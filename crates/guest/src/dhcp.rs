//! A DHCP client for one interface (RFC 2131): discover, request, renew. Messages are `dhcproto`'s; the socket is
//! an ordinary UDP one bound to the interface, which the kernel lets send and receive broadcasts before there is an
//! address. The client asks for broadcast answers, because unicast ones to a not yet configured address would need
//! a packet socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use dhcproto::v4::{
    Decodable as _, Decoder, DhcpOption, Encodable as _, Encoder, Flags, Message, MessageType, OptionCode,
};
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};

use crate::error::{GuestError, kernel};
use crate::limits::{DHCP_MESSAGE_BYTES_MAX, DHCP_RENEW_MIN, DHCP_REPEAT_FIRST, DHCP_REPEAT_MAX};
use crate::sys;

const CLIENT_PORT: u16 = 68;
const SERVER_PORT: u16 = 67;

/// What a server granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub mask: Ipv4Addr,
    pub router: Option<Ipv4Addr>,
    pub dns: Vec<Ipv4Addr>,
    pub mtu: Option<u16>,
    pub server: Ipv4Addr,
    /// From the grant to the first renewal.
    pub renew_after: Duration,
    /// From the grant to its end.
    pub valid_for: Duration,
}

/// A client of one interface.
pub struct Client {
    socket: UdpSocket,
    mac: [u8; 6],
    transaction: u32,
}

impl Client {
    /// A client for an interface that is up.
    pub fn open(interface: &str, mac: [u8; 6]) -> Result<Self, GuestError> {
        let opening = || -> io::Result<UdpSocket> {
            let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            sockopt::set_socket_broadcast(&socket, true)?;
            sys::bind_to_interface(socket.as_raw_fd(), interface)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, CLIENT_PORT))?;
            Ok(UdpSocket::from(socket))
        };
        let socket = opening().map_err(|source| GuestError::Interface {
            attempt: "opening the DHCP socket",
            interface: interface.to_owned(),
            source,
        })?;
        let transaction = u32::from_le_bytes([mac[2], mac[3], mac[4], mac[5]]) ^ std::process::id();
        Ok(Self {
            socket,
            mac,
            transaction,
        })
    }

    /// Gets a lease, however long it takes.
    pub fn acquire(&mut self) -> Result<Lease, GuestError> {
        let mut wait = DHCP_REPEAT_FIRST;
        loop {
            self.transaction = self.transaction.wrapping_add(1);
            let discover = self.message(MessageType::Discover, None, Ipv4Addr::UNSPECIFIED);
            if let Some(offer) = self.exchange(&discover, Ipv4Addr::BROADCAST, MessageType::Offer, wait)? {
                let request = self.message(MessageType::Request, Some(&offer), Ipv4Addr::UNSPECIFIED);
                if let Some(lease) = self.exchange(&request, Ipv4Addr::BROADCAST, MessageType::Ack, wait)? {
                    return Ok(lease);
                }
            }
            wait = (wait * 2).min(DHCP_REPEAT_MAX);
        }
    }

    /// Asks the server to prolong a lease; `None` when it does not answer or refuses.
    pub fn renew(&mut self, lease: &Lease) -> Result<Option<Lease>, GuestError> {
        self.transaction = self.transaction.wrapping_add(1);
        let request = self.message(MessageType::Request, None, lease.address);
        self.exchange(&request, lease.server, MessageType::Ack, DHCP_REPEAT_MAX)
    }

    fn message(&self, kind: MessageType, offer: Option<&Lease>, client: Ipv4Addr) -> Message {
        let mut message = Message::default();
        message
            .set_xid(self.transaction)
            .set_chaddr(&self.mac)
            .set_ciaddr(client);
        if client.is_unspecified() {
            message.set_flags(Flags::default().set_broadcast());
        }
        let options = message.opts_mut();
        options.insert(DhcpOption::MessageType(kind));
        options.insert(DhcpOption::ParameterRequestList(vec![
            OptionCode::SubnetMask,
            OptionCode::Router,
            OptionCode::DomainNameServer,
            OptionCode::InterfaceMtu,
        ]));
        if let Some(offer) = offer {
            options.insert(DhcpOption::RequestedIpAddress(offer.address));
            options.insert(DhcpOption::ServerIdentifier(offer.server));
        }
        message
    }

    /// Sends and waits for the fitting answer. An unreachable network is like no answer: it may come back.
    fn exchange(
        &self,
        message: &Message,
        to: Ipv4Addr,
        expected: MessageType,
        wait: Duration,
    ) -> Result<Option<Lease>, GuestError> {
        let mut bytes = Vec::with_capacity(DHCP_MESSAGE_BYTES_MAX);
        message
            .encode(&mut Encoder::new(&mut bytes))
            .map_err(GuestError::DhcpEncode)?;
        let deadline = Instant::now() + wait;
        let sent = self.socket.send_to(&bytes, SocketAddrV4::new(to, SERVER_PORT));
        let mut buffer = [0; DHCP_MESSAGE_BYTES_MAX];
        while let Some(left) = deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            if sent.is_err() {
                std::thread::sleep(left);
                return Ok(None);
            }
            self.socket
                .set_read_timeout(Some(left))
                .map_err(kernel("bounding a read"))?;
            let Ok((length, from)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            // The length of the hardware address is judged here, because the decoder trusts it.
            if buffer[2] != 6 {
                continue;
            }
            let Ok(answer) = Message::decode(&mut Decoder::new(&buffer[..length])) else {
                continue;
            };
            if answer.xid() != message.xid() || answer.chaddr() != self.mac {
                continue;
            }
            let sender = match from.ip() {
                std::net::IpAddr::V4(address) => address,
                std::net::IpAddr::V6(_) => continue,
            };
            match kind(&answer) {
                Some(kind) if kind == expected => return Ok(lease(&answer, sender)),
                Some(MessageType::Nak) => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }
}

fn kind(message: &Message) -> Option<MessageType> {
    match message.opts().get(OptionCode::MessageType) {
        Some(DhcpOption::MessageType(kind)) => Some(*kind),
        _ => None,
    }
}

/// What an offer or acknowledgement grants; `None` if it grants no address.
fn lease(message: &Message, sender: Ipv4Addr) -> Option<Lease> {
    let address = message.yiaddr();
    if address.is_unspecified() {
        return None;
    }
    let option = |code| message.opts().get(code);
    let mask = match option(OptionCode::SubnetMask) {
        Some(DhcpOption::SubnetMask(mask)) => *mask,
        _ => Ipv4Addr::BROADCAST,
    };
    let router = match option(OptionCode::Router) {
        Some(DhcpOption::Router(routers)) => routers.first().copied(),
        _ => None,
    };
    let dns = match option(OptionCode::DomainNameServer) {
        Some(DhcpOption::DomainNameServer(servers)) => servers.clone(),
        _ => Vec::new(),
    };
    let mtu = match option(OptionCode::InterfaceMtu) {
        Some(DhcpOption::InterfaceMtu(mtu)) => Some(*mtu),
        _ => None,
    };
    let server = match option(OptionCode::ServerIdentifier) {
        Some(DhcpOption::ServerIdentifier(server)) => *server,
        _ => sender,
    };
    let seconds = match option(OptionCode::AddressLeaseTime) {
        Some(DhcpOption::AddressLeaseTime(seconds)) => *seconds,
        _ => 3600,
    };
    let renewal = match option(OptionCode::Renewal) {
        Some(DhcpOption::Renewal(seconds)) => *seconds,
        _ => seconds / 2,
    };
    let renew_after = Duration::from_secs(u64::from(renewal)).max(DHCP_RENEW_MIN);
    let valid_for = Duration::from_secs(u64::from(seconds));
    Some(Lease {
        address,
        mask,
        router,
        dns,
        mtu,
        server,
        renew_after,
        valid_for,
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use dhcproto::v4::{DhcpOption, Message};

    use super::lease;

    #[test]
    fn a_grant_is_understood() {
        let mut ack = Message::default();
        ack.set_yiaddr(Ipv4Addr::new(10, 0, 1, 7));
        let options = ack.opts_mut();
        options.insert(DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 240, 0)));
        options.insert(DhcpOption::Router(vec![Ipv4Addr::new(10, 0, 0, 1)]));
        options.insert(DhcpOption::InterfaceMtu(9001));
        options.insert(DhcpOption::AddressLeaseTime(3600));
        let granted = lease(&ack, Ipv4Addr::new(10, 0, 0, 1)).unwrap();
        assert_eq!(granted.address, Ipv4Addr::new(10, 0, 1, 7));
        assert_eq!(granted.router, Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(
            granted.server,
            Ipv4Addr::new(10, 0, 0, 1),
            "the sender, when no server is named"
        );
        assert_eq!(
            (granted.mtu, granted.renew_after),
            (Some(9001), Duration::from_secs(1800))
        );
    }

    #[test]
    fn no_address_is_no_grant() {
        assert_eq!(lease(&Message::default(), Ipv4Addr::LOCALHOST), None);
    }
}

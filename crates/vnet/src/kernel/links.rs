//! Links: reading them and making, changing and deleting them.
//!
//! The device's alias carries the identity of what it is for, so that a device is recognised by whom it serves and
//! never only by its name. Called by `converge`, in the namespace of the calling thread.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::netlink::{F_CREATE, F_EXCL, Netlink, Request, attributes, number, text};
use crate::error::VnetError;
use crate::program::MacAddress;

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const HEADER: usize = 16;

const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const ALIAS: u16 = 20;
const NAMESPACE_FD: u16 = 28;
const VETH_PEER: u16 = 1;

const FLAG_UP: u32 = 1;
const FLAG_LOOPBACK: u32 = 8;

/// A link as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its index; never used again while the namespace lives.
    pub(crate) index: u32,
    /// Its name.
    pub(crate) name: String,
    /// Its driver: `tun`, `veth`; empty for the loopback.
    pub(crate) kind: String,
    /// Whom it serves.
    pub(crate) alias: String,
    /// Its Ethernet address.
    pub(crate) mac: Option<MacAddress>,
    /// Its MTU, bytes.
    pub(crate) mtu: u32,
    /// Whether it is up.
    pub(crate) up: bool,
    /// Whether it is the loopback.
    pub(crate) loopback: bool,
}

fn header(index: u32, flags: u32, change: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

fn zero_terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Lists all links.
pub(crate) fn list(netlink: &mut Netlink) -> Result<Vec<Link>, VnetError> {
    let messages = netlink.dump("list links", || Request::new(GETLINK, 0, &header(0, 0, 0)))?;
    Ok(messages.iter().map(read).collect())
}

fn read(message: &super::netlink::Message) -> Link {
    let fixed: [u8; HEADER] = message.header();
    let index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    let mut link = Link {
        index,
        name: String::new(),
        kind: String::new(),
        alias: String::new(),
        mac: None,
        mtu: 0,
        up: flags & FLAG_UP != 0,
        loopback: flags & FLAG_LOOPBACK != 0,
    };
    for (kind, value) in message.attributes(HEADER) {
        match kind {
            ADDRESS => link.mac = value.try_into().ok().map(MacAddress),
            NAME => link.name = text(value),
            MTU => link.mtu = number(value).unwrap_or(0),
            ALIAS => link.alias = text(value),
            LINK_INFO => {
                for (kind, value) in attributes(value) {
                    if kind == INFO_KIND {
                        link.kind = text(value);
                    }
                }
            }
            _ => {}
        }
    }
    link
}

/// One end of a veth pair that is to be made.
pub(crate) struct VethEnd<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its Ethernet address.
    pub(crate) mac: MacAddress,
    /// The namespace it is put into; none is the caller's.
    pub(crate) namespace: Option<BorrowedFd<'a>>,
}

impl VethEnd<'_> {
    fn fill(&self, request: &mut Request, mtu: u32) {
        request.attribute(NAME, &zero_terminated(self.name));
        request.attribute(ADDRESS, &self.mac.0);
        request.attribute(MTU, &mtu.to_ne_bytes());
        if let Some(namespace) = self.namespace {
            request.attribute(NAMESPACE_FD, &namespace.as_raw_fd().to_ne_bytes());
        }
    }
}

/// Makes a veth pair, both ends down.
pub(crate) fn add_veth(
    netlink: &mut Netlink,
    near: &VethEnd<'_>,
    far: &VethEnd<'_>,
    mtu: u32,
) -> Result<(), VnetError> {
    let mut request = Request::new(NEWLINK, F_CREATE | F_EXCL, &header(0, 0, 0));
    near.fill(&mut request, mtu);
    request.nested(LINK_INFO, |info| {
        info.attribute(INFO_KIND, b"veth");
        info.nested(INFO_DATA, |data| {
            data.enclosed(VETH_PEER, &header(0, 0, 0), |peer| far.fill(peer, mtu));
        });
    });
    netlink.change("make a veth pair", near.name, request)
}

/// What can be changed on a link; absent parts stay.
#[derive(Debug, Default)]
pub(crate) struct LinkChange<'a> {
    /// Up or down.
    pub(crate) up: Option<bool>,
    /// Its MTU, bytes.
    pub(crate) mtu: Option<u32>,
    /// Its Ethernet address.
    pub(crate) mac: Option<MacAddress>,
    /// Whom it serves.
    pub(crate) alias: Option<&'a str>,
    /// Its name.
    pub(crate) name: Option<&'a str>,
    /// The namespace it goes to.
    pub(crate) namespace: Option<BorrowedFd<'a>>,
}

/// Changes a link.
pub(crate) fn change(netlink: &mut Netlink, index: u32, change: &LinkChange<'_>) -> Result<(), VnetError> {
    let (flags, mask) = match change.up {
        Some(up) => (if up { FLAG_UP } else { 0 }, FLAG_UP),
        None => (0, 0),
    };
    let mut request = Request::new(NEWLINK, 0, &header(index, flags, mask));
    if let Some(namespace) = change.namespace {
        request.attribute(NAMESPACE_FD, &namespace.as_raw_fd().to_ne_bytes());
    }
    if let Some(name) = change.name {
        request.attribute(NAME, &zero_terminated(name));
    }
    if let Some(mtu) = change.mtu {
        request.attribute(MTU, &mtu.to_ne_bytes());
    }
    if let Some(mac) = change.mac {
        request.attribute(ADDRESS, &mac.0);
    }
    if let Some(alias) = change.alias {
        request.attribute(ALIAS, alias.as_bytes());
    }
    netlink.change("change a link", format_args!("{change:?}"), request)
}

/// Deletes a link, and with a veth its other end.
pub(crate) fn delete(netlink: &mut Netlink, link: &Link) -> Result<(), VnetError> {
    netlink.change(
        "delete a link",
        &link.name,
        Request::new(DELLINK, 0, &header(link.index, 0, 0)),
    )
}

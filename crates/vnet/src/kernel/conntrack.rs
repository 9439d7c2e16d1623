//! Connection tracking: deleting the entries that carry a public address which is mapped elsewhere now.
//!
//! The ruleset alone already lets no such packet out or in (`compile`, pairs); deleting the entries lets the guest
//! that goes on sending start a new flow under its new mapping. Called by `converge` after the ruleset changed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::netlink::{Netlink, Request, attributes};
use crate::error::VnetError;

const CT_GET: u16 = (1 << 8) | 1;
const CT_DELETE: u16 = (1 << 8) | 2;
const HEADER: [u8; 4] = [libc::AF_INET as u8, 0, 0, 0];
const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const ID: u16 = 12;
const TUPLE_ADDRESSES: u16 = 1;
const IPV4_DESTINATION: u16 = 2;
const NESTED: u16 = 0x8000;

/// Deletes every entry of this namespace in which one of these addresses stands for a port: as the destination of
/// the first packet (inbound) or of the replies (outbound).
pub(crate) fn delete_translated(public: &BTreeSet<Ipv4Addr>) -> Result<(), VnetError> {
    if public.is_empty() {
        return Ok(());
    }
    let mut netlink = Netlink::netfilter()?;
    for message in netlink.dump("list tracked connections", || Request::new(CT_GET, 0, &HEADER))? {
        let find = |wanted| {
            message
                .attributes(4)
                .find(|(kind, _)| *kind == wanted)
                .map(|(_, value)| value)
        };
        let (Some(original), Some(reply)) = (find(TUPLE_ORIGINAL), find(TUPLE_REPLY)) else {
            continue;
        };
        let carries = |tuple| destination(tuple).is_some_and(|address| public.contains(&address));
        if !carries(original) && !carries(reply) {
            continue;
        }
        let mut request = Request::new(CT_DELETE, 0, &HEADER);
        request.attribute(TUPLE_ORIGINAL | NESTED, original);
        if let Some(id) = find(ID) {
            request.attribute(ID, id);
        }
        match netlink.change(
            "delete a tracked connection",
            format_args!("{:?}", destination(original)),
            request,
        ) {
            Err(VnetError::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => {}
            other => other?,
        }
    }
    Ok(())
}

fn destination(tuple: &[u8]) -> Option<Ipv4Addr> {
    let addresses = attributes(tuple).find(|(kind, _)| *kind == TUPLE_ADDRESSES)?.1;
    let bytes: [u8; 4] = attributes(addresses)
        .find(|(kind, _)| *kind == IPV4_DESTINATION)?
        .1
        .try_into()
        .ok()?;
    Some(Ipv4Addr::from(bytes))
}

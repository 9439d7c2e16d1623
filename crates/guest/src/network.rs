//! Network interfaces: the loopback, and one DHCP lease on each card for as long as the machine lives. The first
//! card (by name, which is the order of slots) gives the default route and the name servers.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::console::say;
use crate::dhcp::{Client, Lease};
use crate::error::{GuestError, chain, file, kernel};
use crate::limits::{DHCP_RENEW_MIN, INTERFACES_MAX};
use crate::sys;

/// Switches all interfaces on, waits until the first has its lease and keeps all leases alive from then on.
pub fn start() -> Result<(), GuestError> {
    let control = control_socket()?;
    configure(sys::set_up(control.as_raw_fd(), "lo"), "switching on", "lo")?;
    let mut interfaces = list_interfaces()?.into_iter();
    let Some(first) = interfaces.next() else {
        say("there is no network card");
        return Ok(());
    };
    for other in interfaces {
        thread::spawn(move || keep_trying(&other, false));
    }
    let (client, lease) = acquire(&first, true)?;
    thread::spawn(move || maintain(&first, true, client, lease));
    Ok(())
}

fn keep_trying(interface: &str, primary: bool) {
    match acquire(interface, primary) {
        Ok((client, lease)) => maintain(interface, primary, client, lease),
        Err(error) => say(&format!("{interface} is not configured: {}", chain(&error))),
    }
}

fn acquire(interface: &str, primary: bool) -> Result<(Client, Lease), GuestError> {
    let control = control_socket()?;
    configure(
        sys::set_up(control.as_raw_fd(), interface),
        "switching on",
        interface,
    )?;
    let mut client = Client::open(interface, fetch_mac(interface)?)?;
    let lease = client.acquire()?;
    apply(interface, primary, &lease)?;
    say(&format!("{interface} has {}", lease.address));
    Ok((client, lease))
}

/// Renews for ever. A lease that cannot be renewed is used to its end, then a new one is acquired.
fn maintain(interface: &str, primary: bool, mut client: Client, mut lease: Lease) {
    let mut granted = Instant::now();
    let mut next = lease.renew_after;
    loop {
        thread::sleep(next);
        let renewed = match client.renew(&lease) {
            Ok(Some(renewed)) => Some(renewed),
            Ok(None) | Err(_) if granted.elapsed() < lease.valid_for => None,
            Ok(None) | Err(_) => client.acquire().ok(),
        };
        let Some(renewed) = renewed else {
            next = (lease.valid_for.saturating_sub(granted.elapsed()) / 2).max(DHCP_RENEW_MIN);
            continue;
        };
        granted = Instant::now();
        next = renewed.renew_after;
        let changed = Lease {
            renew_after: lease.renew_after,
            valid_for: lease.valid_for,
            ..renewed.clone()
        } != lease;
        if changed && let Err(error) = apply(interface, primary, &renewed) {
            say(&format!("{interface} keeps its old address: {}", chain(&error)));
        }
        lease = renewed;
    }
}

fn apply(interface: &str, primary: bool, lease: &Lease) -> Result<(), GuestError> {
    let control = control_socket()?;
    let socket = control.as_raw_fd();
    configure(
        sys::set_address(socket, interface, lease.address),
        "setting the address",
        interface,
    )?;
    configure(
        sys::set_netmask(socket, interface, lease.mask),
        "setting the mask",
        interface,
    )?;
    if let Some(mtu) = lease.mtu
        && let Err(error) = configure(sys::set_mtu(socket, interface, mtu), "setting the MTU", interface)
    {
        // The card may know a smaller one from the host; that one holds.
        say(&chain(&error));
    }
    if !primary {
        return Ok(());
    }
    if let Some(router) = lease.router {
        let on_link =
            u32::from(router) & u32::from(lease.mask) == u32::from(lease.address) & u32::from(lease.mask);
        configure(
            sys::add_default_route(socket, interface, router, on_link),
            "setting the route",
            interface,
        )?;
    }
    write_resolver(&lease.dns)
}

fn write_resolver(servers: &[Ipv4Addr]) -> Result<(), GuestError> {
    let text: String = servers
        .iter()
        .map(|server| format!("nameserver {server}\n"))
        .collect();
    fs::write("/etc/resolv.conf", text).map_err(file("writing", "/etc/resolv.conf"))
}

fn configure(result: std::io::Result<()>, attempt: &'static str, interface: &str) -> Result<(), GuestError> {
    result.map_err(|source| GuestError::Interface {
        attempt,
        interface: interface.to_owned(),
        source,
    })
}

/// Any socket; interface requests only need one to be asked on.
fn control_socket() -> Result<UdpSocket, GuestError> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(kernel("opening a control socket"))
}

fn list_interfaces() -> Result<Vec<String>, GuestError> {
    let dir = Path::new("/sys/class/net");
    let mut names: Vec<String> = fs::read_dir(dir)
        .map_err(file("listing", dir))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("eth"))
        .collect();
    // eth2 before eth10.
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.truncate(INTERFACES_MAX);
    Ok(names)
}

fn fetch_mac(interface: &str) -> Result<[u8; 6], GuestError> {
    let path = Path::new("/sys/class/net").join(interface).join("address");
    let text = fs::read_to_string(&path).map_err(file("reading", &path))?;
    parse_mac(text.trim()).ok_or_else(|| file("understanding", path)(std::io::ErrorKind::InvalidData.into()))
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::parse_mac;

    #[test]
    fn mac_addresses() {
        assert_eq!(parse_mac("02:00:0a:ff:00:01"), Some([2, 0, 10, 255, 0, 1]));
        for bad in ["", "02:00:0a:ff:00", "02:00:0a:ff:00:01:02", "02:00:0a:ff:00:zz"] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }
}

//! The only unsafe code of the agent: the kernel's interfaces that have no safe wrapper in `rustix`: interface
//! and route ioctls, two storage ioctls, signals and children of process 1.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Size of the kernel's `struct input_event`.
pub const INPUT_EVENT_BYTES: usize = size_of::<libc::input_event>();

/// What a look for ended children found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// One was collected.
    Child { pid: i32, succeeded: bool },
    /// There are some, and all live.
    AllAlive,
    /// There are none.
    NoChild,
}

/// Collects one ended child, if there is one.
pub fn reap_one() -> Reaped {
    let mut status = 0;
    // SAFETY: `status` is a valid place for one int for the duration of the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match pid {
        0 => Reaped::AllAlive,
        -1 => Reaped::NoChild,
        pid => Reaped::Child {
            pid,
            succeeded: libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        },
    }
}

/// Sends a signal to every process but process 1. Nobody being left is fine.
pub fn signal_everybody(signal: i32) {
    // SAFETY: kill takes two integers and touches no memory of ours.
    unsafe { libc::kill(-1, signal) };
}

/// The signals that process 1 takes one by one.
const HANDLED: [i32; 6] = [
    libc::SIGCHLD,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPWR,
];

fn handled_set() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is a valid (empty) set on Linux.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in HANDLED {
        // SAFETY: `set` is initialised and `signal` is a valid signal number.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

/// Keeps the handled signals for [`wait_signal`], in this thread and in those it will start.
pub fn block_signals() {
    let set = handled_set();
    // SAFETY: `set` is a valid set and no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Takes one of the handled signals.
pub fn wait_signal() -> i32 {
    let set = handled_set();
    let mut signal = 0;
    // SAFETY: both pointers are valid for the call; the signals in the set are blocked.
    unsafe { libc::sigwait(&raw const set, &raw mut signal) };
    signal
}

/// Lets the process that `command` starts receive signals normally.
pub fn unblock_signals_in(command: &mut Command) {
    let unblock = || {
        let set = handled_set();
        // SAFETY: `set` is a valid set and no old mask is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: `unblock` makes only async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(unblock) };
}

/// True for "power key pressed".
pub fn is_power_button(event: &[u8; INPUT_EVENT_BYTES]) -> bool {
    const EV_KEY: u16 = 1;
    const KEY_POWER: u16 = 116;
    // SAFETY: input_event is plain integers, so every bit pattern is one; the array has its size, and
    // read_unaligned asks for no alignment.
    let event: libc::input_event = unsafe { std::ptr::read_unaligned(event.as_ptr().cast()) };
    event.type_ == EV_KEY && event.code == KEY_POWER && event.value == 1
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// `struct blkpg_partition` of `linux/blkpg.h`.
#[repr(C)]
struct BlkpgPartition {
    start: i64,
    length: i64,
    number: i32,
    names: [u8; 128],
}

/// `struct blkpg_ioctl_arg` of `linux/blkpg.h`.
#[repr(C)]
struct BlkpgArgument {
    operation: i32,
    flags: i32,
    length: i32,
    data: *mut BlkpgPartition,
}

/// Tells the kernel that a partition has another length (`BLKPG_RESIZE_PARTITION`); all in bytes.
pub fn resize_partition(disk: &File, number: i32, start: u64, length: u64) -> io::Result<()> {
    const BLKPG: libc::c_ulong = 0x1269;
    const RESIZE: i32 = 3;
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut partition = BlkpgPartition {
        start: i64::try_from(start).map_err(too_large)?,
        length: i64::try_from(length).map_err(too_large)?,
        number,
        names: [0; 128],
    };
    let bytes = i32::try_from(size_of::<BlkpgPartition>()).expect("a small struct");
    let mut argument = BlkpgArgument {
        operation: RESIZE,
        flags: 0,
        length: bytes,
        data: &raw mut partition,
    };
    // SAFETY: BLKPG reads one blkpg_ioctl_arg and the blkpg_partition that it points to; both live over the call.
    check(unsafe { libc::ioctl(disk.as_raw_fd(), BLKPG as _, &raw mut argument) })
}

/// Grows a mounted ext4 to `blocks` (`EXT4_IOC_RESIZE_FS`).
pub fn resize_ext4(root: &File, blocks: u64) -> io::Result<()> {
    // _IOW('f', 16, __u64)
    const EXT4_IOC_RESIZE_FS: libc::c_ulong = 0x4008_6610;
    // SAFETY: the call reads one u64, which lives over it.
    check(unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_RESIZE_FS as _, &raw const blocks) })
}

/// An `ifreq` for `interface` with an IPv4 address in it.
fn interface_request(interface: &str, address: Ipv4Addr) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain integers and bytes; all zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_addr = socket_address(address);
    Ok(request)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (place, byte) in data[2..6].iter_mut().zip(address.octets()) {
        *place = byte.cast_signed();
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

fn control(socket: RawFd, request: libc::c_ulong, argument: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests used here read (or fill) exactly one ifreq, which lives over the call.
    check(unsafe { libc::ioctl(socket, request as _, std::ptr::from_mut(argument)) })
}

/// Sets an interface's IPv4 address.
pub fn set_address(socket: RawFd, interface: &str, address: Ipv4Addr) -> io::Result<()> {
    control(
        socket,
        libc::SIOCSIFADDR,
        &mut interface_request(interface, address)?,
    )
}

/// Sets an interface's IPv4 mask.
pub fn set_netmask(socket: RawFd, interface: &str, mask: Ipv4Addr) -> io::Result<()> {
    control(
        socket,
        libc::SIOCSIFNETMASK,
        &mut interface_request(interface, mask)?,
    )
}

/// Sets an interface's MTU.
pub fn set_mtu(socket: RawFd, interface: &str, mtu: u16) -> io::Result<()> {
    let mut request = interface_request(interface, Ipv4Addr::UNSPECIFIED)?;
    request.ifr_ifru.ifru_mtu = i32::from(mtu);
    control(socket, libc::SIOCSIFMTU, &mut request)
}

/// Switches an interface on.
pub fn set_up(socket: RawFd, interface: &str) -> io::Result<()> {
    let mut request = interface_request(interface, Ipv4Addr::UNSPECIFIED)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    control(socket, libc::SIOCSIFFLAGS, &mut request)
}

/// Adds the default route. The gateway may be outside the interface's own network, as in a routed subnet: it is
/// then made reachable by a host route first.
pub fn add_default_route(socket: RawFd, interface: &str, gateway: Ipv4Addr, on_link: bool) -> io::Result<()> {
    if !on_link {
        add_route(socket, interface, gateway, Ipv4Addr::BROADCAST, None)?;
    }
    add_route(
        socket,
        interface,
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::UNSPECIFIED,
        Some(gateway),
    )
}

fn add_route(
    socket: RawFd,
    interface: &str,
    to: Ipv4Addr,
    mask: Ipv4Addr,
    gateway: Option<Ipv4Addr>,
) -> io::Result<()> {
    let name = std::ffi::CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: rtentry is plain integers and pointers; all zero is valid.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = socket_address(to);
    route.rt_genmask = socket_address(mask);
    route.rt_flags = libc::RTF_UP;
    route.rt_dev = name.as_ptr().cast_mut();
    if mask == Ipv4Addr::BROADCAST {
        route.rt_flags |= libc::RTF_HOST;
    }
    if let Some(gateway) = gateway {
        route.rt_gateway = socket_address(gateway);
        route.rt_flags |= libc::RTF_GATEWAY;
    }
    // SAFETY: SIOCADDRT reads one rtentry and the name that it points to; both live over the call.
    match check(unsafe { libc::ioctl(socket, libc::SIOCADDRT as _, &raw const route) }) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other,
    }
}

/// Binds a socket to one interface.
pub fn bind_to_interface(socket: RawFd, interface: &str) -> io::Result<()> {
    let length = libc::socklen_t::try_from(interface.len()).map_err(io::Error::other)?;
    let name = interface.as_ptr().cast();
    // SAFETY: `name` points to `length` readable bytes for the duration of the call.
    check(unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name, length) })
}

#[cfg(test)]
mod tests {
    use super::{INPUT_EVENT_BYTES, is_power_button};

    #[test]
    fn only_a_pressed_power_key_counts() {
        let event = |kind: u16, code: u16, value: i32| {
            let mut bytes = [0; INPUT_EVENT_BYTES];
            bytes[16..18].copy_from_slice(&kind.to_ne_bytes());
            bytes[18..20].copy_from_slice(&code.to_ne_bytes());
            bytes[20..24].copy_from_slice(&value.to_ne_bytes());
            bytes
        };
        assert!(is_power_button(&event(1, 116, 1)));
        assert!(!is_power_button(&event(1, 116, 0)), "released");
        assert!(!is_power_button(&event(1, 30, 1)), "another key");
        assert!(!is_power_button(&event(0, 116, 1)), "not a key");
    }
}

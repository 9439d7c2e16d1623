//! The unsafe ground: libnftables by `dlopen`, tap ioctls, UDP with packet information, `unshare`.
//!
//! Every function here is safe to call with any arguments; each unsafe block is one operation. The library is
//! loaded at run time, so that building needs no header and a machine without it gets an error that says so.
//! Called by `kernel::{nft, tap, namespace}` and `dhcp`; what the calls mean is explained there.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

use rustix::thread::UnshareFlags;

const NFT_CTX_DEFAULT: u32 = 0;
const OUTPUT_JSON: u32 = 1 << 4;
const OUTPUT_NUMERIC: u32 = (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10);

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
const IFF_TAP: i16 = 0x0002;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;

/// Moves the calling thread into a new, empty network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: NEWNET touches no descriptor table and no memory; only what this thread's sockets and /proc mean.
    let done = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
    Ok(done?)
}

#[repr(C)]
struct NftContext {
    opaque: [u8; 0],
}

type ContextNew = unsafe extern "C" fn(u32) -> *mut NftContext;
type ContextFree = unsafe extern "C" fn(*mut NftContext);
type ContextFlag = unsafe extern "C" fn(*mut NftContext) -> c_int;
type ContextText = unsafe extern "C" fn(*mut NftContext) -> *const c_char;
type ContextSetFlags = unsafe extern "C" fn(*mut NftContext, u32);
type ContextRun = unsafe extern "C" fn(*mut NftContext, *const c_char) -> c_int;

/// The functions of libnftables that we call; loaded once and never unloaded.
struct Library {
    new: ContextNew,
    free: ContextFree,
    buffer_output: ContextFlag,
    buffer_error: ContextFlag,
    output: ContextText,
    error: ContextText,
    set_flags: ContextSetFlags,
    run: ContextRun,
}

fn symbol(library: NonNull<c_void>, name: &CStr) -> Result<NonNull<c_void>, String> {
    // SAFETY: the handle came from dlopen and is never closed; the name ends with a zero byte.
    let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    NonNull::new(address).ok_or_else(|| format!("libnftables has no {}", name.to_string_lossy()))
}

macro_rules! function {
    ($library:expr, $name:literal, $type:ty) => {{
        let address = symbol($library, $name)?.as_ptr();
        // SAFETY: the exported function of this name has this signature since libnftables 0.8 (its first version).
        unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
    }};
}

fn load() -> Result<Library, String> {
    // SAFETY: the library's constructors have no preconditions; the name ends with a zero byte.
    let handle = unsafe { libc::dlopen(c"libnftables.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let Some(handle) = NonNull::new(handle) else {
        return Err("libnftables.so.1 cannot be loaded (install nftables)".to_owned());
    };
    Ok(Library {
        new: function!(handle, c"nft_ctx_new", ContextNew),
        free: function!(handle, c"nft_ctx_free", ContextFree),
        buffer_output: function!(handle, c"nft_ctx_buffer_output", ContextFlag),
        buffer_error: function!(handle, c"nft_ctx_buffer_error", ContextFlag),
        output: function!(handle, c"nft_ctx_get_output_buffer", ContextText),
        error: function!(handle, c"nft_ctx_get_error_buffer", ContextText),
        set_flags: function!(handle, c"nft_ctx_output_set_flags", ContextSetFlags),
        run: function!(handle, c"nft_run_cmd_from_buffer", ContextRun),
    })
}

/// A libnftables context: bound to the network namespace of the thread that made it. Not `Send`.
pub(crate) struct Nft {
    library: &'static Library,
    context: NonNull<NftContext>,
}

impl Nft {
    /// Opens a context in the calling thread's namespace.
    pub(crate) fn open() -> Result<Nft, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)?;
        // SAFETY: the function has no preconditions.
        let context = unsafe { (library.new)(NFT_CTX_DEFAULT) };
        let context = NonNull::new(context).ok_or_else(|| "nft_ctx_new gave nothing".to_owned())?;
        let nft = Nft { library, context };
        // SAFETY: the context is alive: it is freed only by drop.
        let output = unsafe { (library.buffer_output)(context.as_ptr()) };
        // SAFETY: as above.
        let error = unsafe { (library.buffer_error)(context.as_ptr()) };
        if output != 0 || error != 0 {
            return Err("libnftables cannot buffer its output".to_owned());
        }
        Ok(nft)
    }

    /// Runs commands as one transaction; the answer as text or JSON, or the library's error text.
    pub(crate) fn run(&mut self, commands: &str, json: bool) -> Result<String, String> {
        let commands = CString::new(commands).map_err(|e| e.to_string())?;
        let flags = if json {
            OUTPUT_JSON | OUTPUT_NUMERIC
        } else {
            OUTPUT_NUMERIC
        };
        // SAFETY: the context is alive.
        unsafe { (self.library.set_flags)(self.context.as_ptr(), flags) };
        // SAFETY: the context is alive; the text ends with a zero byte and is only read during the call.
        let failed = unsafe { (self.library.run)(self.context.as_ptr(), commands.as_ptr()) };
        // SAFETY: the context is alive; taking a buffer also empties it for the next run.
        let output = unsafe { (self.library.output)(self.context.as_ptr()) };
        let output = self.text(output);
        // SAFETY: as above.
        let error = unsafe { (self.library.error)(self.context.as_ptr()) };
        let error = self.text(error);
        if failed == 0 { Ok(output) } else { Err(error) }
    }

    fn text(&self, text: *const c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: a buffer of the living context: it ends with a zero byte and stays until the next run.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl Drop for Nft {
    fn drop(&mut self) {
        // SAFETY: the context is alive and nobody uses it after this.
        unsafe { (self.library.free)(self.context.as_ptr()) };
    }
}

/// `struct ifreq` as the tun driver reads it.
#[repr(C)]
struct TunRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    padding: [u8; 22],
}

/// Attaches an open `/dev/net/tun` to the tap of this name, which is made if it is absent.
pub(crate) fn tun_attach(tun: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut request = TunRequest {
        name: [0; libc::IFNAMSIZ],
        flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR,
        padding: [0; 22],
    };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one ifreq, which TunRequest is as large as and outlives the call.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF as _, &mut request as *mut TunRequest) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Makes the attached tap outlive its descriptors.
pub(crate) fn tun_persist(tun: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes an integer by value.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETPERSIST as _, 1 as c_int) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Asks that every datagram comes with the interface it arrived on.
pub(crate) fn enable_packet_info(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: c_int = 1;
    let size = size_of::<c_int>() as libc::socklen_t;
    let value: *const c_int = &on;
    // SAFETY: the option's value is an int that outlives the call, and the size says so.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            value.cast::<c_void>(),
            size,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Room for one control message with packet information, aligned as `cmsghdr` wants.
#[repr(C)]
struct PacketInfoControl {
    header: libc::cmsghdr,
    info: libc::in_pktinfo,
    padding: [u8; 4],
}

fn empty_control() -> PacketInfoControl {
    PacketInfoControl {
        header: libc::cmsghdr {
            cmsg_len: 0,
            cmsg_level: 0,
            cmsg_type: 0,
        },
        info: libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr { s_addr: 0 },
            ipi_addr: libc::in_addr { s_addr: 0 },
        },
        padding: [0; 4],
    }
}

fn message(
    name: *mut libc::sockaddr_in,
    bytes: &mut libc::iovec,
    control: &mut PacketInfoControl,
) -> libc::msghdr {
    // SAFETY: msghdr is plain old data for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.cast::<c_void>();
    message.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    message.msg_iov = bytes;
    message.msg_iovlen = 1;
    message.msg_control = (control as *mut PacketInfoControl).cast::<c_void>();
    message.msg_controllen = size_of::<PacketInfoControl>() as _;
    message
}

/// Receives one datagram: its length and the index of the interface that it arrived on.
pub(crate) fn receive_with_interface(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, u32)> {
    let mut control = empty_control();
    let mut from = socket_address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut bytes = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast::<c_void>(),
        iov_len: buffer.len(),
    };
    let mut message = message(&mut from, &mut bytes, &mut control);
    // SAFETY: every pointer in the message leads to a local or to `buffer` with its true length.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, 0) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_info =
        control.header.cmsg_level == libc::IPPROTO_IP && control.header.cmsg_type == libc::IP_PKTINFO;
    if !is_info {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let interface = u32::try_from(control.info.ipi_ifindex).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((length.unsigned_abs(), interface))
}

/// Sends one datagram out of an interface with a source address of ours.
pub(crate) fn send_from(
    socket: BorrowedFd<'_>,
    datagram: &[u8],
    to: SocketAddrV4,
    interface: u32,
    source: Ipv4Addr,
) -> io::Result<()> {
    let mut control = empty_control();
    control.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<libc::in_pktinfo>()) as _;
    control.header.cmsg_level = libc::IPPROTO_IP;
    control.header.cmsg_type = libc::IP_PKTINFO;
    control.info.ipi_ifindex = c_int::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    control.info.ipi_spec_dst.s_addr = u32::from_ne_bytes(source.octets());
    let mut name = socket_address(to);
    let mut bytes = libc::iovec {
        iov_base: datagram.as_ptr().cast_mut().cast::<c_void>(),
        iov_len: datagram.len(),
    };
    let message = message(&mut name, &mut bytes, &mut control);
    // SAFETY: every pointer leads to a local or to `datagram`, which sendmsg only reads.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn socket_address(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

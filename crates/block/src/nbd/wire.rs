//! Numbers and layouts of the NBD protocol (NetworkBlockDevice/nbd, doc/proto.md). All integers are big-endian.
//!
//! Only what this server speaks is named. Encoding and decoding here touch no socket.

use crate::device::DeviceError;

/// "NBDMAGIC".
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Starts an answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Starts a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Starts a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same bits from both sides.
pub mod handshake_flag {
    /// Fixed newstyle.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeros after EXPORT_NAME.
    pub const NO_ZEROES: u16 = 2;
}

/// Options.
pub mod option {
    /// Choose an export and start; no error answer is possible.
    pub const EXPORT_NAME: u32 = 1;
    /// End.
    pub const ABORT: u32 = 2;
    /// List exports.
    pub const LIST: u32 = 3;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and start.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Answers to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// Something about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Unknown option.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Malformed option.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// Too large an option.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export.
pub mod export_flag {
    /// Flags are sent.
    pub const HAS_FLAGS: u16 = 1;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is served.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is served.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is served.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is served.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// DF is served.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is served.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// FAST_ZERO is served.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the bytes follow.
    pub const WRITE: u16 = 1;
    /// End; no answer.
    pub const DISCONNECT: u16 = 2;
    /// Make writes durable.
    pub const FLUSH: u16 = 3;
    /// Give blocks up.
    pub const TRIM: u16 = 4;
    /// Read ahead.
    pub const CACHE: u16 = 5;
    /// Zero.
    pub const WRITE_ZEROES: u16 = 6;
    /// Ask for extents.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flag {
    /// Durable before the answer.
    pub const FUA: u16 = 1;
    /// Zero without making holes.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer a read in one chunk.
    pub const DF: u16 = 1 << 2;
    /// Answer with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zero fast or not at all.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of structured reply chunks.
pub mod chunk {
    /// The last chunk of an answer has this flag.
    pub const FLAG_DONE: u16 = 1;
    /// Bytes.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// Bits of `base:allocation`.
pub mod allocation {
    /// Not allocated.
    pub const HOLE: u32 = 1;
    /// Reads as zeros.
    pub const ZERO: u32 = 2;
}

/// The one metadata context.
pub const CONTEXT_NAME: &str = "base:allocation";
/// Its id.
pub const CONTEXT_ID: u32 = 1;

/// Error numbers that replies carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorNumber {
    /// Read-only.
    Permission = 1,
    /// Everything else.
    Io = 5,
    /// Range or flag.
    Invalid = 22,
    /// Full.
    NoSpace = 28,
    /// Not fast.
    NotSupported = 95,
    /// Draining.
    Shutdown = 108,
}

impl From<&DeviceError> for ErrorNumber {
    fn from(error: &DeviceError) -> Self {
        match error {
            DeviceError::OutOfRange { .. } => Self::Invalid,
            DeviceError::ReadOnly => Self::Permission,
            DeviceError::NoSpace => Self::NoSpace,
            DeviceError::NotFast => Self::NotSupported,
            DeviceError::Closed => Self::Shutdown,
            DeviceError::Poisoned | DeviceError::Fenced { .. } | DeviceError::Io { .. } => Self::Io,
        }
    }
}

/// Bytes of a request header.
pub const REQUEST_LEN: usize = 28;

/// A request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// [`command_flag`]s.
    pub flags: u16,
    /// A [`command`].
    pub command: u16,
    /// The client's name for the request, given back with the answer.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl Request {
    /// The request in a header; `None` if the magic is wrong.
    pub fn parse(header: &[u8; REQUEST_LEN]) -> Option<Self> {
        let mut fields = Fields::new(header);
        if fields.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u32()?,
        })
    }
}

/// Reads integers and texts from bytes; `None` when they run out.
#[derive(Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// From the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    /// 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A 32-bit length and that many bytes.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A simple reply.
pub fn simple_reply(cookie: u64, error: Option<ErrorNumber>) -> Vec<u8> {
    let mut reply = Vec::with_capacity(16);
    reply.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    reply.extend_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    reply.extend_from_slice(&cookie.to_be_bytes());
    reply
}

/// The head of a structured reply chunk of `length` bytes.
pub fn chunk_head(cookie: u64, kind: u16, done: bool, length: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(32);
    head.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    head.extend_from_slice(&if done { chunk::FLAG_DONE } else { 0 }.to_be_bytes());
    head.extend_from_slice(&kind.to_be_bytes());
    head.extend_from_slice(&cookie.to_be_bytes());
    head.extend_from_slice(&length.to_be_bytes());
    head
}

/// A structured reply that only says what went wrong.
pub fn error_chunk(cookie: u64, error: ErrorNumber) -> Vec<u8> {
    let mut reply = chunk_head(cookie, chunk::ERROR, true, 6);
    reply.extend_from_slice(&(error as u32).to_be_bytes());
    reply.extend_from_slice(&0u16.to_be_bytes());
    reply
}

/// An answer to an option.
pub fn option_answer(option: u32, kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(20 + payload.len());
    reply.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    reply.extend_from_slice(&option.to_be_bytes());
    reply.extend_from_slice(&kind.to_be_bytes());
    // Payloads are a name or a few integers.
    reply.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    reply.extend_from_slice(payload);
    reply
}

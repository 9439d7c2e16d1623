//! The first part of a connection: which export, structured replies or not, metadata contexts.
//!
//! ```text
//!  greeting ─▶ client flags ─▶ option* ─▶ GO or EXPORT_NAME ─▶ requests
//!                                 └─▶ ABORT, malformed, too many, too slow ─▶ end of this connection
//! ```
//!
//! There is one export, with the empty name. The size is looked at anew for each client, so that one that reconnects after a
//! growth sees it.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::wire::{
    CONTEXT_ID, CONTEXT_NAME, Fields, MAGIC, OPTION_MAGIC, export_flag, handshake_flag, info, option,
    option_answer, option_reply,
};
use crate::device::BlockDevice;
use crate::limits;

/// What was agreed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Reads are answered in chunks.
    pub structured: bool,
    /// Extents may be asked for.
    pub allocation: bool,
}

/// How a negotiation ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Negotiated {
    /// Requests follow.
    Start(Agreement),
    /// The client left properly.
    Left,
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The export's flags.
fn export_flags(device: &dyn BlockDevice, structured: bool) -> u16 {
    let mut flags = export_flag::HAS_FLAGS
        | export_flag::SEND_FLUSH
        | export_flag::SEND_FUA
        | export_flag::CAN_MULTI_CONN
        | export_flag::SEND_CACHE;
    if device.is_read_only() {
        flags |= export_flag::READ_ONLY;
    } else {
        flags |= export_flag::SEND_TRIM | export_flag::SEND_WRITE_ZEROES | export_flag::SEND_FAST_ZERO;
    }
    if structured {
        flags |= export_flag::SEND_DF;
    }
    flags
}

async fn size_of(device: &Arc<dyn BlockDevice>) -> io::Result<u64> {
    device.refresh_size().await.map_err(io::Error::other)
}

/// Negotiates with one client.
pub async fn negotiate<S>(stream: &mut S, device: &Arc<dyn BlockDevice>) -> io::Result<Negotiated>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let offered = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    let mut greeting = Vec::with_capacity(18);
    greeting.extend_from_slice(&MAGIC.to_be_bytes());
    greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&offered.to_be_bytes());
    stream.write_all(&greeting).await?;

    let client_flags = stream.read_u32().await?;
    if client_flags & !u32::from(offered) != 0 {
        return Err(malformed("unknown client flags"));
    }
    let no_zeroes = client_flags & u32::from(handshake_flag::NO_ZEROES) != 0;
    let mut agreement = Agreement::default();
    for _ in 0..limits::NBD_OPTIONS_MAX {
        if stream.read_u64().await? != OPTION_MAGIC {
            return Err(malformed("an option without its magic"));
        }
        let number = stream.read_u32().await?;
        let length = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
        if length > limits::NBD_OPTION_BYTES_MAX {
            stream
                .write_all(&option_answer(number, option_reply::ERR_TOO_BIG, &[]))
                .await?;
            return Err(malformed("an option that is too large"));
        }
        let mut data = vec![0; length];
        stream.read_exact(&mut data).await?;
        let mut answers = Vec::new();
        let mut answer =
            |kind: u32, payload: &[u8]| answers.extend_from_slice(&option_answer(number, kind, payload));
        let mut start = false;
        match number {
            option::EXPORT_NAME => {
                if !data.is_empty() {
                    return Err(malformed("an unknown export name"));
                }
                let mut reply = size_of(device).await?.to_be_bytes().to_vec();
                reply.extend_from_slice(&export_flags(device.as_ref(), agreement.structured).to_be_bytes());
                if !no_zeroes {
                    reply.resize(reply.len() + 124, 0);
                }
                stream.write_all(&reply).await?;
                return Ok(Negotiated::Start(agreement));
            }
            option::ABORT => {
                // The client may be gone already; it has said goodbye either way.
                let _ = stream
                    .write_all(&option_answer(number, option_reply::ACK, &[]))
                    .await;
                return Ok(Negotiated::Left);
            }
            option::LIST if data.is_empty() => {
                answer(option_reply::SERVER, &0u32.to_be_bytes());
                answer(option_reply::ACK, &[]);
            }
            option::INFO | option::GO => match parse_info(&data) {
                None => answer(option_reply::ERR_INVALID, &[]),
                Some(name) if !name.is_empty() => answer(option_reply::ERR_UNKNOWN, &[]),
                Some(_) => {
                    let flags = export_flags(device.as_ref(), agreement.structured);
                    let mut export = info::EXPORT.to_be_bytes().to_vec();
                    export.extend_from_slice(&size_of(device).await?.to_be_bytes());
                    export.extend_from_slice(&flags.to_be_bytes());
                    answer(option_reply::INFO, &export);
                    let mut sizes = info::BLOCK_SIZE.to_be_bytes().to_vec();
                    let preferred = u32::try_from(limits::BLOCK_BYTES).unwrap_or(u32::MAX);
                    for size in [1, preferred, limits::NBD_REQUEST_BYTES_MAX] {
                        sizes.extend_from_slice(&size.to_be_bytes());
                    }
                    answer(option_reply::INFO, &sizes);
                    answer(option_reply::ACK, &[]);
                    start = number == option::GO;
                }
            },
            option::STRUCTURED_REPLY if data.is_empty() => {
                agreement.structured = true;
                answer(option_reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                let set = number == option::SET_META_CONTEXT;
                match parse_contexts(&data, set) {
                    _ if !agreement.structured => answer(option_reply::ERR_INVALID, &[]),
                    None => answer(option_reply::ERR_INVALID, &[]),
                    Some((name, _)) if !name.is_empty() => answer(option_reply::ERR_UNKNOWN, &[]),
                    Some((_, wanted)) => {
                        if wanted {
                            let id = if set { CONTEXT_ID } else { 0 };
                            let mut context = id.to_be_bytes().to_vec();
                            context.extend_from_slice(CONTEXT_NAME.as_bytes());
                            answer(option_reply::META_CONTEXT, &context);
                        }
                        if set {
                            agreement.allocation = wanted;
                        }
                        answer(option_reply::ACK, &[]);
                    }
                }
            }
            option::LIST | option::STRUCTURED_REPLY => answer(option_reply::ERR_INVALID, &[]),
            _ => answer(option_reply::ERR_UNSUP, &[]),
        }
        stream.write_all(&answers).await?;
        if start {
            return Ok(Negotiated::Start(agreement));
        }
    }
    Err(malformed("too many options"))
}

/// The export name of INFO and GO; `None` if malformed. What else the client wants to know is sent anyway.
fn parse_info(data: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::new(data);
    let name = fields.text()?;
    for _ in 0..fields.u16()? {
        fields.u16()?;
    }
    fields.is_empty().then_some(name)
}

/// The export name, and whether `base:allocation` is asked for; `None` if malformed.
fn parse_contexts(data: &[u8], set: bool) -> Option<(&[u8], bool)> {
    let mut fields = Fields::new(data);
    let name = fields.text()?;
    let queries = usize::try_from(fields.u32()?).ok()?;
    if queries > limits::NBD_QUERIES_MAX {
        return None;
    }
    let mut wanted = queries == 0 && !set;
    for _ in 0..queries {
        let query = fields.text()?;
        wanted |= query == CONTEXT_NAME.as_bytes() || (!set && query == b"base:");
    }
    fields.is_empty().then_some((name, wanted))
}

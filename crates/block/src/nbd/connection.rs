//! The second part of a connection: requests, many at once, each answered when it is done.
//!
//! One task reads requests. A request that can be answered at once (a read of cached bytes) is; every other one goes on in a
//! task of its own. Answers are queued, and whoever finds nobody sending sends all that wait, so answers under load share system
//! calls. A request holds its share of the connection's and the export's memory until its answer has left, so that a client that
//! does not read its answers is not read from either.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::negotiate::Agreement;
use super::wire::{
    CONTEXT_ID, ErrorNumber, REQUEST_LEN, Request, allocation, chunk, chunk_head, command, command_flag,
    error_chunk, simple_reply,
};
use crate::device::{BlockDevice, DeviceError, ExtentKind, ZeroMode, check_range};
use crate::limits;

/// What all connections of an export share.
#[derive(Debug)]
pub struct Shared {
    /// The volume.
    pub device: Arc<dyn BlockDevice>,
    /// Memory of requests in flight, in KiB.
    pub memory: Arc<Semaphore>,
    /// New requests are refused.
    pub draining: AtomicBool,
}

/// Permits for `bytes`, which are counted in KiB.
pub fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// One part of an answer: a head, then bytes.
struct Part {
    head: Vec<u8>,
    body: Bytes,
}

struct Answer {
    parts: Vec<Part>,
    _permits: Permits,
}

struct Permits {
    _slot: OwnedSemaphorePermit,
    _memory: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

/// Sends answers.
struct Sender {
    waiting: Mutex<VecDeque<Answer>>,
    stream: tokio::sync::Mutex<OwnedWriteHalf>,
    broken: AtomicBool,
}

impl Sender {
    fn take_batch(&self) -> Vec<Answer> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(limits::NBD_ANSWERS_BATCH);
        waiting.drain(..count).collect()
    }

    fn is_idle(&self) -> bool {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Queues an answer and sees to it that somebody sends it.
    async fn send(&self, answer: Answer) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(answer);
        // Whoever sends looks once more after giving the stream back, so an answer queued meanwhile is not forgotten.
        while !self.is_idle() {
            let Ok(mut stream) = self.stream.try_lock() else {
                return;
            };
            loop {
                let batch = self.take_batch();
                if batch.is_empty() {
                    break;
                }
                if self.broken.load(Ordering::Acquire) {
                    continue;
                }
                if let Err(error) = write_batch(&mut stream, &batch).await {
                    tracing::debug!(%error, "a client does not take its answers");
                    // The client is gone, so the reader ends by itself; answers still to come have nowhere to go.
                    self.broken.store(true, Ordering::Release);
                }
            }
        }
    }
}

async fn write_batch(stream: &mut OwnedWriteHalf, batch: &[Answer]) -> io::Result<()> {
    let parts = batch.iter().flat_map(|answer| &answer.parts);
    let mut slices: Vec<io::IoSlice<'_>> = parts
        .flat_map(|part| [part.head.as_slice(), &part.body])
        .filter(|bytes| !bytes.is_empty())
        .map(io::IoSlice::new)
        .collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        let written = stream.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        io::IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

struct Reader {
    stream: OwnedReadHalf,
    buffer: BytesMut,
}

impl Reader {
    /// Reads until `length` bytes are buffered; `false` if the client left before the first of them.
    async fn fill(&mut self, length: usize) -> io::Result<bool> {
        while self.buffer.len() < length {
            let missing = length - self.buffer.len();
            self.buffer.reserve(missing.max(limits::NBD_READ_AHEAD_BYTES));
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(false)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
        Ok(true)
    }

    async fn request(&mut self) -> io::Result<Option<Request>> {
        if !self.fill(REQUEST_LEN).await? {
            return Ok(None);
        }
        let mut header = [0; REQUEST_LEN];
        header.copy_from_slice(&self.buffer.split_to(REQUEST_LEN));
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "a request without its magic");
        Request::parse(&header).map(Some).ok_or_else(bad)
    }

    async fn payload(&mut self, length: u32) -> io::Result<Bytes> {
        let length = length as usize;
        let arrived = timeout(limits::NBD_PAYLOAD_WAIT, self.fill(length));
        match arrived.await {
            Ok(Ok(true)) => Ok(self.buffer.split_to(length).freeze()),
            Ok(Ok(false)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the payload of a write does not arrive",
            )),
        }
    }
}

/// Serves requests until the client leaves or breaks the protocol. Returns after every request has been finished.
pub async fn serve_requests(stream: UnixStream, agreement: Agreement, shared: Arc<Shared>) -> io::Result<()> {
    let (read_half, write_half) = stream.into_split();
    let mut reader = Reader {
        stream: read_half,
        buffer: BytesMut::new(),
    };
    let sender = Arc::new(Sender {
        waiting: Mutex::default(),
        stream: tokio::sync::Mutex::new(write_half),
        broken: AtomicBool::new(false),
    });
    let slots = Arc::new(Semaphore::new(limits::NBD_REQUESTS_MAX));
    let memory = Arc::new(Semaphore::new(kib(limits::NBD_CONNECTION_BYTES_MAX) as usize));
    let ended = read_requests(&mut reader, agreement, &shared, &sender, &slots, &memory).await;
    // Every slot comes back when its answer has left or cannot.
    let all = u32::try_from(limits::NBD_REQUESTS_MAX).unwrap_or(u32::MAX);
    let _finished = slots.acquire_many(all).await;
    ended
}

async fn permits(
    request: &Request,
    shared: &Shared,
    slots: &Arc<Semaphore>,
    memory: &Arc<Semaphore>,
) -> io::Result<Permits> {
    let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let slot = Arc::clone(slots).acquire_owned().await.map_err(closed)?;
    let needs_memory = match request.command {
        command::READ | command::WRITE => request.length.min(limits::NBD_REQUEST_BYTES_MAX),
        _ => 0,
    };
    let held = if needs_memory == 0 {
        None
    } else {
        let count = kib(u64::from(needs_memory));
        let of_connection = Arc::clone(memory)
            .acquire_many_owned(count)
            .await
            .map_err(closed)?;
        let of_export = Arc::clone(&shared.memory)
            .acquire_many_owned(count)
            .await
            .map_err(closed)?;
        Some((of_connection, of_export))
    };
    Ok(Permits {
        _slot: slot,
        _memory: held,
    })
}

async fn read_requests(
    reader: &mut Reader,
    agreement: Agreement,
    shared: &Arc<Shared>,
    sender: &Arc<Sender>,
    slots: &Arc<Semaphore>,
    memory: &Arc<Semaphore>,
) -> io::Result<()> {
    while let Some(request) = reader.request().await? {
        if request.command == command::DISCONNECT {
            return Ok(());
        }
        if request.command == command::WRITE && request.length > limits::NBD_REQUEST_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a write above the largest request",
            ));
        }
        let permits = permits(&request, shared, slots, memory).await?;
        let payload = match request.command {
            command::WRITE => reader.payload(request.length).await?,
            _ => Bytes::new(),
        };
        let (shared, sender) = (Arc::clone(shared), Arc::clone(sender));
        let mut work = Box::pin(async move {
            let parts = answer(&shared, agreement, request, payload).await;
            sender
                .send(Answer {
                    parts,
                    _permits: permits,
                })
                .await;
        });
        // What is ready at once needs no task.
        let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        if first.is_pending() {
            tokio::spawn(work);
        }
    }
    Ok(())
}

/// Does one request and words its answer.
async fn answer(shared: &Shared, agreement: Agreement, request: Request, payload: Bytes) -> Vec<Part> {
    let cookie = request.cookie;
    let only = |head| {
        vec![Part {
            head,
            body: Bytes::new(),
        }]
    };
    let result = if shared.draining.load(Ordering::Acquire) {
        Err(ErrorNumber::Shutdown)
    } else {
        perform(shared, agreement, request, payload).await
    };
    match result {
        Ok(parts) => parts,
        // Reads and block status have only structured answers once those are agreed.
        Err(error)
            if agreement.structured && matches!(request.command, command::READ | command::BLOCK_STATUS) =>
        {
            only(error_chunk(cookie, error))
        }
        Err(error) => only(simple_reply(cookie, Some(error))),
    }
}

/// Flags that a command may have. FUA means nothing on what does not write, and is allowed there.
fn allowed_flags(command: u16, structured: bool) -> u16 {
    command_flag::FUA
        | match command {
            command::READ if structured => command_flag::DF,
            command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
            command::BLOCK_STATUS => command_flag::REQ_ONE,
            _ => 0,
        }
}

async fn perform(
    shared: &Shared,
    agreement: Agreement,
    request: Request,
    payload: Bytes,
) -> Result<Vec<Part>, ErrorNumber> {
    let Request {
        flags,
        command,
        cookie,
        offset,
        length,
    } = request;
    if flags & !allowed_flags(command, agreement.structured) != 0 {
        return Err(ErrorNumber::Invalid);
    }
    let fua = flags & command_flag::FUA != 0;
    let device = shared.device.as_ref();
    let has_range = command != command::FLUSH;
    if has_range == (length == 0) || (!has_range && offset != 0) {
        return Err(ErrorNumber::Invalid);
    }
    let done = match command {
        command::READ => return read(device, agreement, request).await,
        command::BLOCK_STATUS => {
            return if agreement.allocation {
                block_status(device, request).await
            } else {
                Err(ErrorNumber::Invalid)
            };
        }
        command::WRITE => device.write_at(offset, payload, fua).await,
        command::FLUSH => device.flush().await,
        command::TRIM => device.trim(offset, u64::from(length), fua).await,
        command::CACHE => read_ahead(device, offset, length).await,
        command::WRITE_ZEROES => {
            let mode = ZeroMode {
                no_hole: flags & command_flag::NO_HOLE != 0,
                fast_only: flags & command_flag::FAST_ZERO != 0,
                fua,
            };
            device.write_zeroes(offset, u64::from(length), mode).await
        }
        _ => return Err(ErrorNumber::Invalid),
    };
    done.map_err(|error| number(&error))?;
    Ok(vec![Part {
        head: simple_reply(cookie, None),
        body: Bytes::new(),
    }])
}

fn number(error: &DeviceError) -> ErrorNumber {
    if matches!(
        error,
        DeviceError::Io { .. } | DeviceError::Poisoned | DeviceError::Fenced { .. }
    ) {
        tracing::warn!(%error, source = ?std::error::Error::source(error), "a request failed");
    }
    ErrorNumber::from(error)
}

/// Reads for the system's cache; the bytes go nowhere.
async fn read_ahead(device: &dyn BlockDevice, offset: u64, length: u32) -> Result<(), DeviceError> {
    check_range(offset, u64::from(length), device.size())?;
    let step = u32::try_from(limits::COPY_CHUNK_BYTES).unwrap_or(u32::MAX);
    let mut done = 0;
    while done < length {
        let piece = step.min(length - done);
        device.read_at(offset + u64::from(done), piece).await?;
        done += piece;
    }
    Ok(())
}

async fn read(
    device: &dyn BlockDevice,
    agreement: Agreement,
    request: Request,
) -> Result<Vec<Part>, ErrorNumber> {
    let Request {
        flags,
        cookie,
        offset,
        length,
        ..
    } = request;
    if length > limits::NBD_REQUEST_BYTES_MAX {
        return Err(ErrorNumber::Invalid);
    }
    if !agreement.structured {
        let body = device
            .read_at(offset, length)
            .await
            .map_err(|error| number(&error))?;
        return Ok(vec![Part {
            head: simple_reply(cookie, None),
            body,
        }]);
    }
    if length < limits::NBD_HOLE_READ_BYTES_MIN || flags & command_flag::DF != 0 {
        return Ok(vec![data_chunk(device, cookie, offset, length, true).await?]);
    }
    let extents = device
        .block_status(offset, u64::from(length), limits::NBD_READ_CHUNKS_MAX)
        .await
        .map_err(|error| number(&error))?;
    let (mut parts, mut place, end) = (Vec::new(), offset, offset + u64::from(length));
    let last = extents.len() - 1;
    for (index, extent) in extents.into_iter().enumerate() {
        // What the extents do not reach is read with the last one.
        let kind = if index == last && place + extent.length < end {
            ExtentKind::Data
        } else {
            extent.kind
        };
        let count = if index == last { end - place } else { extent.length };
        let count = u32::try_from(count).unwrap_or(length);
        if kind == ExtentKind::Data {
            parts.push(data_chunk(device, cookie, place, count, index == last).await?);
        } else {
            let mut head = chunk_head(cookie, chunk::OFFSET_HOLE, index == last, 12);
            head.extend_from_slice(&place.to_be_bytes());
            head.extend_from_slice(&count.to_be_bytes());
            parts.push(Part {
                head,
                body: Bytes::new(),
            });
        }
        place += u64::from(count);
    }
    Ok(parts)
}

async fn data_chunk(
    device: &dyn BlockDevice,
    cookie: u64,
    offset: u64,
    length: u32,
    done: bool,
) -> Result<Part, ErrorNumber> {
    let body = device
        .read_at(offset, length)
        .await
        .map_err(|error| number(&error))?;
    let mut head = chunk_head(cookie, chunk::OFFSET_DATA, done, 8 + length);
    head.extend_from_slice(&offset.to_be_bytes());
    Ok(Part { head, body })
}

async fn block_status(device: &dyn BlockDevice, request: Request) -> Result<Vec<Part>, ErrorNumber> {
    let Request {
        flags,
        cookie,
        offset,
        length,
        ..
    } = request;
    let one = flags & command_flag::REQ_ONE != 0;
    let extents_max = if one { 1 } else { limits::EXTENTS_MAX };
    let extents = device
        .block_status(offset, u64::from(length), extents_max)
        .await
        .map_err(|error| number(&error))?;
    let bytes = u32::try_from(4 + 8 * extents.len()).unwrap_or(u32::MAX);
    let mut head = chunk_head(cookie, chunk::BLOCK_STATUS, true, bytes);
    head.extend_from_slice(&CONTEXT_ID.to_be_bytes());
    for extent in extents {
        let bits = match extent.kind {
            ExtentKind::Data => 0,
            ExtentKind::Hole => allocation::HOLE | allocation::ZERO,
            ExtentKind::Zero => allocation::ZERO,
        };
        head.extend_from_slice(&u32::try_from(extent.length).unwrap_or(length).to_be_bytes());
        head.extend_from_slice(&bits.to_be_bytes());
    }
    Ok(vec![Part {
        head,
        body: Bytes::new(),
    }])
}

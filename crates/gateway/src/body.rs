//! Reading a request's body within its cap, its time, and a bound on all bodies together.
//!
//! Bodies are read before anybody has proved who they are, so all large ones share [`BODIES_BYTES_MAX`] of memory: one
//! that finds no room in time is refused. Small ones, which nearly all are, are bounded by the number of connections.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::limits::{
    BODIES_BYTES_MAX, BODY_IDLE_MAX, DRAIN_TIME_MAX, DRAINED_BYTES_MAX, UNSIGNED_BODY_BYTES_MAX,
};

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// More than the cap.
    TooLarge,
    /// Nothing came for too long.
    Idle,
    /// The connection broke.
    Broken,
    /// Too many large bodies are being held.
    NoRoom,
}

/// A body with its place in the shared memory.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// The memory that large bodies share, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

impl Room {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BODIES_BYTES_MAX)))
    }

    /// Room for a body of at most `bytes`; small ones need none.
    async fn take(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, BodyFault> {
        if bytes <= UNSIGNED_BODY_BYTES_MAX {
            return Ok(None);
        }
        let wanted = u32::try_from(bytes).map_err(|_| BodyFault::NoRoom)?;
        match timeout(BODY_IDLE_MAX, Arc::clone(&self.0).acquire_many_owned(wanted)).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(_)) | Err(_) => Err(BodyFault::NoRoom),
        }
    }
}

/// Reads a body of at most `cap` bytes. A larger one is drained for a while, because most clients read the answer only
/// after they have sent everything.
pub(crate) async fn read(mut body: Incoming, cap: usize, room: &Room) -> Result<Held, BodyFault> {
    let hint = body.size_hint();
    if hint.lower() > cap as u64 {
        drain(body).await;
        return Err(BodyFault::TooLarge);
    }
    let most = hint
        .upper()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(cap);
    let room = room.take(most.min(cap)).await?;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let frame = match timeout(BODY_IDLE_MAX, body.frame()).await {
            Err(_) => return Err(BodyFault::Idle),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(BodyFault::Broken),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > cap {
            drain(body).await;
            return Err(BodyFault::TooLarge);
        }
        // Nearly every body comes in one frame, which then needs no copy.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    let bytes = if rest.is_empty() { first } else { rest.freeze() };
    Ok(Held { bytes, _room: room })
}

async fn drain(mut body: Incoming) {
    let deadline = Instant::now() + DRAIN_TIME_MAX;
    let mut dropped = 0;
    while dropped < DRAINED_BYTES_MAX {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => dropped += frame.data_ref().map_or(0, Bytes::len),
            Ok(Some(Err(_)) | None) | Err(_) => return,
        }
    }
}

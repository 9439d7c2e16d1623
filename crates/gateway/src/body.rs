//! Reading a request's body within its cap and its time.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout};

use crate::limits::{BODY_IDLE_MAX, DRAIN_TIME_MAX, DRAINED_BYTES_MAX};

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// More than the cap.
    TooLarge,
    /// Nothing came for too long.
    Idle,
    /// The connection broke.
    Broken,
}

/// Reads a body of at most `cap` bytes. A larger one is drained for a while, because most clients read the answer only
/// after they have sent everything.
pub(crate) async fn read(mut body: Incoming, cap: usize) -> Result<Bytes, BodyFault> {
    let announced = body.size_hint().lower();
    if announced > cap as u64 {
        drain(body).await;
        return Err(BodyFault::TooLarge);
    }
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
    Ok(if rest.is_empty() { first } else { rest.freeze() })
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

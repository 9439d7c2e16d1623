//! The instance metadata service: HTTP on 169.254.169.254 inside every VPC namespace.
//!
//! Who asks is known from the connection (network and port, which anti-spoofing makes unforgeable), never from what is
//! said. Version 2 wants a session token; version 1 is answered only if the instance's options allow it. Tokens leave
//! with the instance's hop limit as their TTL. What is answered is `tree`; tokens are `token`; packets are `vnet`'s.

pub mod token;
pub mod tree;

use crate::limits;
use aws_types::ids::NetworkInterfaceId;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use node_spec::GuestMetadata;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, RwLock};
use time::OffsetDateTime;
use token::{TOKEN_TTL_SECONDS_MAX, TokenMint};
use tokio::sync::{Semaphore, watch};
use tracing::debug;
use tree::Answer;
use vnet::{MetadataConnection, Vnet};

const TOKEN_HEADER: &str = "x-aws-ec2-metadata-token";
const TOKEN_TTL_HEADER: &str = "x-aws-ec2-metadata-token-ttl-seconds";

/// The metadata of every guest of this node, by the interface that asks. Kept current by the agent's watch.
#[derive(Default)]
pub struct MetadataIndex {
    by_interface: RwLock<HashMap<NetworkInterfaceId, Arc<GuestMetadata>>>,
}

impl MetadataIndex {
    /// Replaces everything.
    pub fn set(&self, all: impl IntoIterator<Item = GuestMetadata>) {
        let mut next = HashMap::new();
        for metadata in all {
            let metadata = Arc::new(metadata);
            for interface in &metadata.interfaces {
                next.insert(interface.interface.clone(), metadata.clone());
            }
        }
        *self.by_interface.write().expect("no writer panics") = next;
    }

    fn find(&self, interface: &str) -> Option<Arc<GuestMetadata>> {
        let id = NetworkInterfaceId::parse(interface)?;
        self.by_interface
            .read()
            .expect("no writer panics")
            .get(&id)
            .cloned()
    }
}

/// Serves until `shutdown` turns true.
pub async fn serve(
    vnet: Arc<Vnet>,
    index: Arc<MetadataIndex>,
    mint: Arc<TokenMint>,
    mut shutdown: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(limits::METADATA_CONNECTIONS_MAX));
    loop {
        let connection = tokio::select! {
            connection = vnet.accept_metadata() => connection,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        // A connection beyond the bound is closed at once; clients retry.
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        let (index, mint) = (index.clone(), mint.clone());
        tokio::spawn(async move {
            serve_connection(connection, index, mint).await;
            drop(slot);
        });
    }
}

async fn serve_connection(connection: MetadataConnection, index: Arc<MetadataIndex>, mint: Arc<TokenMint>) {
    // The hop limit binds every packet of the connection, so also the answer to a token request.
    if connection.limit_hops().is_err() {
        return;
    }
    let port = connection.port.clone();
    let service = service_fn(|request: Request<Incoming>| {
        let response = match index.find(port.as_str()) {
            Some(metadata) => answer(&metadata, &mint, &request, OffsetDateTime::now_utc()),
            None => plain(StatusCode::NOT_FOUND, "404 - Not Found"),
        };
        async move { Ok::<_, Infallible>(response) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::METADATA_HEADER_TIMEOUT)
        .max_buf_size(limits::METADATA_HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(connection.stream), service)
        .await;
    if let Err(error) = served {
        debug!(port = %port, %error, "metadata connection ended");
    }
}

/// Answers one request of one guest. Pure but for its inputs.
fn answer<B>(
    metadata: &GuestMetadata,
    mint: &TokenMint,
    request: &Request<B>,
    now: OffsetDateTime,
) -> Response<Full<Bytes>> {
    if !metadata.options.endpoint_enabled {
        return plain(StatusCode::FORBIDDEN, "403 - Forbidden");
    }
    let path = request.uri().path();
    let is_token_path = path.trim_end_matches('/').ends_with("/api/token");
    match *request.method() {
        Method::PUT if is_token_path => issue_token(metadata, mint, request, now),
        Method::GET | Method::HEAD if !is_token_path => {
            if let Some(refusal) = refuse_without_token(metadata, mint, request, now) {
                return refusal;
            }
            render(tree::lookup(metadata, path))
        }
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "405 - Method Not Allowed"),
    }
}

fn issue_token<B>(
    metadata: &GuestMetadata,
    mint: &TokenMint,
    request: &Request<B>,
    now: OffsetDateTime,
) -> Response<Full<Bytes>> {
    // A forwarded request is a proxy's: the open-proxy attack that version 2 exists to stop.
    if request.headers().contains_key("x-forwarded-for") {
        return plain(StatusCode::FORBIDDEN, "403 - Forbidden");
    }
    let ttl = request
        .headers()
        .get(TOKEN_TTL_HEADER)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse::<u32>().ok());
    match ttl {
        Some(ttl) if (1..=TOKEN_TTL_SECONDS_MAX).contains(&ttl) => {
            let mut response = plain(StatusCode::OK, mint.issue(&metadata.instance, now, ttl));
            response
                .headers_mut()
                .insert(TOKEN_TTL_HEADER, HeaderValue::from(ttl));
            response
        }
        _ => plain(StatusCode::BAD_REQUEST, "400 - Bad Request"),
    }
}

fn refuse_without_token<B>(
    metadata: &GuestMetadata,
    mint: &TokenMint,
    request: &Request<B>,
    now: OffsetDateTime,
) -> Option<Response<Full<Bytes>>> {
    let unauthorized = || Some(plain(StatusCode::UNAUTHORIZED, "401 - Unauthorized"));
    match request.headers().get(TOKEN_HEADER) {
        Some(token) => {
            let valid = token
                .to_str()
                .is_ok_and(|t| mint.is_valid(&metadata.instance, now, t));
            if valid { None } else { unauthorized() }
        }
        None if metadata.options.tokens_required => unauthorized(),
        None => None,
    }
}

fn render(answer: Answer) -> Response<Full<Bytes>> {
    match answer {
        Answer::Text(text) => plain(StatusCode::OK, text),
        Answer::Json(text) => plain(StatusCode::OK, text),
        Answer::Bytes(bytes) => {
            let mut response = plain(StatusCode::OK, bytes);
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/octet-stream"),
            );
            response
        }
        Answer::NotFound => plain(StatusCode::NOT_FOUND, "404 - Not Found"),
    }
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    // cloud-init and the AWS SDKs recognise the service by this name.
    headers.insert(header::SERVER, HeaderValue::from_static("EC2ws"));
    response
}

#[cfg(test)]
mod tests;

//! The canonical request: the bytes that both signer and verifier hash.
//!
//! Paths are encoded once more than they were sent, with dot segments and repeated slashes resolved, except for
//! S3, whose paths are taken as sent. Query parameters are sorted by encoded name, then encoded value, and the
//! signature itself is left out. Header values are trimmed, their inner blanks collapsed, repeats joined by `,`.

use sha2::{Digest, Sha256};

/// A request as received: nothing decoded, header names in lower case.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The path as sent, still encoded.
    pub path: &'a str,
    /// The query string as sent, without `?`; empty if there is none.
    pub query: &'a str,
    /// Names in lower case with values as sent, in order, repeats apart.
    pub headers: &'a [(&'a str, &'a [u8])],
}

impl RequestView<'_> {
    /// The values of a header, in order.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers
            .iter()
            .filter(move |(own, _)| *own == name)
            .map(|(_, value)| *value)
    }
}

/// How a service canonicalises its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStyle {
    /// Normalised and encoded again: every service but S3.
    EncodedTwice,
    /// As sent: S3.
    Verbatim,
}

/// How a query string is canonicalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStyle {
    /// Decoded and encoded by the rule, so that what a client left unencoded is not held against it.
    Normalised,
    /// Exactly as sent, only sorted: what botocore signs.
    Verbatim,
}

/// Builds the canonical request.
pub fn canonical_request(
    request: &RequestView<'_>,
    signed_headers: &[&str],
    payload_hash: &str,
    path_style: PathStyle,
    query_style: QueryStyle,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(request.method.as_bytes());
    out.push(b'\n');
    match path_style {
        PathStyle::EncodedTwice => push_encoded(&normalise_path(request.path), b"/", &mut out),
        PathStyle::Verbatim if request.path.is_empty() => out.push(b'/'),
        PathStyle::Verbatim => out.extend_from_slice(request.path.as_bytes()),
    }
    out.push(b'\n');
    push_query(request.query, query_style, &mut out);
    out.push(b'\n');
    for name in signed_headers {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        for (at, value) in request.header_values(name).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            push_collapsed(value, &mut out);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
    for (at, name) in signed_headers.iter().enumerate() {
        if at > 0 {
            out.push(b';');
        }
        out.extend_from_slice(name.as_bytes());
    }
    out.push(b'\n');
    out.extend_from_slice(payload_hash.as_bytes());
    out
}

/// Lower-case hex of SHA-256.
pub fn hex_sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Encodes by AWS's rule: everything but `A-Z a-z 0-9 - . _ ~`, upper-case hex.
pub fn uri_encode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_encoded(text.as_bytes(), b"", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn push_encoded(bytes: &[u8], also_plain: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also_plain.contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Resolves `.`, `..` and repeated slashes; a trailing slash stays.
fn normalise_path(path: &str) -> Vec<u8> {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    let mut out = String::with_capacity(path.len() + 1);
    for segment in &segments {
        out.push('/');
        out.push_str(segment);
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    if out.is_empty() || matches!(last, "" | "." | "..") {
        out.push('/');
    }
    out.into_bytes()
}

fn push_query(query: &str, style: QueryStyle, out: &mut Vec<u8>) {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name == "X-Amz-Signature" {
            continue;
        }
        pairs.push(match style {
            QueryStyle::Normalised => (reencode(name), reencode(value)),
            QueryStyle::Verbatim => (name.as_bytes().to_vec(), value.as_bytes().to_vec()),
        });
    }
    pairs.sort();
    for (at, (name, value)) in pairs.iter().enumerate() {
        if at > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(name);
        out.push(b'=');
        out.extend_from_slice(value);
    }
}

/// Decodes (`+` is a blank, as it is to the decoders of the query protocols) and encodes by the rule.
fn reencode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let pair = bytes
            .get(at + 1)
            .copied()
            .and_then(hex_digit)
            .zip(bytes.get(at + 2).copied().and_then(hex_digit));
        match (byte, pair) {
            (b'%', Some((high, low))) => {
                decoded.push(high << 4 | low);
                at += 3;
                continue;
            }
            (b'+', _) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    let mut out = Vec::with_capacity(bytes.len());
    push_encoded(&decoded, b"", &mut out);
    out
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

fn push_collapsed(value: &[u8], out: &mut Vec<u8>) {
    let mut blank = false;
    for &byte in value.trim_ascii() {
        let is_blank = byte == b' ' || byte == b'\t';
        if !is_blank {
            out.push(byte);
        } else if !blank {
            out.push(b' ');
        }
        blank = is_blank;
    }
}

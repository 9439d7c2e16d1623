//! A client of the instance metadata service, version 2: a token first, then plain GETs with it. The address is
//! link-local and fixed (AWS documentation, "Access instance metadata"). One connection a request: there are few.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::console::say;
use crate::error::{GuestError, chain};
use crate::limits::{METADATA_ANSWER_MAX, METADATA_BYTES_MAX, METADATA_TOKEN_SECS, METADATA_WAIT_MAX};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const PORT: u16 = 80;

/// A session with a token.
pub struct Metadata {
    token: String,
}

impl Metadata {
    /// Gets a token. Waits for a service that cannot be reached yet; a refusal is an error at once.
    pub fn connect() -> Result<Self, GuestError> {
        let head =
            format!("X-aws-ec2-metadata-token-ttl-seconds: {METADATA_TOKEN_SECS}\r\nContent-Length: 0\r\n");
        let mut told = Instant::now();
        loop {
            match ask("PUT", "/latest/api/token", &head) {
                Ok(body) => {
                    return Ok(Self {
                        token: String::from_utf8_lossy(&body).trim().to_owned(),
                    });
                }
                Err(error @ GuestError::Metadata { .. }) => {
                    if told.elapsed() > METADATA_WAIT_MAX {
                        told = Instant::now();
                        say(&format!(
                            "still waiting for the metadata service: {}",
                            chain(&error)
                        ));
                    }
                    sleep(Duration::from_millis(200));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The bytes at `path`, or `None` if there are none.
    pub fn find(&self, path: &str) -> Result<Option<Vec<u8>>, GuestError> {
        match ask(
            "GET",
            path,
            &format!("X-aws-ec2-metadata-token: {}\r\n", self.token),
        ) {
            Ok(body) => Ok(Some(body)),
            Err(GuestError::MetadataStatus { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The text at `path`, or `None` if there is none.
    pub fn find_text(&self, path: &str) -> Result<Option<String>, GuestError> {
        Ok(self
            .find(path)?
            .map(|body| String::from_utf8_lossy(&body).trim().to_owned()))
    }
}

/// `guest metadata PATH`, for scripts.
pub fn print(path: &str) -> Result<(), GuestError> {
    let full = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/latest/meta-data/{path}")
    };
    let body = Metadata::connect()?.find(&full)?;
    let body = body.ok_or(GuestError::MetadataStatus {
        path: full,
        status: 404,
    })?;
    io::stdout()
        .write_all(&body)
        .map_err(crate::error::kernel("writing to the standard output"))
}

fn ask(method: &str, path: &str, head: &str) -> Result<Vec<u8>, GuestError> {
    let failed = |source| GuestError::Metadata {
        path: path.to_owned(),
        source,
    };
    let answer = exchange(&format!(
        "{method} {path} HTTP/1.1\r\nHost: {ADDRESS}\r\nConnection: close\r\nUser-Agent: spinifex-guest\r\n{head}\r\n"
    ))
    .map_err(failed)?;
    let (status, body) = parse(&answer).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    if status == 200 {
        Ok(body)
    } else {
        Err(GuestError::MetadataStatus {
            path: path.to_owned(),
            status,
        })
    }
}

fn exchange(request: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((ADDRESS, PORT)), METADATA_ANSWER_MAX)?;
    stream.set_read_timeout(Some(METADATA_ANSWER_MAX))?;
    stream.set_write_timeout(Some(METADATA_ANSWER_MAX))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // Until the connection is closed, or earlier when the whole length is there.
    while !is_whole(&answer) {
        match stream.read(&mut chunk)? {
            0 => break,
            n if answer.len() + n > METADATA_BYTES_MAX => return Err(io::ErrorKind::FileTooLarge.into()),
            n => answer.extend_from_slice(&chunk[..n]),
        }
    }
    Ok(answer)
}

/// True when a body of known length has arrived.
fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else {
        return false;
    };
    matches!(header(head, "content-length").map(str::parse::<usize>), Some(Ok(length)) if body.len() >= length)
}

fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// Status and body of an HTTP/1.1 answer whose connection was closed after it. The length is honoured when it is
/// told, so that a broken-off body is not taken for a whole one.
fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (head, body) = split(answer)?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    if header(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Some((status, unchunk(body)?));
    }
    match header(head, "content-length").map(str::parse::<usize>) {
        Some(Ok(length)) => Some((status, body.get(..length)?.to_vec())),
        Some(Err(_)) => None,
        None => Some((status, body.to_vec())),
    }
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    type Case = (&'static [u8], Option<(u16, &'static [u8])>);

    #[test]
    fn answers() {
        let cases: [Case; 8] = [
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc",
                Some((200, b"ab")),
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", None),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc", None),
            (b"HTTP/1.0 404 Not Found\r\n\r\n", Some((404, b""))),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n",
                Some((200, b"abcd")),
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
                None,
            ),
            (b"HTTP/1.1 200", None),
            (b"garbage\r\n\r\n", None),
        ];
        for (answer, expected) in cases {
            let parsed = parse(answer);
            let parsed = parsed.as_ref().map(|(status, body)| (*status, body.as_slice()));
            assert_eq!(parsed, expected, "{}", String::from_utf8_lossy(answer));
        }
    }
}

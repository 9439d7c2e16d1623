//! Passing queries on: the host's resolvers, the one that answered last first.
//!
//! A query travels with an identity of our own over a socket of its own, and only an answer from there with that
//! identity and the same question comes back. One that does not answer in time is not asked for a while.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::{
    DNS_MESSAGE_BYTES_MAX, DNS_UPSTREAM_PAUSE, DNS_UPSTREAM_REREAD, DNS_UPSTREAM_TIMEOUT, DNS_UPSTREAMS_MAX,
};

const RESOLVER_FILE: &str = "/etc/resolv.conf";
const HEADER_BYTES: usize = 12;

/// The resolvers that are asked.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set by the operator; else the host's are read.
    fixed: Option<Vec<SocketAddr>>,
    host: Vec<SocketAddr>,
    read_at: Option<Instant>,
    /// When one did not answer.
    failed_at: BTreeMap<SocketAddr, Instant>,
}

impl Upstreams {
    /// Asks these from now on; none at all is allowed.
    pub(crate) fn set(&self, resolvers: Vec<SocketAddr>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.fixed = Some(resolvers.into_iter().take(DNS_UPSTREAMS_MAX).collect());
        state.failed_at.clear();
    }

    /// Whom to ask, in order.
    fn usable(&self) -> Vec<SocketAddr> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .failed_at
            .retain(|_, failed| failed.elapsed() < DNS_UPSTREAM_PAUSE);
        let stale = state
            .read_at
            .is_none_or(|read| read.elapsed() > DNS_UPSTREAM_REREAD);
        if state.fixed.is_none() && stale {
            state.host = host_resolvers(&std::fs::read_to_string(RESOLVER_FILE).unwrap_or_default());
            state.read_at = Some(Instant::now());
        }
        let all = state.fixed.as_ref().unwrap_or(&state.host);
        all.iter()
            .filter(|one| !state.failed_at.contains_key(one))
            .copied()
            .collect()
    }

    fn failed(&self, resolver: SocketAddr) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed_at.insert(resolver, Instant::now());
    }

    /// The first answer of a resolver; none if nobody answers.
    pub(super) async fn ask(&self, query: &[u8], stream: bool) -> Option<Vec<u8>> {
        let original = [*query.first()?, *query.get(1)?];
        for resolver in self.usable() {
            let asked = async {
                if stream {
                    ask_stream(resolver, query).await
                } else {
                    ask_datagram(resolver, query).await
                }
            };
            match timeout(DNS_UPSTREAM_TIMEOUT, asked).await {
                Ok(Ok(mut answer)) => {
                    answer[..2].copy_from_slice(&original);
                    return Some(answer);
                }
                _ => self.failed(resolver),
            }
        }
        None
    }
}

/// The name servers of a resolver file.
fn host_resolvers(text: &str) -> Vec<SocketAddr> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = lines.filter_map(|rest| rest.trim().parse::<IpAddr>().ok());
    addresses
        .map(|address| SocketAddr::from((address, 53)))
        .take(DNS_UPSTREAMS_MAX)
        .collect()
}

fn with_identity(query: &[u8]) -> io::Result<Vec<u8>> {
    let mut query = query.to_vec();
    let mut identity = [0; 2];
    rustix::rand::getrandom(&mut identity, rustix::rand::GetRandomFlags::empty())?;
    query
        .get_mut(..2)
        .ok_or(io::ErrorKind::InvalidData)?
        .copy_from_slice(&identity);
    Ok(query)
}

/// Whether this is an answer to the query: identity, direction, and the question word for word.
fn matches(query: &[u8], answer: &[u8]) -> bool {
    let question = |message: &[u8]| {
        let mut end = HEADER_BYTES;
        loop {
            match *message.get(end)? {
                0 => break,
                length => end += usize::from(length) + 1,
            }
        }
        Some(message.get(HEADER_BYTES..end + 5)?.to_ascii_lowercase())
    };
    let is_answer = answer.get(2).is_some_and(|flags| flags & 0x80 != 0);
    is_answer
        && answer.get(..2) == query.get(..2)
        && question(query).is_some_and(|one| question(answer) == Some(one))
}

async fn ask_datagram(resolver: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let query = with_identity(query)?;
    let socket = super::connect(resolver).await?;
    socket.send(&query).await?;
    let mut buffer = vec![0; DNS_MESSAGE_BYTES_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if matches(&query, &buffer[..length]) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn ask_stream(resolver: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let query = with_identity(query)?;
    let mut stream = TcpStream::connect(resolver).await?;
    super::write_framed(&mut stream, &query).await?;
    let answer = super::read_framed(&mut stream).await?;
    if matches(&query, &answer) {
        Ok(answer)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{host_resolvers, matches};

    #[test]
    fn a_resolver_file_is_read() {
        let text =
            "# comment\nsearch example\nnameserver 192.0.2.53\n nameserver 2001:db8::53 \nnameserver no\n";
        let found: Vec<String> = host_resolvers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.53:53", "[2001:db8::53]:53"]);
    }

    #[test]
    fn only_the_answer_to_the_question_matches() {
        let query =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x02bc\x00\x00\x01\x00\x01".to_vec();
        let mut answer = query.clone();
        assert!(!matches(&query, &answer), "a query is no answer");
        answer[2] |= 0x80;
        assert!(matches(&query, &answer));
        answer[13] = b'A';
        assert!(matches(&query, &answer), "case does not count");
        answer[13] = b'x';
        assert!(!matches(&query, &answer));
        assert!(!matches(&query, &answer[..14]));
        assert!(!matches(&query, &[]));
    }
}

//! List tokens: the id after which the next page starts, with a keyed digest so that a foreign token is refused.
//!
//! A token names a place in id order, not a row, so that it survives deletes, restarts of the provider and time. The key is
//! the pool's own (16 random bytes kept with the pool). Form: hex of `kind byte ‖ id ‖ 16 bytes of HMAC-SHA-256`.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::limits;

/// Which list a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Volumes.
    Volumes,
    /// Snapshots.
    Snapshots,
}

impl ListKind {
    fn tag(self) -> u8 {
        match self {
            Self::Volumes => b'v',
            Self::Snapshots => b's',
        }
    }
}

const DIGEST_LEN: usize = 16;

/// A pool's token key.
#[derive(Clone)]
pub struct TokenKey([u8; 16]);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

impl TokenKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(body);
        mac
    }

    /// The token for the page after `last_id`.
    pub fn issue(&self, kind: ListKind, last_id: &str) -> String {
        let mut body = vec![kind.tag()];
        body.extend_from_slice(last_id.as_bytes());
        let digest = self.mac(&body).finalize().into_bytes();
        body.extend_from_slice(&digest[..DIGEST_LEN]);
        hex::encode(body)
    }

    /// The id in a token that this key issued for this list; `None` for every other text.
    pub fn open(&self, kind: ListKind, token: &str) -> Option<String> {
        if token.len() > limits::LIST_TOKEN_LEN_MAX {
            return None;
        }
        let bytes = hex::decode(token).ok()?;
        let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_LEN)?)?;
        self.mac(body).verify_truncated_left(digest).ok()?;
        let (&tag, id) = body.split_first()?;
        if tag != kind.tag() {
            return None;
        }
        String::from_utf8(id.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{ListKind, TokenKey};

    #[test]
    fn only_own_tokens_open() {
        let key = TokenKey::new([7; 16]);
        let token = key.issue(ListKind::Volumes, "vol-1");
        assert_eq!(key.open(ListKind::Volumes, &token).as_deref(), Some("vol-1"));
        assert_eq!(key.open(ListKind::Snapshots, &token), None);
        assert_eq!(TokenKey::new([8; 16]).open(ListKind::Volumes, &token), None);
        for bad in ["", "zz", "00", &token[2..], &token[..token.len() - 2]] {
            assert_eq!(key.open(ListKind::Volumes, bad), None, "{bad}");
        }
    }
}

//! Signing keys, and a signer for our own clients.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::canonical::{PathStyle, QueryStyle, RequestView, canonical_request, hex_sha256};
use super::{ALGORITHM, SCOPE_END};

/// A key derived from a secret for one day, region and service. Wiped on drop.
#[derive(Clone)]
pub struct SigningKey([u8; 32]);

impl SigningKey {
    /// Derives the key. `date` is `YYYYMMDD`.
    pub fn derive(secret: &str, date: &str, region: &str, service: &str) -> Self {
        let mut start = Vec::with_capacity(4 + secret.len());
        start.extend_from_slice(b"AWS4");
        start.extend_from_slice(secret.as_bytes());
        let mut key = hmac(&start, date.as_bytes());
        wipe(&mut start);
        for part in [region, service, SCOPE_END] {
            key = hmac(&key, part.as_bytes());
        }
        Self(key)
    }

    /// The signature of a canonical request at `timestamp` (`YYYYMMDDThhmmssZ`).
    pub fn signature(&self, timestamp: &str, scope: &str, canonical: &[u8]) -> [u8; 32] {
        let text = format!("{ALGORITHM}\n{timestamp}\n{scope}\n{}", hex_sha256(canonical));
        hmac(&self.0, text.as_bytes())
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// Overwrites, in a way that the optimiser keeps.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(bytes);
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(data);
    mac.finalize().into_bytes().into()
}

/// Signs requests in their `Authorization` header.
#[derive(Debug, Clone)]
pub struct Signer<'a> {
    /// Access key id.
    pub key_id: &'a str,
    /// Key for the day, region and service below.
    pub key: &'a SigningKey,
    /// Region of the scope.
    pub region: &'a str,
    /// Service of the scope.
    pub service: &'a str,
    /// How the service canonicalises paths.
    pub path_style: PathStyle,
}

impl Signer<'_> {
    /// The value of the `Authorization` header. `timestamp` (`YYYYMMDDThhmmssZ`) must be in the request's
    /// `x-amz-date`; every header of `request` is signed.
    pub fn authorization(&self, request: &RequestView<'_>, timestamp: &str, body: &[u8]) -> String {
        let mut names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let canonical = canonical_request(
            request,
            &names,
            &hex_sha256(body),
            self.path_style,
            QueryStyle::Normalised,
        );
        let date = timestamp.get(..8).unwrap_or_default();
        let scope = format!("{date}/{}/{}/{SCOPE_END}", self.region, self.service);
        let signature = hex::encode(self.key.signature(timestamp, &scope, &canonical));
        let names = names.join(";");
        format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.key_id
        )
    }
}

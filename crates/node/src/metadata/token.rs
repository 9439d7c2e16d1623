//! Session tokens of the metadata service, version 2.
//!
//! A token is `version ‖ expiry ‖ HMAC(key, instance ‖ expiry)`: nothing is stored, a restart of the agent forgets
//! none, and a token of one guest is worthless to another. Lifetimes are AWS's: 1 second to 6 hours.

use aws_types::ids::InstanceId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use time::OffsetDateTime;

/// Longest life of a token in seconds (EC2 user guide, "Use the Instance Metadata Service").
pub const TOKEN_TTL_SECONDS_MAX: u32 = 21_600;

const VERSION: u8 = 1;
const LENGTH: usize = 1 + 8 + 32;

/// Makes and checks tokens with a key of this node.
pub struct TokenMint {
    key: [u8; 32],
}

impl TokenMint {
    /// A mint with the node's secret.
    pub fn new(key: [u8; 32]) -> TokenMint {
        TokenMint { key }
    }

    /// A token for `instance` that ends `ttl_seconds` after `now`.
    pub fn issue(&self, instance: &InstanceId, now: OffsetDateTime, ttl_seconds: u32) -> String {
        let expiry = now.unix_timestamp() + i64::from(ttl_seconds);
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.push(VERSION);
        bytes.extend_from_slice(&expiry.to_be_bytes());
        bytes.extend_from_slice(&self.mac(instance, expiry).finalize().into_bytes());
        URL_SAFE.encode(bytes)
    }

    /// True if the token was issued to `instance` and has not ended.
    pub fn is_valid(&self, instance: &InstanceId, now: OffsetDateTime, token: &str) -> bool {
        let Ok(bytes) = URL_SAFE.decode(token) else {
            return false;
        };
        if bytes.len() != LENGTH || bytes[0] != VERSION {
            return false;
        }
        let mut expiry = [0; 8];
        expiry.copy_from_slice(&bytes[1..9]);
        let expiry = i64::from_be_bytes(expiry);
        self.mac(instance, expiry).verify_slice(&bytes[9..]).is_ok() && now.unix_timestamp() < expiry
    }

    fn mac(&self, instance: &InstanceId, expiry: i64) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("hmac accepts a 32-byte key");
        mac.update(instance.as_str().as_bytes());
        mac.update(&expiry.to_be_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::TokenMint;
    use aws_types::ids::InstanceId;
    use time::{Duration, OffsetDateTime};

    #[test]
    fn a_token_is_bound_to_guest_time_and_key() {
        let (a, b) = (InstanceId::random(), InstanceId::random());
        let now = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000);
        let mint = TokenMint::new([7; 32]);
        let token = mint.issue(&a, now, 60);
        assert!(mint.is_valid(&a, now + Duration::seconds(59), &token));
        assert!(!mint.is_valid(&a, now + Duration::seconds(60), &token));
        assert!(!mint.is_valid(&b, now, &token));
        assert!(!TokenMint::new([8; 32]).is_valid(&a, now, &token));
        assert!(!mint.is_valid(&a, now, "nonsense"));
    }
}

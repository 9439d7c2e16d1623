//! Secrets in memory: wiped on drop, shown by nothing.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rand::RngCore;
use zeroize::Zeroizing;

/// A secret text, such as a secret access key. It has no `Display`, and its `Debug` shows nothing.
#[derive(Clone)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// A new secret access key: 240 random bits in 40 characters.
    pub fn random_access_key() -> Self {
        let mut bytes = Zeroizing::new([0_u8; 30]);
        rand::rng().fill_bytes(bytes.as_mut());
        Self(Zeroizing::new(BASE64.encode(bytes.as_ref())))
    }

    /// The secret in these bytes, if they are text.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes)
            .ok()
            .map(|text| Self(Zeroizing::new(text.to_owned())))
    }

    /// The secret itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

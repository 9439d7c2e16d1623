//! Sealing: AES-256-GCM bound to a place.

use std::fmt;
use std::sync::Arc;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use aws_types::AccountId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rand::RngCore;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 12;

/// Why a value cannot be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The cipher refused to seal: the text is longer than AES-GCM allows.
    #[error("the text is too long to be sealed")]
    TooLong,
    /// The sealed value is not of our form.
    #[error("the sealed value is malformed")]
    Malformed,
    /// Altered, moved here from another record, or sealed with another key.
    #[error("the sealed value does not open here")]
    Foreign,
}

/// A ciphertext with what is needed to open it, except the key and the place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Version of the key that sealed it.
    pub key_version: u32,
    /// Base64 of nonce and ciphertext.
    pub data: String,
}

/// Where a sealed value lives; the associated data of its ciphertext.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The record's table.
    pub table: &'static str,
    /// The record's id.
    pub id: &'a str,
    /// Owner; the system account for what belongs to the cloud.
    pub account: AccountId,
}

impl Place<'_> {
    fn associated_data(&self, key_version: u32) -> Vec<u8> {
        let mut data = Vec::with_capacity(64);
        for part in [
            self.table.as_bytes(),
            self.id.as_bytes(),
            &self.account.number().to_be_bytes(),
        ] {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part);
        }
        data.extend_from_slice(&key_version.to_be_bytes());
        data
    }
}

/// A key that seals. Wiped when its last copy is dropped.
#[derive(Clone)]
pub struct SealKey(Arc<Zeroizing<[u8; 32]>>);

impl SealKey {
    /// A new random key.
    pub fn random() -> Self {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        rand::rng().fill_bytes(bytes.as_mut());
        Self(Arc::new(bytes))
    }

    /// The key with these 32 bytes.
    pub(crate) fn from_secret(secret: &[u8]) -> Result<Self, SealError> {
        let bytes: [u8; 32] = secret.try_into().map_err(|_| SealError::Malformed)?;
        Ok(Self(Arc::new(Zeroizing::new(bytes))))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Seals a text for its place.
    ///
    /// # Errors
    /// [`SealError::TooLong`].
    pub fn seal(&self, key_version: u32, place: &Place<'_>, text: &[u8]) -> Result<Sealed, SealError> {
        let mut nonce = [0_u8; NONCE_BYTES];
        rand::rng().fill_bytes(&mut nonce);
        let aad = place.associated_data(key_version);
        let ciphertext = self
            .cipher()
            .encrypt(Nonce::from_slice(&nonce), Payload { msg: text, aad: &aad })
            .map_err(|_| SealError::TooLong)?;
        Ok(Sealed {
            key_version,
            data: BASE64.encode([nonce.as_slice(), &ciphertext].concat()),
        })
    }

    /// Opens a value in its place.
    ///
    /// # Errors
    /// [`SealError::Foreign`], [`SealError::Malformed`].
    pub fn open(&self, sealed: &Sealed, place: &Place<'_>) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let data = BASE64.decode(&sealed.data).map_err(|_| SealError::Malformed)?;
        let (nonce, ciphertext) = data.split_at_checked(NONCE_BYTES).ok_or(SealError::Malformed)?;
        let aad = place.associated_data(sealed.key_version);
        self.cipher()
            .decrypt(
                Nonce::from_slice(nonce),
                Payload {
                    msg: ciphertext,
                    aad: &aad,
                },
            )
            .map(Zeroizing::new)
            .map_err(|_| SealError::Foreign)
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(self.bytes().into())
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}

//! Making and reading SSH keys: what CreateKeyPair generates and what ImportKeyPair accepts (R85–R87).
//!
//! Pure but slow (RSA key generation takes a good part of a second), so callers run it on the blocking pool. Private keys
//! exist here only between generation and the answer; they are wiped when dropped and never logged. Fingerprints follow
//! AWS: a created RSA key by the SHA-1 of its PKCS#8 form, an imported one by the MD5 of its public form, Ed25519
//! by the SHA-256 of the OpenSSH blob.

mod ppk;

use crate::records::KeyType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::pkcs8::{DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use rsa::rand_core::OsRng;
use rsa::traits::PublicKeyParts as _;
use rsa::{BigUint, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use sha2::Sha256;
use ssh_key::public::{Ed25519PublicKey, KeyData, RsaPublicKey as SshRsaPublicKey};
use ssh_key::{Algorithm, Mpint, PrivateKey, PublicKey};
use thiserror::Error;
use zeroize::Zeroizing;

/// Bits of an RSA key that we make.
const RSA_BITS: usize = 2048;
/// Bits of RSA keys that may be imported.
const RSA_BITS_IMPORTED: [usize; 3] = [1024, 2048, 4096];
/// DER before the 32 bytes of an Ed25519 public key (RFC 8410).
const ED25519_SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Longest key material that is looked at.
const MATERIAL_BYTES_MAX: usize = 16 * 1024;

/// How the private key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateFormat {
    /// RSA as PKCS#1, Ed25519 as OpenSSH.
    Pem,
    /// PuTTY.
    Ppk,
}

/// The public half, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public {
    /// Algorithm.
    pub key_type: KeyType,
    /// AWS's fingerprint.
    pub fingerprint: String,
    /// OpenSSH line with the key pair's name as comment.
    pub line: String,
}

/// A key that was just made.
pub struct Created {
    /// What is stored.
    pub public: Public,
    /// What is answered once and forgotten.
    pub private: Zeroizing<String>,
}

/// A key could not be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// RSA refused.
    #[error("could not generate an RSA key")]
    Rsa(#[from] rsa::Error),
    /// The RSA key could not be written as PKCS#1.
    #[error("could not encode the RSA key as PKCS#1")]
    Pkcs1(#[from] rsa::pkcs1::Error),
    /// The RSA key could not be written as PKCS#8.
    #[error("could not encode the RSA key as PKCS#8")]
    Pkcs8(#[from] rsa::pkcs8::Error),
    /// The RSA key could not be written as SubjectPublicKeyInfo.
    #[error("could not encode the RSA public key")]
    Spki(#[from] rsa::pkcs8::spki::Error),
    /// OpenSSH encoding failed.
    #[error("could not encode the key in OpenSSH form")]
    Ssh(#[from] ssh_key::Error),
    /// The number of bytes of an mpint failed.
    #[error("the RSA key has no prime factors")]
    NoFactors,
}

/// The material is not a public key that AWS takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a public key in a supported format")]
pub struct UnknownFormat;

/// Makes a key pair.
///
/// # Errors
/// Only if the system's random numbers or an encoder fail.
pub fn create(key_type: KeyType, format: PrivateFormat, name: &str) -> Result<Created, CreateError> {
    match key_type {
        KeyType::Rsa => create_rsa(format, name),
        KeyType::Ed25519 => create_ed25519(format, name),
    }
}

fn create_rsa(format: PrivateFormat, name: &str) -> Result<Created, CreateError> {
    let key = RsaPrivateKey::new(&mut OsRng, RSA_BITS)?;
    let pkcs8 = key.to_pkcs8_der()?;
    let fingerprint = colon_hex(&Sha1::digest(pkcs8.as_bytes()));
    let public = ssh_rsa(&key.to_public_key())?;
    let private = match format {
        PrivateFormat::Pem => key.to_pkcs1_pem(LineEnding::LF)?,
        PrivateFormat::Ppk => ppk::rsa(&key, &public, name)?,
    };
    let line = openssh_line(public, name)?;
    Ok(Created {
        public: Public {
            key_type: KeyType::Rsa,
            fingerprint,
            line,
        },
        private,
    })
}

fn create_ed25519(format: PrivateFormat, name: &str) -> Result<Created, CreateError> {
    let mut key = PrivateKey::random(&mut OsRng, Algorithm::Ed25519)?;
    key.set_comment(name);
    let public = key.public_key().key_data().clone();
    let fingerprint = ed25519_fingerprint(&public)?;
    let private = match format {
        PrivateFormat::Pem => key.to_openssh(LineEnding::LF)?,
        PrivateFormat::Ppk => ppk::ed25519(&key, name)?,
    };
    let line = openssh_line(public, name)?;
    Ok(Created {
        public: Public {
            key_type: KeyType::Ed25519,
            fingerprint,
            line,
        },
        private,
    })
}

/// Reads a public key in OpenSSH, RFC 4716, or DER form (DER in PEM or bare base64, or raw).
///
/// # Errors
/// Anything else, and RSA keys of other sizes than 1024, 2048 and 4096 bits.
pub fn import(material: &[u8], name: &str) -> Result<Public, UnknownFormat> {
    if material.len() > MATERIAL_BYTES_MAX {
        return Err(UnknownFormat);
    }
    let key = match std::str::from_utf8(material) {
        Ok(text) => parse_text(text.trim())?,
        Err(_) => parse_der(material)?,
    };
    public_of(key, name)
        .map_err(|_| UnknownFormat)?
        .ok_or(UnknownFormat)
}

fn parse_text(text: &str) -> Result<KeyData, UnknownFormat> {
    if text.starts_with("ssh-") {
        let key = PublicKey::from_openssh(text).map_err(|_| UnknownFormat)?;
        return Ok(key.key_data().clone());
    }
    if text.starts_with("---- BEGIN SSH2 PUBLIC KEY ----") {
        let blob = decode_base64(&rfc4716_body(text))?;
        return PublicKey::from_bytes(&blob)
            .map(|key| key.key_data().clone())
            .map_err(|_| UnknownFormat);
    }
    let body: String = text
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .map(str::trim)
        .collect();
    let bytes = decode_base64(&body)?;
    // Clients that encode twice (the AWS CLI v1 given an OpenSSH file through `fileb` and base64) are met halfway.
    match std::str::from_utf8(&bytes) {
        Ok(inner) if inner.starts_with("ssh-") => parse_text(inner.trim()),
        _ => parse_der(&bytes),
    }
}

/// The base64 of an RFC 4716 file: no frame, no headers (which may continue over lines ending in a backslash).
fn rfc4716_body(text: &str) -> String {
    let mut body = String::new();
    let mut continues = false;
    for line in text.lines().map(str::trim) {
        let is_header = continues || line.contains(':');
        continues = is_header && line.ends_with('\\');
        if !is_header && !line.starts_with("----") {
            body.push_str(line);
        }
    }
    body
}

fn decode_base64(text: &str) -> Result<Vec<u8>, UnknownFormat> {
    STANDARD.decode(text).map_err(|_| UnknownFormat)
}

fn parse_der(der: &[u8]) -> Result<KeyData, UnknownFormat> {
    if let Some(key) = der.strip_prefix(&ED25519_SPKI_PREFIX) {
        let key: [u8; 32] = key.try_into().map_err(|_| UnknownFormat)?;
        return Ok(KeyData::Ed25519(Ed25519PublicKey(key)));
    }
    let key = RsaPublicKey::from_public_key_der(der).map_err(|_| UnknownFormat)?;
    ssh_rsa(&key).map_err(|_| UnknownFormat)
}

fn public_of(key: KeyData, name: &str) -> Result<Option<Public>, CreateError> {
    let (key_type, fingerprint) = match &key {
        KeyData::Rsa(rsa) => {
            let (Some(n), Some(e)) = (rsa.n.as_positive_bytes(), rsa.e.as_positive_bytes()) else {
                return Ok(None);
            };
            let rsa =
                RsaPublicKey::new_with_max_size(BigUint::from_bytes_be(n), BigUint::from_bytes_be(e), 4096)?;
            if !RSA_BITS_IMPORTED.contains(&rsa.n().bits()) {
                return Ok(None);
            }
            (
                KeyType::Rsa,
                colon_hex(&Md5::digest(rsa.to_public_key_der()?.as_bytes())),
            )
        }
        KeyData::Ed25519(_) => (KeyType::Ed25519, ed25519_fingerprint(&key)?),
        _ => return Ok(None),
    };
    Ok(Some(Public {
        key_type,
        fingerprint,
        line: openssh_line(key, name)?,
    }))
}

fn ssh_rsa(key: &RsaPublicKey) -> Result<KeyData, ssh_key::Error> {
    Ok(KeyData::Rsa(SshRsaPublicKey {
        e: Mpint::from_positive_bytes(&key.e().to_bytes_be())?,
        n: Mpint::from_positive_bytes(&key.n().to_bytes_be())?,
    }))
}

fn ed25519_fingerprint(key: &KeyData) -> Result<String, ssh_key::Error> {
    let blob = PublicKey::new(key.clone(), "").to_bytes()?;
    Ok(STANDARD.encode(Sha256::digest(blob)))
}

fn openssh_line(key: KeyData, name: &str) -> Result<String, ssh_key::Error> {
    PublicKey::new(key, name).to_openssh()
}

fn colon_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .join(":")
}

#[cfg(test)]
mod tests;

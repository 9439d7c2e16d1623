//! PuTTY's private key file, version 2, without passphrase.
//!
//! Source: "PuTTY User Manual, Appendix C: PPK file format". Version 2 because every PuTTY reads it. The MAC of an
//! unencrypted file proves only that it is intact: HMAC-SHA-1 keyed with SHA-1 of a constant.

use super::CreateError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use rsa::RsaPrivateKey;
use rsa::traits::PrivateKeyParts as _;
use sha1::{Digest as _, Sha1};
use ssh_key::private::KeypairData;
use ssh_key::public::KeyData;
use ssh_key::{PrivateKey, PublicKey};
use std::fmt::Write as _;
use zeroize::Zeroizing;

/// Characters of base64 in one line.
const LINE: usize = 64;

pub(super) fn rsa(
    key: &RsaPrivateKey,
    public: &KeyData,
    comment: &str,
) -> Result<Zeroizing<String>, CreateError> {
    let [p, q] = key.primes() else {
        return Err(CreateError::NoFactors);
    };
    let inverse = key.crt_coefficient().ok_or(CreateError::NoFactors)?;
    let mut private = Zeroizing::new(Vec::new());
    for number in [key.d(), p, q, &inverse] {
        put_mpint(&mut private, &Zeroizing::new(number.to_bytes_be()));
    }
    let blob = PublicKey::new(public.clone(), "").to_bytes()?;
    Ok(file("ssh-rsa", comment, &blob, &private))
}

pub(super) fn ed25519(key: &PrivateKey, comment: &str) -> Result<Zeroizing<String>, CreateError> {
    let KeypairData::Ed25519(pair) = key.key_data() else {
        return Err(CreateError::NoFactors);
    };
    // PuTTY stores the secret as a little-endian number; the bytes are those of the seed either way.
    let mut private = Zeroizing::new(Vec::new());
    put_string(&mut private, &Zeroizing::new(pair.private.to_bytes())[..]);
    let blob = key.public_key().to_bytes()?;
    Ok(file("ssh-ed25519", comment, &blob, &private))
}

fn file(algorithm: &str, comment: &str, public: &[u8], private: &[u8]) -> Zeroizing<String> {
    let encryption = "none";
    let mut signed = Zeroizing::new(Vec::new());
    for part in [
        algorithm.as_bytes(),
        encryption.as_bytes(),
        comment.as_bytes(),
        public,
        private,
    ] {
        put_string(&mut signed, part);
    }
    let key = Sha1::digest(b"putty-private-key-file-mac-key");
    let mut mac = Hmac::<Sha1>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(&signed);
    let mac = hex(&mac.finalize().into_bytes());

    let mut text = Zeroizing::new(String::new());
    let mut line = |name: &str, value: &str| {
        let _ = write!(text, "{name}: {value}\r\n");
    };
    line("PuTTY-User-Key-File-2", algorithm);
    line("Encryption", encryption);
    line("Comment", comment);
    put_lines(&mut text, "Public-Lines", public);
    put_lines(&mut text, "Private-Lines", private);
    let _ = write!(text, "Private-MAC: {mac}\r\n");
    text
}

fn put_lines(text: &mut String, name: &str, bytes: &[u8]) {
    let encoded = Zeroizing::new(STANDARD.encode(bytes));
    let _ = write!(text, "{name}: {}\r\n", encoded.len().div_ceil(LINE));
    for start in (0..encoded.len()).step_by(LINE) {
        let _ = write!(text, "{}\r\n", &encoded[start..encoded.len().min(start + LINE)]);
    }
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A positive number as SSH writes it: a zero byte first if the highest bit is set.
fn put_mpint(out: &mut Vec<u8>, number: &[u8]) {
    let mut bytes = Zeroizing::new(Vec::with_capacity(number.len() + 1));
    if number.first().is_some_and(|byte| byte & 0x80 != 0) {
        bytes.push(0);
    }
    bytes.extend_from_slice(number);
    put_string(out, &bytes);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

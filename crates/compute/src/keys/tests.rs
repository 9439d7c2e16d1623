//! Keys against OpenSSH and OpenSSL, where the machine has them, and against fixed vectors.

use super::{PrivateFormat, create, import};
use crate::records::KeyType;
use std::io::Write as _;
use std::process::{Command, Stdio};

fn run(program: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(input).ok()?;
    let output = child.wait_with_output().ok()?;
    assert!(output.status.success(), "{program} {arguments:?} failed");
    Some(output.stdout)
}

#[test]
fn a_created_rsa_key_has_the_fingerprint_openssl_computes() {
    let key = create(KeyType::Rsa, PrivateFormat::Pem, "web").expect("created");
    assert!(key.private.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
    assert!(key.public.line.starts_with("ssh-rsa ") && key.public.line.ends_with(" web"));
    let Some(der) = run(
        "openssl",
        &["pkcs8", "-inform", "PEM", "-outform", "DER", "-topk8", "-nocrypt"],
        key.private.as_bytes(),
    ) else {
        return;
    };
    let digest = run("openssl", &["sha1", "-c"], &der).expect("openssl was there a moment ago");
    let digest = String::from_utf8(digest).expect("text");
    assert_eq!(
        digest.trim().rsplit(' ').next(),
        Some(key.public.fingerprint.as_str())
    );
}

#[test]
fn an_imported_rsa_key_has_the_fingerprint_openssl_computes() {
    let made = create(KeyType::Rsa, PrivateFormat::Pem, "web").expect("created");
    let imported = import(made.public.line.as_bytes(), "other").expect("imported");
    assert_eq!(imported.key_type, KeyType::Rsa);
    assert!(imported.line.ends_with(" other"));
    let Some(der) = run(
        "openssl",
        &["rsa", "-pubout", "-outform", "DER"],
        made.private.as_bytes(),
    ) else {
        return;
    };
    let digest = run("openssl", &["md5", "-c"], &der).expect("openssl was there a moment ago");
    let digest = String::from_utf8(digest).expect("text");
    assert_eq!(
        digest.trim().rsplit(' ').next(),
        Some(imported.fingerprint.as_str())
    );
    assert_eq!(import(&der, "other").expect("raw DER"), imported);
}

#[test]
fn every_form_of_one_key_is_the_same_key() {
    let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE3ZRuQtbWDC0PKA6eJDQoLWuC4AMT5u9t0ZTzT9hF4J me@host";
    let blob = line.split(' ').nth(1).expect("blob");
    let rfc4716 = format!(
        "---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"a \\\nlong one\"\n{}\n{}\n---- END SSH2 PUBLIC KEY ----\n",
        &blob[..40],
        &blob[40..]
    );
    let from_line = import(line.as_bytes(), "k").expect("OpenSSH");
    assert_eq!(import(rfc4716.as_bytes(), "k").expect("RFC 4716"), from_line);
    assert_eq!(from_line.key_type, KeyType::Ed25519);
    assert_eq!(from_line.fingerprint.len(), 44);
    assert!(from_line.fingerprint.ends_with('='));
}

#[test]
fn what_is_no_public_key_is_refused() {
    for bad in [
        "",
        "hello",
        "ssh-rsa",
        "ssh-rsa AAAA",
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY=",
        "aGVsbG8=",
    ] {
        assert!(import(bad.as_bytes(), "k").is_err(), "{bad:?}");
    }
    assert!(import(&[0xff; 100], "k").is_err());
    assert!(import(&vec![b'a'; 20_000], "k").is_err());
}

#[test]
fn a_created_ed25519_key_is_read_by_openssh() {
    let key = create(KeyType::Ed25519, PrivateFormat::Pem, "web").expect("created");
    assert!(key.private.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----"));
    let imported = import(key.public.line.as_bytes(), "web").expect("imported");
    assert_eq!(imported, key.public);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("key");
    std::fs::write(&path, key.private.as_bytes()).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).expect("private");
    let Some(out) = run("ssh-keygen", &["-y", "-f", &path.to_string_lossy()], b"") else {
        return;
    };
    let line = String::from_utf8(out).expect("text");
    assert!(
        key.public
            .line
            .starts_with(line.trim().rsplit_once(' ').map_or(line.trim(), |(key, _)| key))
    );
}

#[test]
fn a_putty_file_has_its_parts() {
    for (kind, name) in [(KeyType::Rsa, "ssh-rsa"), (KeyType::Ed25519, "ssh-ed25519")] {
        let key = create(kind, PrivateFormat::Ppk, "web").expect("created");
        assert!(key.private.starts_with(&format!(
            "PuTTY-User-Key-File-2: {name}\r\nEncryption: none\r\nComment: web\r\n"
        )));
        let mac = key.private.trim_end().rsplit(' ').next().expect("a MAC");
        assert_eq!(mac.len(), 40);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key.ppk");
        std::fs::write(&path, key.private.as_bytes()).expect("written");
        if let Some(out) = run("puttygen", &["-L", &path.to_string_lossy()], b"") {
            let line = String::from_utf8(out).expect("text");
            assert_eq!(line.split(' ').nth(1), key.public.line.split(' ').nth(1));
        }
    }
}

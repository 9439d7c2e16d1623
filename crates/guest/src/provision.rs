//! What makes a booted system this instance: network, host name, keys, SSH server, user data. Runs as a process
//! of its own under [`crate::init`], so that its children are its own to wait for; it stays to keep leases and the
//! SSH server alive.
//!
//! User data that begins with `#!` runs once per instance id: the fact is recorded on the root disk before the
//! script starts, so that a script that crashes its machine is not started for ever. It runs after `ready`, because
//! it may take as long as it likes.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, park, sleep};

use crate::console::{say, say_ready};
use crate::error::{GuestError, chain, file, kernel};
use crate::limits::RESTART_AFTER;
use crate::metadata::Metadata;
use crate::network;

const STATE: &str = "/var/lib/guest";
const HOST_KEY: &str = "/etc/dropbear/dropbear_ed25519_host_key";

/// Who may log in: home, user and group id.
const LOGINS: [(&str, u32); 2] = [("/root", 0), ("/home/ec2-user", 1000)];

pub fn run() -> Result<(), GuestError> {
    thread::spawn(serve_ssh);
    network::start()?;
    let metadata = Metadata::connect().and_then(|metadata| {
        let id = metadata
            .find_text("/latest/meta-data/instance-id")?
            .unwrap_or_default();
        install(&metadata)?;
        Ok((metadata, id))
    });
    match metadata {
        Ok((metadata, id)) => {
            say_ready(&id);
            if let Err(error) = run_user_data(&metadata, &id) {
                say(&format!("user data was not run: {}", chain(&error)));
            }
        }
        // A refusal (the endpoint is switched off) leaves a plain machine.
        Err(error) => {
            say(&format!("going on without metadata: {}", chain(&error)));
            say_ready("-");
        }
    }
    loop {
        park();
    }
}

/// Host name and keys, each told apart when it fails.
fn install(metadata: &Metadata) -> Result<(), GuestError> {
    if let Some(name) = metadata.find_text("/latest/meta-data/local-hostname")? {
        let short = name.split('.').next().unwrap_or_default();
        rustix::system::sethostname(short.as_bytes()).map_err(kernel("setting the host name"))?;
        fs::write("/etc/hostname", format!("{short}\n")).map_err(file("writing", "/etc/hostname"))?;
        let hosts = format!("127.0.0.1 localhost\n127.0.1.1 {name} {short}\n");
        fs::write("/etc/hosts", hosts).map_err(file("writing", "/etc/hosts"))?;
    }
    if let Some(key) = metadata.find_text("/latest/meta-data/public-keys/0/openssh-key")? {
        for (home, owner) in LOGINS {
            authorize(Path::new(home), owner, &key)?;
        }
    }
    Ok(())
}

/// Adds `key` to the keys of a login, once.
fn authorize(home: &Path, owner: u32, key: &str) -> Result<(), GuestError> {
    let dir = home.join(".ssh");
    let path = dir.join("authorized_keys");
    let present = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(file("reading", path)(error)),
    };
    if present.lines().any(|line| line.trim() == key) {
        return Ok(());
    }
    fs::create_dir_all(&dir).map_err(file("making", &dir))?;
    let mut text = present;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(key);
    text.push('\n');
    // Written beside and moved, so that a power cut leaves the old keys or the new ones.
    let new = dir.join("authorized_keys.new");
    let written = fs::write(&new, text)
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o600)))
        .and_then(|()| fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)))
        .and_then(|()| chown(&new, Some(owner), Some(owner)))
        .and_then(|()| chown(&dir, Some(owner), Some(owner)))
        .and_then(|()| fs::rename(&new, &path));
    written.map_err(file("writing", path))
}

/// Keeps dropbear running. The host key is made once and stays on the root disk.
fn serve_ssh() {
    if !Path::new(HOST_KEY).exists()
        && let Err(error) = make_host_key()
    {
        say(&format!("there is no SSH server: {}", chain(&error)));
        return;
    }
    loop {
        // No passwords; in the foreground, so that its end is seen.
        let started = Command::new("dropbear")
            .args(["-F", "-s", "-r", HOST_KEY])
            .stderr(Stdio::null())
            .status();
        match started {
            Ok(status) => say(&format!("the SSH server ended ({status})")),
            Err(error) => {
                say(&format!("there is no SSH server: {error}"));
                return;
            }
        }
        sleep(RESTART_AFTER);
    }
}

fn make_host_key() -> Result<(), GuestError> {
    let new = format!("{HOST_KEY}.new");
    let _left_from_a_power_cut = fs::remove_file(&new);
    let made = Command::new("dropbearkey")
        .args(["-t", "ed25519", "-f", &new])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .and_then(|status| {
            if status.success() {
                Ok(())
            } else {
                Err(io::Error::other(status.to_string()))
            }
        });
    made.map_err(|source| GuestError::Program {
        program: "dropbearkey",
        source,
    })?;
    fs::rename(&new, HOST_KEY).map_err(file("making", HOST_KEY))
}

fn run_user_data(metadata: &Metadata, instance: &str) -> Result<(), GuestError> {
    let Some(script) = metadata
        .find("/latest/user-data")?
        .filter(|data| data.starts_with(b"#!"))
    else {
        return Ok(());
    };
    let Some(path) = claim(Path::new(STATE), instance, &script)? else {
        return Ok(());
    };
    say("user data started");
    let log = PathBuf::from("/var/log/user-data.log");
    let output = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&log);
    let output = output.map_err(file("opening", &log))?;
    let errors = output.try_clone().map_err(file("opening", &log))?;
    let status = Command::new(&path)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .current_dir("/")
        .status();
    let status = status.map_err(|source| GuestError::Program {
        program: "the user data",
        source,
    })?;
    match status.code() {
        Some(code) => say(&format!("user data finished ({code})")),
        None => say(&format!("user data finished ({status})")),
    }
    Ok(())
}

/// Stores the script and records that it is run for this instance; `None` if it was before. The record is on the
/// disk before this returns.
fn claim(state: &Path, instance: &str, script: &[u8]) -> Result<Option<PathBuf>, GuestError> {
    let name: String = instance
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    let dir = state.join(format!("instance-{name}"));
    let path = dir.join("user-data");
    if path.exists() {
        return Ok(None);
    }
    fs::create_dir_all(&dir).map_err(file("making", &dir))?;
    let new = dir.join("user-data.new");
    let write = || -> io::Result<()> {
        let mut script_file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o700)
            .open(&new)?;
        script_file.write_all(script)?;
        script_file.sync_all()?;
        drop(script_file);
        fs::rename(&new, &path)?;
        fs::File::open(&dir)?.sync_all()
    };
    write().map_err(file("storing", &path))?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{authorize, claim};

    #[test]
    fn user_data_is_claimed_once_an_instance() {
        let state = tempfile::tempdir().unwrap();
        let path = claim(state.path(), "i-1", b"#!/bin/sh\n")
            .unwrap()
            .expect("the first time");
        assert_eq!(fs::read(&path).unwrap(), b"#!/bin/sh\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(
            claim(state.path(), "i-1", b"#!/bin/other\n").unwrap(),
            None,
            "a reboot"
        );
        assert!(
            claim(state.path(), "i-2", b"#!/bin/sh\n").unwrap().is_some(),
            "a clone is another instance"
        );
        let outside = claim(state.path(), "../../x", b"#!").unwrap().unwrap();
        assert!(outside.starts_with(state.path()) && !outside.to_string_lossy().contains(".."));
    }

    #[test]
    fn keys_are_added_once_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let owner = rustix::process::getuid().as_raw();
        authorize(home.path(), owner, "ssh-ed25519 AAAA one").unwrap();
        authorize(home.path(), owner, "ssh-ed25519 AAAA one").unwrap();
        let path = home.path().join(".ssh/authorized_keys");
        fs::write(&path, "ssh-rsa BBBB by hand").unwrap();
        authorize(home.path(), owner, "ssh-ed25519 AAAA one").unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "ssh-rsa BBBB by hand\nssh-ed25519 AAAA one\n"
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

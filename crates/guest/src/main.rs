//! The in-guest agent of the tiny image: one small static binary, and the only program of ours inside it.
//!
//! ```text
//! kernel ─ /init (initramfs)   [early]: modules, find and grow the root partition, switch to it
//!          └─ guest init       [init]: process 1 of the real root: mounts, reaping, power button, power-off
//!             └─ guest provision [provision]: DHCP, metadata, host name, keys, SSH server, user data, leases
//! ```
//!
//! Also a command for scripts inside: `guest httpd --port 80 --dir /srv` serves files, `guest poweroff`,
//! `guest reboot`, `guest panic`, `guest metadata PATH`.
//!
//! Built static and small, with no async runtime:
//!
//! ```text
//! RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" \
//!     cargo build -p guest --profile guest --target x86_64-unknown-linux-gnu
//! ```
//!
//! `machine-image` puts it into the image. It knows the metadata service's addresses and nothing else of ours.

mod console;
mod dhcp;
mod early;
mod error;
mod growth;
mod httpd;
mod init;
mod limits;
mod metadata;
mod network;
mod power;
mod provision;
mod sys;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use error::GuestError;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if arguments.first().is_some_and(|program| program == "/init") {
        return report(early::run());
    }
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    report(match words.as_slice() {
        ["init"] => init::run(),
        ["provision"] => provision::run(),
        ["poweroff"] => power::ask(power::Ending::PowerOff),
        ["reboot"] => power::ask(power::Ending::Reboot),
        ["panic"] => power::panic_kernel(),
        ["metadata", path] => metadata::print(path),
        ["httpd", options @ ..] => match serving(options) {
            Some((port, dir)) => httpd::serve(port, &dir),
            None => return usage(),
        },
        _ => return usage(),
    })
}

fn report(result: Result<(), GuestError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: {}", error::chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: guest httpd [--port PORT] [--dir DIR] | metadata PATH | poweroff | reboot | panic");
    ExitCode::from(2)
}

/// `--port` (80) and `--dir` (the current directory) in any order.
fn serving(options: &[&str]) -> Option<(u16, PathBuf)> {
    let (mut port, mut dir) = (80, PathBuf::from("."));
    for pair in options.chunks(2) {
        match pair {
            ["--port", number] => port = number.parse().ok()?,
            ["--dir", path] => dir = PathBuf::from(path),
            _ => return None,
        }
    }
    Some((port, dir))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::serving;

    #[test]
    fn serving_options() {
        assert_eq!(serving(&[]), Some((80, PathBuf::from("."))));
        assert_eq!(
            serving(&["--dir", "/srv", "--port", "8080"]),
            Some((8080, PathBuf::from("/srv")))
        );
        for bad in [
            &["--port"][..],
            &["--port", "x"],
            &["--port", "70000"],
            &["--root", "/"],
            &["80"],
        ] {
            assert_eq!(serving(bad), None, "{bad:?}");
        }
    }
}

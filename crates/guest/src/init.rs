//! Process 1 of the real root. It mounts, starts [`crate::provision`] as a process of its own and restarts it if it
//! fails, collects every orphan, and ends the machine when a signal or the power button asks for it. It does
//! nothing that can fail for long: process 1 must not die.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::thread::{self, sleep};

use crate::console::say;
use crate::early::mount_new;
use crate::error::{GuestError, chain, file};
use crate::limits::RESTART_AFTER;
use crate::power::{self, Ending};
use crate::sys;

pub fn run() -> Result<(), GuestError> {
    // Before any thread exists, so that all of them inherit the mask and the loop below gets every signal.
    sys::block_signals();
    prepare();
    thread::spawn(power::watch_button);
    let mut provision = start_provision();
    loop {
        let signal = sys::wait_signal();
        if let Some(ending) = Ending::from_signal(signal) {
            // Only a kernel that refuses comes back; then the machine just goes on.
            say(&chain(&power::end(ending)));
        }
        while let sys::Reaped::Child { pid, succeeded } = sys::reap_one() {
            if Some(pid) == provision && !succeeded {
                sleep(RESTART_AFTER);
                provision = start_provision();
            }
        }
    }
}

fn start_provision() -> Option<i32> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("provision")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    sys::unblock_signals_in(&mut command);
    match command.spawn() {
        Ok(child) => i32::try_from(child.id()).ok(),
        Err(error) => {
            say(&format!("provisioning cannot be started: {error}"));
            None
        }
    }
}

/// The file systems of a running system. What fails is told and does not stop the boot.
fn prepare() {
    let mounts = [
        ("proc", "/proc", "proc"),
        ("tmpfs", "/run", "tmpfs"),
        ("tmpfs", "/tmp", "tmpfs"),
        ("devpts", "/dev/pts", "devpts"),
    ];
    for (source, target, kind) in mounts {
        if let Err(error) = mount_new(source, target, kind) {
            say(&chain(&error));
        }
    }
    let opened_to_all = fs::set_permissions("/tmp", fs::Permissions::from_mode(0o1777));
    if let Err(error) = opened_to_all.map_err(file("opening", "/tmp")) {
        say(&chain(&error));
    }
    for (link, target) in [("/dev/fd", "/proc/self/fd"), ("/dev/stdin", "/proc/self/fd/0")] {
        let _there_already = symlink(target, link);
    }
    // The kernel's own lines stay in its log; from here on the console is for ours and the user's.
    let _console_stays_loud = fs::write("/proc/sys/kernel/printk", "4");
}

//! Ending: asking process 1 for it, and what process 1 then does. Signals are those of busybox's `poweroff`,
//! `reboot` and `halt`, so these work inside too.

use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::path::PathBuf;
use std::thread::{self, sleep};
use std::time::Instant;

use rustix::mount::{MountFlags, mount_remount};
use rustix::process::{Pid, Signal, kill_process};
use rustix::system::{RebootCommand, reboot};

use crate::console::say;
use crate::error::{GuestError, kernel};
use crate::limits::{LOOK_AGAIN, TERM_GRACE};
use crate::sys;

/// How the machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    PowerOff,
    Reboot,
}

impl Ending {
    /// The signal to process 1 that asks for it.
    const fn signal(self) -> Signal {
        match self {
            Self::PowerOff => Signal::USR2,
            Self::Reboot => Signal::TERM,
        }
    }

    /// What a signal to process 1 asks for. Halting is powering off: nobody stands at this machine.
    pub const fn from_signal(signal: i32) -> Option<Self> {
        match signal {
            libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGPWR => Some(Self::PowerOff),
            libc::SIGTERM | libc::SIGINT => Some(Self::Reboot),
            _ => None,
        }
    }
}

/// Asks process 1.
pub fn ask(ending: Ending) -> Result<(), GuestError> {
    kill_process(Pid::INIT, ending.signal()).map_err(kernel("asking process 1"))
}

/// Crashes the kernel on purpose, for tests of whoever watches.
pub fn panic_kernel() -> Result<(), GuestError> {
    fs::write("/proc/sysrq-trigger", "c").map_err(crate::error::file("writing", "/proc/sysrq-trigger"))
}

/// Ends the machine: everybody is told to end, then made to, then the disk is made clean. Returns only if the
/// kernel refuses.
pub fn end(ending: Ending) -> GuestError {
    say(if ending == Ending::PowerOff {
        "powering off"
    } else {
        "rebooting"
    });
    sys::signal_everybody(libc::SIGTERM);
    let started = Instant::now();
    while sys::reap_one() != sys::Reaped::NoChild && started.elapsed() < TERM_GRACE {
        sleep(LOOK_AGAIN);
    }
    sys::signal_everybody(libc::SIGKILL);
    rustix::fs::sync();
    if let Err(errno) = mount_remount("/", MountFlags::RDONLY, c"") {
        say(&format!("the root stays writable: {errno}"));
    }
    let command = match ending {
        Ending::PowerOff => RebootCommand::PowerOff,
        Ending::Reboot => RebootCommand::Restart,
    };
    match reboot(command) {
        Ok(()) => GuestError::Kernel {
            attempt: "ending the machine",
            source: std::io::ErrorKind::Other.into(),
        },
        Err(errno) => GuestError::Kernel {
            attempt: "ending the machine",
            source: errno.into(),
        },
    }
}

/// Watches every input device for the power button, for ever, and asks process 1 to power off.
pub fn watch_button() {
    let devices = fs::read_dir("/dev/input")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    for path in devices.filter(|path| path.to_string_lossy().contains("/event")) {
        thread::spawn(move || watch_device(&path));
    }
}

fn watch_device(path: &PathBuf) {
    let Ok(mut device) = OpenOptions::new().read(true).open(path) else {
        return;
    };
    let mut event = [0; sys::INPUT_EVENT_BYTES];
    while device.read_exact(&mut event).is_ok() {
        if sys::is_power_button(&event) {
            say("power button");
            if let Err(error) = ask(Ending::PowerOff) {
                say(&crate::error::chain(&error));
            }
        }
    }
}

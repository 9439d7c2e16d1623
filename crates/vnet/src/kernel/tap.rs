//! Tap devices: made persistent and down, attached to by one descriptor at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::error::VnetError;
use crate::sys;

fn open(name: &str) -> io::Result<File> {
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    sys::tun_attach(tun.as_fd(), name)?;
    Ok(tun)
}

/// Makes the tap in the calling thread's namespace.
pub(crate) fn make(name: &str) -> Result<(), VnetError> {
    let made = open(name).and_then(|tun| sys::tun_persist(tun.as_fd()));
    made.map_err(|source| VnetError::Tap {
        attempt: "make a tap",
        device: name.to_owned(),
        source,
    })
}

/// Attaches to a tap that exists in the calling thread's namespace.
pub(crate) fn attach(name: &str) -> Result<OwnedFd, VnetError> {
    match open(name) {
        Ok(tun) => Ok(tun.into()),
        Err(source) if source.raw_os_error() == Some(libc::EBUSY) => Err(VnetError::TapBusy {
            device: name.to_owned(),
        }),
        Err(source) => Err(VnetError::Tap {
            attempt: "attach to a tap",
            device: name.to_owned(),
            source,
        }),
    }
}

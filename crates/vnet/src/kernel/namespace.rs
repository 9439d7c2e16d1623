//! Network namespaces that are kept by a bind mount under `/run/netns`, where `ip netns` sees them too.
//!
//! A namespace is recognised by its inode, not by its name: after a reboot the name may be there and the namespace
//! is another one. [`Namespace::run`] works on a thread of its own that ends with the call, so no thread of ours
//! ever stays in a foreign namespace.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::LinkNameSpaceType;

use crate::error::VnetError;
use crate::sys;

/// Where named namespaces are.
pub(crate) const DIRECTORY: &str = "/run/netns";

/// A namespace that is held open.
#[derive(Debug, Clone)]
pub(crate) struct Namespace {
    name: String,
    file: Arc<File>,
    inode: u64,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(DIRECTORY).join(name)
}

fn failed(attempt: &'static str, name: &str) -> impl FnOnce(io::Error) -> VnetError {
    let name = name.to_owned();
    move |source| VnetError::Namespace {
        attempt,
        name,
        source,
    }
}

impl Namespace {
    /// Opens the namespace of this name; none if there is none.
    pub(crate) fn find(name: &str) -> Result<Option<Namespace>, VnetError> {
        let file = match File::open(path(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", name)(error)),
        };
        let on_nsfs = rustix::fs::fstatfs(&file).map_err(|e| failed("inspect", name)(e.into()))?;
        if on_nsfs.f_type as u64 != libc::NSFS_MAGIC as u64 {
            return Ok(None);
        }
        let inode = file.metadata().map_err(failed("inspect", name))?.ino();
        Ok(Some(Namespace {
            name: name.to_owned(),
            file: Arc::new(file),
            inode,
        }))
    }

    /// Opens the namespace of this name, which is made if there is none.
    pub(crate) fn ensure(name: &str) -> Result<Namespace, VnetError> {
        if let Some(namespace) = Namespace::find(name)? {
            return Ok(namespace);
        }
        ensure_directory().map_err(failed("prepare the directory of", name))?;
        let target = path(name);
        File::create(&target).map_err(failed("make the mount point of", name))?;
        let make = || -> io::Result<()> {
            sys::unshare_network()?;
            rustix::mount::mount_bind("/proc/thread-self/ns/net", &target)?;
            Ok(())
        };
        let made = std::thread::scope(|scope| scope.spawn(make).join());
        made.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            .map_err(failed("make", name))?;
        Namespace::find(name)?.ok_or_else(|| failed("open", name)(io::ErrorKind::NotFound.into()))
    }

    /// Its name under `/run/netns`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What identifies it until the next boot.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Runs `work` on a new thread inside the namespace and waits for it.
    pub(crate) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, VnetError> + Send,
    ) -> Result<T, VnetError> {
        run_in(self.as_fd(), &self.name, work)
    }

    /// Takes the name away. The namespace itself ends with its last socket and descriptor.
    pub(crate) fn remove(name: &str) -> Result<(), VnetError> {
        let target = path(name);
        match rustix::mount::unmount(&target, UnmountFlags::DETACH) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(failed("unmount", name)(error.into())),
        }
        match std::fs::remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", name)(error)),
            _ => Ok(()),
        }
    }

    /// The names that begin so.
    pub(crate) fn list(prefix: &str) -> Result<Vec<String>, VnetError> {
        let entries = match std::fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("list", prefix)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry
                .map_err(failed("list", prefix))?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if name.starts_with(prefix) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Runs `work` on a new thread inside a namespace and waits for it.
pub(crate) fn run_in<T: Send>(
    namespace: BorrowedFd<'_>,
    name: &str,
    work: impl FnOnce() -> Result<T, VnetError> + Send,
) -> Result<T, VnetError> {
    let inside = || {
        rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
            .map_err(|e| failed("enter", name)(e.into()))?;
        work()
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes `/run/netns` a shared mount of its own, as `ip netns` does: whoever makes it first, both agree.
fn ensure_directory() -> io::Result<()> {
    std::fs::create_dir_all(DIRECTORY)?;
    let share = || rustix::mount::mount_change(DIRECTORY, MountPropagationFlags::SHARED);
    match share() {
        Err(rustix::io::Errno::INVAL) => {
            rustix::mount::mount(DIRECTORY, DIRECTORY, c"none", MountFlags::BIND, None)?;
            Ok(share()?)
        }
        other => Ok(other?),
    }
}

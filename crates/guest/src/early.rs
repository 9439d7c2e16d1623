//! The initramfs stage: from the kernel's first process to the real root. Loads the modules that the builder put
//! in order under `/modules` (those of the root first, the others beside the mounting), finds the root partition by its label, grows it to the end of its disk, mounts it
//! and becomes `guest init` there. Every step counts: this is part of each boot.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, sleep};
use std::time::Instant;

use rustix::mount::{MountFlags, mount, mount_move};

use crate::error::{GuestError, file, kernel};
use crate::growth;
use crate::limits::{LOOK_AGAIN, ROOT_WAIT_MAX};

/// File system label of the root partition; `machine-image` makes it.
const ROOT_LABEL: &str = "spinifex-root";

pub fn run() -> Result<(), GuestError> {
    mount_new("devtmpfs", "/dev", "devtmpfs")?;
    mount_new("sysfs", "/sys", "sysfs")?;
    load_modules(Path::new("/modules/root"))?;
    let others = thread::spawn(|| load_modules(Path::new("/modules/others")));
    let root = fetch_root()?;
    if let Err(error) = growth::grow_partition(&root) {
        eprintln!(
            "guest: the root partition stays as it is: {}",
            crate::error::chain(&error)
        );
    }
    mount(&root, "/root", "ext4", MountFlags::NOATIME, None)
        .map_err(kernel("mounting the root partition"))?;
    if let Err(error) = growth::grow_file_system(&root, Path::new("/root")) {
        eprintln!(
            "guest: the root file system stays as it is: {}",
            crate::error::chain(&error)
        );
    }
    // A module that is missing costs a device, not the boot.
    if let Ok(Err(error)) = others.join() {
        eprintln!("guest: {}", crate::error::chain(&error));
    }
    mount_move("/dev", "/root/dev").map_err(kernel("moving /dev to the root"))?;
    mount_move("/sys", "/root/sys").map_err(kernel("moving /sys to the root"))?;
    // The initramfs is memory; give back what is in it before it is hidden.
    let _only_memory = fs::remove_dir_all("/modules");
    rustix::process::chdir("/root").map_err(kernel("entering the root"))?;
    mount_move(".", "/").map_err(kernel("making the root partition the root"))?;
    rustix::process::chroot(".").map_err(kernel("changing the root"))?;
    rustix::process::chdir("/").map_err(kernel("entering the new root"))?;
    let source = Command::new("/sbin/guest").arg("init").exec();
    Err(GuestError::Program {
        program: "/sbin/guest init",
        source,
    })
}

pub fn mount_new(source: &str, target: &str, kind: &str) -> Result<(), GuestError> {
    fs::create_dir_all(target).map_err(file("making", target))?;
    mount(source, target, kind, MountFlags::NOSUID, None).map_err(kernel("mounting a kernel file system"))
}

/// Loads every file of `dir` in name order. A module that the kernel has already is no error; another refusal is
/// told and passed over, because the boot may well work without it.
fn load_modules(dir: &Path) -> Result<(), GuestError> {
    let mut modules: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(file("listing", dir))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    modules.sort();
    for path in modules {
        let module = File::open(&path).map_err(file("opening", &path))?;
        match rustix::system::finit_module(&module, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => eprintln!("guest: loading {path:?}: {errno}"),
        }
    }
    Ok(())
}

fn fetch_root() -> Result<PathBuf, GuestError> {
    let started = Instant::now();
    while started.elapsed() < ROOT_WAIT_MAX {
        if let Some(root) = find_root() {
            return Ok(root);
        }
        sleep(LOOK_AGAIN);
    }
    Err(GuestError::NoRoot {
        label: ROOT_LABEL,
        waited: ROOT_WAIT_MAX,
    })
}

/// The first partition in the kernel's own order (which is that of the PCI slots) with the root's label.
fn find_root() -> Option<PathBuf> {
    let mut partitions: Vec<PathBuf> = fs::read_dir("/sys/class/block")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("partition").exists())
        .filter_map(|path| Some(Path::new("/dev").join(path.file_name()?)))
        .collect();
    partitions.sort();
    partitions
        .into_iter()
        .find(|device| find_label(device).as_deref() == Some(ROOT_LABEL))
}

/// Label in an ext4 superblock (which starts at 1024: magic at 0x38, label of 16 bytes at 0x78).
fn find_label(device: &Path) -> Option<String> {
    let mut superblock = [0; 0x88];
    File::open(device)
        .ok()?
        .read_exact_at(&mut superblock, 1024)
        .ok()?;
    if superblock[0x38..0x3a] != [0x53, 0xef] {
        return None;
    }
    let label = superblock[0x78..0x88].split(|&byte| byte == 0).next()?;
    String::from_utf8(label.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::find_label;

    #[test]
    fn the_label_is_read_from_the_superblock_only() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        let mut bytes = vec![0; 4096];
        bytes[1024 + 0x78..1024 + 0x78 + 13].copy_from_slice(b"spinifex-root");
        std::fs::write(&disk, &bytes).unwrap();
        assert_eq!(find_label(&disk), None, "no magic");
        bytes[1024 + 0x38] = 0x53;
        bytes[1024 + 0x39] = 0xef;
        std::fs::write(&disk, &bytes).unwrap();
        assert_eq!(find_label(&disk).as_deref(), Some("spinifex-root"));
        std::fs::write(&disk, &bytes[..1024]).unwrap();
        assert_eq!(find_label(&disk), None, "too short");
    }
}

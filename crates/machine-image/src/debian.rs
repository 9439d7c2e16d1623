//! A Debian 12 as clouds offer it: mmdebstrap's smallest variant with the cloud kernel, cloud-init and OpenSSH. The
//! configuration is in `images/debian-12/`.
//!
//! ```text
//! GPT
//! 1  FAT32 "ESP"   systemd-boot as the removable-media loader, kernel, initramfs
//! 2  ext4 "root"   last, so that cloud-init's growpart can grow it
//! ```
//!
//! File systems are made in place in the disk's file (`mke2fs -d -E offset`, mtools with an offset), so nothing is
//! mounted and no loop device is needed; only mmdebstrap itself wants root for its chroot.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use crate::error::{ImageError, file};
use crate::limits::{BOOTSTRAP_MAX, DEBIAN_DISK_BYTES, DEBIAN_ESP_BYTES, TOOL_MAX};
use crate::output::{BootMode, Built, Output};
use crate::progress::{Steps, Watcher};
use crate::tool::{
    DEBIAN_KEYRING, MCOPY, MKE2FS, MKFS_VFAT, MMD, MMDEBSTRAP, Run, SFDISK, require, require_root,
};

const SUITE: &str = "bookworm";
const ESP_START: u64 = 1 << 20;
const ROOT_START: u64 = ESP_START + DEBIAN_ESP_BYTES;
/// The backup of the partition table and its alignment take the last MiB.
const ROOT_BYTES: u64 = DEBIAN_DISK_BYTES - ROOT_START - (1 << 20);

const PACKAGES: [&str; 24] = [
    "linux-image-cloud-amd64",
    "systemd-boot-efi",
    "initramfs-tools",
    "zstd",
    "systemd-sysv",
    "systemd-resolved",
    "libpam-systemd",
    "dbus",
    "udev",
    "kmod",
    "cloud-init",
    "cloud-guest-utils",
    "fdisk",
    "e2fsprogs",
    "dosfstools",
    "openssh-server",
    "sudo",
    "netbase",
    "iproute2",
    "iputils-ping",
    "ca-certificates",
    "curl",
    "less",
    "procps",
];
/// What these come to with all that they need; only the progress bar counts on it.
const PACKAGES_EXPECTED: u64 = 225;

/// Where the files of `images/debian-12/` go, with their modes.
const FILES: [(&str, u32, &str); 5] = [
    (
        "etc/cloud/cloud.cfg.d/10_spinifex.cfg",
        0o644,
        include_str!("../../../images/debian-12/cloud.cfg"),
    ),
    (
        "etc/systemd/network/80-ethernet.network",
        0o644,
        include_str!("../../../images/debian-12/ethernet.network"),
    ),
    (
        "etc/kernel/postinst.d/zz-spinifex-esp",
        0o755,
        include_str!("../../../images/debian-12/esp-hook"),
    ),
    (
        "etc/initramfs/post-update.d/spinifex-esp",
        0o755,
        include_str!("../../../images/debian-12/esp-hook"),
    ),
    (
        "etc/fstab",
        0o644,
        include_str!("../../../images/debian-12/fstab"),
    ),
];

/// What to build.
#[derive(Clone, Debug)]
pub struct DebianRequest {
    /// The raw disk to make.
    pub out: PathBuf,
    /// Where the new system is put together; needs about 1 GiB. Emptied again.
    pub work: PathBuf,
    /// A mirror instead of Debian's own (`http://deb.debian.org/debian` with security updates).
    pub mirror: Option<String>,
}

/// Builds a Debian 12. Takes minutes and the network.
///
/// # Errors
/// See [`ImageError`]; nothing is left under the result's name.
pub async fn build_debian12(request: &DebianRequest, watcher: Watcher<'_>) -> Result<Built, ImageError> {
    require(&[MMDEBSTRAP, DEBIAN_KEYRING, SFDISK, MKFS_VFAT, MCOPY, MMD, MKE2FS])?;
    require_root()?;
    let mut steps = Steps::new(watcher, 5);
    fs::create_dir_all(&request.work).map_err(file("making", &request.work))?;
    let work = tempfile::tempdir_in(&request.work).map_err(file("making", &request.work))?;
    let (root, log) = (work.path().join("root"), work.path().join("log"));

    steps.next("installing Debian");
    bootstrap(request, &root, &log, &steps).await?;
    steps.next("configuring it");
    configure(&root)?;
    steps.next("partitioning the disk");
    let output = Output::create(&request.out)?;
    partition(&output, &log).await?;
    steps.next("making the boot partition");
    boot_partition(&root, work.path(), output.path(), &log).await?;
    steps.next("making the root partition");
    root_partition(&root, output.path(), &log).await?;
    output.finish(BootMode::Uefi)
}

async fn bootstrap(
    request: &DebianRequest,
    root: &Path,
    log: &Path,
    steps: &Steps<'_>,
) -> Result<(), ImageError> {
    let run = Run::new(MMDEBSTRAP, "installing Debian", log)?.with(|command| {
        command.args([
            "--variant=minbase",
            "--mode=root",
            "--format=directory",
            "--verbose",
        ]);
        command.arg("--aptopt=Apt::Install-Recommends \"false\"");
        command.arg(format!("--include={}", PACKAGES.join(",")));
        command.arg(SUITE).arg(root);
        if let Some(mirror) = &request.mirror {
            command.arg(mirror);
        }
    });
    let running = run.finish(BOOTSTRAP_MAX);
    tokio::pin!(running);
    loop {
        match timeout(Duration::from_millis(500), &mut running).await {
            Ok(finished) => return finished,
            Err(_) => {
                let text = fs::read(log).unwrap_or_default();
                let count = |start: &[u8]| {
                    text.split(|&b| b == b'\n')
                        .filter(|line| line.starts_with(start))
                        .count()
                };
                let done = (count(b"Unpacking ") + count(b"Setting up ")) as u64;
                steps.done(done.min(2 * PACKAGES_EXPECTED), 2 * PACKAGES_EXPECTED);
            }
        }
    }
}

fn configure(root: &Path) -> Result<(), ImageError> {
    for (name, mode, contents) in FILES {
        let path = root.join(name);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(file("making", dir))?;
        }
        fs::write(&path, contents).map_err(file("writing", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(file("writing", &path))?;
    }
    let esp = root.join("boot/efi");
    fs::create_dir_all(&esp).map_err(file("making", &esp))?;
    // A machine is itself only from its first boot on.
    let id = root.join("etc/machine-id");
    fs::write(&id, "uninitialized\n").map_err(file("writing", &id))?;
    let ssh = root.join("etc/ssh");
    for entry in fs::read_dir(&ssh).map_err(file("listing", &ssh))? {
        let path = entry.map_err(file("listing", &ssh))?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("ssh_host_"))
        {
            fs::remove_file(&path).map_err(file("removing", &path))?;
        }
    }
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).map_err(file("making", &wants))?;
    let service = wants.join("systemd-networkd.service");
    if !service.is_symlink() {
        symlink("/lib/systemd/system/systemd-networkd.service", &service)
            .map_err(file("making", &service))?;
    }
    Ok(())
}

async fn partition(output: &Output, log: &Path) -> Result<(), ImageError> {
    let disk = output.open()?;
    disk.set_len(DEBIAN_DISK_BYTES)
        .map_err(file("making", output.path()))?;
    let sector = |bytes: u64| bytes / 512;
    let script = format!(
        "label: gpt\nlabel-id: 5f1a7e00-0000-4000-8000-000000000012\n\
         start={}, size={}, type=U, name=ESP\nstart={}, size={}, type=4f68bce3-e8cd-4db1-96e7-fbcaf984b709, name=root\n",
        sector(ESP_START),
        sector(DEBIAN_ESP_BYTES),
        sector(ROOT_START),
        sector(ROOT_BYTES),
    );
    let run = Run::new(SFDISK, "partitioning the disk", log)?.with(|command| {
        command
            .args(["--quiet", "--no-reread", "--no-tell-kernel"])
            .arg(output.path());
    });
    run.finish_with_input(script.as_bytes(), TOOL_MAX).await
}

async fn boot_partition(root: &Path, work: &Path, disk: &Path, log: &Path) -> Result<(), ImageError> {
    let making = Run::new(MKFS_VFAT, "making the boot file system", log)?.with(|command| {
        // Small clusters, so that there are as many as FAT32 must have.
        let hidden = (ESP_START / 512).to_string();
        command.args([
            "-F",
            "32",
            "-s",
            "2",
            "-n",
            "ESP",
            "-i",
            "5f1a7e12",
            "--invariant",
            "-h",
            &hidden,
        ]);
        command
            .arg(format!("--offset={}", ESP_START / 512))
            .arg(disk)
            .arg((DEBIAN_ESP_BYTES / 1024).to_string());
    });
    making.finish(TOOL_MAX).await?;

    let image = format!("{}@@{ESP_START}", disk.display());
    let directories = Run::new(MMD, "filling the boot file system", log)?.with(|command| {
        command.args([
            "-i",
            &image,
            "::/EFI",
            "::/EFI/BOOT",
            "::/loader",
            "::/loader/entries",
        ]);
    });
    directories.finish(TOOL_MAX).await?;
    let write = |name: &str, contents: &str| {
        let path = work.join(name);
        fs::write(&path, contents)
            .map_err(file("writing", &path))
            .map(|()| path)
    };
    let files = [
        (
            root.join("usr/lib/systemd/boot/efi/systemd-bootx64.efi"),
            "::/EFI/BOOT/BOOTX64.EFI",
        ),
        (newest(root, "vmlinuz-")?, "::/vmlinuz"),
        (newest(root, "initrd.img-")?, "::/initrd.img"),
        (
            write(
                "loader.conf",
                include_str!("../../../images/debian-12/loader.conf"),
            )?,
            "::/loader/loader.conf",
        ),
        (
            write(
                "debian.conf",
                include_str!("../../../images/debian-12/debian.conf"),
            )?,
            "::/loader/entries/debian.conf",
        ),
    ];
    for (from, to) in files {
        let copying = Run::new(MCOPY, "filling the boot file system", log)?.with(|command| {
            command.args(["-i", &image]).arg(&from).arg(to);
        });
        copying.finish(TOOL_MAX).await?;
    }
    Ok(())
}

/// The kernel's file in `boot`; a fresh system has one kernel.
fn newest(root: &Path, prefix: &str) -> Result<PathBuf, ImageError> {
    let boot = root.join("boot");
    let listed = fs::read_dir(&boot).map_err(file("listing", &boot))?;
    let mut found: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .collect();
    found.sort();
    found.pop().ok_or(ImageError::NoKernel { dir: boot })
}

async fn root_partition(root: &Path, disk: &Path, log: &Path) -> Result<(), ImageError> {
    let making = Run::new(MKE2FS, "making the root file system", log)?.with(|command| {
        command.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-L", "root", "-m", "1"]);
        command.args(["-E", &format!("offset={ROOT_START},root_owner=0:0"), "-d"]);
        command.arg(root).arg(disk).arg((ROOT_BYTES / 4096).to_string());
    });
    making.finish(TOOL_MAX * 5).await
}

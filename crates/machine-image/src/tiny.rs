//! The tiny image: Debian's cloud kernel, static busybox, dropbear and our guest agent. It boots in seconds even
//! when every instruction is emulated, answers SSH, runs user data and keeps its root on the disk.
//!
//! ```text
//! sector 0      syslinux's boot record, partition table (MBR)
//! 1 MiB         FAT16: syslinux, kernel, initramfs (the agent and the modules it loads, in order)
//! behind it     ext4 "spinifex-root": the agent again, busybox, dropbear; grown by the guest to its disk
//! ```
//!
//! What was chosen for speed: no boot menu or wait, few and uncompressed modules, one program instead of an init
//! system, a kernel that skips what no guest here has.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::error::{ImageError, file};
use crate::kernel::{Kernel, fetch_kernel};
use crate::libraries::needed;
use crate::limits::{TINY_BOOT_BYTES, TINY_ROOT_BYTES, TOOL_MAX};
use crate::modules::ordered;
use crate::output::{BootMode, Built, Output, copy_into};
use crate::partition::{Entry, FAT16_LBA, LINUX, boot_record};
use crate::progress::{Steps, Watcher};
use crate::tool::{
    BUSYBOX, DROPBEAR, DROPBEARKEY, LDD, MCOPY, MKE2FS, MKFS_VFAT, Run, SYSLINUX, SYSLINUX_MBR, require,
};

/// Label by which the guest finds its root (`guest`'s `early`).
const ROOT_LABEL: &str = "spinifex-root";
/// What the root needs.
const ROOT_MODULES: [&str; 2] = ["virtio_pci", "virtio_blk"];
/// What the guest needs besides; loaded while the root is mounted.
const OTHER_MODULES: [&str; 5] = ["virtio_net", "button", "evdev", "virtio_rng", "pvpanic_pci"];
/// First byte of the boot partition; the customary alignment.
const BOOT_START: u64 = 1 << 20;
/// Any fixed number: the disk's signature and the file systems' ids are the same in every image, as their bytes.
const SIGNATURE: u32 = 0x5350_5801;
const ROOT_UUID: &str = "5f1a7e00-0000-4000-8000-000000000001";

/// Console on the serial port and the kernel's names for network cards. The rest saves time under emulation: no
/// BIOS disk calls, no PCIe port services (hot-plug here is ACPI's), no self-tests of ciphers, short grace periods.
const COMMAND_LINE: &str =
    "console=ttyS0 net.ifnames=0 edd=off pcie_ports=compat cryptomgr.notests rcupdate.rcu_expedited=1";

/// What to build.
#[derive(Clone, Debug)]
pub struct TinyRequest {
    /// The raw disk to make.
    pub out: PathBuf,
    /// Kept between builds: the kernel package. Made if absent.
    pub cache: PathBuf,
    /// The static guest agent.
    pub guest: PathBuf,
    /// Added to the kernel's command line; empty for a normal image.
    pub extra_command_line: String,
}

/// Builds the tiny image.
///
/// # Errors
/// See [`ImageError`]; nothing is left under the result's name.
pub async fn build_tiny(request: &TinyRequest, watcher: Watcher<'_>) -> Result<Built, ImageError> {
    require(&[
        BUSYBOX,
        DROPBEAR,
        DROPBEARKEY,
        LDD,
        MCOPY,
        MKE2FS,
        MKFS_VFAT,
        SYSLINUX,
        SYSLINUX_MBR,
    ])?;
    crate::tool::require_root()?;
    let mut steps = Steps::new(watcher, 5);
    fs::create_dir_all(&request.cache).map_err(file("making", &request.cache))?;
    let work = tempfile::tempdir_in(&request.cache).map_err(file("making", &request.cache))?;
    let agent = fs::read(&request.guest).map_err(file("reading", &request.guest))?;

    steps.next("fetching the kernel");
    let kernel = fetch_kernel(&request.cache).await?;
    steps.next("making the initramfs");
    let initramfs = initramfs(&kernel, &agent)?;
    steps.next("making the boot partition");
    let boot = boot_partition(work.path(), &kernel, &initramfs, &request.extra_command_line).await?;
    steps.next("making the root partition");
    let root = root_partition(work.path(), &request.guest).await?;
    steps.next("putting the disk together");
    let output = Output::create(&request.out)?;
    assemble(&output, &boot, &root)?;
    output.finish(BootMode::Bios)
}

fn initramfs(kernel: &Kernel, agent: &[u8]) -> Result<Vec<u8>, ImageError> {
    let mut archive = Archive::default();
    for dir in ["dev", "sys", "root", "modules", "modules/root", "modules/others"] {
        archive.directory(dir);
    }
    archive.character_device("dev/console", 5, 1);
    archive.file("init", 0o755, agent);
    let root = ordered(kernel, &ROOT_MODULES)?;
    let others = ordered(kernel, &OTHER_MODULES)?;
    let others: Vec<_> = others
        .into_iter()
        .filter(|module| !root.contains(module))
        .collect();
    for (dir, modules) in [("root", root), ("others", others)] {
        for (number, module) in modules.iter().enumerate() {
            archive.file(
                &format!("modules/{dir}/{number:02}-{}.ko", module.name),
                0o644,
                &module.contents,
            );
        }
    }
    Ok(archive.finish())
}

async fn boot_partition(
    work: &Path,
    kernel: &Kernel,
    initramfs: &[u8],
    extra: &str,
) -> Result<PathBuf, ImageError> {
    let (image, log) = (work.join("boot.fat"), work.join("log"));
    let write = |name: &str, contents: &[u8]| {
        let path = work.join(name);
        fs::write(&path, contents)
            .map_err(file("writing", &path))
            .map(|()| path)
    };
    let initrd = write("initrd", initramfs)?;
    let command_line = format!("{COMMAND_LINE} {extra}");
    let configuration = format!(
        "DEFAULT linux\nPROMPT 0\nLABEL linux\n  KERNEL vmlinuz\n  INITRD initrd\n  APPEND {}\n",
        command_line.trim_end()
    );
    let configuration = write("syslinux.cfg", configuration.as_bytes())?;
    let kernel_file = work.join("vmlinuz");
    fs::copy(&kernel.image, &kernel_file).map_err(file("copying", &kernel.image))?;

    let making = Run::new(MKFS_VFAT, "making the boot file system", &log)?.with(|command| {
        let blocks = (TINY_BOOT_BYTES / 1024).to_string();
        let hidden = (BOOT_START / 512).to_string();
        command.args([
            "-F",
            "16",
            "-n",
            "BOOT",
            "-i",
            "53505801",
            "--invariant",
            "-h",
            &hidden,
            "-C",
        ]);
        command.arg(&image).arg(blocks);
    });
    making.finish(TOOL_MAX).await?;
    let copying = Run::new(MCOPY, "filling the boot file system", &log)?.with(|command| {
        command.env("SOURCE_DATE_EPOCH", "0").arg("-i").arg(&image);
        command.args([&kernel_file, &initrd, &configuration]).arg("::/");
    });
    copying.finish(TOOL_MAX).await?;
    let installing = Run::new(SYSLINUX, "installing the boot loader", &log)?.with(|command| {
        command.env("SOURCE_DATE_EPOCH", "0").arg("--install").arg(&image);
    });
    installing.finish(TOOL_MAX).await?;
    Ok(image)
}

async fn root_partition(work: &Path, agent: &Path) -> Result<PathBuf, ImageError> {
    let (tree, image, log) = (work.join("root"), work.join("root.ext4"), work.join("log"));
    let dirs = [
        "bin",
        "sbin",
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "root",
        "srv",
        "home/ec2-user",
        "etc/dropbear",
        "usr/bin",
        "usr/sbin",
        "var/lib/guest",
        "var/log",
    ];
    for dir in dirs {
        let dir = tree.join(dir);
        fs::create_dir_all(&dir).map_err(file("making", &dir))?;
    }
    install(agent, &tree.join("sbin/guest"))?;
    let busybox = BUSYBOX.fetch()?;
    install(&busybox, &tree.join("bin/busybox"))?;
    link_applets(&busybox, &tree, &log).await?;
    for tool in [DROPBEAR, DROPBEARKEY] {
        let program = tool.fetch()?;
        install(&program, &tree.join("usr/sbin").join(tool.name))?;
        for library in needed(&program, &log).await? {
            let place = tree.join(library.strip_prefix("/").unwrap_or(&library));
            if !place.exists() {
                install(&library, &place)?;
            }
        }
    }
    configure(&tree)?;

    let making = Run::new(MKE2FS, "making the root file system", &log)?.with(|command| {
        command
            .env("SOURCE_DATE_EPOCH", "1")
            .env("E2FSPROGS_FAKE_TIME", "1");
        command.args([
            "-q", "-F", "-t", "ext4", "-b", "4096", "-N", "2048", "-m", "1", "-J", "size=4",
        ]);
        command.args(["-L", ROOT_LABEL, "-U", ROOT_UUID]);
        command.args(["-E", &format!("hash_seed={ROOT_UUID},root_owner=0:0")]);
        command
            .arg("-d")
            .arg(&tree)
            .arg(&image)
            .arg((TINY_ROOT_BYTES / 4096).to_string());
    });
    making.finish(TOOL_MAX).await?;
    Ok(image)
}

fn install(program: &Path, place: &Path) -> Result<(), ImageError> {
    if let Some(dir) = place.parent() {
        fs::create_dir_all(dir).map_err(file("making", dir))?;
    }
    // Follows links: what is wanted is the file.
    fs::copy(program, place).map_err(file("copying", program))?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).map_err(file("making", place))
}

/// One link for each of busybox's commands, at the place that busybox names. A program of ours that is there
/// already stays.
async fn link_applets(busybox: &Path, tree: &Path, log: &Path) -> Result<(), ImageError> {
    let listing = Run::new(BUSYBOX, "listing busybox's commands", log)?.with(|command| {
        command.arg("--list-full");
    });
    debug_assert!(busybox.is_absolute(), "links point to one place");
    for applet in listing.output(TOOL_MAX).await?.lines() {
        let place = tree.join(applet.trim_start_matches('/'));
        if place.exists() || place.is_symlink() {
            continue;
        }
        if let Some(dir) = place.parent() {
            fs::create_dir_all(dir).map_err(file("making", dir))?;
        }
        symlink("/bin/busybox", &place).map_err(file("making", &place))?;
    }
    Ok(())
}

fn configure(tree: &Path) -> Result<(), ImageError> {
    const FILES: [(&str, u32, &str); 9] = [
        (
            "etc/passwd",
            0o644,
            "root:x:0:0:root:/root:/bin/sh\nec2-user:x:1000:1000:default user:/home/ec2-user:/bin/sh\n",
        ),
        ("etc/group", 0o644, "root:x:0:\ntty:x:5:\nec2-user:x:1000:\n"),
        // No password opens these; a key does.
        (
            "etc/shadow",
            0o600,
            "root:*:1:0:99999:7:::\nec2-user:*:1:0:99999:7:::\n",
        ),
        ("etc/shells", 0o644, "/bin/sh\n/bin/ash\n"),
        (
            "etc/nsswitch.conf",
            0o644,
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
        ),
        (
            "etc/profile",
            0o644,
            "export PATH=/usr/sbin:/usr/bin:/sbin:/bin\nexport PS1='\\u@\\h:\\w\\$ '\n",
        ),
        ("etc/hostname", 0o644, "localhost\n"),
        (
            "etc/os-release",
            0o644,
            "ID=spinifex-tiny\nNAME=\"Spinifex tiny\"\nPRETTY_NAME=\"Spinifex tiny\"\n",
        ),
        (
            "etc/motd",
            0o644,
            "Spinifex tiny: busybox, dropbear and one small agent.\n",
        ),
    ];
    for (name, mode, contents) in FILES {
        let path = tree.join(name);
        fs::write(&path, contents).map_err(file("writing", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(file("writing", &path))?;
    }
    let owned = tree.join("home/ec2-user");
    chown(&owned, Some(1000), Some(1000)).map_err(file("making", &owned))?;
    for (dir, mode) in [
        ("root", 0o700),
        ("home/ec2-user", 0o700),
        ("etc/dropbear", 0o700),
        ("tmp", 0o1777),
    ] {
        let dir = tree.join(dir);
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).map_err(file("making", &dir))?;
    }
    Ok(())
}

fn assemble(output: &Output, boot: &Path, root: &Path) -> Result<(), ImageError> {
    let root_start = BOOT_START + TINY_BOOT_BYTES;
    let entries = [
        Entry {
            start: BOOT_START,
            length: TINY_BOOT_BYTES,
            kind: FAT16_LBA,
            active: true,
        },
        Entry {
            start: root_start,
            length: TINY_ROOT_BYTES,
            kind: LINUX,
            active: false,
        },
    ];
    let loader = SYSLINUX_MBR.fetch()?;
    let code = fs::read(&loader).map_err(file("reading", &loader))?;
    let disk = output.open()?;
    let record = boot_record(&code, SIGNATURE, &entries);
    disk.set_len(root_start + TINY_ROOT_BYTES)
        .map_err(file("writing", output.path()))?;
    disk.write_all_at(&record, 0)
        .map_err(file("writing", output.path()))?;
    copy_into(&disk, BOOT_START, boot)?;
    copy_into(&disk, root_start, root)
}

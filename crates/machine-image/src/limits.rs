//! Every bound of the image builders, by name.

use std::time::Duration;

/// One GiB; lengths of results are multiples of it.
pub const GIB: u64 = 1 << 30;
/// Longest run of a small tool (mkfs, mcopy, syslinux, …).
pub const TOOL_MAX: Duration = Duration::from_secs(120);
/// Longest download of one package.
pub const DOWNLOAD_MAX: Duration = Duration::from_secs(600);
/// Longest installation of a whole Debian.
pub const BOOTSTRAP_MAX: Duration = Duration::from_secs(3600);
/// Longest conversion of one file.
pub const CONVERT_MAX: Duration = Duration::from_secs(4 * 3600);
/// Largest disk that an import may become: the largest volume of the cloud.
pub const IMPORT_BYTES_MAX: u64 = 16 << 40;
/// Bytes of a failed tool's output quoted in the error.
pub const QUOTED_BYTES: u64 = 2048;
/// Modules that one image may need, dependencies included; more means a loop.
pub const MODULES_MAX: usize = 64;
/// Largest kernel module read.
pub const MODULE_BYTES_MAX: u64 = 16 << 20;
/// Boot partition of the tiny image, bytes: the kernel, its initramfs, the boot loader and some air.
pub const TINY_BOOT_BYTES: u64 = 24 << 20;
/// Root partition of the tiny image as built, bytes; the guest grows it to its disk.
pub const TINY_ROOT_BYTES: u64 = 32 << 20;
/// EFI system partition of the Debian image, bytes: a few kernels.
pub const DEBIAN_ESP_BYTES: u64 = 256 << 20;
/// Disk of the Debian image, bytes; cloud-init grows the root to its disk.
pub const DEBIAN_DISK_BYTES: u64 = 3 << 30;

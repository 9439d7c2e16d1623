//! Every bound of this engine, by name. Times are how long we wait, sizes are bytes.
//! Most come from the product's compute requirements (§2.5); those that do not say why they are what they are.

use std::time::Duration;

/// Longest wait for QEMU to open its monitor socket.
pub const QMP_CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the monitor's greeting once connected.
pub const QMP_GREETING_MAX: Duration = Duration::from_secs(30);
/// Longest wait for the answer to one monitor command.
pub const QMP_COMMAND_MAX: Duration = Duration::from_secs(30);
/// Commands waiting for one monitor; one owner task issues them, so more means a bug.
pub const QMP_QUEUE_MAX: usize = 16;
/// Longest line accepted from a monitor; QEMU's own largest answers are far below.
pub const QMP_LINE_BYTES_MAX: usize = 1 << 20;
/// Distinct events kept for an owner that is not listening; equal ones coalesce, so only device names add up.
pub const EVENTS_PENDING_MAX: usize = 128;
/// First and longest pause between attempts to reach a monitor that was lost.
pub const QMP_RECONNECT_FIRST: Duration = Duration::from_millis(100);
/// See [`QMP_RECONNECT_FIRST`].
pub const QMP_RECONNECT_MAX: Duration = Duration::from_secs(2);

/// A console log is trimmed when it is longer than this …
pub const CONSOLE_KEPT_BYTES: u64 = 1 << 20;
/// … to about this much, so that trimming is rare.
pub const CONSOLE_TRIMMED_BYTES: u64 = 1 << 19;
/// The kernel refuses QEMU any file growth beyond this, whoever is or is not trimming.
pub const GUEST_FILE_BYTES_MAX: u64 = 2 << 20;
/// Bytes of a QEMU's own output quoted in an error.
pub const PROCESS_LOG_QUOTED_BYTES: u64 = 4096;

/// TCG's translation buffer, MiB; set for every guest and charged by the scheduler.
pub const TCG_BUFFER_MIB: u32 = 128;
/// PCIe root ports a guest may have: one bus number each, four functions-of-eight on the root complex.
pub const PCI_SLOTS_MAX: u8 = 32;
/// Longest device id: QEMU's block nodes have names of at most 31 bytes.
pub const DEVICE_ID_BYTES_MAX: usize = 31;
/// Length of a virtio-blk serial number (virtio specification, `VIRTIO_BLK_ID_BYTES`).
pub const DISK_SERIAL_BYTES: usize = 20;
/// `sun_path` without its terminating zero (unix(7)).
pub const UNIX_PATH_BYTES_MAX: usize = 107;
/// Queues of one device, whatever the number of vCPUs.
pub const DEVICE_QUEUES_MAX: u32 = 8;
/// How long a disk's requests wait for an export that went away before they fail.
pub const NBD_RECONNECT_SECS: u32 = 10;

/// Longest boot to the marker that counts as a working accelerator.
pub const PROBE_BOOT_MAX: Duration = Duration::from_secs(20);
/// A probe that has printed nothing new for this long hangs; stock kernels print several lines a second.
pub const PROBE_SILENCE_MAX: Duration = Duration::from_secs(6);
/// Bytes of serial output kept of a probe.
pub const PROBE_OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Longest `qemu --version`.
pub const VERSION_QUERY_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a killed process to be gone.
pub const KILL_MAX: Duration = Duration::from_secs(10);
/// How long after its monitor's stream broke a starting process may take to be gone.
pub const EXIT_AFTER_BROKEN_STREAM_MAX: Duration = Duration::from_secs(2);

//! Named bounds of the agent.

use std::time::Duration;

/// Metadata connections served at once, over all guests.
pub const METADATA_CONNECTIONS_MAX: usize = 1024;
/// Bytes of a metadata request's head.
pub const METADATA_HEADER_BYTES_MAX: usize = 16 * 1024;
/// Time a metadata client has to send its head.
pub const METADATA_HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Grace a guest has to power off after it was asked, under hardware virtualisation (compute.md §2.5).
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(90);
/// Factor for time limits under emulation (compute.md §2.5).
pub const EMULATION_FACTOR: u32 = 3;
/// Time after which an asked reboot becomes a hard reset (compute.md §2.5).
pub const REBOOT_GRACE: Duration = Duration::from_secs(240);
/// First wait before a failed step is tried again; doubles up to [`RETRY_MAX`].
pub const RETRY_FIRST: Duration = Duration::from_millis(250);
/// Longest wait before a failed step is tried again.
pub const RETRY_MAX: Duration = Duration::from_secs(30);
/// Tries of a launch step that fails definitely before the launch is reported failed.
pub const LAUNCH_TRIES: u32 = 3;
/// Time a launch may take without progress (compute.md §2.5), under hardware virtualisation.
pub const LAUNCH_STALL: Duration = Duration::from_secs(300);
/// Interval of the agent's own full look at its specs, should a wake-up be lost.
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Most bytes of console that one question returns.
pub const CONSOLE_TAIL_BYTES_MAX: usize = 64 * 1024;
/// Largest guest record that is read.
pub const GUEST_RECORD_BYTES_MAX: usize = 64 * 1024;
/// Time a process has to end in order after it was told to, before it is killed.
pub const QUIT_GRACE: Duration = Duration::from_secs(10);
/// Time an export has to drain before it is killed.
pub const EXPORT_DRAIN: Duration = Duration::from_secs(30);
/// PCIe ports of a guest: volumes and interfaces together (compute.md §2.5), rounded up to a multiple of four.
pub const PCI_SLOTS: u8 = 28;
/// Interval at which a console log is cut to its bound.
pub const CONSOLE_TRIM_INTERVAL: Duration = Duration::from_secs(30);
/// Interval at which a guest that was asked to power off is asked again.
pub const POWER_BUTTON_INTERVAL: Duration = Duration::from_secs(5);

//! Every bound of the agent, by name.

use std::time::Duration;

/// Longest wait in the initramfs for the root partition to appear.
pub const ROOT_WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause between looks for something that appears by itself.
pub const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// First pause before a DHCP message is repeated; doubles up to [`DHCP_REPEAT_MAX`].
pub const DHCP_REPEAT_FIRST: Duration = Duration::from_millis(500);
/// See [`DHCP_REPEAT_FIRST`].
pub const DHCP_REPEAT_MAX: Duration = Duration::from_secs(8);
/// Shortest time between two renewals, whatever a server says.
pub const DHCP_RENEW_MIN: Duration = Duration::from_secs(30);
/// Largest DHCP message accepted; more than an Ethernet frame cannot arrive.
pub const DHCP_MESSAGE_BYTES_MAX: usize = 1500;
/// Longest wait for one metadata answer.
pub const METADATA_ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long the metadata service may be unreachable before the agent goes on without.
pub const METADATA_WAIT_MAX: Duration = Duration::from_secs(60);
/// Largest metadata answer accepted: user data of 16 KiB, with room.
pub const METADATA_BYTES_MAX: usize = 64 << 10;
/// Life of the metadata token asked for, seconds; the whole start takes a fraction of it.
pub const METADATA_TOKEN_SECS: u32 = 300;
/// Connections served at once by the web server; one more is closed at once.
pub const HTTP_CONNECTIONS_MAX: usize = 64;
/// Largest request head.
pub const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest wait for a slow web client.
pub const HTTP_IDLE_MAX: Duration = Duration::from_secs(10);
/// How long processes have between SIGTERM and SIGKILL at a power-off.
pub const TERM_GRACE: Duration = Duration::from_secs(2);
/// Pause before a service that ended is started again.
pub const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Network interfaces configured; more than a guest can have.
pub const INTERFACES_MAX: usize = 32;

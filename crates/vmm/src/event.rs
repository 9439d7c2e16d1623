//! What a guest does, as its owner sees it: [`GuestEvent`] from the monitor's event stream and the process's end,
//! [`RunState`] from asking. An owner that was away learns a power-off from the state, because QEMU pauses at a
//! shutdown instead of exiting.
//!
//! [`Pending`] holds events until the owner takes them. Equal events coalesce, so a guest that resets or fails I/O
//! in a storm costs a bounded amount of memory.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use crate::limits::EVENTS_PENDING_MAX;
use crate::process::ExitStatus;

/// Something that happened to a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuestEvent {
    /// The guest switched itself off; the process waits, paused, in [`RunState::Shutdown`].
    PoweredOff,
    /// The guest was reset and runs on.
    Reset {
        /// The guest did it itself (`reboot`), not [`crate::Guest::reset`].
        by_guest: bool,
    },
    /// The guest's kernel panicked; it is not paused.
    Panicked,
    /// A read or write failed and the error was given to the guest.
    DiskError {
        /// The [`crate::Disk::id`].
        disk: String,
    },
    /// The CPUs stand still.
    Stopped,
    /// The CPUs run.
    Resumed,
    /// An unplugged device is gone.
    DeviceRemoved {
        /// The device's id.
        device: String,
    },
    /// The monitor answers again after it was lost; read [`crate::Guest::status`], events may be missing.
    MonitorBack,
    /// The process is gone. Always the last event, and repeated for whoever asks again.
    Exited {
        /// How it ended, as far as can be known.
        status: ExitStatus,
    },
}

impl GuestEvent {
    /// The event that a line of the monitor's stream means to an owner, if any. Sources: QEMU's
    /// `qapi/run-state.json`, `qapi/block-core.json`, `qapi/qdev.json`.
    pub(crate) fn from_monitor(name: &str, data: &Value) -> Option<Self> {
        let text = |key: &str| {
            data.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let by_guest = data.get("guest").and_then(Value::as_bool).unwrap_or(false);
        Some(match name {
            // A shutdown that is not the guest's is the process being told to end, which shows as its exit.
            "SHUTDOWN" if by_guest => Self::PoweredOff,
            "RESET" => Self::Reset { by_guest },
            "GUEST_PANICKED" | "GUEST_CRASHLOADED" => Self::Panicked,
            "BLOCK_IO_ERROR" => Self::DiskError {
                disk: text("node-name"),
            },
            "STOP" => Self::Stopped,
            "RESUME" => Self::Resumed,
            "DEVICE_DELETED" if data.get("device").is_some() => Self::DeviceRemoved {
                device: text("device"),
            },
            _ => return None,
        })
    }
}

/// What the monitor says the machine is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunState {
    /// Started with its CPUs stopped and never continued.
    Prelaunch,
    /// Its CPUs run.
    Running,
    /// Paused by us.
    Paused,
    /// It switched itself off.
    Shutdown,
    /// Anything else QEMU knows (`guest-panicked`, `io-error`, …), by its name.
    Other(String),
}

impl RunState {
    pub(crate) fn from_monitor(status: &str) -> Self {
        match status {
            "prelaunch" => Self::Prelaunch,
            "running" => Self::Running,
            "paused" => Self::Paused,
            "shutdown" => Self::Shutdown,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// Events not yet taken. Shared by the monitor's task, which adds, and the guest's owner, who takes.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    events: Mutex<VecDeque<GuestEvent>>,
    added: Notify,
}

impl Pending {
    /// Adds an event unless an equal one is waiting. At the bound the newest is dropped: whoever lets more than
    /// [`EVENTS_PENDING_MAX`] distinct events pile up must read the state anyway.
    pub(crate) fn add(&self, event: GuestEvent) {
        let mut events = self
            .events
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if events.contains(&event) {
            return;
        }
        if events.len() >= EVENTS_PENDING_MAX {
            tracing::warn!(?event, "too many guest events are waiting; dropping this one");
            return;
        }
        events.push_back(event);
        self.added.notify_one();
    }

    /// The oldest event, waiting for one. Cancelling loses nothing.
    pub(crate) async fn next(&self) -> GuestEvent {
        loop {
            let added = self.added.notified();
            if let Some(event) = self.take() {
                return event;
            }
            added.await;
        }
    }

    fn take(&self) -> Option<GuestEvent> {
        self.events
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop_front()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{GuestEvent, Pending};
    use crate::limits::EVENTS_PENDING_MAX;

    #[test]
    fn monitor_events_become_ours() {
        let cases = [
            (
                "SHUTDOWN",
                json!({"guest": true, "reason": "guest-shutdown"}),
                Some(GuestEvent::PoweredOff),
            ),
            (
                "RESET",
                json!({"guest": true, "reason": "guest-reset"}),
                Some(GuestEvent::Reset { by_guest: true }),
            ),
            (
                "RESET",
                json!({"guest": false}),
                Some(GuestEvent::Reset { by_guest: false }),
            ),
            (
                "GUEST_PANICKED",
                json!({"action": "run"}),
                Some(GuestEvent::Panicked),
            ),
            (
                "BLOCK_IO_ERROR",
                json!({"device": "", "node-name": "vol-1", "action": "report", "operation": "write"}),
                Some(GuestEvent::DiskError { disk: "vol-1".into() }),
            ),
            ("STOP", json!({}), Some(GuestEvent::Stopped)),
            ("RESUME", json!({}), Some(GuestEvent::Resumed)),
            ("DEVICE_DELETED", json!({"path": "/machine/x"}), None),
            (
                "DEVICE_DELETED",
                json!({"device": "eni-1", "path": "/machine/x"}),
                Some(GuestEvent::DeviceRemoved {
                    device: "eni-1".into(),
                }),
            ),
            ("NIC_RX_FILTER_CHANGED", json!({}), None),
            (
                "SHUTDOWN",
                json!({"guest": false, "reason": "host-qmp-quit"}),
                None,
            ),
            ("SHUTDOWN", serde_json::Value::Null, None),
        ];
        for (name, data, expected) in cases {
            assert_eq!(GuestEvent::from_monitor(name, &data), expected, "{name} {data}");
        }
    }

    #[tokio::test]
    async fn a_storm_coalesces() {
        let pending = Pending::default();
        for _ in 0..10_000 {
            pending.add(GuestEvent::Reset { by_guest: true });
        }
        pending.add(GuestEvent::PoweredOff);
        assert_eq!(pending.next().await, GuestEvent::Reset { by_guest: true });
        assert_eq!(pending.next().await, GuestEvent::PoweredOff);
        for n in 0..2 * EVENTS_PENDING_MAX {
            pending.add(GuestEvent::DiskError { disk: n.to_string() });
        }
        assert_eq!(pending.events.lock().unwrap().len(), EVENTS_PENDING_MAX);
    }
}

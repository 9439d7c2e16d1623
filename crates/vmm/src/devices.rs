//! The one builder of devices. Each function returns QEMU's own JSON for a part; [`crate::command`] puts it on
//! the command line and [`crate::Guest::plug_disk`] sends the same objects to the monitor, so a disk is the same
//! disk however it arrived.
//!
//! Slots: one PCIe root port each, `port<n>`, eight functions to a device of the root complex from address 0x10 up.

use serde_json::{Value, json};

use crate::limits::{DEVICE_QUEUES_MAX, NBD_RECONNECT_SECS};
use crate::plan::{Disk, Nic, PciSlot};

/// The objects that make up one disk, in the order of creation.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskParts {
    /// For `object-add`: the disk's own thread.
    pub iothread: Value,
    /// For `blockdev-add`: the NBD client.
    pub block_node: Value,
    /// For `device_add`: the virtio device.
    pub device: Value,
}

/// The objects that make up one network card, in the order of creation.
#[derive(Clone, Debug, PartialEq)]
pub struct NicParts {
    /// For `netdev_add`.
    pub netdev: Value,
    /// For `device_add`.
    pub device: Value,
}

/// Id of a disk's thread.
#[must_use]
pub fn iothread_id(disk: &str) -> String {
    format!("io-{disk}")
}

/// Id of a network card's host side.
#[must_use]
pub fn netdev_id(nic: &str) -> String {
    format!("host-{nic}")
}

fn port_id(slot: PciSlot) -> String {
    format!("port{}", slot.0)
}

/// The root port that makes `slot`.
#[must_use]
pub fn root_port(slot: PciSlot) -> Value {
    let (device, function) = (0x10 + slot.0 / 8, slot.0 % 8);
    json!({
        "driver": "pcie-root-port",
        "id": port_id(slot),
        "bus": "pcie.0",
        "chassis": u32::from(slot.0) + 1,
        "addr": format!("{device:#x}.{function:#x}"),
        "multifunction": function == 0,
        // Legacy I/O windows are scarce and no virtio 1.0 device needs one.
        "io-reserve": 0,
    })
}

/// A disk for a guest of `vcpus`.
#[must_use]
pub fn disk_parts(disk: &Disk, vcpus: u32) -> DiskParts {
    let mut device = json!({
        "driver": "virtio-blk-pci",
        "id": disk.id,
        "bus": port_id(disk.slot),
        "addr": "0x0",
        "drive": disk.id,
        "iothread": iothread_id(&disk.id),
        "num-queues": vcpus.min(DEVICE_QUEUES_MAX),
        "serial": disk.serial,
        "discard": true,
        "write-zeroes": true,
        "write-cache": "on",
        // An error reaches the guest; it never pauses it.
        "werror": "report",
        "rerror": "report",
    });
    if let Some(index) = disk.boot_index {
        device["bootindex"] = json!(index);
    }
    DiskParts {
        iothread: json!({"qom-type": "iothread", "id": iothread_id(&disk.id)}),
        block_node: json!({
            "driver": "nbd",
            "node-name": disk.id,
            "server": {"type": "unix", "path": disk.nbd_socket},
            "export": disk.nbd_export,
            "reconnect-delay": NBD_RECONNECT_SECS,
            "read-only": disk.read_only,
            "cache": {"direct": true, "no-flush": false},
            "discard": "unmap",
            "detect-zeroes": "off",
        }),
        device,
    }
}

/// A network card on the tap with descriptor `fd` (a number on the command line, a name at the monitor).
#[must_use]
pub fn nic_parts(nic: &Nic, fd: &str) -> NicParts {
    let mut device = json!({
        "driver": "virtio-net-pci",
        "id": nic.id,
        "bus": port_id(nic.slot),
        "addr": "0x0",
        "netdev": netdev_id(&nic.id),
        "mac": nic.mac,
        // No network boot: the option ROM costs time and nobody serves it.
        "romfile": "",
    });
    if let Some(mtu) = nic.mtu {
        device["host_mtu"] = json!(mtu);
    }
    NicParts {
        netdev: json!({"type": "tap", "id": netdev_id(&nic.id), "fd": fd}),
        device,
    }
}

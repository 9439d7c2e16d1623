//! What one guest consists of: the plan that `node` writes into its journal and [`crate::spawn`] turns into a
//! process. Pure data; [`GuestPlan::validate`] is the only judgement.
//!
//! Invariants: slots are the caller's and never renumbered here, so a device keeps its place over stop, start and
//! move; every string a guest can see (identity, serials) is the caller's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits::{DEVICE_ID_BYTES_MAX, DISK_SERIAL_BYTES, PCI_SLOTS_MAX, UNIX_PATH_BYTES_MAX};

/// A whole guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestPlan {
    /// Stable id, unique on the node; used as QEMU's `-name`.
    pub id: String,
    /// The machine's UUID in the usual 8-4-4-4-12 form; asked back from the monitor on adoption.
    pub uuid: String,
    /// The machine model.
    #[serde(default)]
    pub machine: Machine,
    /// Virtual CPUs.
    pub cpus: CpuTopology,
    /// Guest memory, MiB.
    pub memory_mib: u32,
    /// What starts first.
    pub firmware: Firmware,
    /// What the firmware tables say the machine is.
    pub smbios: Smbios,
    /// Disks, any order.
    pub disks: Vec<Disk>,
    /// Network cards, any order.
    pub nics: Vec<Nic>,
    /// PCIe root ports made, each able to take one cold or hot-plugged device; at most
    /// [`PCI_SLOTS_MAX`]. Every slot named by a disk or NIC must be below.
    pub pci_slots: u8,
    /// Sockets and logs.
    pub files: GuestFiles,
}

/// The machine model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// PCI Express, ACPI; what a stock x86-64 image expects.
    #[default]
    Q35,
}

/// How the vCPUs are arranged; the number of vCPUs is the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTopology {
    /// Packages.
    pub sockets: u32,
    /// Cores a package.
    pub cores: u32,
    /// Threads a core.
    pub threads: u32,
}

impl CpuTopology {
    /// One package of `vcpus` cores with one thread each.
    #[must_use]
    pub const fn flat(vcpus: u32) -> Self {
        Self {
            sockets: 1,
            cores: vcpus,
            threads: 1,
        }
    }

    /// The number of vCPUs.
    #[must_use]
    pub const fn vcpus(self) -> u32 {
        self.sockets * self.cores * self.threads
    }
}

/// What the machine starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Firmware {
    /// SeaBIOS.
    Bios,
    /// OVMF: read-only code shared by all guests, variables of this guest alone
    /// (see [`crate::Ovmf::ensure_variables`]).
    Uefi {
        /// The code image.
        code: PathBuf,
        /// The variable store, written by the guest.
        vars: PathBuf,
    },
}

/// SMBIOS strings (types 1, 2 and 3). Operating systems find their cloud by these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smbios {
    /// Manufacturer of system, board and chassis, and vendor of the firmware.
    pub vendor: String,
    /// Product name of the system.
    pub product: String,
    /// Serial number of the system.
    pub serial: String,
    /// Asset tag of the board.
    pub board_asset_tag: String,
    /// Asset tag of the chassis.
    pub chassis_asset_tag: String,
}

/// A place for one device: the number of a PCIe root port. Slot 0 comes first in the guest's enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PciSlot(pub u8);

/// One disk, served over NBD by a process of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Stable id (letters, digits, `-`); names the device and comes back in events.
    pub id: String,
    /// Unix socket of the NBD server.
    pub nbd_socket: PathBuf,
    /// NBD export name; may be empty.
    pub nbd_export: String,
    /// What the guest sees as the disk's serial; at most 20 bytes.
    pub serial: String,
    /// Its place.
    pub slot: PciSlot,
    /// Boot order, 1 first; `None` is never booted from.
    pub boot_index: Option<u32>,
    /// The guest may not write.
    pub read_only: bool,
}

/// One network card on a tap that the caller has opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Stable id (letters, digits, `-`); names the device.
    pub id: String,
    /// Which of the descriptors handed to [`crate::spawn`] is the tap.
    pub tap_fd_index: usize,
    /// `02:00:00:aa:bb:cc`.
    pub mac: String,
    /// Its place.
    pub slot: PciSlot,
    /// MTU told to the guest by the device; `None` tells nothing.
    pub mtu: Option<u16>,
}

/// Where a guest's sockets and logs are. All in one directory of its own, mode 0700.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestFiles {
    /// Monitor for control.
    pub qmp_socket: PathBuf,
    /// Second monitor, for readers that must not delay control.
    pub qmp_metrics_socket: PathBuf,
    /// The serial port.
    pub console: ConsoleFiles,
    /// QEMU's own standard output and error.
    pub process_log: PathBuf,
    /// Locked for as long as the process lives, from before it is executed; so a free lock proves that no guest
    /// of this directory exists.
    pub lock: PathBuf,
}

/// The serial port's two ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleFiles {
    /// Everything the guest printed lately; see [`crate::console`].
    pub log: PathBuf,
    /// Unix socket to read and type at; one client at a time.
    pub socket: PathBuf,
}

impl GuestFiles {
    /// The usual names inside `dir`.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        Self {
            qmp_socket: dir.join("qmp"),
            qmp_metrics_socket: dir.join("qmp-metrics"),
            console: ConsoleFiles {
                log: dir.join("console.log"),
                socket: dir.join("console"),
            },
            process_log: dir.join("qemu.log"),
            lock: dir.join("lock"),
        }
    }
}

/// Why a plan cannot be a guest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No CPU or no memory.
    #[error("guest {id} has {vcpus} vCPUs and {memory_mib} MiB of memory; both must be positive")]
    NoMachine {
        /// The guest.
        id: String,
        /// As planned.
        vcpus: u32,
        /// As planned.
        memory_mib: u32,
    },
    /// A device's slot does not exist.
    #[error("device {device} is planned for slot {slot}, of {slots}")]
    SlotOutOfRange {
        /// The device.
        device: String,
        /// Where it was planned.
        slot: u8,
        /// Slots of the guest.
        slots: u8,
    },
    /// Two devices in one slot.
    #[error("device {device} is planned for slot {slot}, which is taken")]
    SlotTaken {
        /// The second device.
        device: String,
        /// The slot.
        slot: u8,
    },
    /// Too many slots.
    #[error("{slots} PCI slots are planned, of at most {PCI_SLOTS_MAX}")]
    TooManySlots {
        /// As planned.
        slots: u8,
    },
    /// An id that QEMU would not take, or that is used twice.
    #[error(
        "device id {id:?} is repeated, longer than {DEVICE_ID_BYTES_MAX} bytes, or not a letter followed by letters, digits and '-'"
    )]
    BadDeviceId {
        /// The id.
        id: String,
    },
    /// Virtio allows 20 bytes.
    #[error("serial {serial:?} of disk {disk} is longer than {DISK_SERIAL_BYTES} bytes")]
    SerialTooLong {
        /// The disk.
        disk: String,
        /// Its serial.
        serial: String,
    },
    /// The kernel allows 107 bytes.
    #[error("socket path {path:?} is longer than {UNIX_PATH_BYTES_MAX} bytes")]
    SocketPathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// A NIC names a descriptor that was not given.
    #[error("network card {nic} wants descriptor {index}, but {given} were given")]
    NoSuchDescriptor {
        /// The NIC.
        nic: String,
        /// The index it names.
        index: usize,
        /// How many there are.
        given: usize,
    },
}

impl GuestPlan {
    /// Checks everything that QEMU would only refuse after it was started, given `descriptors` handed over.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn validate(&self, descriptors: usize) -> Result<(), PlanError> {
        let vcpus = self.cpus.vcpus();
        if vcpus == 0 || self.memory_mib == 0 {
            return Err(PlanError::NoMachine {
                id: self.id.clone(),
                vcpus,
                memory_mib: self.memory_mib,
            });
        }
        if self.pci_slots > PCI_SLOTS_MAX {
            return Err(PlanError::TooManySlots {
                slots: self.pci_slots,
            });
        }
        let files = &self.files;
        let sockets = [
            &files.qmp_socket,
            &files.qmp_metrics_socket,
            &files.console.socket,
        ];
        for path in sockets
            .into_iter()
            .chain(self.disks.iter().map(|disk| &disk.nbd_socket))
        {
            if path.as_os_str().len() > UNIX_PATH_BYTES_MAX {
                return Err(PlanError::SocketPathTooLong { path: path.clone() });
            }
        }
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        let disks = self.disks.iter().map(|disk| (&disk.id, disk.slot));
        for (id, slot) in disks.chain(self.nics.iter().map(|nic| (&nic.id, nic.slot))) {
            let well_formed = id.starts_with(|c: char| c.is_ascii_alphabetic())
                && id.len() <= DEVICE_ID_BYTES_MAX
                && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !well_formed || !ids.insert(id) {
                return Err(PlanError::BadDeviceId { id: id.clone() });
            }
            if slot.0 >= self.pci_slots {
                return Err(PlanError::SlotOutOfRange {
                    device: id.clone(),
                    slot: slot.0,
                    slots: self.pci_slots,
                });
            }
            if !taken.insert(slot) {
                return Err(PlanError::SlotTaken {
                    device: id.clone(),
                    slot: slot.0,
                });
            }
        }
        if let Some(disk) = self
            .disks
            .iter()
            .find(|disk| disk.serial.len() > DISK_SERIAL_BYTES)
        {
            return Err(PlanError::SerialTooLong {
                disk: disk.id.clone(),
                serial: disk.serial.clone(),
            });
        }
        if let Some(nic) = self.nics.iter().find(|nic| nic.tap_fd_index >= descriptors) {
            let (nic, index) = (nic.id.clone(), nic.tap_fd_index);
            return Err(PlanError::NoSuchDescriptor {
                nic,
                index,
                given: descriptors,
            });
        }
        Ok(())
    }
}

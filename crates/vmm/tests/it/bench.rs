//! The place where the tests' guests live: a directory of their own, and a guard that leaves no process.

use std::path::Path;

use vmm::{
    Accelerator, CpuTopology, Firmware, Guest, GuestFiles, GuestPlan, Hypervisor, Machine, ProcessIdentity,
    Smbios, SpawnError, spawn,
};

pub const UUID: &str = "ec2f1a00-0000-4000-8000-000000000001";

pub struct Bench {
    pub dir: tempfile::TempDir,
    pub hypervisor: Hypervisor,
}

impl Bench {
    pub async fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            hypervisor: Hypervisor::fetch().await.unwrap(),
        }
    }

    /// A machine without disks: its firmware finds nothing to boot and idles.
    pub fn plan(&self) -> GuestPlan {
        GuestPlan {
            id: "guest-1".into(),
            uuid: UUID.into(),
            machine: Machine::Q35,
            cpus: CpuTopology::flat(1),
            memory_mib: 64,
            firmware: Firmware::Bios,
            smbios: Smbios {
                vendor: "Vendor, Inc".into(),
                product: "Product".into(),
                serial: UUID.into(),
                board_asset_tag: "guest-1".into(),
                chassis_asset_tag: "Vendor".into(),
            },
            disks: Vec::new(),
            nics: Vec::new(),
            pci_slots: 4,
            files: GuestFiles::in_dir(self.dir.path()),
        }
    }

    pub async fn spawn(&self) -> (Guest, KillOnDrop) {
        let guest = self.try_spawn(&self.plan()).await.unwrap();
        let guard = KillOnDrop(guest.identity().clone());
        (guest, guard)
    }

    pub async fn try_spawn(&self, plan: &GuestPlan) -> Result<Guest, SpawnError> {
        spawn(&self.hypervisor, Accelerator::Tcg, plan, Vec::new()).await
    }
}

/// Kills a test's guest even if the test panics. The start time is compared, so a reused pid is safe.
pub struct KillOnDrop(pub ProcessIdentity);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let stat = std::fs::read_to_string(Path::new("/proc").join(self.0.pid.to_string()).join("stat"));
        if stat.is_ok_and(|stat| stat.contains(&format!(" {} ", self.0.start_ticks))) {
            let pid = rustix::process::Pid::from_raw(self.0.pid).unwrap();
            let _already_gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

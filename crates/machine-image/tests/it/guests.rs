//! What the tests share: the image built once a test, a disk served over NBD, guests on it, and guards that leave
//! no process behind.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine_image::{Built, TinyRequest, build_tiny};
use tempfile::TempDir;
use tokio::time::sleep;
use vmm::{
    Accelerator, CpuTopology, Disk, Firmware, Guest, GuestEvent, GuestFiles, GuestPlan, Hypervisor, Machine,
    PciSlot, ProcessIdentity, Smbios, spawn,
};

pub const INSTANCE: &str = "i-0123456789abcdef0";
pub const UUID: &str = "ec2f1a00-0000-4000-8000-000000000001";
/// Longest boot of the tiny image on a busy machine without KVM; it takes about five seconds on an idle one.
pub const BOOT_MAX: Duration = Duration::from_secs(120);
/// Longest reaction of a booted guest.
pub const REACTION_MAX: Duration = Duration::from_secs(60);

/// Downloads and builds are kept here between runs.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("images")
}

/// The agent, built as the product builds it. Cargo does nothing when it is up to date. Not the `cargo` on the
/// path: this runs inside `cargo test`, which may hold whatever a wrapper waits for.
pub fn agent() -> PathBuf {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let cargo = std::env::var_os("CARGO").expect("tests run under cargo");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent");
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "guest",
            "--profile",
            "guest",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env(
            "RUSTFLAGS",
            "-C target-feature=+crt-static -C relocation-model=static",
        )
        .status()
        .unwrap();
    assert!(status.success(), "the guest agent builds");
    target.join(TARGET).join("guest/guest")
}

/// A fresh tiny image in `dir`.
pub async fn tiny(dir: &Path) -> Built {
    let request = TinyRequest {
        out: dir.join("tiny.raw"),
        cache: cache(),
        guest: agent(),
        extra_command_line: String::new(),
    };
    build_tiny(&request, &|_| {}).await.unwrap()
}

/// A process of a test, killed when the test ends in whatever way.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_collected = self.0.wait();
    }
}

/// A guest's process, killed likewise; the start time is compared, so a reused pid is safe.
pub struct KillOnDrop(pub ProcessIdentity);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.pid));
        if stat.is_ok_and(|stat| stat.contains(&format!(" {} ", self.0.start_ticks))) {
            let pid = rustix::process::Pid::from_raw(self.0.pid).unwrap();
            let _already_gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// An NBD server on a raw file.
pub fn serve_disk(disk: &Path, socket: &Path) -> Process {
    let server = Command::new("qemu-nbd")
        .args([
            "--persistent",
            "--shared=4",
            "--format=raw",
            "--discard=unmap",
            "--cache=writeback",
            "--socket",
        ])
        .arg(socket)
        .arg(disk)
        .stdin(Stdio::null())
        .spawn()
        .expect("qemu-nbd of qemu-utils is installed");
    let started = Instant::now();
    while !socket.exists() {
        assert!(started.elapsed() < REACTION_MAX, "the disk is served");
        std::thread::sleep(Duration::from_millis(5));
    }
    Process(server)
}

/// A machine of two vCPUs and 512 MiB with one disk in slot 0.
pub fn plan(dir: &Path, nbd_socket: &Path, firmware: Firmware) -> GuestPlan {
    GuestPlan {
        id: INSTANCE.into(),
        uuid: UUID.into(),
        machine: Machine::Q35,
        cpus: CpuTopology::flat(2),
        memory_mib: 512,
        firmware,
        smbios: Smbios {
            vendor: "Amazon EC2".into(),
            product: "t3.nano".into(),
            serial: UUID.into(),
            board_asset_tag: INSTANCE.into(),
            chassis_asset_tag: "Amazon EC2".into(),
        },
        disks: vec![Disk {
            id: "vol-0123456789abcdef0".into(),
            nbd_socket: nbd_socket.to_owned(),
            nbd_export: String::new(),
            serial: "vol0123456789abcdef0".into(),
            slot: PciSlot(0),
            boot_index: Some(1),
            read_only: false,
        }],
        nics: Vec::new(),
        pci_slots: 8,
        files: GuestFiles::in_dir(dir),
    }
}

/// A tiny guest without a network, started through `vmm`.
pub struct Bench {
    _dir: TempDir,
    pub plan: GuestPlan,
    pub server: Process,
}

impl Bench {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let built = tiny(dir.path()).await;
        let socket = dir.path().join("disk");
        let server = serve_disk(&built.path, &socket);
        let plan = plan(dir.path(), &socket, Firmware::Bios);
        Self {
            _dir: dir,
            plan,
            server,
        }
    }

    pub async fn start(&self) -> (Guest, KillOnDrop) {
        let hypervisor = Hypervisor::fetch().await.unwrap();
        let guest = spawn(&hypervisor, Accelerator::Tcg, &self.plan, Vec::new())
            .await
            .unwrap();
        let guard = KillOnDrop(guest.identity().clone());
        guest.resume().await.unwrap();
        (guest, guard)
    }

    /// Waits until the guest's own programs run.
    pub async fn booted(&self, times: usize) {
        console(&self.plan.files, "there is no network card", times, BOOT_MAX).await;
    }
}

/// Waits until the console has shown `marker` so many times.
pub async fn console(files: &GuestFiles, marker: &str, times: usize, bound: Duration) {
    let started = Instant::now();
    loop {
        let shown = vmm::console::find_tail(&files.console.log, 1 << 20).unwrap();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        if shown.matches(marker).count() >= times {
            return;
        }
        let tail: Vec<&str> = shown.lines().rev().take(20).collect();
        assert!(
            started.elapsed() < bound,
            "{marker:?} did not appear; newest first: {tail:#?}"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// Takes events until one is `wanted`.
pub async fn event(guest: &Guest, wanted: &GuestEvent) {
    let waiting = async { while guest.next_event().await != *wanted {} };
    let waited = tokio::time::timeout(REACTION_MAX, waiting).await;
    assert!(waited.is_ok(), "{wanted:?} did not come");
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

//! The tiny image on a network: DHCP, metadata, keys, user data, the web server, SSH, panic. The network is QEMU's
//! own user-mode one, which exists only in this test, with a metadata service of ours behind its link-local
//! address.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use vmm::{
    Accelerator, Adoption, Firmware, Guest, GuestEvent, GuestPlan, ProcessIdentity, RunState, adopt, command,
};

use crate::guests::{
    BOOT_MAX, INSTANCE, KillOnDrop, Process, REACTION_MAX, UUID, console, event, free_port, plan, serve_disk,
    tiny,
};

struct Networked {
    _dir: tempfile::TempDir,
    _disk: Process,
    _qemu: Process,
    _guard: KillOnDrop,
    plan: GuestPlan,
    guest: Guest,
    key: PathBuf,
    ssh_port: u16,
    web_port: u16,
}

impl Networked {
    /// A running guest whose user data is `script`.
    async fn start(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status();
        assert!(made.unwrap().success());
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let metadata_port = serve_metadata(script.to_owned(), public);

        let built = tiny(dir.path()).await;
        let socket = dir.path().join("disk");
        let disk = serve_disk(&built.path, &socket);
        let plan = plan(dir.path(), &socket, Firmware::Bios);
        let (ssh_port, web_port) = (free_port(), free_port());
        let network = format!(
            "user,id=net,net=169.254.0.0/16,host=169.254.0.2,dhcpstart=169.254.10.15,\
             hostfwd=tcp:127.0.0.1:{ssh_port}-:22,hostfwd=tcp:127.0.0.1:{web_port}-:80,\
             guestfwd=tcp:169.254.169.254:80-cmd:/usr/bin/socat - TCP:127.0.0.1:{metadata_port}"
        );
        // `spawn` makes no user-mode network and forbids QEMU to start programs, so this process is started here.
        let mut arguments = command::arguments(&plan, Accelerator::Tcg, &[]);
        let sandbox = arguments
            .iter()
            .position(|argument| argument == "-sandbox")
            .unwrap();
        arguments.drain(sandbox..=sandbox + 1);
        let qemu = Command::new("qemu-system-x86_64")
            .args(arguments)
            .args(["-netdev", &network, "-device"])
            .arg(r#"{"driver":"virtio-net-pci","netdev":"net","bus":"port1","romfile":""}"#)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let identity = identify(qemu.id());
        let (qemu, guard) = (Process(qemu), KillOnDrop(identity.clone()));
        let guest = adopted(&plan, &identity).await;
        guest.resume().await.unwrap();
        Self {
            _dir: dir,
            _disk: disk,
            _qemu: qemu,
            _guard: guard,
            plan,
            guest,
            key,
            ssh_port,
            web_port,
        }
    }

    async fn says(&self, marker: &str, times: usize) {
        console(&self.plan.files, marker, times, BOOT_MAX).await;
    }

    /// Runs a command inside, trying again until SSH answers.
    async fn ssh(&self, user: &str, command: &str) -> String {
        let started = Instant::now();
        loop {
            let output = Command::new("ssh")
                .args([
                    "-o",
                    "StrictHostKeyChecking=no",
                    "-o",
                    "UserKnownHostsFile=/dev/null",
                    "-o",
                    "BatchMode=yes",
                ])
                .args([
                    "-o",
                    "ConnectTimeout=20",
                    "-o",
                    "LogLevel=ERROR",
                    "-p",
                    &self.ssh_port.to_string(),
                    "-i",
                ])
                .arg(&self.key)
                .args([&format!("{user}@127.0.0.1"), command])
                .output()
                .unwrap();
            if output.status.success() {
                return String::from_utf8(output.stdout).unwrap();
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(started.elapsed() < REACTION_MAX, "{command}: {said}");
            sleep(Duration::from_millis(200)).await;
        }
    }
}

fn identify(pid: u32) -> ProcessIdentity {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let start_ticks = rest.split_ascii_whitespace().nth(19).unwrap().parse().unwrap();
    ProcessIdentity {
        pid: pid.try_into().unwrap(),
        start_ticks,
        boot_id: vmm::process::boot_id().unwrap(),
    }
}

async fn adopted(plan: &GuestPlan, identity: &ProcessIdentity) -> Guest {
    let started = Instant::now();
    loop {
        match adopt(&plan.files, UUID, identity).await.unwrap() {
            Adoption::Adopted(guest) => return guest,
            other => assert!(started.elapsed() < REACTION_MAX, "{other:?}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The few paths of the metadata service that the guest asks for; version 2 only. Ends with the test's process.
fn serve_metadata(script: String, key: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let (status, body) = answer(&head, &script, &key);
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
            let _guest_gone = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn answer(head: &str, script: &str, key: &str) -> (u16, String) {
    if head.starts_with("PUT /latest/api/token ") && head.contains("X-aws-ec2-metadata-token-ttl-seconds: ") {
        return (200, "the-token".into());
    }
    if !head.contains("X-aws-ec2-metadata-token: the-token\r\n") {
        return (401, String::new());
    }
    match head.split(' ').nth(1).unwrap_or_default() {
        "/latest/meta-data/instance-id" => (200, INSTANCE.into()),
        "/latest/meta-data/local-hostname" => (200, "ip-10-0-0-5.eu-central-1.compute.internal".into()),
        "/latest/meta-data/public-keys/0/openssh-key" => (200, key.into()),
        "/latest/user-data" if !script.is_empty() => (200, script.into()),
        _ => (404, String::new()),
    }
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[tokio::test]
async fn a_guest_becomes_its_instance() {
    let script =
        "#!/bin/sh\necho once >> /srv/index.html\nguest httpd --port 80 --dir /srv >/dev/null 2>&1 &\n";
    let started = Instant::now();
    let machine = Networked::start(script).await;
    machine.says("Linux version", 1).await;
    println!("first kernel line after {:.2?}", started.elapsed());
    machine.says(&format!("SPX-READY {INSTANCE}"), 1).await;
    println!("ready after {:.2?} (image build included)", started.elapsed());
    machine.says("spinifex-guest: user data finished (0)", 1).await;
    assert!(get(machine.web_port, "/").unwrap().ends_with("\r\n\r\nonce\n"));

    for user in ["root", "ec2-user"] {
        assert_eq!(
            machine.ssh(user, "id -un; uname -n").await,
            format!("{user}\nip-10-0-0-5\n")
        );
    }
    let facts = "cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_uuid /sys/class/dmi/id/board_asset_tag \
                 /sys/block/vda/serial; echo; df -m / | tail -1 | awk '{print ($2 > 900)}'";
    let expected = format!("Amazon EC2\n{UUID}\n{INSTANCE}\nvol0123456789abcdef0\n1\n");
    assert_eq!(
        machine.ssh("root", facts).await,
        expected,
        "identity, serial, and a root grown to its disk"
    );

    // A reboot: the process stays, the disk is kept, the user data is not run again, the host key is the same.
    let host_key = machine
        .ssh("root", "cat /etc/dropbear/dropbear_ed25519_host_key | md5sum")
        .await;
    machine
        .ssh("root", "sync; (sleep 1; reboot) >/dev/null 2>&1 &")
        .await;
    event(&machine.guest, &GuestEvent::Reset { by_guest: true }).await;
    machine.says(&format!("SPX-READY {INSTANCE}"), 2).await;
    let again = machine
        .ssh("root", "cat /etc/dropbear/dropbear_ed25519_host_key | md5sum")
        .await;
    assert_eq!(again, host_key);
    assert_eq!(machine.ssh("root", "cat /srv/index.html").await, "once\n");

    machine.ssh("root", "(sleep 1; poweroff) >/dev/null 2>&1 &").await;
    event(&machine.guest, &GuestEvent::PoweredOff).await;
    assert_eq!(machine.guest.status().await.unwrap(), RunState::Shutdown);
}

#[tokio::test]
async fn a_panic_is_an_event_and_not_an_end() {
    let machine = Networked::start("#!/bin/sh\nguest panic\n").await;
    machine.says("Kernel panic", 1).await;
    event(&machine.guest, &GuestEvent::Panicked).await;
    assert_eq!(
        machine.guest.status().await.unwrap(),
        RunState::Running,
        "it may still dump or restart itself"
    );
}

#[tokio::test]
async fn a_missing_agent_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let request = machine_image::TinyRequest {
        out: dir.path().join("tiny.raw"),
        cache: crate::guests::cache(),
        guest: Path::new("/nonexistent").to_owned(),
        extra_command_line: String::new(),
    };
    let error = machine_image::build_tiny(&request, &|_| {}).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

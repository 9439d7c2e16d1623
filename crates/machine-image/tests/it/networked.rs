//! A guest with a network for tests: QEMU's own user-mode one, which exists only here, with a metadata service of
//! ours behind its link-local address and the guest's SSH and web ports forwarded.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use vmm::{Accelerator, Adoption, Firmware, Guest, GuestPlan, ProcessIdentity, adopt, command};

use crate::guests::{
    BOOT_MAX, INSTANCE, KillOnDrop, Process, REACTION_MAX, UUID, console, free_port, plan, serve_disk, tiny,
};

/// A running guest with a network, started for a test.
pub struct Networked {
    _dir: tempfile::TempDir,
    _disk: Process,
    _qemu: Process,
    _guard: KillOnDrop,
    pub plan: GuestPlan,
    pub guest: Guest,
    pub web_port: u16,
    key: PathBuf,
    ssh_port: u16,
}

impl Networked {
    /// A tiny guest whose user data is `script`.
    pub async fn tiny(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let built = tiny(dir.path()).await;
        Self::start(dir, &built.path, Firmware::Bios, script).await
    }

    /// A guest on `disk`, which is changed, with `script` as its user data.
    pub async fn start(dir: tempfile::TempDir, disk: &Path, firmware: Firmware, script: &str) -> Self {
        let key = dir.path().join("key");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status();
        assert!(made.unwrap().success());
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let metadata_port = serve_metadata(script.to_owned(), public);

        let socket = dir.path().join("disk");
        let disk = serve_disk(disk, &socket);
        let plan = plan(dir.path(), &socket, firmware);
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

    /// Waits until the console has shown `marker` so many times.
    pub async fn says(&self, marker: &str, times: usize) {
        console(&self.plan.files, marker, times, BOOT_MAX).await;
    }

    /// Runs a command inside, trying again until SSH answers.
    pub async fn ssh(&self, user: &str, command: &str) -> String {
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
            let (script, key) = (script.clone(), key.clone());
            // A client that connects and says nothing must not keep the others waiting.
            std::thread::spawn(move || serve_one(stream.unwrap(), &script, &key));
        }
    });
    port
}

fn serve_one(mut stream: TcpStream, script: &str, key: &str) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    let (status, body) = answer(&String::from_utf8_lossy(&head), script, key);
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    let _guest_gone = stream.write_all(answer.as_bytes());
}

fn answer(head: &str, script: &str, key: &str) -> (u16, String) {
    if head.starts_with("PUT /latest/api/token ")
        && head
            .to_ascii_lowercase()
            .contains("x-aws-ec2-metadata-token-ttl-seconds: ")
    {
        return (200, "the-token".into());
    }
    if !head
        .to_ascii_lowercase()
        .contains("x-aws-ec2-metadata-token: the-token\r\n")
    {
        return (401, String::new());
    }
    // Every version has the same contents; directories are listed as cloud-init walks them.
    let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (_version, path) = path.split_once('/').unwrap_or_default();
    match path {
        "meta-data/" => (200, "hostname\ninstance-id\nlocal-hostname\npublic-keys/".into()),
        "meta-data/instance-id" => (200, INSTANCE.into()),
        "meta-data/hostname" | "meta-data/local-hostname" => {
            (200, "ip-10-0-0-5.eu-central-1.compute.internal".into())
        }
        "dynamic/instance-identity" | "dynamic/instance-identity/" => (200, "document".into()),
        "dynamic/instance-identity/document" => (200, format!(r#"{{"instanceId": "{INSTANCE}"}}"#)),
        "meta-data/public-keys/" => (200, "0=key".into()),
        "meta-data/public-keys/0/openssh-key" => (200, key.into()),
        "user-data" if !script.is_empty() => (200, script.into()),
        _ => (404, String::new()),
    }
}

/// Time that a server has to listen after the script that started it in the background has ended.
const SERVER_UP_MAX: Duration = Duration::from_secs(20);

/// A GET of a web page, with its head; asked again while nobody listens yet.
pub fn get(port: u16, path: &str) -> std::io::Result<String> {
    let started = Instant::now();
    loop {
        match get_once(port, path) {
            Ok(text) if !text.is_empty() => return Ok(text),
            answer if started.elapsed() >= SERVER_UP_MAX => return answer,
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn get_once(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

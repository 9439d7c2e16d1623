//! The Debian image with its UEFI firmware and cloud-init. Takes minutes and the Debian mirror, so it runs when it is
//! asked for: `cargo nextest run -p machine-image --run-ignored all -E 'test(debian)'`. With `DEBIAN_RAW=FILE` it
//! boots a copy of an image that is built already.

use std::process::Command;
use std::time::{Duration, Instant};

use machine_image::{BootMode, DebianRequest, build_debian12};
use vmm::{Firmware, GuestEvent, Ovmf, RunState};

use crate::guests::{cache, console, event};
use crate::networked::{Networked, get};

/// Longest first boot under emulation; it takes one to two minutes on an idle machine.
const FIRST_BOOT_MAX: Duration = Duration::from_secs(500);

#[tokio::test]
#[ignore = "builds a whole Debian: minutes, and the network"]
async fn debian_becomes_its_instance() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = dir.path().join("debian.raw");
    match std::env::var_os("DEBIAN_RAW") {
        Some(built) => {
            let copied = Command::new("cp")
                .arg("--sparse=always")
                .arg(built)
                .arg(&disk)
                .status();
            assert!(copied.unwrap().success());
        }
        None => {
            let request = DebianRequest {
                out: disk.clone(),
                work: cache(),
                mirror: None,
            };
            let built = build_debian12(&request, &|_| {}).await.unwrap();
            assert_eq!((built.size_gib(), built.boot_mode), (3, BootMode::Uefi));
            println!("{built:?}");
        }
    }
    // A volume larger than the image, to see the root grow.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&disk)
        .unwrap()
        .set_len(6 << 30)
        .unwrap();

    let ovmf = Ovmf::fetch().unwrap();
    let vars = dir.path().join("vars.fd");
    ovmf.ensure_variables(&vars).unwrap();
    let firmware = Firmware::Uefi {
        code: ovmf.code.clone(),
        vars,
    };
    let script = "#!/bin/sh\nmkdir -p /srv/www && echo cloud-init > /srv/www/index.html\n\
                  cd /srv/www && nohup python3 -m http.server 80 >/dev/null 2>&1 &\n";
    let started = Instant::now();
    let machine = Networked::start(dir, &disk, firmware, script).await;
    console(&machine.plan.files, "Linux version", 1, FIRST_BOOT_MAX).await;
    println!("first kernel line after {:.1?}", started.elapsed());
    console(&machine.plan.files, "login:", 1, FIRST_BOOT_MAX).await;
    println!("login prompt after {:.1?}", started.elapsed());
    console(&machine.plan.files, "finished at", 1, FIRST_BOOT_MAX).await;
    println!("cloud-init done after {:.1?}", started.elapsed());

    let facts = "cloud-id; uname -n; sudo id -un; df -BG --output=size / | tail -1 | awk '{print ($1 + 0 >= 5)}'; \
                 ls /dev/disk/by-id | grep -c '^virtio-vol0123456789abcdef0$'; \
                 systemctl is-system-running --wait; systemctl --failed --no-legend --plain; \
                 sudo grep -hE 'WARNING|Error:' /var/log/cloud-init.log | tail";
    let told = machine.ssh("admin", facts).await;
    println!("{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[..6],
        ["aws", "ip-10-0-0-5", "root", "1", "1", "running"],
        "{told}"
    );
    assert!(get(machine.web_port, "/").unwrap().ends_with("cloud-init\n"));
    machine.guest.power_down().await.unwrap();
    event(&machine.guest, &GuestEvent::PoweredOff).await;
    assert_eq!(machine.guest.status().await.unwrap(), RunState::Shutdown);
}

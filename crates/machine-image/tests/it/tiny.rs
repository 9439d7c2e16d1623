//! The tiny image on a network: DHCP, metadata, keys, user data, the web server, SSH, reboot, power-off, panic.

use std::path::Path;
use std::time::Instant;

use vmm::{GuestEvent, RunState};

use crate::guests::{INSTANCE, UUID, event};
use crate::networked::{Networked, get};

#[tokio::test]
async fn a_guest_becomes_its_instance() {
    let script =
        "#!/bin/sh\necho once >> /srv/index.html\nguest httpd --port 80 --dir /srv >/dev/null 2>&1 &\n";
    let started = Instant::now();
    let machine = Networked::tiny(script).await;
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
    let machine = Networked::tiny("#!/bin/sh\nguest panic\n").await;
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

//! The cache, without booting; booting is in the integration tests of this crate.

use super::{Accelerator, AcceleratorProbe, ProbeOutcome, find_cached, last_lines};

fn probe() -> AcceleratorProbe {
    AcceleratorProbe {
        accelerator: Accelerator::Kvm,
        outcome: ProbeOutcome::Booted,
        boot_id: "boot".into(),
        qemu_version: "7.2".into(),
        kernel: Some(("/boot/vmlinuz".into(), 1, 2)),
        boot_ms: 900,
    }
}

#[test]
fn the_cache_holds_for_the_same_machine_only() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("accelerator.json");
    let now = probe();
    assert_eq!(find_cached(&cache, &now), None);
    std::fs::write(&cache, "{").unwrap();
    assert_eq!(find_cached(&cache, &now), None, "a torn cache is no cache");
    std::fs::write(&cache, serde_json::to_vec(&now).unwrap()).unwrap();
    assert_eq!(find_cached(&cache, &now), Some(now.clone()));
    let others = [
        AcceleratorProbe {
            boot_id: "next boot".into(),
            ..now.clone()
        },
        AcceleratorProbe {
            qemu_version: "8".into(),
            ..now.clone()
        },
        AcceleratorProbe {
            kernel: Some(("/boot/vmlinuz".into(), 1, 3)),
            ..now
        },
    ];
    for other in others {
        assert_eq!(find_cached(&cache, &other), None);
    }
}

#[test]
fn the_last_lines_are_shown() {
    assert_eq!(last_lines(b"a\r\nb\r\n\r\nc\r\nd"), "b | c | d");
    assert_eq!(last_lines(b""), "");
}

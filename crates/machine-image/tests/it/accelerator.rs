//! The accelerator probe with Debian's own kernel.

use std::time::Instant;

use machine_image::fetch_kernel;
use vmm::{Accelerator, Hypervisor, ProbeOutcome, probe_accelerator, try_boot};

use crate::guests::cache;

#[tokio::test]
async fn the_probe_reaches_user_space_where_it_can() {
    let hypervisor = Hypervisor::fetch().await.unwrap();
    let kernel = fetch_kernel(&cache()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let outcome = try_boot(&hypervisor, Accelerator::Tcg, &kernel.image, dir.path())
        .await
        .unwrap();
    assert_eq!(outcome, ProbeOutcome::Booted, "TCG runs everywhere");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[tokio::test]
async fn the_probe_believes_only_a_boot_and_remembers() {
    let hypervisor = Hypervisor::fetch().await.unwrap();
    let kernel = fetch_kernel(&cache()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kernels = [kernel.image];
    let probe = probe_accelerator(&hypervisor, dir.path(), &kernels)
        .await
        .unwrap();
    let expected = if probe.outcome == ProbeOutcome::Booted {
        Accelerator::Kvm
    } else {
        Accelerator::Tcg
    };
    assert_eq!(probe.accelerator, expected, "{probe:?}");
    println!("{probe:?}");
    let started = Instant::now();
    let again = probe_accelerator(&hypervisor, dir.path(), &kernels)
        .await
        .unwrap();
    assert_eq!(again, probe);
    assert!(
        started.elapsed().as_millis() < 500,
        "the second answer is remembered"
    );
}

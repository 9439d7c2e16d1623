//! What this machine can really run. The existence of `/dev/kvm` proves nothing (there are machines where it opens,
//! creates virtual machines and then hangs a stock kernel), so the probe boots one: a stock kernel with an
//! [`initramfs`] of ours, to a marker printed by user space on the serial port, within a bound. If that fails,
//! guests run under TCG; no guest ever fails for lack of KVM.
//!
//! The answer is cached in `<run_dir>/accelerator.json` for one boot of the machine, one QEMU and one kernel.
//! Answers that a change of the machine could overturn cheaply (no device, no kernel) are not cached.
//! Called by `node` at its start.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::ProbeError;
use crate::hypervisor::Hypervisor;
use crate::limits::{PROBE_BOOT_MAX, PROBE_OUTPUT_BYTES_MAX, PROBE_SILENCE_MAX, TCG_BUFFER_MIB};
use crate::process::boot_id;

mod initramfs;

/// How guests' instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// By the processor.
    Kvm,
    /// Translated by QEMU; everywhere possible, several times slower.
    Tcg,
}

/// The outcome of a probe, to be shown to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceleratorProbe {
    /// What guests are to use.
    pub accelerator: Accelerator,
    /// What that was decided from.
    pub outcome: ProbeOutcome,
    /// Boot of this machine it is true for.
    pub boot_id: String,
    /// QEMU it is true for.
    pub qemu_version: String,
    /// Kernel it was found with: path, length and modification time.
    pub kernel: Option<(PathBuf, u64, i64)>,
    /// How long the probe's boot took or was waited for, milliseconds.
    pub boot_ms: u64,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// The kernel booted to user space.
    Booted,
    /// There is no device that could be opened.
    NoDevice {
        /// The kernel's words.
        error: String,
    },
    /// There is no stock kernel to try with.
    NoKernel,
    /// The kernel did not come as far as user space.
    Hung {
        /// The last that it printed.
        last_output: String,
    },
    /// QEMU gave up by itself.
    Failed {
        /// The last that it printed.
        last_output: String,
    },
}

/// Finds the accelerator for this machine, from the cache if it holds. `kernels` are tried in order before the
/// machine's own (`/boot/vmlinuz*`); the first that exists is booted.
///
/// # Errors
/// The cache cannot be written or `/proc` not read. A failed boot is an answer, not an error.
pub async fn probe_accelerator(
    hypervisor: &Hypervisor,
    run_dir: &Path,
    kernels: &[PathBuf],
) -> Result<AcceleratorProbe, ProbeError> {
    let kernel = find_kernel(kernels);
    let mut probe = AcceleratorProbe {
        accelerator: Accelerator::Tcg,
        outcome: ProbeOutcome::NoKernel,
        boot_id: boot_id().map_err(ProbeError::Boot)?,
        qemu_version: hypervisor.version.clone(),
        kernel,
        boot_ms: 0,
    };
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        probe.outcome = ProbeOutcome::NoDevice {
            error: error.to_string(),
        };
        return Ok(probe);
    }
    let Some((kernel, ..)) = probe.kernel.clone() else {
        tracing::warn!("no stock kernel found to try KVM with; guests run emulated");
        return Ok(probe);
    };
    let cache = run_dir.join("accelerator.json");
    if let Some(cached) = find_cached(&cache, &probe) {
        return Ok(cached);
    }
    let started = Instant::now();
    probe.outcome = try_boot(hypervisor, Accelerator::Kvm, &kernel, run_dir).await?;
    probe.boot_ms = started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    if probe.outcome == ProbeOutcome::Booted {
        probe.accelerator = Accelerator::Kvm;
    }
    tracing::info!(outcome = ?probe.outcome, ms = probe.boot_ms, "tried to boot a stock kernel under KVM");

    let text = serde_json::to_string_pretty(&probe).expect("a probe has only string keys");
    let writing = cache.with_extension("new");
    fs::write(&writing, text)
        .and_then(|()| fs::rename(&writing, &cache))
        .map_err(|source| ProbeError::Files { path: cache, source })?;
    Ok(probe)
}

/// The cached probe if it is about the same boot, QEMU and kernel. A damaged cache is no cache.
fn find_cached(cache: &Path, now: &AcceleratorProbe) -> Option<AcceleratorProbe> {
    let cached: AcceleratorProbe = serde_json::from_slice(&fs::read(cache).ok()?).ok()?;
    let same = cached.boot_id == now.boot_id
        && cached.qemu_version == now.qemu_version
        && cached.kernel == now.kernel;
    same.then_some(cached)
}

fn find_kernel(given: &[PathBuf]) -> Option<(PathBuf, u64, i64)> {
    let mut installed: Vec<PathBuf> = fs::read_dir("/boot")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
        })
        .collect();
    installed.sort();
    given.iter().cloned().chain(installed).find_map(|path| {
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((path, metadata.len(), metadata.mtime()))
    })
}

/// Boots `kernel` to the marker under `accelerator` and ends it again; `work` is a directory for a small file.
///
/// # Errors
/// The file could not be written. A failed boot is an answer.
pub async fn try_boot(
    hypervisor: &Hypervisor,
    accelerator: Accelerator,
    kernel: &Path,
    work: &Path,
) -> Result<ProbeOutcome, ProbeError> {
    let initrd = work.join("accelerator-probe.cpio");
    fs::create_dir_all(work)
        .and_then(|()| fs::write(&initrd, initramfs::archive()))
        .map_err(|source| ProbeError::Files {
            path: initrd.clone(),
            source,
        })?;
    let outcome = boot(hypervisor, accelerator, kernel, &initrd).await;
    if let Err(error) = fs::remove_file(&initrd) {
        tracing::warn!(%error, path = ?initrd, "the probe's file stays behind");
    }
    Ok(outcome)
}

async fn boot(
    hypervisor: &Hypervisor,
    accelerator: Accelerator,
    kernel: &Path,
    initrd: &Path,
) -> ProbeOutcome {
    let mut command = Command::new(&hypervisor.program);
    command.args([
        "-no-user-config",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-machine",
        "q35",
    ]);
    match accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accelerator::Tcg => command.args(["-accel", &format!("tcg,tb-size={TCG_BUFFER_MIB}"), "-cpu", "max"]),
    };
    command
        .args(["-m", "256", "-serial", "stdio", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(initrd);
    command.args(["-append", "console=ttyS0 panic=-1"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return ProbeOutcome::Failed {
                last_output: error.to_string(),
            };
        }
    };
    let mut serial = child.stdout.take().expect("it was piped");
    let mut output = Vec::new();
    let read = timeout(PROBE_BOOT_MAX, read_to_marker(&mut serial, &mut output)).await;
    let outcome = match read {
        Ok(Ok(Serial::Marker)) => ProbeOutcome::Booted,
        Ok(Ok(Serial::Silent)) | Err(_) => ProbeOutcome::Hung {
            last_output: last_lines(&output),
        },
        Ok(Ok(Serial::Closed) | Err(_)) => {
            let mut said = Vec::new();
            if let Some(stderr) = child.stderr.take() {
                // Its end is near: the serial port is closed already.
                let reading = stderr.take(4096);
                tokio::pin!(reading);
                drop(timeout(Duration::from_secs(1), reading.read_to_end(&mut said)).await);
            }
            output.extend_from_slice(&said);
            ProbeOutcome::Failed {
                last_output: last_lines(&output),
            }
        }
    };
    if let Err(error) = child.kill().await {
        tracing::warn!(%error, "the probe's QEMU could not be killed");
    }
    outcome
}

enum Serial {
    Marker,
    Silent,
    Closed,
}

async fn read_to_marker(serial: &mut (impl AsyncRead + Unpin), output: &mut Vec<u8>) -> io::Result<Serial> {
    let marker = initramfs::MARKER.trim_ascii();
    let mut chunk = [0; 4096];
    loop {
        let Ok(read) = timeout(PROBE_SILENCE_MAX, serial.read(&mut chunk)).await else {
            return Ok(Serial::Silent);
        };
        match read? {
            0 => return Ok(Serial::Closed),
            n => output.extend_from_slice(&chunk[..n]),
        }
        if output.windows(marker.len()).any(|window| window == marker) {
            return Ok(Serial::Marker);
        }
        if output.len() > PROBE_OUTPUT_BYTES_MAX {
            output.drain(..output.len() - PROBE_OUTPUT_BYTES_MAX / 2);
        }
    }
}

fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

#[cfg(test)]
mod tests;

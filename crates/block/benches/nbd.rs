//! The `file` provider behind our NBD server against `qemu-nbd` on a raw file and `nbdkit file`, in one run, by fio's nbd engine.
//!
//! Prints bandwidth or operations of each and our ratio to each peer; medians over interleaved rounds. Run it alone on the machine:
//! `cargo bench -p block --bench nbd`. Needs fio, qemu-utils and nbdkit. `ROUNDS` and `SECONDS_EACH` may be set in the environment.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use block::export::{ExportManager, ExportManagerConfig, ExportPool};
use block::file::{FilePool, FilePoolConfig};
use block::id::{NodeId, VolumeId};
use block::provider::{CreateVolume, PublishVolume, VolumeProvider};

const SIZE: u64 = 2 << 30;

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(socket: &Path) {
    let started = Instant::now();
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{} does not answer",
            socket.display()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn peer(program: &str, arguments: &[&str], socket: &Path) -> Peer {
    let child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(socket);
    Peer(child)
}

/// Runs one fio job; its operations a second, and its median latency in microseconds.
fn fio(socket: &Path, job: &[&str], seconds: u32) -> (f64, f64) {
    let output = Command::new("fio")
        .args([
            "--name=job",
            "--ioengine=nbd",
            "--output-format=json",
            "--time_based",
            "--randseed=7",
        ])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--size={SIZE}"))
        .arg(format!("--runtime={seconds}"))
        .args(job)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).unwrap();
    let sides = ["read", "write"].map(|side| &report["jobs"][0][side]);
    let rate = sides
        .iter()
        .map(|side| side["iops"].as_f64().unwrap_or(0.0))
        .sum();
    let median = sides
        .iter()
        .filter_map(|side| side["clat_ns"]["percentile"]["50.000000"].as_f64())
        .fold(0.0, f64::max);
    (rate, median / 1000.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn main() {
    let (rounds, seconds) = (setting("ROUNDS", 3), setting("SECONDS_EACH", 4));
    let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, std::path::PathBuf::from);
    let directory = tempfile::Builder::new()
        .prefix("spx-bench-")
        .tempdir_in(base)
        .unwrap();
    let at = |name: &str| directory.path().join(name);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pool = FilePool::open(FilePoolConfig {
        root: at("pool"),
        exports: at("x"),
        reserve_bytes: None,
    })
    .unwrap();
    let manager = ExportManager::open(ExportManagerConfig {
        exports: at("x"),
        launcher: vec![OsString::from(env!("CARGO_BIN_EXE_block-serve"))],
        pool: ExportPool::File {
            root: at("pool"),
            reserve_bytes: pool.reserve_bytes(),
        },
    })
    .unwrap();
    let volume = VolumeId::new("vol-bench").unwrap();
    let publication = runtime.block_on(async {
        pool.create_volume(CreateVolume::blank(volume.clone(), SIZE))
            .await
            .unwrap();
        let node = NodeId::new("n1").unwrap();
        let request = PublishVolume {
            volume,
            handle: None,
            node,
            read_only: false,
            generation: None,
        };
        let publication = pool.publish_volume(request).await.unwrap();
        manager.ensure(&publication).await.unwrap();
        publication
    });
    let (raw_q, raw_k) = (at("q.raw"), at("k.raw"));
    for raw in [&raw_q, &raw_k] {
        std::fs::File::create(raw).unwrap().set_len(SIZE).unwrap();
    }
    let (socket_q, socket_k) = (at("q.sock"), at("k.sock"));
    let text = |path: &Path| path.display().to_string();
    let q = [
        "-t",
        "-f",
        "raw",
        "-e",
        "16",
        "--cache=writeback",
        "--discard=unmap",
        "-k",
        &text(&socket_q),
        &text(&raw_q),
    ];
    let _q = peer("qemu-nbd", &q, &socket_q);
    let _k = peer(
        "nbdkit",
        &["-f", "-U", &text(&socket_k), "file", &text(&raw_k)],
        &socket_k,
    );
    let sockets = [publication.export.socket(), &socket_q, &socket_k];
    println!("{SIZE} bytes, {rounds} rounds of {seconds} s, filling first");
    for socket in sockets {
        fio_fill(socket);
    }
    let jobs: [(&str, &[&str]); 7] = [
        ("4k randread qd32", &["--rw=randread", "--bs=4k", "--iodepth=32"]),
        ("4k randread qd1", &["--rw=randread", "--bs=4k", "--iodepth=1"]),
        (
            "4k randwrite qd32",
            &["--rw=randwrite", "--bs=4k", "--iodepth=32"],
        ),
        (
            "4k randwrite qd32 flush/32",
            &["--rw=randwrite", "--bs=4k", "--iodepth=32", "--fsync=32"],
        ),
        (
            "4k write+flush qd1",
            &["--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=1"],
        ),
        ("1m seqread qd8", &["--rw=read", "--bs=1m", "--iodepth=8"]),
        ("1m seqwrite qd8", &["--rw=write", "--bs=1m", "--iodepth=8"]),
    ];
    println!(
        "{:<28} {:>10} {:>10} {:>10} {:>8} {:>8}   p50 us ours/qemu-nbd/nbdkit",
        "job", "ours/s", "qemu-nbd/s", "nbdkit/s", "÷ Q", "÷ K"
    );
    for (name, job) in jobs {
        let mut results = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (socket, results) in sockets.iter().zip(&mut results) {
                results.push(fio(socket, job, seconds));
            }
        }
        let rate = |n: usize| median(results[n].iter().map(|r| r.0).collect());
        let p50 = |n: usize| median(results[n].iter().map(|r| r.1).collect());
        println!(
            "{name:<28} {:>10.0} {:>10.0} {:>10.0} {:>8.2} {:>8.2}   {:.0}/{:.0}/{:.0}",
            rate(0),
            rate(1),
            rate(2),
            rate(0) / rate(1),
            rate(0) / rate(2),
            p50(0),
            p50(1),
            p50(2)
        );
    }
    runtime.block_on(async {
        manager
            .stop(publication.handle, Duration::from_secs(60))
            .await
            .unwrap()
    });
}

fn fio_fill(socket: &Path) {
    let done = Command::new("fio")
        .args([
            "--name=fill",
            "--ioengine=nbd",
            "--rw=write",
            "--bs=1m",
            "--iodepth=8",
            "--end_fsync=1",
            "--output=/dev/null",
        ])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--size={SIZE}"))
        .status()
        .unwrap();
    assert!(done.success());
}

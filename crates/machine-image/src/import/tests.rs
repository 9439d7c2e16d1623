//! Imports with the real `qemu-img`, good and hostile.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::{ImportRequest, SourceFormat, examine, import, last_percent};
use crate::error::ImageError;
use crate::limits::GIB;
use crate::output::BootMode;
use crate::progress::Progress;

fn qemu_img(arguments: &[&str], dir: &Path) {
    let status = Command::new("qemu-img")
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stderr)
    );
}

/// A small bootable-looking raw disk with data far behind a hole.
fn raw_disk(dir: &Path) -> PathBuf {
    let path = dir.join("disk.img");
    let disk = std::fs::File::create(&path).unwrap();
    disk.set_len(GIB + 4096).unwrap();
    disk.write_all_at(&[0x55, 0xaa], 510).unwrap();
    disk.write_all_at(b"far", GIB).unwrap();
    path
}

async fn imported(source: &Path, dir: &Path) -> Result<crate::output::Built, ImageError> {
    let seen = Mutex::new(Vec::new());
    let out = dir.join("out.raw");
    let request = ImportRequest {
        source: source.to_owned(),
        out,
        boot_mode: BootMode::Uefi,
    };
    let built = import(&request, &|progress| seen.lock().unwrap().push(progress)).await?;
    let seen = seen.into_inner().unwrap();
    let total = GIB + 4096;
    assert_eq!(
        seen.last(),
        Some(&Progress::Done { done: total, total }),
        "{seen:?}"
    );
    Ok(built)
}

#[tokio::test]
async fn raw_and_qcow2_become_the_same_sparse_disk() {
    let dir = tempfile::tempdir().unwrap();
    let raw = raw_disk(dir.path());
    qemu_img(
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            "-c",
            "disk.img",
            "disk.qcow2",
        ],
        dir.path(),
    );
    for (source, format) in [
        (raw, SourceFormat::Raw),
        (dir.path().join("disk.qcow2"), SourceFormat::Qcow2),
    ] {
        assert_eq!(examine(&source).unwrap(), (format, GIB + 4096));
        let built = imported(&source, dir.path()).await.unwrap();
        assert_eq!((built.bytes, built.boot_mode), (2 * GIB, BootMode::Uefi));
        assert!(built.allocated_bytes < 1 << 20, "{}", built.allocated_bytes);
        let mut far = [0; 3];
        std::fs::File::open(&built.path)
            .unwrap()
            .read_exact_at(&mut far, GIB)
            .unwrap();
        assert_eq!(&far, b"far");
    }
}

#[tokio::test]
async fn what_refers_elsewhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    raw_disk(dir.path());
    qemu_img(
        &[
            "create",
            "-f",
            "qcow2",
            "-b",
            "disk.img",
            "-F",
            "raw",
            "backed.qcow2",
        ],
        dir.path(),
    );
    qemu_img(
        &[
            "create",
            "-f",
            "qcow2",
            "-o",
            "data_file=data.raw",
            "external.qcow2",
            "1G",
        ],
        dir.path(),
    );
    for (name, expected) in [
        ("backed.qcow2", "it has a backing file"),
        ("external.qcow2", "its data is in another file"),
    ] {
        let error = imported(&dir.path().join(name), dir.path()).await.unwrap_err();
        assert!(
            matches!(error, ImageError::RefusedQcow2 { why, .. } if why == expected),
            "{name}: {error}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().contains("out.raw")),
        "{left:?}"
    );
}

#[test]
fn other_formats_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let long_tar = [vec![b'a'; 257], b"ustar\0".to_vec(), vec![0; 600]].concat();
    let fixed_vhd = [
        vec![0; 510],
        vec![0x55, 0xaa],
        vec![0; 1024],
        b"conectix".to_vec(),
        vec![0; 504],
    ]
    .concat();
    let cases: [(&[u8], &str); 6] = [
        (b"KDMVxxxx", "VMDK"),
        (b"\x1f\x8bxx", "gzip"),
        (&long_tar, "tar"),
        (&fixed_vhd, "VHD"),
        (b"vhdxfile", "VHDX"),
        (b"\xfd7zXZ\0", "xz"),
    ];
    for (bytes, expected) in cases {
        std::fs::write(&path, bytes).unwrap();
        let error = examine(&path).unwrap_err();
        assert!(
            matches!(error, ImageError::UnsupportedFormat { format, .. } if format.contains(expected)),
            "{error}"
        );
    }
    for bytes in [&b""[..], b"text", &[0; 1000]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(examine(&path).unwrap_err(), ImageError::NotADisk { .. }));
    }
    std::fs::write(&path, b"QFI\xfb\0\0\0\x03").unwrap();
    assert!(
        matches!(examine(&path).unwrap_err(), ImageError::RefusedQcow2 { .. }),
        "cut off"
    );
}

#[test]
fn a_huge_disk_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    qemu_img(&["create", "-f", "qcow2", "huge.qcow2", "17T"], dir.path());
    let error = examine(&dir.path().join("huge.qcow2")).unwrap_err();
    assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
}

#[test]
fn progress_lines() {
    assert_eq!(
        last_percent(b"    (0.00/100%)\r    (12.50/100%)\r    (13."),
        Some(12.5)
    );
    assert_eq!(last_percent(b"nothing"), None);
}

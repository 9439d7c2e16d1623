//! A raw or qcow2 file into a raw sparse disk. The source is hostile until shown otherwise: its format is what its
//! own first bytes say, never what `qemu-img` would guess (a raw disk whose guest wrote a qcow2 header into it must
//! not become a window into the host); a qcow2 that refers to any other file, is encrypted or damaged is refused.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::{ImageError, file};
use crate::limits::{CONVERT_MAX, IMPORT_BYTES_MAX, QUOTED_BYTES};
use crate::output::{BootMode, Built, Output};
use crate::progress::{Steps, Watcher};
use crate::tool::QEMU_IMG;

/// What to import.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The file.
    pub source: PathBuf,
    /// The raw disk to make.
    pub out: PathBuf,
    /// What the machine in it starts from; a file does not say.
    pub boot_mode: BootMode,
}

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    /// Bytes as they are.
    Raw,
    /// QEMU's format, without references.
    Qcow2,
}

/// Converts a file. Progress counts bytes.
///
/// # Errors
/// See [`ImageError`]; nothing is left under the result's name.
pub async fn import(request: &ImportRequest, watcher: Watcher<'_>) -> Result<Built, ImageError> {
    let program = QEMU_IMG.fetch()?;
    let mut steps = Steps::new(watcher, 2);
    steps.next("examining the file");
    let (format, bytes) = examine(&request.source)?;
    let output = Output::create(&request.out)?;
    steps.next("converting");
    let mut command = Command::new(program);
    command.args(["convert", "-p", "-O", "raw", "-S", "4k", "-t", "writeback"]);
    command
        .arg(source_of(&request.source, format)?)
        .arg(output.path());
    convert(command, &steps, bytes).await?;
    output.finish(request.boot_mode)
}

/// The source with its format spelt out, and with no backing file whatever the header says by now.
fn source_of(path: &Path, format: SourceFormat) -> Result<String, ImageError> {
    let path = std::fs::canonicalize(path).map_err(file("resolving", path))?;
    let storage = json!({"driver": "file", "filename": path, "locking": "off"});
    let node = match format {
        SourceFormat::Raw => json!({"driver": "raw", "file": storage}),
        SourceFormat::Qcow2 => json!({"driver": "qcow2", "backing": null, "file": storage}),
    };
    Ok(format!("json:{node}"))
}

/// Runs `qemu-img`, whose `-p` prints `(12.34/100%)` again and again.
async fn convert(mut command: Command, steps: &Steps<'_>, bytes: u64) -> Result<(), ImageError> {
    const PROGRAM: &str = "qemu-img";
    let attempt = "converting the file";
    let failed = |source| ImageError::Start {
        program: PROGRAM.to_owned(),
        source,
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let mut progress = child.stdout.take().expect("it was piped");
    let mut errors = child.stderr.take().expect("it was piped").take(QUOTED_BYTES);
    let running = async {
        let mut said = Vec::new();
        let watching = async {
            let mut text = Vec::new();
            let mut chunk = [0; 256];
            loop {
                match progress.read(&mut chunk).await? {
                    0 => return Ok::<(), io::Error>(()),
                    n => text.extend_from_slice(&chunk[..n]),
                }
                if let Some(percent) = last_percent(&text) {
                    steps.done((bytes as f64 * percent / 100.0) as u64, bytes);
                }
                // Only the newest number matters.
                text.drain(..text.len().saturating_sub(64));
            }
        };
        let (watched, read) = tokio::join!(watching, errors.read_to_end(&mut said));
        watched?;
        read?;
        Ok::<_, io::Error>((child.wait().await?, said))
    };
    let (status, said) = match timeout(CONVERT_MAX, running).await {
        Ok(ended) => ended.map_err(failed)?,
        Err(_) => {
            return Err(ImageError::Timeout {
                program: PROGRAM.to_owned(),
                attempt,
                waited: CONVERT_MAX,
            });
        }
    };
    if !status.success() {
        let output = String::from_utf8_lossy(&said).trim().to_owned();
        return Err(ImageError::Failed {
            program: PROGRAM.to_owned(),
            attempt,
            status,
            output,
        });
    }
    steps.done(bytes, bytes);
    Ok(())
}

fn last_percent(text: &[u8]) -> Option<f64> {
    let text = String::from_utf8_lossy(text);
    let end = text.rfind("/100%")?;
    text[..end].rsplit('(').next()?.trim().parse().ok()
}

/// Format and virtual size of a file, or why it is refused.
///
/// # Errors
/// It cannot be read, is of another format, or is a qcow2 that is refused.
pub fn examine(path: &Path) -> Result<(SourceFormat, u64), ImageError> {
    let source = File::open(path).map_err(file("opening", path))?;
    let length = source.metadata().map_err(file("reading", path))?.len();
    let mut head = [0; 520];
    let read = read_up_to(&source, &mut head).map_err(file("reading", path))?;
    let head = &head[..read];
    let (format, bytes) = if head.starts_with(b"QFI\xfb") {
        (SourceFormat::Qcow2, examine_qcow2(path, head)?)
    } else {
        if let Some(format) = other_format(head, &source, length) {
            return Err(ImageError::UnsupportedFormat {
                path: path.to_owned(),
                format,
            });
        }
        // Everything that boots here has a partition table: an MBR, or the protective one of a GPT.
        if head.get(510..512) != Some(&[0x55, 0xaa]) {
            return Err(ImageError::NotADisk {
                path: path.to_owned(),
            });
        }
        (SourceFormat::Raw, length)
    };
    if bytes > IMPORT_BYTES_MAX {
        return Err(ImageError::TooLarge {
            what: "the disk",
            bytes,
            bytes_max: IMPORT_BYTES_MAX,
        });
    }
    Ok((format, bytes))
}

fn read_up_to(source: &File, head: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < head.len() {
        match source.read_at(&mut head[read..], read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Formats that would be taken for raw otherwise, by their signatures.
fn other_format(head: &[u8], source: &File, length: u64) -> Option<&'static str> {
    const SIGNATURES: [(usize, &[u8], &str); 13] = [
        (0, b"QED\0", "a QED disk"),
        (0, b"KDMV", "a VMDK disk"),
        (0, b"# Disk DescriptorFile", "a VMDK disk"),
        (0, b"vhdxfile", "a VHDX disk"),
        (0, b"conectix", "a VHD disk"),
        (0x40, b"\x7f\x10\xda\xbe", "a VDI disk"),
        (0, b"\x1f\x8b", "compressed with gzip (unpack it first)"),
        (0, b"\xfd7zXZ\0", "compressed with xz (unpack it first)"),
        (0, b"\x28\xb5\x2f\xfd", "compressed with zstd (unpack it first)"),
        (0, b"BZh", "compressed with bzip2 (unpack it first)"),
        (0, b"PK\x03\x04", "a zip archive (unpack it first)"),
        (257, b"ustar", "a tar archive (unpack it first)"),
        (0, b"LUKS\xba\xbe", "an encrypted disk"),
    ];
    let found = SIGNATURES
        .iter()
        .find(|(at, signature, _)| head.get(*at..).is_some_and(|h| h.starts_with(signature)));
    if let Some((_, _, format)) = found {
        return Some(format);
    }
    // A VHD of fixed size has its signature at the end.
    let mut footer = [0; 8];
    let at_end = length
        .checked_sub(512)
        .is_some_and(|at| source.read_exact_at(&mut footer, at).is_ok());
    (at_end && &footer == b"conectix").then_some("a VHD disk")
}

/// Virtual size from a qcow2 header (QEMU's `docs/interop/qcow2.txt`; numbers are big-endian).
fn examine_qcow2(path: &Path, head: &[u8]) -> Result<u64, ImageError> {
    let refuse = |why| {
        Err(ImageError::RefusedQcow2 {
            path: path.to_owned(),
            why,
        })
    };
    let word = |at: usize| {
        head.get(at..at + 4)
            .map(|b| u32::from_be_bytes(b.try_into().expect("four bytes")))
    };
    let long = |at: usize| {
        head.get(at..at + 8)
            .map(|b| u64::from_be_bytes(b.try_into().expect("eight bytes")))
    };
    let (Some(version), Some(backing), Some(bytes), Some(encryption)) =
        (word(4), long(8), long(24), word(32))
    else {
        return refuse("its header is cut off");
    };
    if !(2..=3).contains(&version) {
        return refuse("its version is neither 2 nor 3");
    }
    if backing != 0 {
        return refuse("it has a backing file");
    }
    if encryption != 0 {
        return refuse("it is encrypted");
    }
    if version == 3 {
        const DIRTY: u64 = 1;
        const CORRUPT: u64 = 1 << 1;
        const EXTERNAL_DATA: u64 = 1 << 2;
        const COMPRESSION: u64 = 1 << 3;
        const EXTENDED_L2: u64 = 1 << 4;
        let Some(features) = long(72) else {
            return refuse("its header is cut off");
        };
        if features & EXTERNAL_DATA != 0 {
            return refuse("its data is in another file");
        }
        if features & CORRUPT != 0 {
            return refuse("it is marked as corrupt");
        }
        if features & !(DIRTY | COMPRESSION | EXTENDED_L2) != 0 {
            return refuse("it uses features that are not known");
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;

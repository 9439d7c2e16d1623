//! The probe's user space: a root file system of one program that prints [`MARKER`] and sleeps. Both are made of
//! bytes here, so that the probe needs nothing from the machine but QEMU and a kernel.
//!
//! Formats: cpio "newc" as in the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`; ELF-64.

/// What the program prints.
pub(crate) const MARKER: &[u8] = b"accelerator-probe: user space runs\n";

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// The archive for `-initrd`.
pub(crate) fn archive() -> Vec<u8> {
    let mut archive = Vec::new();
    entry(&mut archive, "dev", DIRECTORY, (0, 0), &[]);
    // The kernel opens this as the program's standard output.
    entry(&mut archive, "dev/console", CHARACTER_DEVICE, (5, 1), &[]);
    entry(&mut archive, "init", PROGRAM, (0, 0), &program());
    entry(&mut archive, "TRAILER!!!", 0, (0, 0), &[]);
    archive
}

fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, device: (usize, usize), data: &[u8]) {
    let inode = archive.len();
    let fields = [
        inode,
        mode as usize,
        0, // uid
        0, // gid
        1, // links
        0, // modification time
        data.len(),
        0, // major and minor of the file system
        0,
        device.0,
        device.1,
        name.len() + 1,
        0, // checksum, unused in this form
    ];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(data);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// A static x86-64 program: `write(1, MARKER)`, then `pause()` for ever.
fn program() -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const LOADED_AT: u64 = 0x40_0000;
    let text_length = u32::try_from(MARKER.len()).expect("the marker is short");
    let mut code = Vec::new();
    code.extend_from_slice(&[0xb8, 1, 0, 0, 0]); // mov eax, 1 (write)
    code.extend_from_slice(&[0xbf, 1, 0, 0, 0]); // mov edi, 1
    code.extend_from_slice(&[0x48, 0x8d, 0x35, 16, 0, 0, 0]); // lea rsi, [rip + 16], the marker
    code.push(0xba); // mov edx, length
    code.extend_from_slice(&text_length.to_le_bytes());
    code.extend_from_slice(&[0x0f, 0x05]); // syscall
    code.extend_from_slice(&[0xb8, 34, 0, 0, 0]); // mov eax, 34 (pause)
    code.extend_from_slice(&[0x0f, 0x05]); // syscall
    code.extend_from_slice(&[0xeb, 0xf7]); // jmp to the last mov
    code.extend_from_slice(MARKER);
    let length = HEADERS + code.len() as u64;

    let mut elf = Vec::new();
    elf.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend_from_slice(&2u16.to_le_bytes()); // executable
    elf.extend_from_slice(&62u16.to_le_bytes()); // x86-64
    elf.extend_from_slice(&1u32.to_le_bytes()); // version
    elf.extend_from_slice(&(LOADED_AT + HEADERS).to_le_bytes()); // entry
    elf.extend_from_slice(&64u64.to_le_bytes()); // program headers follow at once
    elf.extend_from_slice(&0u64.to_le_bytes()); // no sections
    elf.extend_from_slice(&0u32.to_le_bytes()); // flags
    for half in [64u16, 56, 1, 0, 0, 0] {
        elf.extend_from_slice(&half.to_le_bytes()); // header sizes and counts
    }
    elf.extend_from_slice(&1u32.to_le_bytes()); // PT_LOAD
    elf.extend_from_slice(&5u32.to_le_bytes()); // readable, executable
    for word in [0, LOADED_AT, LOADED_AT, length, length, 0x1000] {
        elf.extend_from_slice(&word.to_le_bytes());
    }
    elf.extend_from_slice(&code);
    elf
}

#[cfg(test)]
mod tests {
    use super::{MARKER, archive, program};

    #[test]
    fn the_program_runs_here_too() {
        use std::io::Read as _;
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("init");
        std::fs::write(&path, program()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = std::process::Command::new(&path)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = vec![0; MARKER.len()];
        child.stdout.take().unwrap().read_exact(&mut printed).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(printed, MARKER);
    }

    #[test]
    fn the_archive_is_aligned_and_ends() {
        let archive = archive();
        assert_eq!(archive.len() % 4, 0);
        assert!(archive.starts_with(b"070701"));
        assert!(archive.windows(10).any(|window| window == b"TRAILER!!!"));
    }
}

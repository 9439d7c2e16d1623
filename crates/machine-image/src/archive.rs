//! Writing a cpio archive in the "newc" form, which the kernel unpacks as its initramfs (format:
//! `Documentation/driver-api/early-userspace/buffer-format.rst`). Times are zero, so equal contents are equal bytes.

/// An archive in memory.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, 0o040_755, (0, 0), &[]);
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entry(path, 0o100_000 | mode, (0, 0), contents);
    }

    /// Adds a character device.
    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, 0o020_600, (major, minor), &[]);
    }

    /// The whole archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        let length = u32::try_from(contents.len()).expect("an initramfs file is far below 4 GiB");
        let name_length = u32::try_from(path.len() + 1).expect("paths are short");
        // inode, mode, uid, gid, links, time, length, file system's device, own device, name length, checksum
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            device.0,
            device.1,
            name_length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::Archive;

    #[test]
    fn another_reader_understands_it() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.file("dev/a-file", 0o644, b"contents");
        archive.file("empty", 0o755, b"");
        let bytes = archive.finish();
        let dir = tempfile::tempdir().unwrap();
        let mut reader = Command::new("/bin/busybox")
            .args(["cpio", "-i"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        reader.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(reader.wait().unwrap().success());
        assert_eq!(std::fs::read(dir.path().join("dev/a-file")).unwrap(), b"contents");
        assert_eq!(std::fs::read(dir.path().join("empty")).unwrap(), b"");
    }
}

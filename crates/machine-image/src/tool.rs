//! Running the system's own programs: each is looked for before a build starts (the error names all packages that
//! are missing at once), runs with a time bound, and has the end of its output quoted when it fails. A build that
//! is dropped kills what it runs.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::{ImageError, file};
use crate::limits::QUOTED_BYTES;

/// A program, or a file, of a Debian package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name to look for on the search path, or an absolute path.
    pub name: &'static str,
    /// The package that has it.
    pub package: &'static str,
}

impl Tool {
    const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }

    /// Where it is. Besides the search path, the directories of system programs are looked at, which are not on
    /// every user's path.
    #[must_use]
    pub fn find(self) -> Option<PathBuf> {
        if self.name.starts_with('/') {
            return Some(PathBuf::from(self.name)).filter(|path| path.exists());
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
        let mut dirs = std::env::split_paths(&search).chain(system);
        dirs.find_map(|dir| Some(dir.join(self.name)).filter(|path| path.is_file()))
    }

    /// Where it is.
    ///
    /// # Errors
    /// It is missing.
    pub fn fetch(self) -> Result<PathBuf, ImageError> {
        require(&[self])?;
        Ok(self.find().unwrap_or_else(|| PathBuf::from(self.name)))
    }
}

/// `apt-get`.
pub const APT_GET: Tool = Tool::new("apt-get", "apt");
/// `apt-cache`.
pub const APT_CACHE: Tool = Tool::new("apt-cache", "apt");
/// `dpkg-deb`.
pub const DPKG_DEB: Tool = Tool::new("dpkg-deb", "dpkg");
/// Static busybox.
pub const BUSYBOX: Tool = Tool::new("/bin/busybox", "busybox-static");
/// SSH server.
pub const DROPBEAR: Tool = Tool::new("dropbear", "dropbear-bin");
/// SSH server's key maker.
pub const DROPBEARKEY: Tool = Tool::new("dropbearkey", "dropbear-bin");
/// Shared library lookup.
pub const LDD: Tool = Tool::new("ldd", "libc-bin");
/// ext4 maker.
pub const MKE2FS: Tool = Tool::new("mke2fs", "e2fsprogs");
/// FAT maker.
pub const MKFS_VFAT: Tool = Tool::new("mkfs.vfat", "dosfstools");
/// Copies into FAT.
pub const MCOPY: Tool = Tool::new("mcopy", "mtools");
/// Makes directories in FAT.
pub const MMD: Tool = Tool::new("mmd", "mtools");
/// Boot loader for BIOS.
pub const SYSLINUX: Tool = Tool::new("syslinux", "syslinux");
/// Its boot record.
pub const SYSLINUX_MBR: Tool = Tool::new("/usr/lib/syslinux/mbr/mbr.bin", "syslinux-common");
/// Partition tables.
pub const SFDISK: Tool = Tool::new("sfdisk", "fdisk");
/// Debian installer.
pub const MMDEBSTRAP: Tool = Tool::new("mmdebstrap", "mmdebstrap");
/// Debian's signing keys.
pub const DEBIAN_KEYRING: Tool = Tool::new(
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "debian-archive-keyring",
);
/// Disk converter.
pub const QEMU_IMG: Tool = Tool::new("qemu-img", "qemu-utils");

/// Makes sure that all of `tools` are there.
///
/// # Errors
/// Names everything missing and the packages that have it.
pub fn require(tools: &[Tool]) -> Result<(), ImageError> {
    let missing: Vec<Tool> = tools
        .iter()
        .copied()
        .filter(|tool| tool.find().is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    Err(ImageError::ToolsMissing {
        missing: names.join(", "),
        packages: packages.join(" "),
    })
}

/// Makes sure that we may give files inside an image to any owner.
///
/// # Errors
/// We are not root.
pub(crate) fn require_root() -> Result<(), ImageError> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(ImageError::NotRoot)
    }
}

/// One run of a program.
pub(crate) struct Run<'a> {
    tool: Tool,
    command: Command,
    attempt: &'static str,
    log: &'a Path,
}

impl<'a> Run<'a> {
    /// A run for `attempt`; its output goes to `log`, which is overwritten.
    pub(crate) fn new(tool: Tool, attempt: &'static str, log: &'a Path) -> Result<Self, ImageError> {
        let mut command = Command::new(tool.fetch()?);
        // Messages and number formats that we can read, and no questions.
        command
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null()).kill_on_drop(true);
        Ok(Self {
            tool,
            command,
            attempt,
            log,
        })
    }

    pub(crate) fn with(mut self, configure: impl FnOnce(&mut Command)) -> Self {
        configure(&mut self.command);
        self
    }

    /// Runs it to its end; what it printed is in the log.
    pub(crate) async fn finish(self, bound: Duration) -> Result<(), ImageError> {
        self.finish_with_input(&[], bound).await
    }

    /// Runs it to its end with `input` (a few lines) on its standard input.
    pub(crate) async fn finish_with_input(mut self, input: &[u8], bound: Duration) -> Result<(), ImageError> {
        if !input.is_empty() {
            self.command.stdin(Stdio::piped());
        }
        let log = File::create(self.log).map_err(file("making", self.log))?;
        let errors = log.try_clone().map_err(file("making", self.log))?;
        self.command.stdout(log).stderr(errors);
        let program = self.tool.name.to_owned();
        let mut child = self.command.spawn().map_err(|source| ImageError::Start {
            program: program.clone(),
            source,
        })?;
        let attempt = self.attempt;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends without reading is judged by its status.
            let _reader_gone = stdin.write_all(input).await;
        }
        let status = match timeout(bound, child.wait()).await {
            Ok(Ok(status)) => status,
            Ok(Err(source)) => return Err(ImageError::Start { program, source }),
            Err(_) => {
                return Err(ImageError::Timeout {
                    program,
                    attempt,
                    waited: bound,
                });
            }
        };
        if status.success() {
            return Ok(());
        }
        Err(ImageError::Failed {
            program,
            attempt,
            status,
            output: end_of(self.log),
        })
    }

    /// Runs it to its end and answers what it printed.
    pub(crate) async fn output(self, bound: Duration) -> Result<String, ImageError> {
        let log = self.log;
        self.finish(bound).await?;
        std::fs::read_to_string(log).map_err(file("reading", log))
    }
}

/// The last of a log, for an error. An unreadable log is no second error.
pub(crate) fn end_of(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut from = File::open(log)?;
        let length = from.metadata()?.len();
        from.seek(SeekFrom::Start(length.saturating_sub(QUOTED_BYTES)))?;
        let mut bytes = Vec::new();
        from.take(QUOTED_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default())
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Run, Tool, require};
    use crate::error::ImageError;

    const SHELL: Tool = Tool::new("sh", "dash");

    #[test]
    fn everything_missing_is_named_at_once() {
        let error = require(&[SHELL, Tool::new("no-such-1", "b"), Tool::new("/no/such", "a")]).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text,
            "no-such-1, /no/such not installed; install with: apt-get install a b"
        );
    }

    #[tokio::test]
    async fn failures_and_hangs_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let run = |script: &'static str| {
            Run::new(SHELL, "testing", &log).unwrap().with(|command| {
                command.args(["-c", script]);
            })
        };
        assert_eq!(
            run("echo hi").output(Duration::from_secs(10)).await.unwrap(),
            "hi\n"
        );
        let error = run("echo why >&2; exit 3")
            .finish(Duration::from_secs(10))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, ImageError::Failed { output, .. } if output == "why"),
            "{error}"
        );
        let error = run("exec sleep 60")
            .finish(Duration::from_millis(50))
            .await
            .unwrap_err();
        assert!(matches!(error, ImageError::Timeout { .. }), "{error}");
    }
}

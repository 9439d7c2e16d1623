//! The audit log: one JSON line a call, whatever became of it, written before the answer (identity.md R37,
//! state-and-operations.md R101).
//!
//! `DIR/log/audit.jsonl`, mode 0600, rotated at [`limits::AUDIT_FILE_BYTES_MAX`] into `audit.jsonl.1` and so on. A line
//! names who, what, on which resources, with which verdict; never bodies, tokens or signatures. While lines cannot be
//! written, calls that change something are refused and reads go on.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::error::GatewayError;
use crate::limits;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Let through; `error_code` says if it then failed.
    Allowed,
    /// Refused by policy or account status.
    Denied,
    /// Not proved.
    Unauthenticated,
    /// Refused for too many failures.
    LockedOut,
    /// Refused for its rate.
    Throttled,
    /// Refused for its form, before anybody was asked.
    Refused,
}

/// One pair that was decided.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditedPair {
    /// The action.
    pub action: &'static str,
    /// The resource.
    pub resource: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The policy that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The statement that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
}

/// One line.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// When the call came.
    #[serde(with = "time::serde::rfc3339")]
    pub time: time::OffsetDateTime,
    /// The request id that the client saw.
    pub request_id: String,
    /// Address of the peer.
    pub source_ip: std::net::IpAddr,
    /// `TLSv1_3`, …
    pub tls: &'static str,
    /// As sent, cut.
    pub user_agent: Option<String>,
    /// The service, by the name of its model.
    pub service: Option<&'static str>,
    /// The operation.
    pub action: Option<&'static str>,
    /// The region of the scope.
    pub region: Option<String>,
    /// The access key id that was claimed.
    pub access_key_id: Option<String>,
    /// Who it was.
    pub principal: Option<String>,
    /// `User`, `AssumedRole`, …
    pub principal_type: Option<&'static str>,
    /// Whose account.
    pub account: Option<String>,
    /// Nothing was to be changed.
    pub dry_run: bool,
    /// Every pair that was decided.
    pub resources: Vec<AuditedPair>,
    /// What became of it.
    pub verdict: Verdict,
    /// The error's code, if one was answered.
    pub error_code: Option<String>,
    /// HTTP status.
    pub status: u16,
    /// How long it took, in microseconds.
    pub duration_us: u64,
}

struct Open {
    file: File,
    bytes: u64,
}

/// The log.
pub struct Audit {
    path: PathBuf,
    open: Mutex<Open>,
    failing: AtomicBool,
    file_bytes_max: u64,
}

impl Audit {
    /// Opens `DIR/log/audit.jsonl`.
    pub(crate) fn open(dir: &Path) -> Result<Self, GatewayError> {
        let failed = |source| GatewayError::File {
            attempted: "create",
            path: dir.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)
            .map_err(failed)?;
        let path = dir.join("audit.jsonl");
        let open = open_file(&path).map_err(|source| GatewayError::File {
            attempted: "open",
            path: path.clone(),
            source,
        })?;
        let file_bytes_max = limits::AUDIT_FILE_BYTES_MAX;
        Ok(Self {
            path,
            open: Mutex::new(open),
            failing: AtomicBool::new(false),
            file_bytes_max,
        })
    }

    /// False while lines cannot be written.
    pub(crate) fn is_writable(&self) -> bool {
        !self.failing.load(Ordering::Relaxed)
    }

    /// Writes one line.
    pub(crate) fn record(&self, line: &AuditLine) {
        let written = serde_json::to_vec(line)
            .map_err(std::io::Error::from)
            .and_then(|mut bytes| {
                bytes.push(b'\n');
                self.append(&bytes)
            });
        if let Err(error) = &written
            && self.is_writable()
        {
            tracing::error!(path = %self.path.display(), %error, "the audit log cannot be written; changes are refused");
        }
        self.failing.store(written.is_err(), Ordering::Relaxed);
    }

    fn append(&self, line: &[u8]) -> std::io::Result<()> {
        // The file is replaced whole, so it is usable even if a holder panicked.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.bytes + line.len() as u64 > self.file_bytes_max {
            self.rotate()?;
            *open = open_file(&self.path)?;
        }
        open.file.write_all(line)?;
        open.bytes += line.len() as u64;
        Ok(())
    }

    fn rotate(&self) -> std::io::Result<()> {
        let numbered = |number: u32| self.path.with_extension(format!("jsonl.{number}"));
        for number in (1..limits::AUDIT_FILES_MAX - 1).rev() {
            match std::fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, numbered(1))
    }
}

fn open_file(path: &Path) -> std::io::Result<Open> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Open { file, bytes })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Audit, AuditLine, Verdict, open_file};

    #[test]
    fn files_rotate_and_no_line_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let audit = Audit {
            file_bytes_max: 100,
            ..Audit::open(dir.path()).expect("opened")
        };
        for number in 0..12 {
            audit
                .append(format!("{number:029}\n").as_bytes())
                .expect("written");
        }
        let mut lines: Vec<String> = Vec::new();
        for name in ["audit.jsonl.3", "audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"] {
            let text = std::fs::read_to_string(dir.path().join(name)).expect(name);
            assert!(text.len() <= 100);
            lines.extend(text.lines().map(str::to_owned));
        }
        assert_eq!(lines.len(), 12);
        assert!(lines.is_sorted());
    }

    /// `/dev/full` answers every write as a full disk does.
    #[test]
    fn a_full_disk_is_noticed_and_so_is_its_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let audit = Audit::open(dir.path()).expect("opened");
        let good = std::mem::replace(
            &mut *audit.open.lock().expect("not poisoned"),
            open_file(Path::new("/dev/full")).expect("opened"),
        );
        audit.record(&line());
        assert!(!audit.is_writable());
        *audit.open.lock().expect("not poisoned") = good;
        audit.record(&line());
        assert!(audit.is_writable());
    }

    fn line() -> AuditLine {
        AuditLine {
            time: time::OffsetDateTime::UNIX_EPOCH,
            request_id: String::new(),
            source_ip: [127, 0, 0, 1].into(),
            tls: "TLSv1.3",
            user_agent: None,
            service: None,
            action: None,
            region: None,
            access_key_id: None,
            principal: None,
            principal_type: None,
            account: None,
            dry_run: false,
            resources: Vec::new(),
            verdict: Verdict::Refused,
            error_code: None,
            status: 400,
            duration_us: 1,
        }
    }

    #[test]
    fn an_existing_file_is_continued() {
        let dir = tempfile::tempdir().expect("a directory");
        for _ in 0..2 {
            Audit::open(dir.path())
                .expect("opened")
                .append(b"x\n")
                .expect("written");
        }
        assert_eq!(
            std::fs::read_to_string(dir.path().join("audit.jsonl")).expect("there"),
            "x\nx\n"
        );
    }
}

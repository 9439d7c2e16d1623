//! Finding QEMU and its UEFI firmware on this machine, with errors that name the Debian package to install.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use crate::limits::VERSION_QUERY_MAX;

/// A QEMU that was executed and told its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hypervisor {
    /// The program.
    pub program: PathBuf,
    /// Its version as it says it, for example `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
}

/// Why no guest can be run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HypervisorError {
    /// Not installed.
    #[error("{program} is not installed; install it with: apt-get install {package}")]
    Missing {
        /// What was looked for.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// Installed but not executable.
    #[error("executing {program:?} to learn its version")]
    Execute {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It did not say its version in time, or not in the known form.
    #[error("{program:?} did not tell its version within {VERSION_QUERY_MAX:?}")]
    NoVersion {
        /// The program.
        program: PathBuf,
    },
    /// A guest's own copy of the variables could not be made.
    #[error("copying the UEFI variable template {template:?} to {path:?}")]
    Variables {
        /// The template.
        template: PathBuf,
        /// The guest's file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

const PROGRAM: &str = "qemu-system-x86_64";

impl Hypervisor {
    /// The QEMU on the search path.
    ///
    /// # Errors
    /// It is missing (the error names the package) or does not work.
    pub async fn fetch() -> Result<Self, HypervisorError> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&search).map(|dir| dir.join(PROGRAM));
        let program = candidates
            .find(|path| path.is_file())
            .ok_or_else(|| HypervisorError::Missing {
                program: PROGRAM.to_owned(),
                package: "qemu-system-x86",
            })?;
        Self::at(program).await
    }

    /// The QEMU at `program`.
    ///
    /// # Errors
    /// It does not work.
    pub async fn at(program: PathBuf) -> Result<Self, HypervisorError> {
        let mut command = Command::new(&program);
        command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
        let Ok(output) = timeout(VERSION_QUERY_MAX, command.output()).await else {
            return Err(HypervisorError::NoVersion { program });
        };
        let output = match output {
            Ok(output) => output,
            Err(source) => return Err(HypervisorError::Execute { program, source }),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().and_then(|line| line.split_once("version "));
        match version {
            Some((_, version)) if output.status.success() => Ok(Self {
                program,
                version: version.trim().to_owned(),
            }),
            _ => Err(HypervisorError::NoVersion { program }),
        }
    }
}

/// The UEFI firmware: code that all guests share, and the template of the variables that each has its own of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ovmf {
    /// Read-only code.
    pub code: PathBuf,
    /// Fresh variables.
    pub variables_template: PathBuf,
}

impl Ovmf {
    /// Debian's 4 MiB build without Secure Boot.
    ///
    /// # Errors
    /// Not installed.
    pub fn fetch() -> Result<Self, HypervisorError> {
        let dir = Path::new("/usr/share/OVMF");
        let found = Self {
            code: dir.join("OVMF_CODE_4M.fd"),
            variables_template: dir.join("OVMF_VARS_4M.fd"),
        };
        if found.code.is_file() && found.variables_template.is_file() {
            return Ok(found);
        }
        Err(HypervisorError::Missing {
            program: "UEFI firmware (OVMF, 4M build)".to_owned(),
            package: "ovmf",
        })
    }

    /// Makes sure that `path` holds a guest's variables: made from the template when it does not exist, left
    /// alone when it does.
    ///
    /// # Errors
    /// The file cannot be made; no part of it is left.
    pub fn ensure_variables(&self, path: &Path) -> Result<(), HypervisorError> {
        if path.exists() {
            return Ok(());
        }
        let copying = path.with_extension("new");
        let copied = fs::copy(&self.variables_template, &copying)
            .and_then(|_| fs::File::open(&copying)?.sync_all())
            .and_then(|()| fs::rename(&copying, path));
        copied.map_err(|source| {
            drop(fs::remove_file(&copying));
            let (template, path) = (self.variables_template.clone(), path.to_owned());
            HypervisorError::Variables {
                template,
                path,
                source,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Hypervisor, HypervisorError, Ovmf};

    #[tokio::test]
    async fn something_else_is_not_qemu() {
        let error = Hypervisor::at("/bin/true".into()).await.unwrap_err();
        assert!(matches!(error, HypervisorError::NoVersion { .. }), "{error}");
        let error = Hypervisor::at("/nonexistent".into()).await.unwrap_err();
        assert!(matches!(error, HypervisorError::Execute { .. }), "{error}");
    }

    #[test]
    fn variables_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let template = dir.path().join("template");
        std::fs::write(&template, b"fresh").unwrap();
        let ovmf = Ovmf {
            code: template.clone(),
            variables_template: template,
        };
        let path = dir.path().join("vars.fd");
        ovmf.ensure_variables(&path).unwrap();
        std::fs::write(&path, b"written by the guest").unwrap();
        ovmf.ensure_variables(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"written by the guest");
        assert!(ovmf.ensure_variables(&dir.path().join("no/dir/vars.fd")).is_err());
    }
}

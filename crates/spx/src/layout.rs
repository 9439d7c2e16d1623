//! The files of one cloud, all below its data directory. docs/architecture.md has the same table.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A data directory.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The directory as given on the command line, made absolute.
    ///
    /// # Errors
    /// The current directory is gone.
    pub fn new(root: &Path) -> io::Result<DataDir> {
        Ok(DataDir {
            root: std::path::absolute(root)?,
        })
    }

    /// Makes it and its parts (0700) where they are missing.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn ensure(&self) -> io::Result<()> {
        for dir in [
            self.root.clone(),
            self.run(),
            self.log(),
            self.keys(),
            self.tls(),
            self.images(),
        ] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        Ok(())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Lines for a client to source.
    pub fn env(&self) -> PathBuf {
        self.root.join("env")
    }
    /// Configuration.
    pub fn config(&self) -> PathBuf {
        self.root.join("spx.toml")
    }
    /// The store.
    pub fn state(&self) -> PathBuf {
        self.root.join("state.redb")
    }
    /// Master key and node secrets.
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }
    /// CA and server certificate.
    pub fn tls(&self) -> PathBuf {
        self.root.join("tls")
    }
    /// Volumes and snapshots.
    pub fn pool(&self) -> PathBuf {
        self.root.join("pool")
    }
    /// Sockets and locks; of no worth after a reboot.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }
    /// Audit log and process logs.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }
    /// Images while they are built, and the kernels that came with them.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }
    /// Socket of the operator's commands.
    pub fn admin_socket(&self) -> PathBuf {
        self.run().join("admin.sock")
    }
    /// Held while a cloud runs on this directory.
    pub fn lock(&self) -> PathBuf {
        self.run().join("spx.lock")
    }
}

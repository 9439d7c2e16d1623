//! What this machine is: its id, its processors, its memory, its boot.
//!
//! Read once at the agent's start. The node id is minted once a data directory and never changes.

use crate::error::AgentError;
use crate::guest::record::replace_durably;
use aws_types::ids::NodeId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Facts of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Hardware threads this process may use.
    pub cpu_threads: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// `GenuineIntel`, `AuthenticAMD`, or what `/proc/cpuinfo` says.
    pub cpu_vendor: String,
    /// Kernel boot id.
    pub boot_id: String,
}

/// Reads the machine's facts.
///
/// # Errors
/// `/proc` is not as the kernel makes it.
pub fn read() -> Result<Facts, AgentError> {
    let memory = read_file("/proc/meminfo")?;
    let kib = field(&memory, "MemTotal").and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
    let cpu = read_file("/proc/cpuinfo")?;
    let threads = std::thread::available_parallelism().map_err(|source| AgentError::Facts {
        path: PathBuf::from("/proc/cpuinfo"),
        source,
    })?;
    Ok(Facts {
        cpu_threads: u32::try_from(threads.get()).unwrap_or(u32::MAX),
        memory_mib: kib.ok_or_else(|| malformed("/proc/meminfo"))? / 1024,
        cpu_vendor: field(&cpu, "vendor_id").unwrap_or("unknown").to_owned(),
        boot_id: read_file("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
    })
}

/// The node's id, minted on first use in `path`.
///
/// # Errors
/// The file cannot be read or made, or holds no node id.
pub fn ensure_node_id(path: &Path) -> Result<NodeId, AgentError> {
    let failed = |source| AgentError::Facts {
        path: path.to_owned(),
        source,
    };
    match fs::read_to_string(path) {
        Ok(text) => NodeId::parse(text.trim()).ok_or_else(|| failed(io::ErrorKind::InvalidData.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = NodeId::random();
            replace_durably(path, format!("{id}\n").as_bytes()).map_err(failed)?;
            Ok(id)
        }
        Err(error) => Err(failed(error)),
    }
}

fn read_file(path: &str) -> Result<String, AgentError> {
    fs::read_to_string(path).map_err(|source| AgentError::Facts {
        path: path.into(),
        source,
    })
}

fn malformed(path: &str) -> AgentError {
    AgentError::Facts {
        path: path.into(),
        source: io::ErrorKind::InvalidData.into(),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::{ensure_node_id, field, read};

    #[test]
    fn this_machine_has_facts() {
        let facts = read().expect("facts");
        assert!(
            facts.cpu_threads >= 1 && facts.memory_mib > 64 && !facts.boot_id.is_empty(),
            "{facts:?}"
        );
        assert_eq!(field("a : 1\nvendor_id\t: X\n", "vendor_id"), Some("X"));
    }

    #[test]
    fn a_node_keeps_its_id() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("node-id");
        let id = ensure_node_id(&path).expect("minted");
        assert_eq!(ensure_node_id(&path).expect("read"), id);
        std::fs::write(&path, "node-x").expect("written");
        ensure_node_id(&path).expect_err("not an id");
    }
}

//! A new directory becomes a cloud: its tag, its public pool, its configuration file.
//!
//! Decided once and kept in the file, so that a restart finds its own kernel objects and addresses again.

use crate::config::Config;
use crate::layout::DataDir;
use anyhow::Context;
use ipnet::Ipv4Net;
use rand::Rng;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;

/// Blocks that a new cloud tries for its public pool, in order (vpc.md §2.5): benchmark space and carrier space, which
/// nobody routes to.
const POOL_CANDIDATES: [&str; 3] = ["198.18.0.0/20", "198.19.240.0/20", "100.126.0.0/20"];
/// Further blocks, for machines with several clouds.
const POOL_MORE: (Ipv4Addr, u8, u32) = (Ipv4Addr::new(198, 18, 16, 0), 20, 14);
/// Address of the APIs in a new cloud.
const API_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9999);
/// Characters of a cloud's tag.
const TAG_LENGTH: usize = 5;

/// The cloud's configuration, which is made if the directory is new.
///
/// # Errors
/// The file cannot be read, made or understood.
pub fn ensure(dir: &DataDir, api: Option<SocketAddr>) -> anyhow::Result<Config> {
    let path = dir.config();
    if !path.exists() {
        // A port of 0 is this run's wish, not the cloud's address.
        let api = api.filter(|api| api.port() != 0).unwrap_or(API_DEFAULT);
        let text = Config::template(&host_name(), &random_tag(), choose_pool()?, api);
        let new = path.with_extension("toml.new");
        let mut file = fs::File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .context("writing spx.toml")?;
        fs::rename(&new, &path)?;
    }
    Config::load(&path)
}

fn choose_pool() -> anyhow::Result<Option<Ipv4Net>> {
    let mut candidates: Vec<Ipv4Net> = POOL_CANDIDATES.iter().filter_map(|c| c.parse().ok()).collect();
    let (first, prefix, count) = POOL_MORE;
    let step = 1u32 << (32 - prefix);
    candidates.extend(
        (0..count).filter_map(|n| Ipv4Net::new(Ipv4Addr::from(u32::from(first) + n * step), prefix).ok()),
    );
    vnet::choose_public_pool(&candidates).context("choosing a pool of public addresses")
}

fn random_tag() -> String {
    const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = rand::rng();
    (0..TAG_LENGTH)
        .map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())]))
        .collect()
}

fn host_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_lowercase();
    let label: String = name
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    if label.is_empty() {
        "node".to_owned()
    } else {
        label
    }
}

#[cfg(test)]
mod tests {
    use super::ensure;
    use crate::layout::DataDir;

    #[test]
    fn a_directory_becomes_a_cloud_once() {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = DataDir::new(&temporary.path().join("c")).expect("a path");
        dir.ensure().expect("made");
        let first = ensure(&dir, None).expect("made");
        let second = ensure(&dir, Some("127.0.0.1:1".parse().expect("an address"))).expect("read");
        assert_eq!(first.cluster.tag, second.cluster.tag);
        assert_eq!(second.listen.api.port(), 9999);
    }
}

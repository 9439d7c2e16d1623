//! `DIR/spx.toml`: what an operator may choose. Unknown keys are refused; every key is in the file that `spx up` writes.
//!
//! Precedence: command line, then file, then default. What identifies a cloud (its tag, its public pool) is chosen once at
//! init and kept in the file, so that a restart finds its own kernel objects again.

use anyhow::{Context, bail};
use ipnet::Ipv4Net;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::Path;

/// The file that a new cloud gets, with `@TAG@` and `@POOL@` to be filled in.
const TEMPLATE: &str = include_str!("spx.toml");

/// The whole configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this file's format.
    pub version: u32,
    /// The node.
    pub node: NodeConfig,
    /// The cloud.
    pub cluster: ClusterConfig,
    /// Listeners.
    pub listen: ListenConfig,
    /// Addresses that the outside reaches.
    pub external: ExternalConfig,
    /// Volumes.
    pub storage: StorageConfig,
    /// Rates that accounts are held to.
    pub ratelimit: RateLimitConfig,
}

/// `[node]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name of this machine in the cloud.
    pub name: String,
    /// Seconds that guests have to power off in `spx down`.
    pub drain_seconds: u64,
    /// Memory that guests may not have, in MiB.
    pub memory_reserve_mib: u64,
    /// MTU of guests.
    pub mtu: u16,
}

/// `[cluster]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// Region name.
    pub region: String,
    /// Zone letter.
    pub zone: char,
    /// Tag of this cloud in names of kernel objects; unique on the machine.
    pub tag: String,
}

/// `[listen]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenConfig {
    /// Address of the AWS APIs.
    pub api: SocketAddr,
    /// Further names for the server certificate.
    pub names: Vec<String>,
}

/// `[external]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalConfig {
    /// Public addresses that may be given out; absent: none.
    pub pool: Option<Ipv4Net>,
}

/// `[storage]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    /// Bytes that stay free on the pool's file system, in MiB.
    pub reserve_mib: u64,
}

/// `[ratelimit]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Accounts are held to AWS-like rates a second and action.
    pub enabled: bool,
}

impl Config {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// It cannot be read, has unknown keys, or a value that makes no sense.
    pub fn load(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Config::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Config> {
        let config: Config = toml::from_str(text)?;
        if config.version != 1 {
            bail!(
                "version {} of the configuration is not known, this build knows 1",
                config.version
            );
        }
        aws_types::Region::parse(&config.cluster.region)?;
        if !config.cluster.zone.is_ascii_lowercase() {
            bail!("cluster.zone must be one lower-case letter");
        }
        let tag = &config.cluster.tag;
        if !(1..=6).contains(&tag.len()) || !tag.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        {
            bail!("cluster.tag must be 1 to 6 of a-z and 0-9");
        }
        if config.listen.api.ip().is_unspecified() {
            bail!(
                "listen.api must be an explicit address, not {}",
                config.listen.api.ip()
            );
        }
        if !(576..=9216).contains(&config.node.mtu) {
            bail!("node.mtu must be 576 to 9216");
        }
        Ok(config)
    }

    /// The file for a new cloud.
    pub fn template(node_name: &str, tag: &str, pool: Option<Ipv4Net>, api: SocketAddr) -> String {
        let pool = match pool {
            Some(pool) => format!("pool = \"{pool}\""),
            None => "# pool = \"198.18.0.0/20\"".to_owned(),
        };
        TEMPLATE
            .replace("@NAME@", node_name)
            .replace("@TAG@", tag)
            .replace("@POOL@", &pool)
            .replace("@API@", &api.to_string())
    }
}

/// Refuses a wildcard: what the world can reach is said by address.
///
/// # Errors
/// `address` is unspecified.
pub fn check_explicit(address: SocketAddr) -> anyhow::Result<()> {
    if address.ip().is_unspecified() {
        bail!("the API's address must be an explicit one, not {}", address.ip());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Config;

    fn example() -> String {
        let api = "127.0.0.1:9999".parse().expect("an address");
        let pool = "198.18.0.0/20".parse().expect("a block");
        Config::template("host", "abc123", Some(pool), api)
    }

    #[test]
    fn the_file_that_a_new_cloud_gets_parses() {
        let config = Config::parse(&example()).expect("parses");
        assert_eq!(config.cluster.tag, "abc123");
        assert_eq!(
            config.external.pool.map(|p| p.to_string()).as_deref(),
            Some("198.18.0.0/20")
        );
        let api = "127.0.0.1:1".parse().expect("an address");
        let without = Config::parse(&Config::template("host", "abc123", None, api)).expect("parses");
        assert_eq!(without.external.pool, None);
    }

    #[test]
    fn unknown_keys_and_senseless_values_are_refused() {
        for (from, to) in [
            ("[node]", "[node]\ncolour = 1"),
            ("zone = \"a\"", "zone = \"A\""),
            ("tag = \"abc123\"", "tag = \"ABC\""),
            ("127.0.0.1:9999", "0.0.0.0:9999"),
            ("version = 1", "version = 2"),
            ("mtu = 1450", "mtu = 10"),
        ] {
            let text = example();
            let changed = text.replace(from, to);
            assert_ne!(text, changed, "{from} is in the file");
            assert!(Config::parse(&changed).is_err(), "{to}");
        }
    }
}

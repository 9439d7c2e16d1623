//! Every room of one cloud, wired together. Start and end in an order that no room has to know.
//!
//! ```text
//! store ─▶ keys ─▶ accounts with their default networks ─▶ agent (adopts guests) ─▶ reconcilers ─▶ gateway
//! ```

use super::Operator;
use crate::config::Config;
use crate::layout::DataDir;
use anyhow::{Context, bail};
use aws_types::{AvailabilityZone, Region};
use aws_wire::registry::Registry;
use block::export::ExportPool;
use block::file::{FilePool, FilePoolConfig};
use gateway::{Gateway, GatewayConfig};
use iam::{AccountInitializer, AdminCredential, Authenticator, Keys};
use network::capability::tags::TagKinds;
use node::{Agent, AgentConfig};
use state::{Controller, ControllerHandle, Store};
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// Time that requests in flight have to end.
const GATEWAY_GRACE: Duration = Duration::from_secs(10);

/// A running cloud.
pub struct Cloud {
    endpoint: String,
    region: Region,
    ca_file: std::path::PathBuf,
    admin: AdminCredential,
    operator: Operator,
    agent: Arc<Agent>,
    controllers: ControllerHandle,
    gateway: JoinHandle<()>,
    gateway_stop: watch::Sender<bool>,
}

impl Cloud {
    /// Starts everything.
    ///
    /// # Errors
    /// A part could not start; what was started before it ends with this process, guests excepted.
    pub async fn start(dir: &DataDir, config: &Config, api: Option<SocketAddr>) -> anyhow::Result<Cloud> {
        let region = Region::parse(&config.cluster.region)?;
        let zone = region.zone(config.cluster.zone);
        let store = open_store(dir)?;
        // Before the accounts: their default subnets give public addresses only if there are any.
        if let Some(pool) = config.external.pool {
            network::ensure_public_pool(&store, pool)
                .await
                .context("making the public pool")?;
        }
        let keys = Keys::open(&dir.keys(), &store)
            .await
            .context("opening the keys")?;
        let initializers: Vec<Arc<dyn AccountInitializer>> = vec![Arc::new(network::DefaultNetworks {
            region: region.clone(),
            zones: vec![zone.clone()],
        })];
        let bootstrap = iam::ensure_bootstrap(&store, &keys, &initializers, OffsetDateTime::now_utc())
            .await
            .context("making the first accounts")?;
        let (pool, agent) = start_agent(dir, config, &zone, &store).await?;
        let agent = Arc::new(agent);

        let page_key = keys.page_key().await.context("opening the page key")?;
        let settings = network::Settings::new(region.clone(), vec![zone], page_key.clone());
        let dns_suffix = settings.dns_suffix.clone();
        let mut kinds = TagKinds::new();
        compute::capability::register_tag_kinds(&mut kinds);
        let network = network::Network::new(store.clone(), settings, kinds);
        let api = api.unwrap_or(config.listen.api);
        let context = compute::Context {
            store: store.clone(),
            page_key,
            queries: agent.queries(),
            endpoint: api.to_string(),
            dns_suffix,
        };
        let mut registry = Registry::new();
        iam::register(&mut registry);
        network::register(&mut registry, &network);
        compute::register(&mut registry, &context);

        let mut controller = Controller::new(store.clone())
            .register(Arc::new(iam::reconcile::ClientTokenSweep))
            .register(Arc::new(network::NetworkPlanner));
        for reconciler in compute::reconcilers(&context) {
            controller = controller.register(reconciler);
        }
        let controllers = controller.start();

        let gateway = Gateway::bind(
            GatewayConfig {
                addr: api,
                dir: dir.root().to_owned(),
                region: region.clone(),
                names: config.listen.names.clone(),
            },
            registry,
            Authenticator::new(store.clone(), keys),
        )
        .await
        .with_context(|| format!("listening on {api}"))?;
        let gateway = gateway.with_throttle(config.ratelimit.enabled);
        let address = gateway.local_addr();
        let endpoint = endpoint_of(address);
        let ca_file = gateway.ca_file().to_owned();
        let (gateway_stop, stopping) = watch::channel(false);
        let gateway = tokio::spawn(gateway.serve(stopping));

        let operator = Operator::new(
            store,
            agent.clone(),
            pool,
            controllers.observer(),
            endpoint.clone(),
        );
        Ok(Cloud {
            endpoint,
            region,
            ca_file,
            admin: bootstrap.tenant,
            operator,
            agent,
            controllers,
            gateway,
            gateway_stop,
        })
    }

    /// URL of the APIs.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What the operator's commands are answered from.
    pub fn operator(&self) -> Operator {
        self.operator.clone()
    }

    /// Writes `DIR/env` for an admin of the first tenant account. The region stands there twice, because the AWS CLI v1 and
    /// boto3 read `AWS_DEFAULT_REGION` and everything younger reads `AWS_REGION`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_env(&self, dir: &DataDir) -> anyhow::Result<()> {
        let path = dir.env();
        let text = format!(
            "export AWS_ENDPOINT_URL={0}\nexport AWS_CA_BUNDLE={1}\nexport AWS_ACCESS_KEY_ID={2}\nexport AWS_SECRET_ACCESS_KEY={3}\nexport AWS_REGION={4}\nexport AWS_DEFAULT_REGION={4}\n",
            shell_word(&self.endpoint),
            shell_word(&self.ca_file.display().to_string()),
            shell_word(&self.admin.access_key_id),
            shell_word(self.admin.secret.expose()),
            shell_word(self.region.as_str()),
        );
        write_private(&path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
    }

    /// Ends without touching a guest. Answers how many run on.
    pub async fn stop(self) -> usize {
        let agent = self.end_services().await;
        let guests = agent.guests_held();
        agent.stop().await;
        guests
    }

    /// Ends after every guest was stopped, and removes what the cloud made in the kernel.
    ///
    /// # Errors
    /// Something is left.
    pub async fn down(self, drain: Duration, tell: impl Fn(&str)) -> anyhow::Result<()> {
        tell("ending the API");
        let agent = self.end_services().await;
        down_agent(agent, drain, tell).await
    }

    async fn end_services(self) -> Arc<Agent> {
        self.gateway_stop.send_replace(true);
        if tokio::time::timeout(GATEWAY_GRACE, self.gateway).await.is_err() {
            warn!("requests in flight did not end in time");
        }
        self.controllers.shutdown().await;
        drop(self.operator);
        self.agent
    }
}

/// The URL that reaches `address`, by a name that the server's certificate carries.
fn endpoint_of(address: SocketAddr) -> String {
    if address.ip() == std::net::Ipv4Addr::LOCALHOST {
        format!("https://localhost:{}", address.port())
    } else {
        format!("https://{address}")
    }
}

/// Ends a cloud whose process is gone: adopts its guests, drains them, removes what it made in the kernel.
///
/// # Errors
/// Something is left.
pub async fn down_alone(
    dir: &DataDir,
    config: &Config,
    drain: Duration,
    tell: impl Fn(&str),
) -> anyhow::Result<()> {
    tell("no spx up runs here; adopting what it left");
    let region = Region::parse(&config.cluster.region)?;
    let store = open_store(dir)?;
    let (_pool, agent) = start_agent(dir, config, &region.zone(config.cluster.zone), &store).await?;
    down_agent(Arc::new(agent), drain, tell).await
}

async fn down_agent(agent: Arc<Agent>, drain: Duration, tell: impl Fn(&str)) -> anyhow::Result<()> {
    tell(&format!("stopping {} guests", agent.guests_held()));
    let is_drained = agent.drain(drain).await;
    agent.stop().await;
    if !is_drained {
        bail!(
            "guests still run after {} s; nothing else was removed, run spx down again",
            drain.as_secs()
        );
    }
    tell("removing networks");
    agent.teardown().await.context("removing networks")?;
    info!("nothing of this cloud runs");
    Ok(())
}

fn open_store(dir: &DataDir) -> anyhow::Result<Store> {
    Store::open_redb(dir.state()).with_context(|| format!("opening {}", dir.state().display()))
}

async fn start_agent(
    dir: &DataDir,
    config: &Config,
    zone: &AvailabilityZone,
    store: &Store,
) -> anyhow::Result<(Arc<FilePool>, Agent)> {
    let reserve_bytes = config.storage.reserve_mib << 20;
    let own = std::env::current_exe().context("finding this binary")?;
    let agent_config = AgentConfig {
        data_dir: dir.root().to_owned(),
        name: config.node.name.clone(),
        region: config.cluster.region.clone(),
        zone: zone.to_string(),
        cloud_tag: config.cluster.tag.clone(),
        public_pool: config.external.pool,
        mtu: config.node.mtu,
        export_launcher: vec![own.into(), "volume".into(), "serve".into(), "--config".into()],
        export_pool: ExportPool::File {
            root: dir.pool(),
            reserve_bytes,
        },
        metadata_key: ensure_secret(&dir.keys().join("metadata"))?,
        probe_kernels: machine_image::cached_kernels(Path::new(crate::commands::image::CACHE)),
        memory_reserve_mib: config.node.memory_reserve_mib,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let pool = FilePool::open(FilePoolConfig {
        root: dir.pool(),
        exports: agent_config.exports_dir(),
        reserve_bytes: Some(reserve_bytes),
    })
    .with_context(|| format!("opening the pool {}", dir.pool().display()))?;
    let pool = Arc::new(pool);
    let agent = Agent::start(agent_config, store.clone(), pool.clone())
        .await
        .context("starting the agent")?;
    Ok((pool, agent))
}

/// A secret of 32 random bytes in a file of its own (0600).
fn ensure_secret(path: &Path) -> anyhow::Result<[u8; 32]> {
    if !path.exists() {
        write_private(path, &rand::random::<[u8; 32]>())
            .with_context(|| format!("making {}", path.display()))?;
    }
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    <[u8; 32]>::try_from(bytes)
        .ok()
        .with_context(|| format!("{} does not hold 32 bytes", path.display()))
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

//! What the operator's commands are answered from: the store over all accounts, the agent, the reconcilers.

use crate::admin::server::table;
use crate::admin::{ImportImage, Status, Table};
use anyhow::{Context, bail};
use aws_types::AccountId;
use aws_types::ids::{ImageId, SnapshotId, VolumeId};
use block::file::FilePool;
use block::provider::{ImportSnapshot, VolumeProvider};
use compute::capability::{ImportedImage, list_images, register_imported_image};
use compute::records::{BootMode, Instance};
use node::Agent;
use node_spec::{GuestObservation, GuestState, NodeRecord};
use state::reconcile::{PassOutcome, StatusObserver};
use state::{Probe, Store};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use time::OffsetDateTime;

/// Answers of a running cloud. Cheap to clone.
#[derive(Clone)]
pub struct Operator {
    store: Store,
    agent: Arc<Agent>,
    pool: Arc<FilePool>,
    reconcilers: StatusObserver,
    endpoint: String,
}

impl Operator {
    pub(super) fn new(
        store: Store,
        agent: Arc<Agent>,
        pool: Arc<FilePool>,
        reconcilers: StatusObserver,
        endpoint: String,
    ) -> Operator {
        Operator {
            store,
            agent,
            pool,
            reconcilers,
            endpoint,
        }
    }

    /// How the cloud is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn status(&self) -> anyhow::Result<Status> {
        let mut instances: BTreeMap<String, usize> = BTreeMap::new();
        for instance in self.store.list_all::<Instance>().await? {
            *instances
                .entry(instance.lifecycle.phase.state().name().to_owned())
                .or_default() += 1;
        }
        let store = match self.store.probe().await {
            Probe::Healthy(_) => "a write was read back".to_owned(),
            other => format!("{other:?}"),
        };
        let accelerator = self
            .agent
            .node()
            .accelerator
            .map_or("unknown", |accelerator| match accelerator {
                node_spec::Accelerator::Kvm => "kvm",
                node_spec::Accelerator::Tcg => "tcg",
            });
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            endpoint: self.endpoint.clone(),
            pid: std::process::id(),
            engine: self.store.engine_name().to_owned(),
            store,
            accelerator: accelerator.to_owned(),
            instances: instances.into_iter().collect(),
        })
    }

    /// All nodes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn nodes(&self) -> anyhow::Result<Table> {
        let mut guests: HashMap<String, usize> = HashMap::new();
        for seen in self.store.list_all::<GuestObservation>().await? {
            if seen.state == GuestState::Running {
                *guests.entry(seen.node.to_string()).or_default() += 1;
            }
        }
        let now = OffsetDateTime::now_utc();
        let rows = self
            .store
            .list_all::<NodeRecord>()
            .await?
            .into_iter()
            .map(|node| {
                [
                    node.name.clone(),
                    // Until nodes beat (the next issue), the only node is the one that answers.
                    if node.id == self.agent.node().id {
                        "Ready".to_owned()
                    } else {
                        "NotReady".to_owned()
                    },
                    "api,controller,node".to_owned(),
                    node.region.clone(),
                    node.zone.clone(),
                    age(now - node.started_at),
                    guests.get(node.id.as_str()).copied().unwrap_or(0).to_string(),
                    node.version.clone(),
                ]
            });
        let columns = [
            "NAME", "STATUS", "ROLES", "REGION", "AZ", "UPTIME", "VMS", "VERSION",
        ];
        Ok(table(columns, rows.collect()))
    }

    /// All instances of all accounts.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn instances(&self) -> anyhow::Result<Table> {
        let seen: HashMap<String, GuestObservation> = self
            .store
            .list_all::<GuestObservation>()
            .await?
            .into_iter()
            .map(|seen| (seen.instance.to_string(), seen))
            .collect();
        let now = OffsetDateTime::now_utc();
        let rows = self
            .store
            .list_all::<Instance>()
            .await?
            .into_iter()
            .map(|instance| {
                let seen = seen.get(instance.id.as_str());
                let health = match seen {
                    Some(seen) if seen.panicked_at.is_some() => "panicked",
                    Some(seen) if seen.state == GuestState::Running => "ok",
                    _ => "-",
                };
                [
                    instance.id.to_string(),
                    instance.lifecycle.phase.state().name().to_owned(),
                    health.to_owned(),
                    instance.instance_type.clone(),
                    instance.account.to_string(),
                    instance.node.to_string(),
                    seen.and_then(|s| s.process.as_ref())
                        .map_or("-".to_owned(), |p| p.pid.to_string()),
                    age(now - instance.launched_at),
                ]
            });
        let columns = [
            "INSTANCE", "STATUS", "HEALTH", "TYPE", "ACCOUNT", "NODE", "PID", "AGE",
        ];
        Ok(table(columns, rows.collect()))
    }

    /// All reconcile loops.
    pub fn reconcilers(&self) -> Table {
        let rows = self.reconcilers.statuses().into_iter().map(|status| {
            let outcome = match status.last.as_ref().map(|last| &last.outcome) {
                None => "-".to_owned(),
                Some(PassOutcome::Done(report)) => {
                    format!(
                        "done: {} examined, {} changed, {} failed",
                        report.examined, report.changed, report.failed
                    )
                }
                Some(PassOutcome::Failed { errors }) => format!("failed: {}", errors.join(": ")),
                Some(other) => format!("{other:?}").to_lowercase(),
            };
            [
                status.name.clone(),
                format!("{:?}", status.phase).to_lowercase(),
                status.passes.to_string(),
                status.failures_in_a_row.to_string(),
                outcome,
            ]
        });
        table(["NAME", "PHASE", "PASSES", "FAILURES", "LAST"], rows.collect())
    }

    /// All images.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn images(&self) -> anyhow::Result<Table> {
        let rows = list_images(&self.store).await?.into_iter().map(|image| {
            [
                image.id.to_string(),
                image.name.clone(),
                image.state.name().to_owned(),
                image.account.to_string(),
                image.boot_mode.map_or("-", |mode| mode.name()).to_owned(),
                image
                    .root()
                    .map_or("-".to_owned(), |root| format!("{} GiB", root.size_gib)),
            ]
        });
        Ok(table(
            ["IMAGE", "NAME", "STATE", "OWNER", "BOOT", "SIZE"],
            rows.collect(),
        ))
    }

    /// Stores a raw disk in the pool and registers it as an image that every account may launch.
    ///
    /// # Errors
    /// The pool has no space, the name is taken; nothing is left.
    pub async fn import_image(&self, import: ImportImage) -> anyhow::Result<String> {
        let size = std::fs::metadata(&import.file)
            .with_context(|| format!("reading {}", import.file.display()))?
            .len();
        let snapshot = SnapshotId::random();
        let request = ImportSnapshot {
            snapshot: block::id::SnapshotId::new(snapshot.as_str())?,
            // A snapshot always names a volume; an import's never existed (AWS shows vol-ffffffff for these).
            source_volume: block::id::VolumeId::new(VolumeId::random().as_str())?,
            digest: snapshot.to_string(),
        };
        let view = self
            .pool
            .import_snapshot(request, &import.file)
            .await
            .context("storing the disk in the pool")?;
        let boot_mode = BootMode::parse(&import.boot_mode)
            .with_context(|| format!("{:?} is no boot mode", import.boot_mode))?;
        let imported = ImportedImage {
            account: AccountId::SYSTEM,
            name: import.name,
            description: import.description,
            size_bytes: size,
            boot_mode,
            architecture: "x86_64".to_owned(),
            snapshot,
            handle: view.handle.to_string(),
            node: self.agent.node().id.clone(),
            public: true,
        };
        match register_imported_image(&self.store, imported, OffsetDateTime::now_utc()).await {
            Ok(image) => Ok(image.id.to_string()),
            Err(error) => {
                // Nobody knows this snapshot, so removing it takes nothing from anybody.
                if let Err(left) = self.pool.delete_snapshot(&view.snapshot, Some(view.handle)).await {
                    bail!(
                        "{error}; and its snapshot {} is left in the pool: {left}",
                        view.snapshot
                    );
                }
                Err(error).context("registering the image")
            }
        }
    }

    /// Takes an image out of use. Its snapshot stays, as AWS's does.
    ///
    /// # Errors
    /// There is no such image.
    pub async fn remove_image(&self, image: &str) -> anyhow::Result<()> {
        let id = ImageId::parse(image).with_context(|| format!("{image:?} is no image id"))?;
        compute::capability::remove_image(&self.store, AccountId::SYSTEM, &id).await?;
        Ok(())
    }
}

fn age(duration: time::Duration) -> String {
    let seconds = duration.whole_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

//! A cloud with an open front door, and the clients that come to it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use aws_shapes::ec2;
use aws_types::{AccountId, Arn, AwsError, Region};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use aws_wire::registry::Registry;
use gateway::{Gateway, GatewayConfig};
use iam::records::{AccountState, AccountStatus, Attachment};
use iam::{AdminCredential, Authenticator, Bootstrap, Keys, ensure_bootstrap};
use serde_json::Value;
use state::{Record, Scope, Store};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::process::Command;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

pub const REGION: &str = "eu-central-1";

/// The cloud; its gateway stops when it is dropped.
pub struct Cloud {
    pub dir: TempDir,
    pub store: Store,
    pub bootstrap: Bootstrap,
    pub address: SocketAddr,
    pub ca: PathBuf,
    /// DescribeImages waits for it, and says in `waiting` that it does.
    pub release: Arc<Notify>,
    pub waiting: Arc<Notify>,
    pub serving: JoinHandle<()>,
    pub stop: watch::Sender<bool>,
}

impl Cloud {
    pub async fn new() -> Self {
        Self::with_throttle(false).await
    }

    pub async fn with_throttle(throttle: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::memory();
        let keys = Keys::open(&dir.path().join("keys"), &store).await.expect("keys");
        let bootstrap = ensure_bootstrap(&store, &keys, &[], OffsetDateTime::now_utc())
            .await
            .expect("accounts");
        let (release, waiting) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut registry = Registry::new();
        iam::register(&mut registry);
        registry.register(Regions);
        registry.register(Panicking);
        registry.register(Waiting {
            release: Arc::clone(&release),
            waiting: Arc::clone(&waiting),
        });
        let config = GatewayConfig {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            dir: dir.path().to_owned(),
            region: Region::parse(REGION).expect("a region"),
            names: Vec::new(),
        };
        let authenticator = Authenticator::new(store.clone(), keys);
        let gateway = Gateway::bind(config, registry, authenticator)
            .await
            .expect("bound")
            .with_throttle(throttle);
        let (address, ca) = (gateway.local_addr(), gateway.ca_file().to_owned());
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(gateway.serve(stopped));
        Self {
            dir,
            store,
            bootstrap,
            address,
            ca,
            release,
            waiting,
            serving,
            stop,
        }
    }

    pub fn endpoint(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// What boto3 saw in each of these cases, as the tenant's admin.
    pub async fn boto3(&self, cases: &[&str]) -> HashMap<String, Value> {
        self.boto3_as(&self.bootstrap.tenant, cases).await
    }

    pub async fn boto3_as(&self, admin: &AdminCredential, cases: &[&str]) -> HashMap<String, Value> {
        let output = self
            .client_command("python3", admin)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client.py"))
            .args(cases)
            .output()
            .await
            .expect("python3 runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("the script prints JSON")
    }

    /// A client with everything it needs in its environment, and nothing else of ours.
    pub fn client_command(&self, program: &str, admin: &AdminCredential) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var("PATH").expect("a PATH"))
            .env("HOME", self.dir.path())
            .env("ENDPOINT", self.endpoint())
            .env("CA", &self.ca)
            .env("KEY", &admin.access_key_id)
            .env("SECRET", admin.secret.expose())
            .env("REGION", REGION)
            .env("AWS_ENDPOINT_URL", self.endpoint())
            .env("AWS_CA_BUNDLE", &self.ca)
            .env("AWS_ACCESS_KEY_ID", &admin.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", admin.secret.expose())
            .env("AWS_REGION", REGION)
            .env("AWS_DEFAULT_REGION", REGION)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .kill_on_drop(true);
        command
    }

    /// The audit lines so far.
    pub fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("log/audit.jsonl")).expect("the audit log");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect()
    }

    /// Writes one record.
    pub async fn put<T: Record>(&self, record: &T) {
        self.store
            .update(|tx| {
                let record = record.clone();
                async move { tx.put(&record) }
            })
            .await
            .expect("written");
    }

    /// Sets the state of the tenant's account.
    pub async fn set_state(&self, state: AccountState) {
        self.put(&AccountStatus {
            account: AccountId::FIRST_TENANT,
            state,
        })
        .await;
    }

    /// Takes all policies from the tenant's admin.
    pub async fn detach_all(&self) {
        let scope = Scope::account(AccountId::FIRST_TENANT);
        let attachments: Vec<Attachment> = self.store.list(&scope).await.expect("readable");
        for attachment in attachments {
            let key = attachment.key();
            self.store
                .update(|tx| {
                    let key = key.clone();
                    async move { tx.delete::<Attachment>(&key.scope, &key.id) }
                })
                .await
                .expect("deleted");
        }
    }
}

/// Stands in for a read with an ARN: answers one region.
struct Regions;

#[async_trait]
impl Operation for Regions {
    type Shape = ec2::operations::DescribeRegions;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeRegions"];

    async fn access(
        &self,
        call: &Call,
        _: &ec2::DescribeRegionsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let arn = Arn::new("ec2", &call.region, call.account(), "region/here");
        Ok(AccessRequest::on("ec2:DescribeRegions", arn).into())
    }

    async fn handle(
        &self,
        _: &Call,
        _: ec2::DescribeRegionsRequest,
    ) -> Result<ec2::DescribeRegionsResult, AwsError> {
        let region = ec2::Region {
            region_name: Some(REGION.to_owned()),
            ..ec2::Region::default()
        };
        Ok(ec2::DescribeRegionsResult {
            regions: vec![region],
        })
    }
}

/// Stands in for a mistake of ours.
struct Panicking;

#[async_trait]
impl Operation for Panicking {
    type Shape = ec2::operations::DescribeVpcs;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeVpcs"];

    async fn access(&self, _: &Call, _: &ec2::DescribeVpcsRequest) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeVpcs").into())
    }

    async fn handle(
        &self,
        _: &Call,
        _: ec2::DescribeVpcsRequest,
    ) -> Result<ec2::DescribeVpcsResult, AwsError> {
        panic!("this operation panics, as the test wants");
    }
}

/// Stands in for an operation that takes its time.
struct Waiting {
    release: Arc<Notify>,
    waiting: Arc<Notify>,
}

#[async_trait]
impl Operation for Waiting {
    type Shape = ec2::operations::DescribeImages;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeImages"];

    async fn access(&self, _: &Call, _: &ec2::DescribeImagesRequest) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeImages").into())
    }

    async fn handle(
        &self,
        _: &Call,
        _: ec2::DescribeImagesRequest,
    ) -> Result<ec2::DescribeImagesResult, AwsError> {
        self.waiting.notify_one();
        self.release.notified().await;
        Ok(ec2::DescribeImagesResult::default())
    }
}

//! A small cloud: accounts with their default networks, and this room's operations behind the real access layer.

use aws_shapes::{OperationShape, ec2};
use aws_types::page::PageKey;
use aws_types::{AccountId, AvailabilityZone, AwsError, Region};
use aws_wire::call::Call;
use aws_wire::operation::perform;
use aws_wire::parameters::Parameters;
use aws_wire::registry::{Found, Registry};
use bytes::Bytes;
use iam::{AccountInitializer, AdminCredential, Authenticator, Bootstrap, Keys, ensure_bootstrap};
use ipnet::Ipv4Net;
use network::capability::tags::TagKinds;
use network::records::{SecurityGroup, Subnet, Vpc};
use network::{DefaultNetworks, Network, NetworkError, Settings, ensure_public_pool};
use state::{Record, Scope, Store, Tx};
use std::sync::Arc;
use tempfile::TempDir;
use time::OffsetDateTime;

/// The account that tests use.
pub const TENANT: AccountId = AccountId::FIRST_TENANT;
/// Its public pool.
pub const POOL: &str = "198.18.0.0/24";

/// The cloud.
pub struct Cloud {
    dir: TempDir,
    pub store: Store,
    pub registry: Registry,
    bootstrap: Bootstrap,
    authenticator: Authenticator,
}

pub fn region() -> Region {
    Region::parse("eu-central-1").expect("a region")
}

pub fn zones() -> Vec<AvailabilityZone> {
    vec![region().zone('a'), region().zone('b')]
}

impl Cloud {
    /// In memory.
    pub async fn new() -> Cloud {
        Cloud::over(Store::memory(), tempfile::tempdir().expect("a directory")).await
    }

    /// On disk.
    pub async fn on_disk() -> Cloud {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open_redb(dir.path().join("state.redb")).expect("a store");
        Cloud::over(store, dir).await
    }

    async fn over(store: Store, dir: TempDir) -> Cloud {
        let pool: Ipv4Net = POOL.parse().expect("a block");
        ensure_public_pool(&store, pool).await.expect("a pool");
        let keys = Keys::open(&dir.path().join("keys"), &store).await.expect("keys");
        let bootstrap = boot(&store, &keys).await;
        let authenticator = Authenticator::new(store.clone(), keys);
        let settings = Settings::new(region(), zones(), PageKey::new([7; 32]));
        let network = Network::new(store.clone(), settings, TagKinds::new());
        let mut registry = Registry::default();
        network::register(&mut registry, &network);
        Cloud {
            dir,
            store,
            registry,
            bootstrap,
            authenticator,
        }
    }

    /// Starts the cloud again over the same store, as a restart of the process does.
    pub async fn boot_again(&self) {
        let keys = Keys::open(&self.dir.path().join("keys"), &self.store)
            .await
            .expect("keys");
        boot(&self.store, &keys).await;
    }

    /// A call of the tenant's admin.
    pub async fn call(&self) -> Call {
        self.call_as(&self.bootstrap.tenant).await
    }

    /// A call of an admin of another account.
    pub async fn foreign_call(&self) -> Call {
        self.call_as(&self.bootstrap.operator).await
    }

    async fn call_as(&self, admin: &AdminCredential) -> Call {
        let credential = self
            .authenticator
            .find(&admin.access_key_id)
            .await
            .expect("the founding key");
        Call::new(credential.caller(), region(), OffsetDateTime::now_utc())
    }

    /// Runs an operation as the tenant's admin.
    pub async fn run<O: OperationShape>(&self, input: O::Input) -> Result<O::Output, AwsError> {
        self.run_as::<O>(&self.call().await, input).await
    }

    /// Runs an operation and insists on its success.
    pub async fn ok<O: OperationShape>(&self, input: O::Input) -> O::Output {
        match self.run::<O>(input).await {
            Ok(output) => output,
            Err(error) => panic!("{}: {error}", O::SCHEMA.name),
        }
    }

    /// Runs an operation for a call.
    pub async fn run_as<O: OperationShape>(
        &self,
        call: &Call,
        input: O::Input,
    ) -> Result<O::Output, AwsError> {
        let Found::Built(operation) = self.registry.find(O::SCHEMA.service, O::SCHEMA.name) else {
            panic!("{} is not registered", O::SCHEMA.name)
        };
        let performed = perform(operation.as_ref(), call, Box::new(input)).await;
        performed
            .result
            .map(|output| *output.into_any().downcast().expect("the operation's output"))
    }

    /// The tenant's default VPC.
    pub async fn default_vpc(&self) -> Vpc {
        let found = self
            .store
            .find_unique::<Vpc>("default", &[&TENANT.to_string()])
            .await;
        found.expect("readable").expect("a default VPC")
    }

    /// The tenant's default subnet in the first zone.
    pub async fn default_subnet(&self) -> Subnet {
        let value = [TENANT.to_string(), zones()[0].to_string()];
        let found = self
            .store
            .find_unique::<Subnet>("default", &[&value[0], &value[1]])
            .await;
        found.expect("readable").expect("a default subnet")
    }

    /// The default group of the tenant's default VPC.
    pub async fn default_group(&self) -> SecurityGroup {
        let vpc = self.default_vpc().await;
        let found = self
            .store
            .find_unique::<SecurityGroup>("name", &[vpc.id.as_str(), "default"])
            .await;
        found.expect("readable").expect("a default group")
    }

    /// A VPC of the tenant that is not its default one, with a subnet of that block, written as records.
    pub async fn other_vpc(&self, block: &str, prefix: u8) -> (Vpc, Subnet) {
        let mut vpc = self.default_vpc().await;
        vpc.id = aws_types::ids::VpcId::random();
        vpc.number += 1000;
        vpc.is_default = false;
        vpc.blocks[0].block = block.parse().expect("a block");
        let mut subnet = self.default_subnet().await;
        subnet.id = aws_types::ids::SubnetId::random();
        subnet.vpc = vpc.id.clone();
        subnet.default_for_zone = false;
        subnet.map_public_ip_on_launch = false;
        subnet.block = Ipv4Net::new(vpc.blocks[0].block.network(), prefix).expect("a block");
        let mut group = self.default_group().await;
        group.id = aws_types::ids::SecurityGroupId::random();
        group.vpc = vpc.id.clone();
        self.put(&vpc).await;
        self.put(&subnet).await;
        self.put(&group).await;
        (vpc, subnet)
    }

    /// Writes a record.
    pub async fn put<T: Record>(&self, record: &T) {
        let written = self.store.update(|tx: Tx| {
            let record = record.clone();
            async move { Ok::<_, NetworkError>(tx.put(&record)?) }
        });
        written.await.expect("written");
    }

    /// Every record of the tenant.
    pub async fn list<T: Record>(&self) -> Vec<T> {
        self.store
            .list::<T>(&Scope::account(TENANT))
            .await
            .expect("readable")
    }

    /// Makes a group and answers its id.
    pub async fn make_group(&self, name: &str, vpc: Option<&Vpc>) -> String {
        let input = ec2::CreateSecurityGroupRequest {
            group_name: Some(name.into()),
            description: Some("a group".into()),
            vpc_id: vpc.map(|vpc| vpc.id.to_string()),
            ..Default::default()
        };
        let made = self.ok::<ec2::operations::CreateSecurityGroup>(input).await;
        made.group_id.expect("an id")
    }
}

/// The call with these parameters as sent, which page tokens are bound to.
pub fn with_form(call: Call, form: &'static str) -> Call {
    call.with_parameters(Parameters::form("", Bytes::from_static(form.as_bytes())))
}

async fn boot(store: &Store, keys: &Keys) -> Bootstrap {
    let births: Vec<Arc<dyn AccountInitializer>> = vec![Arc::new(DefaultNetworks {
        region: region(),
        zones: zones(),
    })];
    ensure_bootstrap(store, keys, &births, OffsetDateTime::now_utc())
        .await
        .expect("accounts")
}

/// A filter.
pub fn filter(name: &str, values: &[&str]) -> ec2::Filter {
    ec2::Filter {
        name: Some(name.into()),
        values: values.iter().map(|value| (*value).into()).collect(),
    }
}

/// A permission for TCP on one port from one block.
pub fn tcp(port: i32, cidr: &str) -> ec2::IpPermission {
    ec2::IpPermission {
        ip_protocol: Some("tcp".into()),
        from_port: Some(port),
        to_port: Some(port),
        ip_ranges: vec![ec2::IpRange {
            cidr_ip: Some(cidr.into()),
            description: None,
        }],
        ..Default::default()
    }
}

/// Everything from or to a block.
pub fn everything(cidr: &str) -> ec2::IpPermission {
    ec2::IpPermission {
        ip_protocol: Some("-1".into()),
        ip_ranges: vec![ec2::IpRange {
            cidr_ip: Some(cidr.into()),
            description: None,
        }],
        ..Default::default()
    }
}

/// A tag.
pub fn tag(key: &str, value: &str) -> ec2::Tag {
    ec2::Tag {
        key: Some(key.into()),
        value: Some(value.into()),
    }
}

//! The capability for `compute`: launch networks, interfaces over an instance's life, addresses, facts.

use crate::cloud::{Cloud, TENANT, region, zones};
use aws_types::ids::{InstanceId, NodeId, SecurityGroupId, SubnetId};
use aws_types::{AwsError, Tags};
use network::capability::interfaces::{
    AttachmentSpec, InterfaceSpec, create_interface, mark_attached, operations_per_interface,
    release_interfaces, start_interfaces, stop_interfaces,
};
use network::capability::launch::{LaunchNetworkRequest, resolve_launch_network};
use network::capability::{facts, names, tags};
use network::records::{
    Address, Interface, InterfaceStatus, PublicAddress, ReleasedAddress, SecurityGroup, TagRow, Vpc,
};
use network::{NetworkError, update_error};
use node_spec::{NetworkObservation, NetworkSpec};
use state::{Scope, Tx};
use std::collections::BTreeSet;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use tokio::task::JoinSet;

/// What a launch of one instance asks for.
#[derive(Clone)]
struct Launch {
    subnet: SubnetId,
    group: SecurityGroupId,
    instance: InstanceId,
    node: NodeId,
    public: bool,
    keep: bool,
    address: Option<&'static str>,
    now: OffsetDateTime,
}

impl Launch {
    async fn new(cloud: &Cloud) -> Launch {
        Launch {
            subnet: cloud.default_subnet().await.id,
            group: cloud.default_group().await.id,
            instance: InstanceId::random(),
            node: NodeId::random(),
            public: false,
            keep: false,
            address: None,
            now: OffsetDateTime::now_utc(),
        }
    }

    fn spec(&self) -> InterfaceSpec {
        InterfaceSpec {
            account: TENANT,
            subnet: self.subnet.clone(),
            groups: vec![self.group.clone()],
            description: String::new(),
            address: self.address.map(|address| address.parse().expect("address")),
            public: self.public,
            attachment: Some(AttachmentSpec {
                instance: self.instance.clone(),
                instance_account: TENANT,
                device_index: 0,
                delete_on_termination: !self.keep,
                metadata_hop_limit: 2,
            }),
            home: Some(self.node.clone()),
            requester: None,
            tags: Tags::new(),
            now: self.now,
        }
    }

    async fn run(&self, cloud: &Cloud) -> Result<Interface, AwsError> {
        let made = cloud.store.update(|tx: Tx| {
            let spec = self.spec();
            async move { create_interface(&tx, spec).await }
        });
        made.await.map_err(update_error)
    }
}

/// Runs a step of an instance's life.
macro_rules! step {
    ($cloud:expr, |$tx:ident| $body:expr) => {{
        let done = $cloud.store.update(|$tx: Tx| async move { $body.await });
        let done: Result<_, state::UpdateError<NetworkError>> = done.await;
        done.map_err(update_error)
    }};
}

async fn the_interface(cloud: &Cloud) -> Interface {
    cloud.list::<Interface>().await.remove(0)
}

#[tokio::test]
async fn an_instance_from_launch_to_terminate() {
    let cloud = Cloud::new().await;
    let launch = &Launch {
        public: true,
        ..Launch::new(&cloud).await
    };
    let made = launch.run(&cloud).await.expect("made");
    assert_eq!(made.address.to_string(), "172.31.0.4");
    assert_eq!(made.status, InterfaceStatus::InUse);
    let first_public = made.public.clone().expect("public").address;
    assert_eq!(first_public.to_string(), "198.18.0.1");

    step!(cloud, |tx| mark_attached(&tx, &launch.instance)).expect("attached");
    let attached = the_interface(&cloud).await;
    assert_eq!(
        attached.attachment.expect("attachment").status.as_str(),
        "attached"
    );

    step!(cloud, |tx| stop_interfaces(&tx, &launch.instance, launch.now)).expect("stopped");
    let stopped = the_interface(&cloud).await;
    assert_eq!(
        (stopped.public, stopped.home, stopped.address),
        (None, None, made.address)
    );
    let before = cloud.store.revision().await.expect("revision");
    step!(cloud, |tx| stop_interfaces(&tx, &launch.instance, launch.now)).expect("stopped already");
    assert_eq!(cloud.store.revision().await.expect("revision"), before);

    let node = &NodeId::random();
    step!(cloud, |tx| start_interfaces(
        &tx,
        &launch.instance,
        node,
        launch.now
    ))
    .expect("started");
    let started = the_interface(&cloud).await;
    assert_eq!(started.home.clone().expect("home").node, *node);
    let second_public = started.public.clone().expect("public").address;
    assert_ne!(
        second_public, first_public,
        "a just released address is not reused"
    );
    assert_eq!(
        (started.id, started.mac, started.address),
        (made.id, made.mac, made.address)
    );

    step!(cloud, |tx| release_interfaces(&tx, &launch.instance, launch.now)).expect("released");
    step!(cloud, |tx| release_interfaces(&tx, &launch.instance, launch.now)).expect("released already");
    assert!(cloud.list::<Interface>().await.is_empty());
    assert!(
        cloud
            .store
            .list_all::<Address>()
            .await
            .expect("readable")
            .is_empty()
    );
    assert!(
        cloud
            .store
            .list_all::<TagRow>()
            .await
            .expect("readable")
            .is_empty()
    );
    assert_eq!(
        cloud
            .store
            .list_all::<ReleasedAddress>()
            .await
            .expect("readable")
            .len(),
        2
    );
    assert_eq!(
        cloud
            .store
            .list_all::<PublicAddress>()
            .await
            .expect("readable")
            .len(),
        2
    );
}

#[tokio::test]
async fn an_interface_that_does_not_go_with_its_instance_stays_with_its_address() {
    let cloud = Cloud::new().await;
    let launch = &Launch {
        keep: true,
        public: true,
        ..Launch::new(&cloud).await
    };
    let made = launch.run(&cloud).await.expect("made");
    step!(cloud, |tx| release_interfaces(&tx, &launch.instance, launch.now)).expect("released");
    let left = the_interface(&cloud).await;
    assert_eq!(
        (left.status, left.attachment, left.public),
        (InterfaceStatus::Available, None, None)
    );
    assert_eq!(left.address, made.address);
}

#[tokio::test]
async fn addresses_are_next_fit_and_a_full_subnet_says_so() {
    let cloud = Cloud::new().await;
    let (vpc, subnet) = cloud.other_vpc("10.9.0.0/16", 28).await;
    let groups = cloud.list::<SecurityGroup>().await;
    let group = groups
        .into_iter()
        .find(|group| group.vpc == vpc.id)
        .expect("default group")
        .id;
    let base = Launch {
        subnet: subnet.id.clone(),
        group,
        ..Launch::new(&cloud).await
    };
    let mut given = Vec::new();
    for _ in 0..11 {
        let launch = Launch {
            instance: InstanceId::random(),
            ..base.clone()
        };
        given.push((
            launch.run(&cloud).await.expect("free").address.to_string(),
            launch.instance,
        ));
    }
    let addresses: Vec<&str> = given.iter().map(|(address, _)| address.as_str()).collect();
    let wanted: Vec<String> = (4..15).map(|host| format!("10.9.0.{host}")).collect();
    assert_eq!(addresses, wanted);
    let full = base.run(&cloud).await.expect_err("full");
    assert_eq!(full.code, "InsufficientFreeAddressesInSubnet");

    for index in [7, 2] {
        let instance = &given[index].1;
        step!(cloud, |tx| release_interfaces(&tx, instance, base.now)).expect("released");
    }
    let next = Launch {
        instance: InstanceId::random(),
        ..base.clone()
    }
    .run(&cloud)
    .await
    .expect("free");
    assert_eq!(
        next.address.to_string(),
        "10.9.0.6",
        "the cursor was back at the start"
    );
    let next = Launch {
        instance: InstanceId::random(),
        ..base.clone()
    }
    .run(&cloud)
    .await
    .expect("free");
    assert_eq!(next.address.to_string(), "10.9.0.11");
    for (address, code) in [
        ("10.9.0.4", "InvalidIPAddress.InUse"),
        ("10.9.0.3", "InvalidParameterValue"),
        ("10.9.0.15", "InvalidParameterValue"),
        ("10.9.1.4", "InvalidParameterValue"),
    ] {
        let error = Launch {
            address: Some(address),
            ..base.clone()
        }
        .run(&cloud)
        .await
        .expect_err(address);
        assert_eq!(error.code, code, "{address}");
    }
}

#[tokio::test]
async fn a_launch_of_100_is_one_transaction() {
    let cloud = Cloud::new().await;
    let launch = &Launch {
        public: true,
        ..Launch::new(&cloud).await
    };
    let bound = (state::limits::TXN_OPS_MAX - 6) / operations_per_interface(1, 0, true);
    assert!(bound >= 100, "{bound}");
    let made: Vec<Interface> = step!(cloud, |tx| async {
        let mut made = Vec::new();
        for _ in 0..bound {
            made.push(create_interface(&tx, launch.spec()).await?);
        }
        Ok(made)
    })
    .expect("one transaction");
    let distinct = |of: fn(&Interface) -> String| made.iter().map(of).collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(|eni| eni.address.to_string()), bound);
    assert_eq!(distinct(|eni| eni.mac.clone()), bound);
    assert_eq!(
        distinct(|eni| eni.home.as_ref().expect("home").number.to_string()),
        bound
    );
    assert_eq!(
        distinct(|eni| eni.public.as_ref().expect("public").address.to_string()),
        bound
    );
    step!(cloud, |tx| async {
        let own = network::capability::interfaces::find_interfaces(&tx, &launch.instance).await?;
        assert_eq!(own.len(), bound);
        Ok(())
    })
    .expect("read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_launches_get_distinct_addresses() {
    let cloud = Arc::new(Cloud::new().await);
    let launch = Launch {
        public: true,
        ..Launch::new(&cloud).await
    };
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let (cloud, launch) = (
            cloud.clone(),
            Launch {
                instance: InstanceId::random(),
                ..launch.clone()
            },
        );
        tasks.spawn(async move {
            loop {
                match launch.run(&cloud).await {
                    Ok(made) => return made,
                    Err(error) => assert_eq!(error.code, "Unavailable", "only contention may fail"),
                }
            }
        });
    }
    let (mut private, mut public, mut numbers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    while let Some(made) = tasks.join_next().await {
        let made = made.expect("no panic");
        private.insert(made.address);
        public.insert(made.public.expect("public").address);
        numbers.insert(made.home.expect("home").number);
    }
    assert_eq!((private.len(), public.len(), numbers.len()), (64, 64, 64));
}

#[tokio::test]
async fn a_dry_pool_fails_the_launch_and_quarantine_and_withdrawal_gate_reuse() {
    let cloud = Cloud::new().await;
    let node = NodeId::random();
    let base = &Launch {
        public: true,
        node: node.clone(),
        ..Launch::new(&cloud).await
    };
    let all = &(0..253).map(|_| InstanceId::random()).collect::<Vec<_>>();
    for part in all.chunks(100) {
        step!(cloud, |tx| async {
            for instance in part {
                create_interface(
                    &tx,
                    Launch {
                        instance: instance.clone(),
                        ..base.clone()
                    }
                    .spec(),
                )
                .await?;
            }
            Ok(())
        })
        .expect("launched");
    }
    let more = |now| Launch {
        instance: InstanceId::random(),
        now,
        ..base.clone()
    };
    let dry = more(base.now).run(&cloud).await.expect_err("dry");
    assert_eq!(
        (dry.code.as_ref(), dry.status),
        ("InsufficientAddressCapacity", 500)
    );
    assert_eq!(
        cloud.list::<Interface>().await.len(),
        253,
        "a failed launch leaves nothing"
    );

    // The program that the node runs has the first two addresses; they are released one second apart.
    let vpc = cloud.default_vpc().await.id;
    let (first, second) = (&all[0], &all[1]);
    step!(cloud, |tx| release_interfaces(&tx, first, base.now)).expect("released");
    step!(cloud, |tx| release_interfaces(
        &tx,
        second,
        base.now + Duration::SECOND
    ))
    .expect("released");
    let at = |seconds| base.now + Duration::seconds(seconds);
    assert_eq!(
        more(at(59)).run(&cloud).await.expect_err("quarantined").code,
        "InsufficientAddressCapacity"
    );
    let spec = |generation| NetworkSpec {
        node: node.clone(),
        vpc: vpc.clone(),
        generation,
        number: 1,
        blocks: Vec::new(),
        subnets: Vec::new(),
        interfaces: Vec::new(),
        groups: Vec::new(),
    };
    let applied = |generation| NetworkObservation {
        node: node.clone(),
        vpc: vpc.clone(),
        applied_generation: generation,
        error: None,
        at: base.now,
    };
    cloud.put(&spec(5)).await;
    cloud.put(&applied(4)).await;
    assert_eq!(
        more(at(100)).run(&cloud).await.expect_err("not withdrawn").code,
        "InsufficientAddressCapacity"
    );
    cloud.put(&applied(5)).await;
    let reused = more(at(100)).run(&cloud).await.expect("withdrawn");
    assert_eq!(
        reused.public.expect("public").address.to_string(),
        "198.18.0.1",
        "longest released first"
    );
}

#[tokio::test]
async fn the_network_of_a_launch() {
    let cloud = Cloud::new().await;
    let web = cloud.make_group("web", None).await;
    let (other, other_subnet) = cloud.other_vpc("10.9.0.0/16", 24).await;
    let default = cloud.default_group().await;
    let resolve = |request: LaunchNetworkRequest| {
        let store = cloud.store.clone();
        async move {
            let request = &request;
            let zones = &zones();
            let found = store
                .update(|tx: Tx| async move { resolve_launch_network(&tx, TENANT, zones, request).await });
            found.await.map_err(update_error::<NetworkError>)
        }
    };
    let base = LaunchNetworkRequest::default;
    let plain = resolve(base()).await.expect("default");
    assert_eq!(plain.subnet.zone, zones()[0]);
    assert_eq!(plain.group_ids(), std::slice::from_ref(&default.id));
    assert!(plain.public_by_default());
    let zoned = resolve(LaunchNetworkRequest {
        zone: Some(zones()[1].to_string()),
        ..base()
    })
    .await
    .expect("zone");
    assert_eq!(zoned.subnet.zone, zones()[1]);
    let named = LaunchNetworkRequest {
        group_names: vec!["web".into(), "WEB".into()],
        ..base()
    };
    assert_eq!(resolve(named).await.expect("by name").groups[0].id.as_str(), web);
    let elsewhere = LaunchNetworkRequest {
        subnet: Some(other_subnet.id.to_string()),
        ..base()
    };
    assert_eq!(
        resolve(elsewhere.clone()).await.expect("other VPC").vpc.id,
        other.id
    );

    let six: Vec<String> = {
        let mut ids = Vec::new();
        for n in 0..6 {
            ids.push(cloud.make_group(&format!("g{n}"), None).await);
        }
        ids
    };
    let subnet = |id: &str| LaunchNetworkRequest {
        subnet: Some(id.into()),
        ..base()
    };
    let wrong_zone = LaunchNetworkRequest {
        zone: Some(zones()[1].to_string()),
        ..elsewhere.clone()
    };
    for (request, code) in [
        (subnet("subnet-12345678"), "InvalidSubnetID.NotFound"),
        (subnet("subnet"), "InvalidSubnetID.Malformed"),
        (
            LaunchNetworkRequest {
                zone: Some("eu-central-1z".into()),
                ..base()
            },
            "InvalidParameterValue",
        ),
        (wrong_zone, "InvalidParameterValue"),
        (
            LaunchNetworkRequest {
                group_ids: vec![web.clone()],
                ..elsewhere.clone()
            },
            "InvalidParameter",
        ),
        (
            LaunchNetworkRequest {
                group_names: vec!["web".into()],
                ..elsewhere
            },
            "InvalidParameterCombination",
        ),
        (
            LaunchNetworkRequest {
                group_ids: vec!["sg-12345678".into()],
                ..base()
            },
            "InvalidGroup.NotFound",
        ),
        (
            LaunchNetworkRequest {
                group_ids: vec!["web".into()],
                ..base()
            },
            "InvalidGroupId.Malformed",
        ),
        (
            LaunchNetworkRequest {
                group_names: vec!["nobody".into()],
                ..base()
            },
            "InvalidGroup.NotFound",
        ),
        (
            LaunchNetworkRequest {
                group_ids: six,
                ..base()
            },
            "SecurityGroupsPerInterfaceLimitExceeded",
        ),
    ] {
        let what = format!("{request:?}");
        assert_eq!(resolve(request).await.expect_err(&what).code, code, "{what}");
    }
    let vpc = cloud.default_vpc().await;
    let subnets = cloud.list::<network::records::Subnet>().await;
    for subnet in subnets.into_iter().filter(|subnet| subnet.vpc == vpc.id) {
        cloud
            .put(&network::records::Subnet {
                default_for_zone: false,
                ..subnet
            })
            .await;
    }
    assert_eq!(
        resolve(base()).await.expect_err("no default subnet").code,
        "MissingInput"
    );
    cloud
        .put(&Vpc {
            is_default: false,
            ..vpc
        })
        .await;
    assert_eq!(
        resolve(base()).await.expect_err("no default VPC").code,
        "VPCIdNotSpecified"
    );
}

#[tokio::test]
async fn facts_for_answers_and_for_metadata() {
    let cloud = Cloud::new().await;
    let mut instances = Vec::new();
    for _ in 0..12 {
        let launch = Launch {
            public: true,
            ..Launch::new(&cloud).await
        };
        launch.run(&cloud).await.expect("made");
        instances.push(launch.instance);
    }
    for few in [1, 8, 12] {
        let found = facts::interfaces_of_instances(&cloud.store, TENANT, &instances[..few])
            .await
            .expect("read");
        assert_eq!(found.len(), few);
        assert!(found.values().all(|interfaces| interfaces.len() == 1));
    }
    let (instance, region) = (&instances[0], &region());
    let shown = step!(cloud, |tx| async {
        facts::metadata_interfaces(&tx, region, names::DNS_SUFFIX_DEFAULT, instance).await
    })
    .expect("read");
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].vpc_cidr, "172.31.0.0/16");
    assert_eq!(shown[0].subnet_cidr, "172.31.0.0/20");
    assert_eq!(shown[0].group_names, ["default"]);
    assert_eq!(
        shown[0].private_dns_name,
        "ip-172-31-0-4.eu-central-1.compute.internal"
    );
    let public = shown[0].public_dns_name.as_deref();
    assert_eq!(public, Some("ec2-198-18-0-1.eu-central-1.compute.amazonaws.com"));
    let names = facts::group_names(&cloud.store, TENANT).await.expect("read");
    assert_eq!(names.into_values().collect::<Vec<_>>(), ["default"]);
}

#[tokio::test]
async fn a_launch_and_the_deletion_of_its_group_exclude_each_other() {
    let cloud = Arc::new(Cloud::new().await);
    for round in 0..20 {
        let group = cloud.make_group(&format!("g{round}"), None).await;
        let id = SecurityGroupId::parse(&group).expect("id");
        let launch = Launch {
            group: id,
            ..Launch::new(&cloud).await
        };
        let delete = {
            let cloud = cloud.clone();
            tokio::spawn(async move {
                let input = aws_shapes::ec2::DeleteSecurityGroupRequest {
                    group_id: Some(group),
                    ..Default::default()
                };
                cloud
                    .run::<aws_shapes::ec2::operations::DeleteSecurityGroup>(input)
                    .await
                    .map(|_| ())
            })
        };
        let launched = launch.run(&cloud).await.is_ok();
        let deleted = delete.await.expect("no panic").is_ok();
        assert!(
            launched != deleted,
            "round {round}: launched {launched}, deleted {deleted}"
        );
    }
}

#[tokio::test]
async fn tags_of_an_interface_go_with_it() {
    let cloud = Cloud::new().await;
    let launch = &Launch::new(&cloud).await;
    let with_tags = || InterfaceSpec {
        tags: Tags::from([("a".into(), "b".into())]),
        ..launch.spec()
    };
    let made = step!(cloud, |tx| create_interface(&tx, with_tags())).expect("made");
    let read = tags::of_resource(&cloud.store, TENANT, made.id.as_str())
        .await
        .expect("read");
    assert_eq!(read.len(), 1);
    step!(cloud, |tx| release_interfaces(&tx, &launch.instance, launch.now)).expect("released");
    assert!(
        cloud
            .store
            .list::<TagRow>(&Scope::account(TENANT))
            .await
            .expect("read")
            .is_empty()
    );
}

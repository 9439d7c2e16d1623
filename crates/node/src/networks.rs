//! Networks of this node: each [`NetworkSpec`] becomes a program of the engine, applied whole and read back.
//!
//! Translation is pure ([`program_of`]); the keeper applies, reports the applied generation, and tells waiting guests which
//! interfaces exist. A spec without interfaces removes the namespace. Retrying and waking is the agent's.

use crate::error::{NetworkError, chain};
use aws_types::ids::{NetworkInterfaceId, VpcId};
use ipnet::Ipv4Net;
use node_spec::network::Ipv4Block;
use node_spec::{NetworkSpec, Peer as SpecPeer, RulePlan, Traffic};
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::watch;
use vnet::{
    DhcpOptions, Generation, Group, GroupId, Metadata, NetworkId, NetworkProgram, Peer, Port, PortId,
    PortKind, PortNumber, PortRange, Protocol, Route, RouteTable, RouteTarget, Rule, Subnet, SubnetId,
    TableNumber, Vnet,
};

/// The route table of subnets that lead to an internet gateway.
const TABLE_INTERNET: TableNumber = TableNumber(1);
/// The route table of subnets that do not.
const TABLE_LOCAL: TableNumber = TableNumber(2);

/// What is applied now.
#[derive(Clone, Debug, Default)]
pub struct AppliedNetworks {
    interfaces: HashMap<VpcId, HashSet<NetworkInterfaceId>>,
}

impl AppliedNetworks {
    /// True if the interface exists in the kernel with everything its groups say.
    pub fn has(&self, vpc: &VpcId, interface: &NetworkInterfaceId) -> bool {
        self.interfaces
            .get(vpc)
            .is_some_and(|set| set.contains(interface))
    }
}

/// Applies network specs.
pub struct NetworkKeeper {
    vnet: Arc<Vnet>,
    domain: String,
    applied: watch::Sender<AppliedNetworks>,
}

impl NetworkKeeper {
    /// A keeper over the engine; `domain` is what DHCP tells guests to search.
    pub fn new(vnet: Arc<Vnet>, domain: String) -> NetworkKeeper {
        NetworkKeeper {
            vnet,
            domain,
            applied: watch::Sender::new(AppliedNetworks::default()),
        }
    }

    /// What is applied, and a wake-up when it changes.
    pub fn applied(&self) -> watch::Receiver<AppliedNetworks> {
        self.applied.subscribe()
    }

    /// Makes the kernel equal to the spec.
    ///
    /// # Errors
    /// It is not equal; the engine's own text says why.
    pub async fn apply(&self, spec: &NetworkSpec) -> Result<(), NetworkError> {
        let failed = |attempt| {
            move |source| NetworkError::Engine {
                vpc: spec.vpc.clone(),
                attempt,
                source,
            }
        };
        let network = NetworkId::new(spec.vpc.as_str());
        if spec.interfaces.is_empty() {
            self.vnet.remove(&network).await.map_err(failed("removing"))?;
        } else {
            let program = program_of(spec, &self.domain)?;
            self.vnet.apply(&program).await.map_err(failed("applying"))?;
        }
        let interfaces: HashSet<_> = spec.interfaces.iter().map(|i| i.interface.clone()).collect();
        self.applied.send_if_modified(|applied| {
            let old = applied.interfaces.insert(spec.vpc.clone(), interfaces.clone());
            old.as_ref() != Some(&interfaces)
        });
        Ok(())
    }

    /// The descriptor of an interface's tap, for the hypervisor.
    ///
    /// # Errors
    /// The interface is not applied, or its tap is attached elsewhere.
    pub async fn open_tap(
        &self,
        vpc: &VpcId,
        interface: &NetworkInterfaceId,
    ) -> Result<OwnedFd, NetworkError> {
        self.vnet
            .open_tap(&NetworkId::new(vpc.as_str()), &PortId::new(interface.as_str()))
            .await
            .map_err(|source| NetworkError::Engine {
                vpc: vpc.clone(),
                attempt: "opening a tap",
                source,
            })
    }

    /// Removes every network of this cloud from the host.
    ///
    /// # Errors
    /// Something is left.
    pub async fn teardown(&self) -> Result<(), vnet::VnetError> {
        self.vnet.teardown_all().await
    }
}

/// Text of an error for an observation.
pub(crate) fn report(error: &NetworkError) -> String {
    chain(error)
}

/// The engine's program for a spec.
///
/// # Errors
/// A value of the spec is malformed.
pub fn program_of(spec: &NetworkSpec, domain: &str) -> Result<NetworkProgram, NetworkError> {
    let malformed = |what, value: String| NetworkError::Malformed {
        vpc: spec.vpc.clone(),
        what,
        value,
    };
    let net = |what, block: &Ipv4Block| {
        Ipv4Net::new(block.address, block.prefix)
            .map_err(|_| malformed(what, format!("{}/{}", block.address, block.prefix)))
    };
    let mut subnets = Vec::with_capacity(spec.subnets.len());
    for subnet in &spec.subnets {
        subnets.push(Subnet {
            id: SubnetId::new(subnet.subnet.as_str()),
            block: net("subnet block", &subnet.block)?,
            table: if subnet.internet {
                TABLE_INTERNET
            } else {
                TABLE_LOCAL
            },
        });
    }
    let blocks = spec
        .blocks
        .iter()
        .map(|b| net("VPC block", b))
        .collect::<Result<Vec<_>, _>>()?;
    let resolvers: Vec<Ipv4Addr> = vnet::resolver_address(&blocks).into_iter().collect();
    let everywhere = Route {
        destination: Ipv4Net::default(),
        target: RouteTarget::Internet,
    };
    let mut ports = Vec::with_capacity(spec.interfaces.len());
    for interface in &spec.interfaces {
        ports.push(Port {
            id: PortId::new(interface.interface.as_str()),
            number: PortNumber(interface.number),
            kind: PortKind::Tap,
            mac: interface
                .mac
                .parse()
                .map_err(|_| malformed("MAC", interface.mac.clone()))?,
            subnet: SubnetId::new(interface.subnet.as_str()),
            address: interface.address,
            public: interface.public_address,
            groups: interface
                .groups
                .iter()
                .map(|g| GroupId::new(g.as_str()))
                .collect(),
            source_check: interface.source_dest_check,
            dhcp: DhcpOptions {
                hostname: Some(interface.hostname.clone()),
                domain: Some(domain.to_owned()),
                resolvers: resolvers.clone(),
                ..DhcpOptions::default()
            },
            metadata: Metadata {
                enabled: true,
                hop_limit: interface.metadata_hop_limit,
            },
        });
    }
    let local: HashSet<Ipv4Addr> = spec.interfaces.iter().map(|i| i.address).collect();
    let mut groups = Vec::with_capacity(spec.groups.len());
    for group in &spec.groups {
        groups.push(Group {
            id: GroupId::new(group.group.as_str()),
            ingress: rules_of(spec, &group.ingress)?,
            egress: rules_of(spec, &group.egress)?,
            remote_members: group
                .members
                .iter()
                .filter(|m| !local.contains(m))
                .copied()
                .collect(),
        });
    }
    Ok(NetworkProgram {
        network: NetworkId::new(spec.vpc.as_str()),
        generation: Generation(spec.generation),
        blocks: spec
            .blocks
            .iter()
            .map(|b| net("VPC block", b))
            .collect::<Result<_, _>>()?,
        subnets,
        tables: vec![
            RouteTable {
                number: TABLE_INTERNET,
                routes: vec![everywhere],
            },
            RouteTable {
                number: TABLE_LOCAL,
                routes: Vec::new(),
            },
        ],
        ports,
        groups,
    })
}

fn rules_of(spec: &NetworkSpec, rules: &[RulePlan]) -> Result<Vec<Rule>, NetworkError> {
    let rule = |plan: &RulePlan| {
        let peer = match &plan.peer {
            SpecPeer::Group { group } => Peer::Group(GroupId::new(group.as_str())),
            SpecPeer::Block { block } => match Ipv4Net::new(block.address, block.prefix) {
                Ok(net) => Peer::Block(net),
                Err(_) => {
                    let value = format!("{}/{}", block.address, block.prefix);
                    return Err(NetworkError::Malformed {
                        vpc: spec.vpc.clone(),
                        what: "rule block",
                        value,
                    });
                }
            },
        };
        let protocol = match plan.traffic {
            Traffic::All => Protocol::All,
            Traffic::Tcp { from, to } => Protocol::Tcp(PortRange { from, to }),
            Traffic::Udp { from, to } => Protocol::Udp(PortRange { from, to }),
            Traffic::Icmp { icmp_type, code } => Protocol::Icmp {
                kind: icmp_type,
                code,
            },
            Traffic::Protocol { number } => Protocol::Number(number),
        };
        Ok(Rule { protocol, peer })
    };
    rules.iter().map(rule).collect()
}

//! The network every account is born with (vpc.md 2.4, R12): default VPC, a subnet per zone, gateway, tables, group, list.
//!
//! All of it is one transaction; a marker row remembers that it was made, so that an account that deleted its default
//! VPC does not get another one at the next start. CreateDefaultVpc will use the same builder. Default subnets map public
//! addresses on launch; whether the cloud has any is asked at the launch, so that pools may be configured later.

use crate::capability::names;
use crate::cidr;
use crate::error::{NetworkError, update_error};
use crate::limits;
use crate::records::{
    AclAction, AclEntry, BlockAssociation, DefaultNetwork, DhcpConfiguration, DhcpOptions, Direction,
    GatewayAttachment, InternetGateway, NetworkAcl, NetworkAclAssociation, Route, RouteOrigin, RouteTable,
    RouteTableAssociation, RouteTarget, SecurityGroup, SecurityGroupRule, Subnet, Vpc, VpcNumbers,
};
use crate::rule::{Rule, RulePeer, RuleTraffic};
use async_trait::async_trait;
use aws_types::ids::{
    DhcpOptionsId, InternetGatewayId, NetworkAclAssociationId, NetworkAclId, RouteTableAssociationId,
    RouteTableId, SecurityGroupId, SecurityGroupRuleId, SubnetId, VpcCidrAssociationId, VpcId,
};
use aws_types::{AccountId, AvailabilityZone, AwsError, Region};
use iam::AccountInitializer;
use ipnet::Ipv4Net;
use state::{Scope, Store, StoreError, Tx};
use std::net::Ipv4Addr;
use time::OffsetDateTime;

/// The block of every default VPC.
pub const DEFAULT_VPC_BLOCK: Ipv4Net = match Ipv4Net::new(Ipv4Addr::new(172, 31, 0, 0), 16) {
    Ok(net) => net,
    Err(_) => unreachable!(),
};
/// Prefix length of default subnets.
const DEFAULT_SUBNET_PREFIX: u8 = 20;
/// Name and description of default groups.
pub(crate) const DEFAULT_GROUP: &str = "default";
const DEFAULT_GROUP_DESCRIPTION: &str = "default VPC security group";
/// The number of the entry that allows everything, and of the one that ends every list.
const ACL_ALLOW: u32 = 100;
const ACL_LAST: u32 = 32_767;

/// Makes the default network of an account, once.
///
/// # Errors
/// `Unavailable` or internal if the store failed; nothing is half-made.
pub async fn ensure_default_network(
    store: &Store,
    account: AccountId,
    region: &Region,
    zones: &[AvailabilityZone],
) -> Result<(), AwsError> {
    let result = store
        .update(|tx: Tx| async move {
            ensure_default_network_in(&tx, account, region, zones, OffsetDateTime::now_utc()).await?;
            Ok::<_, NetworkError>(())
        })
        .await;
    result.map_err(update_error)
}

/// As [`ensure_default_network`], inside the transaction that creates the account.
///
/// # Errors
/// The store failed.
pub async fn ensure_default_network_in(
    tx: &Tx,
    account: AccountId,
    region: &Region,
    zones: &[AvailabilityZone],
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let scope = Scope::account(account);
    if tx
        .find::<DefaultNetwork>(&scope, DefaultNetwork::ID)
        .await?
        .is_some()
    {
        return Ok(());
    }
    let dhcp_options = default_dhcp_options(account, region);
    tx.insert(&dhcp_options)?;
    let made = make_vpc(
        tx,
        NewVpc {
            account,
            block: DEFAULT_VPC_BLOCK,
            is_default: true,
            dhcp_options: dhcp_options.id,
            now,
        },
    )
    .await?;
    let gateway = InternetGateway {
        account,
        id: InternetGatewayId::random(),
        attachment: Some(GatewayAttachment {
            vpc: made.vpc.id.clone(),
        }),
    };
    let mut main = made.main_table;
    main.routes.push(Route {
        destination: cidr::ANY_IPV4,
        target: RouteTarget::InternetGateway {
            id: gateway.id.clone(),
        },
        origin: RouteOrigin::CreateRoute,
    });
    tx.put(&main)?;
    tx.insert(&gateway)?;
    let blocks = subnet_blocks(DEFAULT_VPC_BLOCK, DEFAULT_SUBNET_PREFIX);
    for (zone, block) in zones.iter().take(limits::DEFAULT_SUBNETS_MAX).zip(blocks) {
        let subnet = Subnet {
            account,
            id: SubnetId::random(),
            vpc: made.vpc.id.clone(),
            block,
            zone: zone.clone(),
            default_for_zone: true,
            map_public_ip_on_launch: true,
            created_at: now,
        };
        tx.insert(&subnet)?;
        tx.insert(&NetworkAclAssociation {
            account,
            id: NetworkAclAssociationId::random(),
            acl: made.default_acl.clone(),
            vpc: made.vpc.id.clone(),
            subnet: subnet.id,
        })?;
    }
    tx.insert(&DefaultNetwork {
        account,
        vpc: made.vpc.id,
    })?;
    Ok(())
}

/// What this room owes each account at its birth: its default network. The system's account, which has no users, gets none.
#[derive(Clone, Debug)]
pub struct DefaultNetworks {
    /// The region served.
    pub region: Region,
    /// Its zones, in order.
    pub zones: Vec<AvailabilityZone>,
}

#[async_trait]
impl AccountInitializer for DefaultNetworks {
    fn name(&self) -> &'static str {
        "default-network"
    }

    async fn ensure(&self, tx: &Tx, account: AccountId) -> Result<(), StoreError> {
        if account == AccountId::SYSTEM {
            return Ok(());
        }
        ensure_default_network_in(tx, account, &self.region, &self.zones, OffsetDateTime::now_utc()).await
    }
}

/// A VPC to be made.
struct NewVpc {
    account: AccountId,
    block: Ipv4Net,
    is_default: bool,
    dhcp_options: DhcpOptionsId,
    now: OffsetDateTime,
}

/// A VPC with what is made together with it.
struct MadeVpc {
    vpc: Vpc,
    main_table: RouteTable,
    default_acl: NetworkAclId,
}

/// Makes a VPC with main table, default group and default list.
async fn make_vpc(tx: &Tx, new: NewVpc) -> Result<MadeVpc, StoreError> {
    let account = new.account;
    let vpc = Vpc {
        account,
        id: VpcId::random(),
        number: take_number(tx).await?,
        blocks: vec![BlockAssociation {
            id: VpcCidrAssociationId::random(),
            block: new.block,
        }],
        is_default: new.is_default,
        dhcp_options: new.dhcp_options,
        dns_support: true,
        dns_hostnames: new.is_default,
        created_at: new.now,
    };
    let main_table = RouteTable {
        account,
        id: RouteTableId::random(),
        vpc: vpc.id.clone(),
        routes: vec![Route {
            destination: new.block,
            target: RouteTarget::Local,
            origin: RouteOrigin::CreateRouteTable,
        }],
    };
    let acl = NetworkAcl {
        account,
        id: NetworkAclId::random(),
        vpc: vpc.id.clone(),
        is_default: true,
        entries: default_acl_entries(),
    };
    tx.insert(&vpc)?;
    tx.insert(&main_table)?;
    tx.insert(&RouteTableAssociation {
        account,
        id: RouteTableAssociationId::random(),
        table: main_table.id.clone(),
        vpc: vpc.id.clone(),
        subnet: None,
    })?;
    tx.insert(&acl)?;
    let group = SecurityGroup {
        account,
        id: SecurityGroupId::random(),
        vpc: vpc.id.clone(),
        name: DEFAULT_GROUP.to_owned(),
        description: DEFAULT_GROUP_DESCRIPTION.to_owned(),
        is_default: true,
        rule_changes: 0,
    };
    tx.insert(&group)?;
    let itself = RulePeer::Group {
        group: group.id.clone(),
        account,
        vpc: vpc.id.clone(),
    };
    tx.insert(&all_traffic(&group, Direction::Ingress, itself))?;
    tx.insert(&all_traffic(
        &group,
        Direction::Egress,
        RulePeer::Ipv4 {
            block: cidr::ANY_IPV4,
        },
    ))?;
    Ok(MadeVpc {
        vpc,
        main_table,
        default_acl: acl.id,
    })
}

/// A rule of a group that allows everything with a peer.
pub(crate) fn all_traffic(group: &SecurityGroup, direction: Direction, peer: RulePeer) -> SecurityGroupRule {
    SecurityGroupRule {
        account: group.account,
        id: SecurityGroupRuleId::random(),
        group: group.id.clone(),
        vpc: group.vpc.clone(),
        direction,
        rule: Rule {
            traffic: RuleTraffic::All,
            peer,
        },
        description: None,
    }
}

/// The next VPC number of the cloud. One beyond the last is refused by the record's validation.
async fn take_number(tx: &Tx) -> Result<u32, StoreError> {
    let numbers = tx.find::<VpcNumbers>(&Scope::NONE, VpcNumbers::ID).await?;
    let number = numbers.map_or(1, |numbers| numbers.next);
    tx.put(&VpcNumbers {
        next: number.saturating_add(1),
    })?;
    Ok(number)
}

fn default_dhcp_options(account: AccountId, region: &Region) -> DhcpOptions {
    let configuration = |key: &str, value: String| DhcpConfiguration {
        key: key.to_owned(),
        values: vec![value],
    };
    DhcpOptions {
        account,
        id: DhcpOptionsId::random(),
        is_default: true,
        configurations: vec![
            configuration("domain-name", names::private_domain(region)),
            configuration("domain-name-servers", "AmazonProvidedDNS".to_owned()),
        ],
    }
}

fn default_acl_entries() -> Vec<AclEntry> {
    [true, false]
        .into_iter()
        .flat_map(|egress| {
            [(ACL_ALLOW, AclAction::Allow), (ACL_LAST, AclAction::Deny)].map(|(number, action)| AclEntry {
                number,
                egress,
                protocol: -1,
                block: cidr::ANY_IPV4,
                action,
            })
        })
        .collect()
}

/// The blocks of a size inside a block, in order.
fn subnet_blocks(block: Ipv4Net, prefix: u8) -> impl Iterator<Item = Ipv4Net> {
    block.subnets(prefix).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_VPC_BLOCK, default_acl_entries, subnet_blocks};

    #[test]
    fn default_subnets_are_consecutive_20_blocks() {
        let blocks: Vec<String> = subnet_blocks(DEFAULT_VPC_BLOCK, 20)
            .map(|block| block.to_string())
            .collect();
        assert_eq!(blocks.len(), 16);
        assert_eq!(blocks[..3], ["172.31.0.0/20", "172.31.16.0/20", "172.31.32.0/20"]);
    }

    #[test]
    fn the_default_list_allows_all_in_both_directions() {
        let entries = default_acl_entries();
        assert_eq!(entries.len(), 4);
        assert!(entries[0].egress && entries[0].number == 100);
    }
}

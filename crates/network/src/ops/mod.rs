//! The operations of this room: access, validation, one transaction, answer.
//!
//! Reads and writes of one kind of resource share a file. What all Describes have in common (ids, filters, pages) is in
//! `describe`, what requests and answers share is in `shared`. Adding an operation: a type here with [`aws_wire::operation::Operation`]
//! and a line in [`register`].

mod describe;
mod groups;
mod interfaces;
mod routing;
pub(crate) mod shared;
mod tagging;
mod vpcs;

use crate::capability::names::DNS_SUFFIX_DEFAULT;
use crate::capability::tags::TagKinds;
use aws_types::page::PageKey;
use aws_types::{AvailabilityZone, Region};
use aws_wire::registry::Registry;
use state::Store;
use std::sync::Arc;

/// What the operations need to know of the cloud.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region served.
    pub region: Region,
    /// Its zones, in order.
    pub zones: Vec<AvailabilityZone>,
    /// Authenticates page tokens; the same on every gateway.
    pub page_key: PageKey,
    /// Suffix of public names.
    pub dns_suffix: String,
}

impl Settings {
    /// Settings with the default suffix of public names.
    pub fn new(region: Region, zones: Vec<AvailabilityZone>, page_key: PageKey) -> Settings {
        Settings {
            region,
            zones,
            page_key,
            dns_suffix: DNS_SUFFIX_DEFAULT.to_owned(),
        }
    }
}

/// The room: what every operation works with. Cheap to clone.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    settings: Settings,
    kinds: TagKinds,
}

impl Network {
    /// The room over a store. `kinds` are the resource types of all rooms: start from [`TagKinds::new`].
    pub fn new(store: Store, settings: Settings, kinds: TagKinds) -> Network {
        Network {
            shared: Arc::new(Shared {
                store,
                settings,
                kinds,
            }),
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The region served.
    pub fn region(&self) -> &Region {
        &self.shared.settings.region
    }

    /// The kinds of resources that may have tags.
    pub fn kinds(&self) -> &TagKinds {
        &self.shared.kinds
    }
}

/// Registers every operation of this room.
pub fn register(registry: &mut Registry, network: &Network) {
    let room = || network.clone();
    registry.register(vpcs::DescribeVpcs(room()));
    registry.register(vpcs::DescribeVpcAttribute(room()));
    registry.register(vpcs::DescribeSubnets(room()));
    registry.register(routing::tables::DescribeRouteTables(room()));
    registry.register(routing::gateways::DescribeInternetGateways(room()));
    registry.register(routing::acls::DescribeNetworkAcls(room()));
    registry.register(interfaces::DescribeNetworkInterfaces(room()));
    registry.register(interfaces::addresses::DescribeAddresses(room()));
    registry.register(groups::describe::DescribeSecurityGroups(room()));
    registry.register(groups::describe_rules::DescribeSecurityGroupRules(room()));
    registry.register(groups::create::CreateSecurityGroup(room()));
    registry.register(groups::delete::DeleteSecurityGroup(room()));
    registry.register(groups::authorize::AuthorizeSecurityGroupIngress(room()));
    registry.register(groups::authorize::AuthorizeSecurityGroupEgress(room()));
    registry.register(groups::revoke::RevokeSecurityGroupIngress(room()));
    registry.register(groups::revoke::RevokeSecurityGroupEgress(room()));
    registry.register(tagging::CreateTags(room()));
    registry.register(tagging::DeleteTags(room()));
    registry.register(tagging::DescribeTags(room()));
}

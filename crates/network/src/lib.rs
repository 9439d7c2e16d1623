//! Service: the VPC half of EC2.
//!
//! | Where | What |
//! |---|---|
//! | `records` | what is stored: VPCs, subnets, addresses, tables, gateways, groups and rules, interfaces, tags |
//! | `rule` | what a security group rule allows: canonical form, request forms, answer forms |
//! | `ops` | one file per group of AWS actions: access, validation, transaction, answer |
//! | `capability` | the only door for `compute` and later rooms |
//! | `plan`, `reconcile` | pure: records of a VPC to specs of nodes; and the reconciler `network-planner` |
//! | `defaults` | the default network every account is born with |
//! | `addressing`, `mac`, `pool` | which private address, MAC and public address an interface gets |
//! | `kinds` | resource types of this room, their ARNs and "not found" errors |
//!
//! Nothing here drives a kernel: the planner writes `node_spec::NetworkSpec` records, and the node's agent makes them true.

mod addressing;
pub mod capability;
mod cidr;
mod defaults;
mod error;
mod kinds;
pub mod limits;
mod mac;
pub mod ops;
pub mod plan;
mod pool;
mod reconcile;
pub mod records;
pub mod rule;

pub use defaults::{DEFAULT_VPC_BLOCK, DefaultNetworks, ensure_default_network, ensure_default_network_in};
pub use error::{NetworkError, store_error, update_error};
pub use ops::{Network, Settings, register};
pub use pool::ensure_public_pool;
pub use reconcile::NetworkPlanner;

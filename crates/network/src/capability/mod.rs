//! The only door of this room for others (vpc.md R99). `compute` and later rooms reserve, change and release interfaces
//! here, inside their own transactions, and read facts for their answers; they touch no record of `network` themselves.
//!
//! | Module | What it is for |
//! |---|---|
//! | `launch` | which subnet and groups a launch means |
//! | `interfaces` | make, move, start, stop and release the interfaces of an instance |
//! | `facts` | interfaces, names and metadata of instances, for rendering |
//! | `names` | private and public DNS names, zone ids |
//! | `tags` | tags of every EC2 resource: the table, the kinds, the members of requests |
//!
//! Functions that take a [`state::Tx`] belong into the caller's transaction: everything they read is compared at commit.
//! They answer [`crate::NetworkError`]: a refusal that goes to the client as it is, or a failure of the store. Nothing
//! here checks permissions; that is each operation's `access`.

pub mod facts;
pub mod interfaces;
pub mod launch;
pub mod names;
pub mod tags;

//! Service: the instance, image, volume and snapshot half of EC2.
//!
//! | Where | What |
//! |---|---|
//! | `records` | what is stored: instances, volumes, attachments, images, snapshots, key pairs, capacity |
//! | `records::lifecycle` | the phases of an instance and the one function that moves between them |
//! | `instance_types` | the catalogue of types (`data/instance-types.tsv`), and what a node offers |
//! | `capacity` | what an instance costs, what a node has, which node is chosen |
//! | `plan` | pure: records to the node's specs, and observations to events |
//! | `reconcile` | the reconcilers that apply the plan |
//! | `ops` | one file per group of AWS actions |
//! | `keys` | SSH keys: making, reading, fingerprints |
//! | `capability` | the only door for other rooms and the `spx` commands |
//!
//! An API call commits intent and answers; the reconcilers write specs for nodes and read their observations. Nothing here
//! drives a machine. Interfaces, addresses, groups and tags belong to `network` and are used through its capability.

pub mod capability;
pub mod capacity;
pub mod context;
mod error;
pub mod instance_types;
mod keys;
pub mod limits;
pub mod ops;
pub mod plan;
pub mod reconcile;
pub mod records;
#[cfg(test)]
mod testing;

pub use context::Context;
pub use ops::register;
pub use reconcile::reconcilers;

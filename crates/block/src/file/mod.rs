//! The provider `file`: each volume and snapshot is one sparse file. The reference that other providers are measured by.
//!
//! [`FilePool`] is the keeper: the one process that creates, publishes and deletes. [`open_published`] is what an export process
//! does: it opens one volume under the generation it was published with, takes its lock, and never looks at the rest. The stored
//! form and its order of writes are in [`layout`].
//!
//! A cut is a reflink where the file system has them, else a copy of what is not a hole; it needs the volume not to be
//! published, so this provider has no crash-consistent snapshots.

mod backing;
mod device;
#[cfg(test)]
mod device_tests;
mod keeper;
mod layout;
mod load;
mod open;
mod provider;
mod snapshots;
mod sparse;
mod volumes;

pub use keeper::{FilePool, FilePoolConfig, PoolError};
pub use open::{default_reserve_bytes, open_published};

//! Engine: volumes, snapshots and clones, and the NBD server that shows them to guests. Knows no AWS word.
//!
//! | Module | What is there |
//! |---|---|
//! | [`provider`] | the contract: trait `VolumeProvider`, its requests, views and errors, and the rules all providers share |
//! | [`device`] | an open volume: trait `BlockDevice` |
//! | [`memory`], [`file`] | the providers: maps in memory (tests), one sparse file a volume (the reference) |
//! | [`nbd`] | the NBD server over a unix socket |
//! | [`export`] | one process for each published volume, and the agent's side of it: spawn, adopt, stop |
//! | [`limits`] | every bound of this crate |
//!
//! `node` drives a provider and an [`export::ExportManager`]; `spx volume serve` is [`export::run`].
//! Records, claims and attachments belong to `state`, `compute` and `node`.

pub mod device;
mod durable;
pub mod export;
pub mod file;
pub mod id;
pub mod limits;
pub mod memory;
pub mod nbd;
pub mod provider;
mod sync_gate;
mod sys;

//! Tests of the `block` crate from outside: the contract on every provider, the NBD server with real clients, export processes.
//!
//! Needs root on Debian with qemu-utils, libnbd-bin and python3-libnbd for the modules that name them; every test owns its
//! temporary directory, and guards end processes and mounts also on panic.

mod clients;
mod conformance;
mod exports;
mod full_disk;
mod hostile;
mod oracle;
mod stage;

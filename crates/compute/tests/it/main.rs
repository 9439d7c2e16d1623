//! The room over a store in memory, called through the registry as the gateway calls it, with a node that only pretends.

mod access;
mod cloud;
mod describe;
mod faults;
mod instances;
mod keys_and_images;
mod launch;
mod node;
mod refusals;

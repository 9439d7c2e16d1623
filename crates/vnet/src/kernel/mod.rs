//! The kernel as this crate sees it: namespaces, netlink objects and nftables, each as plain values.
//!
//! Invariant: everything here acts on the network namespace of the **calling thread**; [`namespace::Namespace::run`]
//! is the only way to be in one, on a thread that ends with the call. Values read back compare equal to the values
//! they were made from. What should exist is decided in `compile`; the order of changes in `converge`.

pub(crate) mod conntrack;
pub(crate) mod links;
pub(crate) mod namespace;
pub(crate) mod netlink;
pub(crate) mod nft;
pub(crate) mod routes;
pub(crate) mod sysctl;
pub(crate) mod tap;

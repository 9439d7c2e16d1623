//! The engine on a real kernel, with namespaces as guests. Needs root, iproute2, nftables and busybox.
//!
//! Each test has a host of its own: a namespace with an uplink into a "world". Nothing touches the machine's network.

mod border;
mod dhcp;
mod dns;
mod groups;
mod lab;
mod lifecycle;
mod metadata;
mod scale;
mod spoofing;
mod traffic;

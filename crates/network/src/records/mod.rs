//! Everything `network` stores: one file per kind of record, versioned, scoped by account.
//!
//! A fact is in one record: addresses are taken iff their [`Address`] row exists, tags live only in [`TagRow`]s, a rule
//! is one [`SecurityGroupRule`] row. Names that must be unique are unique keys of the record that claims them. How an
//! AWS answer looks is decided in `ops`; what the data plane gets from these records is decided in `plan`.

mod address;
mod counter;
mod dhcp;
mod gateway;
mod group;
mod interface;
mod network_acl;
mod public_address;
mod route_table;
mod subnet;
mod tag;
mod vpc;

pub use address::Address;
pub use counter::{NodeDevices, SubnetCursor, VpcNumbers};
pub use dhcp::{DhcpConfiguration, DhcpOptions};
pub use gateway::{GatewayAttachment, InternetGateway};
pub use group::{Direction, SecurityGroup, SecurityGroupRule};
pub use interface::{
    Attachment, AttachmentStatus, Home, Interface, InterfaceStatus, PublicMapping, Requester,
};
pub use network_acl::{AclAction, AclEntry, NetworkAcl, NetworkAclAssociation};
pub use public_address::{
    Allocation, Announcement, PublicAddress, PublicAddressState, PublicPool, ReleasedAddress,
};
pub use route_table::{Route, RouteOrigin, RouteTable, RouteTableAssociation, RouteTarget};
pub use subnet::Subnet;
pub use tag::TagRow;
pub use vpc::{BlockAssociation, DefaultNetwork, Vpc};

#[cfg(test)]
mod tests;

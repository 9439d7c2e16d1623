//! Route tables, internet gateways and network ACLs: their Describes.
//!
//! What can be asked of them so far is what every default network has; the operations that change them come with the
//! full VPC and use the same records.

pub(crate) mod acls;
pub(crate) mod gateways;
pub(crate) mod tables;

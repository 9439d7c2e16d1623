//! EC2 resource ids: a prefix and 17 lower-case hex digits from the system's CSPRNG.
//!
//! Accepted as well-formed: the prefix and 8 or 17 lower-case hex digits. Each kind is its own type, so that a
//! subnet can never be passed where a VPC is meant. "Malformed" and "not found" codes belong to the kind and are
//! chosen by the service that looks the id up.

use rand::RngCore;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Lengths of the hex part that AWS accepts.
const HEX_LENGTHS: [usize; 2] = [8, 17];

/// Seventeen random lower-case hex digits.
pub fn random_hex17() -> String {
    let mut bytes = [0u8; 9];
    rand::rng().fill_bytes(&mut bytes);
    let mut text = hex::encode(bytes);
    text.truncate(17);
    text
}

/// True for `prefix` followed by 8 or 17 lower-case hex digits.
pub fn is_well_formed(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        HEX_LENGTHS.contains(&rest.len())
            && rest
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

macro_rules! resource_ids {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The prefix of this kind, with its hyphen.
            pub const PREFIX: &'static str = $prefix;

            /// A new random id; never reused.
            pub fn random() -> $name {
                $name(format!("{}{}", $prefix, random_hex17()))
            }

            /// The id in `text`, or nothing if it is malformed.
            pub fn parse(text: &str) -> Option<$name> {
                is_well_formed(text, $prefix).then(|| $name(text.to_owned()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )*};
}

resource_ids! {
    /// An instance.
    InstanceId, "i-";
    /// A reservation: the instances of one launch.
    ReservationId, "r-";
    /// A machine image.
    ImageId, "ami-";
    /// A key pair.
    KeyPairId, "key-";
    /// A volume.
    VolumeId, "vol-";
    /// A snapshot.
    SnapshotId, "snap-";
    /// A VPC.
    VpcId, "vpc-";
    /// The association of a CIDR block with a VPC.
    VpcCidrAssociationId, "vpc-cidr-assoc-";
    /// A subnet.
    SubnetId, "subnet-";
    /// A route table.
    RouteTableId, "rtb-";
    /// The association of a route table with a subnet or a VPC.
    RouteTableAssociationId, "rtbassoc-";
    /// An internet gateway.
    InternetGatewayId, "igw-";
    /// A network ACL.
    NetworkAclId, "acl-";
    /// The association of a network ACL with a subnet.
    NetworkAclAssociationId, "aclassoc-";
    /// A DHCP option set.
    DhcpOptionsId, "dopt-";
    /// A security group.
    SecurityGroupId, "sg-";
    /// One rule of a security group.
    SecurityGroupRuleId, "sgr-";
    /// A network interface.
    NetworkInterfaceId, "eni-";
    /// The attachment of a network interface to an instance.
    NetworkInterfaceAttachmentId, "eni-attach-";
    /// The association of an Elastic IP or automatic public address.
    AddressAssociationId, "eipassoc-";
    /// A machine that runs an agent.
    NodeId, "node-";
}

#[cfg(test)]
mod tests {
    use super::{InstanceId, VpcId, is_well_formed};

    #[test]
    fn random_ids_are_well_formed_and_differ() {
        let (a, b) = (InstanceId::random(), InstanceId::random());
        assert_ne!(a, b);
        assert_eq!(a.as_str().len(), "i-".len() + 17);
        assert_eq!(InstanceId::parse(a.as_str()), Some(a));
    }

    #[test]
    fn only_8_or_17_lower_case_hex_digits_are_accepted() {
        assert!(is_well_formed("vpc-12345678", "vpc-"));
        for bad in [
            "vpc-",
            "vpc-1234567",
            "vpc-1234567g",
            "vpc-1234567A",
            "i-12345678",
            "vpc-123456789",
            "",
        ] {
            assert_eq!(VpcId::parse(bad), None, "{bad}");
        }
    }
}

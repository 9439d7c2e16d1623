//! CIDR blocks as EC2 reads and shows them: canonical, so that equal blocks are equal text.
//!
//! `10.0.0.5/16` is accepted and stored as `10.0.0.0/16`; IPv6 is shown in RFC 5952 form (vpc.md R5). Used by the
//! rules of security groups, by records and by the planner. Which sizes are allowed is each operation's affair.

use aws_types::{AwsError, catalogue};
use ipnet::{Ipv4Net, Ipv6Net};
use node_spec::Ipv4Block;
use std::net::Ipv4Addr;

/// The whole of IPv4.
pub const ANY_IPV4: Ipv4Net = match Ipv4Net::new(Ipv4Addr::UNSPECIFIED, 0) {
    Ok(net) => net,
    Err(_) => unreachable!(),
};

/// Reads an IPv4 block and clears its host bits.
///
/// # Errors
/// `InvalidParameterValue`: not an address, a slash and a prefix length.
pub fn parse_ipv4(text: &str) -> Result<Ipv4Net, AwsError> {
    text.parse::<Ipv4Net>()
        .map(|net| net.trunc())
        .map_err(|_| malformed(text))
}

/// Reads an IPv6 block and clears its host bits.
///
/// # Errors
/// `InvalidParameterValue`: not an address, a slash and a prefix length.
pub fn parse_ipv6(text: &str) -> Result<Ipv6Net, AwsError> {
    text.parse::<Ipv6Net>()
        .map(|net| net.trunc())
        .map_err(|_| malformed(text))
}

fn malformed(text: &str) -> AwsError {
    catalogue::INVALID_PARAMETER_VALUE.error(format!("CIDR block {text} is malformed"))
}

/// The form that specs carry.
pub fn to_spec(net: Ipv4Net) -> Ipv4Block {
    Ipv4Block {
        address: net.network(),
        prefix: net.prefix_len(),
    }
}

/// Number of addresses of a block; a /0 does not fit and never reaches here (VPC blocks are /16 to /28).
pub fn size(net: Ipv4Net) -> u32 {
    1u32.checked_shl(32 - u32::from(net.prefix_len()))
        .unwrap_or(u32::MAX)
}

/// The address `offset` behind the first of the block.
pub fn address_at(net: Ipv4Net, offset: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(net.network().to_bits().wrapping_add(offset))
}

/// How far `address` is behind the first of the block, if it is inside.
pub fn offset_of(net: Ipv4Net, address: Ipv4Addr) -> Option<u32> {
    net.contains(&address)
        .then(|| address.to_bits() - net.network().to_bits())
}

#[cfg(test)]
mod tests {
    use super::{address_at, offset_of, parse_ipv4, parse_ipv6, size};

    #[test]
    fn blocks_are_canonical() {
        assert_eq!(
            parse_ipv4("10.0.0.5/16").expect("block").to_string(),
            "10.0.0.0/16"
        );
        assert_eq!(
            parse_ipv6("2001:DB8:0:0::1/32").expect("block").to_string(),
            "2001:db8::/32"
        );
        assert_eq!(parse_ipv6("::/0").expect("block").to_string(), "::/0");
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0/8",
            "x/8",
            "10.0.0.0/-1",
            "::/0",
            "10.0.0.0/8/8",
        ] {
            let error = parse_ipv4(bad).expect_err(bad);
            assert_eq!(error.code, "InvalidParameterValue");
            assert!(error.message.contains("is malformed"), "{}", error.message);
        }
        assert!(parse_ipv6("10.0.0.0/8").is_err());
    }

    #[test]
    fn offsets_and_addresses_are_inverse() {
        let net = parse_ipv4("172.31.16.0/20").expect("block");
        assert_eq!(size(net), 4096);
        assert_eq!(address_at(net, 4).to_string(), "172.31.16.4");
        assert_eq!(offset_of(net, address_at(net, 4095)), Some(4095));
        assert_eq!(offset_of(net, "172.31.32.0".parse().expect("address")), None);
    }
}

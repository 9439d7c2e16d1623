//! DNS names of addresses, and ids of zones. Pure.
//!
//! Private: `ip-a-b-c-d.<region>.compute.internal`; public: `ec2-a-b-c-d.<region>.compute.<suffix>`. us-east-1 has the
//! older forms `ec2.internal` and `compute-1` (vpc.md R77).

use aws_types::{AvailabilityZone, Region};
use std::net::Ipv4Addr;

/// The suffix of public names unless the operator configured another.
pub const DNS_SUFFIX_DEFAULT: &str = "amazonaws.com";

/// The region whose names have no region in them.
const FIRST_REGION: &str = "us-east-1";

/// Host name of a guest with this address, without a domain: `ip-172-31-0-5`.
pub fn host_name(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("ip-{a}-{b}-{c}-{d}")
}

/// The domain of private names in a region.
pub fn private_domain(region: &Region) -> String {
    if region.as_str() == FIRST_REGION {
        "ec2.internal".to_owned()
    } else {
        format!("{region}.compute.internal")
    }
}

/// Private name of an address.
pub fn private_dns_name(region: &Region, address: Ipv4Addr) -> String {
    format!("{}.{}", host_name(address), private_domain(region))
}

/// Public name of a public address. Only interfaces in VPCs with DNS host names have one.
pub fn public_dns_name(region: &Region, address: Ipv4Addr, dns_suffix: &str) -> String {
    let [a, b, c, d] = address.octets();
    let place = if region.as_str() == FIRST_REGION {
        "compute-1".to_owned()
    } else {
        format!("{region}.compute")
    };
    format!("ec2-{a}-{b}-{c}-{d}.{place}.{dns_suffix}")
}

/// The id of a zone as AWS forms it: `eu-central-1a` is `euc1-az1`, `ap-southeast-2b` is `apse2-az2`.
pub fn zone_id(zone: &AvailabilityZone) -> String {
    let text = zone.as_str();
    let (region, letter) = match text.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_lowercase() => (&text[..at], letter),
        _ => (text, 'a'),
    };
    let short: String = region
        .split('-')
        .enumerate()
        .map(|(position, part)| match (position, part) {
            (0, area) => area.to_owned(),
            (_, "northeast") => "ne".to_owned(),
            (_, "northwest") => "nw".to_owned(),
            (_, "southeast") => "se".to_owned(),
            (_, "southwest") => "sw".to_owned(),
            (_, "gov") => "g".to_owned(),
            (_, word) => word.chars().next().map(String::from).unwrap_or_default(),
        })
        .collect();
    let number = u32::from(letter) - u32::from('a') + 1;
    format!("{short}-az{number}")
}

#[cfg(test)]
mod tests {
    use super::{private_dns_name, public_dns_name, zone_id};
    use aws_types::Region;

    fn region(name: &str) -> Region {
        Region::parse(name).expect("region")
    }

    #[test]
    fn names_have_the_forms_of_aws() {
        let address = "172.31.0.5".parse().expect("address");
        assert_eq!(
            private_dns_name(&region("eu-central-1"), address),
            "ip-172-31-0-5.eu-central-1.compute.internal"
        );
        assert_eq!(
            private_dns_name(&region("us-east-1"), address),
            "ip-172-31-0-5.ec2.internal"
        );
        let public = "198.18.0.9".parse().expect("address");
        assert_eq!(
            public_dns_name(&region("eu-central-1"), public, "amazonaws.com"),
            "ec2-198-18-0-9.eu-central-1.compute.amazonaws.com"
        );
        assert_eq!(
            public_dns_name(&region("us-east-1"), public, "amazonaws.com"),
            "ec2-198-18-0-9.compute-1.amazonaws.com"
        );
    }

    #[test]
    fn zone_ids_have_the_forms_of_aws() {
        for (name, letter, id) in [
            ("eu-central-1", 'a', "euc1-az1"),
            ("us-east-1", 'f', "use1-az6"),
            ("ap-southeast-2", 'b', "apse2-az2"),
            ("ap-northeast-1", 'c', "apne1-az3"),
            ("us-gov-west-1", 'a', "usgw1-az1"),
            ("me-south-1", 'a', "mes1-az1"),
        ] {
            assert_eq!(zone_id(&region(name).zone(letter)), id);
        }
    }
}

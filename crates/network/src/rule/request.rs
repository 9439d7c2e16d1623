//! Reads the rules that a request names: `IpPermissions`, or the older scalar members.
//!
//! One permission with several ranges is as many rules. Groups stay as they were named ([`RequestedPeer::Group`]); the
//! operation resolves them in its transaction. Values out of range are refused with EC2's words, never adjusted.

use super::{RuleTraffic, protocol};
use crate::cidr;
use crate::limits;
use aws_shapes::ec2::{IpPermission, UserIdGroupPair};
use aws_types::{AwsError, catalogue};
use ipnet::{Ipv4Net, Ipv6Net};

/// Characters that names and descriptions may have besides letters and digits.
const TEXT_PUNCTUATION: &str = " ._-:/()#,@[]+=&;{}!$*";

/// A group as a request names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupName {
    /// By id.
    pub id: Option<String>,
    /// By name, which only works inside the default VPC.
    pub name: Option<String>,
    /// Its owner, if the request says so.
    pub account: Option<String>,
    /// Its VPC, if the request says so.
    pub vpc: Option<String>,
}

/// The other side of a rule, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedPeer {
    /// IPv4 addresses.
    Ipv4(Ipv4Net),
    /// IPv6 addresses.
    Ipv6(Ipv6Net),
    /// A prefix list.
    PrefixList(String),
    /// A group.
    Group(GroupName),
}

/// A rule as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedRule {
    /// What traffic.
    pub traffic: RuleTraffic,
    /// With whom.
    pub peer: RequestedPeer,
    /// Text of the tenant.
    pub description: Option<String>,
}

/// The older members that name one rule at the top level of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalarRule {
    /// `CidrIp`.
    pub cidr: Option<String>,
    /// `IpProtocol`.
    pub protocol: Option<String>,
    /// `FromPort`.
    pub from_port: Option<i32>,
    /// `ToPort`.
    pub to_port: Option<i32>,
    /// `SourceSecurityGroupName`.
    pub group_name: Option<String>,
    /// `SourceSecurityGroupOwnerId`.
    pub group_account: Option<String>,
}

impl ScalarRule {
    /// The request uses none of them.
    pub fn is_absent(&self) -> bool {
        *self == ScalarRule::default()
    }
}

/// Reads `IpPermissions`, in request order: per permission groups, IPv4, IPv6, then prefix lists.
///
/// # Errors
/// `InvalidParameterValue`, `MissingParameter`.
pub fn read_permissions(permissions: &[IpPermission]) -> Result<Vec<RequestedRule>, AwsError> {
    let mut rules = Vec::new();
    for permission in permissions {
        let traffic = read_traffic(
            permission.ip_protocol.as_deref(),
            permission.from_port,
            permission.to_port,
        )?;
        let before = rules.len();
        let mut push = |peer, description: Option<&String>| -> Result<(), AwsError> {
            let description = read_description(description.map(String::as_str))?;
            rules.push(RequestedRule {
                traffic,
                peer,
                description,
            });
            Ok(())
        };
        for pair in &permission.user_id_group_pairs {
            push(RequestedPeer::Group(read_group(pair)?), pair.description.as_ref())?;
        }
        for range in &permission.ip_ranges {
            let text = range
                .cidr_ip
                .as_deref()
                .ok_or_else(|| AwsError::missing_parameter("cidrIp"))?;
            push(
                RequestedPeer::Ipv4(cidr::parse_ipv4(text)?),
                range.description.as_ref(),
            )?;
        }
        for range in &permission.ipv6_ranges {
            let text = range
                .cidr_ipv6
                .as_deref()
                .ok_or_else(|| AwsError::missing_parameter("cidrIpv6"))?;
            push(
                RequestedPeer::Ipv6(cidr::parse_ipv6(text)?),
                range.description.as_ref(),
            )?;
        }
        for list in &permission.prefix_list_ids {
            let id = list
                .prefix_list_id
                .clone()
                .ok_or_else(|| AwsError::missing_parameter("prefixListId"))?;
            push(RequestedPeer::PrefixList(id), list.description.as_ref())?;
        }
        if rules.len() == before {
            return Err(catalogue::MISSING_PARAMETER.error(
                "The request must contain at least one of ipRanges, ipv6Ranges, prefixListIds, userIdGroupPairs",
            ));
        }
    }
    Ok(rules)
}

/// Reads the scalar members. A group without a protocol stands for all of TCP, UDP and ICMP, as AWS documents it.
///
/// # Errors
/// `InvalidParameterValue`, `InvalidParameterCombination`, `MissingParameter`.
pub fn read_scalars(scalars: &ScalarRule) -> Result<Vec<RequestedRule>, AwsError> {
    let group = scalars.group_name.as_ref().map(|name| GroupName {
        id: None,
        name: Some(name.clone()),
        account: scalars.group_account.clone(),
        vpc: None,
    });
    match (group, &scalars.cidr) {
        (Some(_), Some(_)) => Err(catalogue::INVALID_PARAMETER_COMBINATION
            .error("The parameters CidrIp and SourceSecurityGroupName may not be used together")),
        (Some(group), None) if scalars.protocol.is_none() => Ok([
            RuleTraffic::Tcp {
                from: 0,
                to: u16::MAX,
            },
            RuleTraffic::Udp {
                from: 0,
                to: u16::MAX,
            },
            RuleTraffic::Icmp {
                icmp_type: None,
                code: None,
            },
        ]
        .into_iter()
        .map(|traffic| RequestedRule {
            traffic,
            peer: RequestedPeer::Group(group.clone()),
            description: None,
        })
        .collect()),
        (group, cidr_text) => {
            let traffic = read_traffic(scalars.protocol.as_deref(), scalars.from_port, scalars.to_port)?;
            let peer = match (group, cidr_text) {
                (Some(group), _) => RequestedPeer::Group(group),
                (None, Some(text)) => RequestedPeer::Ipv4(cidr::parse_ipv4(text)?),
                (None, None) => return Err(AwsError::missing_parameter("cidrIp")),
            };
            Ok(vec![RequestedRule {
                traffic,
                peer,
                description: None,
            }])
        }
    }
}

fn read_group(pair: &UserIdGroupPair) -> Result<GroupName, AwsError> {
    if pair.group_id.is_none() && pair.group_name.is_none() {
        return Err(AwsError::missing_parameter("groupId"));
    }
    if pair.vpc_peering_connection_id.is_some() {
        return Err(catalogue::UNSUPPORTED_OPERATION.error(
            "The parameter vpcPeeringConnectionId is not supported: there are no peering connections.",
        ));
    }
    Ok(GroupName {
        id: pair.group_id.clone(),
        name: pair.group_name.clone(),
        account: pair.user_id.clone(),
        vpc: pair.vpc_id.clone(),
    })
}

/// Reads protocol and ports of a permission.
///
/// # Errors
/// `MissingParameter` without a protocol; `InvalidParameterValue` for an unknown one or ports out of range.
pub fn read_traffic(
    ip_protocol: Option<&str>,
    from: Option<i32>,
    to: Option<i32>,
) -> Result<RuleTraffic, AwsError> {
    let name = ip_protocol.ok_or_else(|| AwsError::missing_parameter("ipProtocol"))?;
    match read_protocol(name)? {
        None => Ok(RuleTraffic::All),
        Some(protocol::TCP) => read_ports(from, to).map(|(from, to)| RuleTraffic::Tcp { from, to }),
        Some(protocol::UDP) => read_ports(from, to).map(|(from, to)| RuleTraffic::Udp { from, to }),
        Some(protocol::ICMP) => {
            if from.is_none() || to.is_none() {
                return Err(catalogue::INVALID_PARAMETER_VALUE
                    .error("Invalid value 'Must specify both type and code with ICMP.' for portRange."));
            }
            read_icmp(from, to).map(|(icmp_type, code)| RuleTraffic::Icmp { icmp_type, code })
        }
        Some(protocol::ICMPV6) => {
            read_icmp(from, to).map(|(icmp_type, code)| RuleTraffic::Icmpv6 { icmp_type, code })
        }
        Some(number) => Ok(RuleTraffic::Protocol { number }),
    }
}

/// The protocol's number; nothing for `-1`.
fn read_protocol(name: &str) -> Result<Option<u8>, AwsError> {
    match name.to_ascii_lowercase().as_str() {
        "-1" | "all" => Ok(None),
        "tcp" => Ok(Some(protocol::TCP)),
        "udp" => Ok(Some(protocol::UDP)),
        "icmp" => Ok(Some(protocol::ICMP)),
        "icmpv6" => Ok(Some(protocol::ICMPV6)),
        digits if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().map(Some).map_err(|_| unknown_protocol(name))
        }
        _ => Err(unknown_protocol(name)),
    }
}

fn unknown_protocol(name: &str) -> AwsError {
    catalogue::INVALID_PARAMETER_VALUE.error(format!(
        "Invalid value '{name}' for IP protocol. Unknown protocol."
    ))
}

fn read_ports(from: Option<i32>, to: Option<i32>) -> Result<(u16, u16), AwsError> {
    let (Some(from), Some(to)) = (from, to) else {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange."));
    };
    let port = |value: i32| {
        u16::try_from(value).map_err(|_| {
            catalogue::INVALID_PARAMETER_VALUE.error(format!("TCP/UDP port ({value}) out of range"))
        })
    };
    let (first, last) = (port(from)?, port(to)?);
    if first > last {
        return Err(
            catalogue::INVALID_PARAMETER_VALUE.error(format!("Invalid TCP/UDP port range ({from}:{to})"))
        );
    }
    Ok((first, last))
}

fn read_icmp(icmp_type: Option<i32>, code: Option<i32>) -> Result<(Option<u8>, Option<u8>), AwsError> {
    let read = |value: Option<i32>, what: &str| match value {
        None | Some(-1) => Ok(None),
        Some(value) => u8::try_from(value).map(Some).map_err(|_| {
            catalogue::INVALID_PARAMETER_VALUE.error(format!("ICMP {what} ({value}) out of range"))
        }),
    };
    let (icmp_type, code) = (read(icmp_type, "type")?, read(code, "code")?);
    if let (None, Some(code)) = (icmp_type, code) {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Unable to specify an ICMP code ({code}) when the type is -1"
        )));
    }
    Ok((icmp_type, code))
}

/// Reads the description of a rule. The empty one is none.
///
/// # Errors
/// `InvalidParameterValue` for text that is too long or has characters outside of the set.
pub fn read_description(text: Option<&str>) -> Result<Option<String>, AwsError> {
    match text {
        None | Some("") => Ok(None),
        Some(text) if is_plain_text(text, limits::DESCRIPTION_CHARS_MAX) => Ok(Some(text.to_owned())),
        Some(_) => Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Invalid rule description. Valid descriptions are strings less than 256 characters from the following \
             set:  a-zA-Z0-9{TEXT_PUNCTUATION}"
        ))),
    }
}

/// Whether the text has at most so many characters, all from the set that EC2 allows in names and descriptions of
/// groups and in descriptions of rules.
pub fn is_plain_text(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || TEXT_PUNCTUATION.contains(c))
}

#[cfg(test)]
mod tests {
    use super::{
        RequestedPeer, RuleTraffic, ScalarRule, read_description, read_permissions, read_scalars,
        read_traffic,
    };
    use aws_shapes::ec2::{IpPermission, IpRange, Ipv6Range, PrefixListId, UserIdGroupPair};

    #[test]
    fn protocols_are_canonical_and_never_widened() {
        let ok = |p: &str, from, to| read_traffic(Some(p), from, to).expect(p);
        assert_eq!(ok("6", Some(0), Some(0)), RuleTraffic::Tcp { from: 0, to: 0 });
        assert_eq!(
            ok("TCP", Some(22), Some(22)),
            RuleTraffic::Tcp { from: 22, to: 22 }
        );
        assert_eq!(
            ok("17", Some(1), Some(65535)),
            RuleTraffic::Udp { from: 1, to: 65535 }
        );
        assert_eq!(ok("-1", Some(1), Some(2)), RuleTraffic::All);
        assert_eq!(ok("50", Some(0), Some(0)), RuleTraffic::Protocol { number: 50 });
        assert_eq!(ok("0", None, None), RuleTraffic::Protocol { number: 0 });
        assert_eq!(
            ok("1", Some(8), Some(-1)),
            RuleTraffic::Icmp {
                icmp_type: Some(8),
                code: None
            }
        );
        assert_eq!(
            ok("icmp", Some(-1), Some(-1)),
            RuleTraffic::Icmp {
                icmp_type: None,
                code: None
            }
        );
        assert_eq!(
            ok("58", None, None),
            RuleTraffic::Icmpv6 {
                icmp_type: None,
                code: None
            }
        );
    }

    #[test]
    fn traffic_out_of_range_is_refused() {
        let bad: &[(&str, Option<i32>, Option<i32>, &str)] = &[
            (
                "tcp",
                None,
                None,
                "Must specify both from and to ports with TCP/UDP.",
            ),
            (
                "tcp",
                Some(1),
                None,
                "Must specify both from and to ports with TCP/UDP.",
            ),
            ("udp", Some(-1), Some(-1), "TCP/UDP port (-1) out of range"),
            ("tcp", Some(0), Some(65536), "TCP/UDP port (65536) out of range"),
            ("tcp", Some(443), Some(80), "Invalid TCP/UDP port range (443:80)"),
            ("icmp", None, None, "Must specify both type and code with ICMP."),
            ("icmp", Some(256), Some(0), "ICMP type (256) out of range"),
            (
                "icmp",
                Some(-1),
                Some(3),
                "Unable to specify an ICMP code (3) when the type is -1",
            ),
            ("icmpv6", Some(1), Some(-2), "ICMP code (-2) out of range"),
            (
                "256",
                None,
                None,
                "Invalid value '256' for IP protocol. Unknown protocol.",
            ),
            (
                "-2",
                None,
                None,
                "Invalid value '-2' for IP protocol. Unknown protocol.",
            ),
            (
                "sctpx",
                None,
                None,
                "Invalid value 'sctpx' for IP protocol. Unknown protocol.",
            ),
            ("", None, None, "Unknown protocol."),
        ];
        for (protocol, from, to, message) in bad {
            let error = read_traffic(Some(protocol), *from, *to).expect_err(protocol);
            assert_eq!(error.code, "InvalidParameterValue", "{protocol}");
            assert!(error.message.contains(message), "{protocol}: {}", error.message);
        }
        assert_eq!(
            read_traffic(None, None, None).expect_err("no protocol").code,
            "MissingParameter"
        );
    }

    #[test]
    fn one_permission_is_as_many_rules_as_it_has_peers() {
        let permission = IpPermission {
            ip_protocol: Some("tcp".into()),
            from_port: Some(22),
            to_port: Some(22),
            ip_ranges: vec![IpRange {
                cidr_ip: Some("10.1.2.3/8".into()),
                description: Some("office".into()),
            }],
            ipv6_ranges: vec![Ipv6Range {
                cidr_ipv6: Some("::/0".into()),
                ..Ipv6Range::default()
            }],
            prefix_list_ids: vec![PrefixListId {
                prefix_list_id: Some("pl-1".into()),
                ..PrefixListId::default()
            }],
            user_id_group_pairs: vec![UserIdGroupPair {
                group_id: Some("sg-12345678".into()),
                ..UserIdGroupPair::default()
            }],
        };
        let rules = read_permissions(&[permission]).expect("four rules");
        assert_eq!(rules.len(), 4);
        assert_eq!(
            rules[1].peer,
            RequestedPeer::Ipv4("10.0.0.0/8".parse().expect("block"))
        );
        assert_eq!(rules[1].description.as_deref(), Some("office"));
    }

    #[test]
    fn a_permission_without_peers_is_refused() {
        let permission = IpPermission {
            ip_protocol: Some("-1".into()),
            ..IpPermission::default()
        };
        assert_eq!(
            read_permissions(&[permission]).expect_err("no peer").code,
            "MissingParameter"
        );
    }

    #[test]
    fn a_scalar_group_without_protocol_is_all_tcp_udp_and_icmp() {
        let scalars = ScalarRule {
            group_name: Some("web".into()),
            ..ScalarRule::default()
        };
        assert_eq!(read_scalars(&scalars).expect("three rules").len(), 3);
        let both = ScalarRule {
            cidr: Some("0.0.0.0/0".into()),
            ..scalars
        };
        assert_eq!(
            read_scalars(&both).expect_err("both").code,
            "InvalidParameterCombination"
        );
    }

    #[test]
    fn descriptions_have_a_set_of_characters() {
        assert_eq!(
            read_description(Some("a b_c!$*")).expect("plain").as_deref(),
            Some("a b_c!$*")
        );
        assert_eq!(read_description(Some("")).expect("empty"), None);
        assert!(read_description(Some("a\"b")).is_err());
        assert!(read_description(Some(&"x".repeat(256))).is_err());
    }
}

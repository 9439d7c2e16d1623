//! The tree of the instance metadata service: paths to texts, and listings in AWS's form.
//!
//! Pure: one guest's [`GuestMetadata`] in, text out. Categories and forms: EC2 user guide, "Instance metadata
//! categories". A category that this cloud cannot fill truthfully is absent, as AWS's are where they do not apply.

use node_spec::{GuestMetadata, MetadataInterface};
use std::collections::BTreeMap;

/// Versions of the tree that clients ask for by date; all of them show the same tree here.
const VERSIONS: &[&str] = &[
    "1.0",
    "2007-01-19",
    "2007-03-01",
    "2007-08-29",
    "2007-10-10",
    "2007-12-15",
    "2008-02-01",
    "2008-09-01",
    "2009-04-04",
    "2011-01-01",
    "2011-05-01",
    "2012-01-12",
    "2014-02-25",
    "2014-11-05",
    "2015-10-20",
    "2016-04-19",
    "2016-06-30",
    "2016-09-02",
    "2018-03-28",
    "2018-08-17",
    "2018-09-24",
    "2019-10-01",
    "2020-10-27",
    "2021-01-03",
    "2021-03-23",
    "2021-07-15",
    "2022-09-24",
    "latest",
];

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Text of a leaf or a listing.
    Text(String),
    /// Raw bytes: user data.
    Bytes(Vec<u8>),
    /// A JSON document.
    Json(String),
    /// No such path.
    NotFound,
}

/// Looks a path up, such as `/latest/meta-data/instance-id`.
pub fn lookup(metadata: &GuestMetadata, path: &str) -> Answer {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Answer::Text(VERSIONS.join("\n"));
    }
    let (version, rest) = path.split_once('/').unwrap_or((path, ""));
    if !VERSIONS.contains(&version) {
        return Answer::NotFound;
    }
    match rest {
        "" => {
            let user_data = if metadata.user_data.is_some() {
                "\nuser-data"
            } else {
                ""
            };
            Answer::Text(format!("dynamic\nmeta-data{user_data}"))
        }
        "user-data" => match metadata.user_data.as_deref().map(decode_base64) {
            Some(Some(bytes)) => Answer::Bytes(bytes),
            Some(None) | None => Answer::NotFound,
        },
        "dynamic" => Answer::Text("instance-identity/".into()),
        "dynamic/instance-identity" => Answer::Text("document".into()),
        "dynamic/instance-identity/document" => Answer::Json(identity_document(metadata)),
        _ => match rest.strip_prefix("meta-data").map(|r| r.trim_matches('/')) {
            Some(category) => leaf_or_listing(&categories(metadata), category),
            None => Answer::NotFound,
        },
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

fn leaf_or_listing(tree: &BTreeMap<String, String>, path: &str) -> Answer {
    if let Some(text) = tree.get(path) {
        return Answer::Text(text.clone());
    }
    if path == "public-keys" {
        let keys: Vec<String> = tree
            .iter()
            .filter_map(|(k, v)| {
                k.strip_prefix("public-keys/")?
                    .strip_suffix("/.name")
                    .map(|i| format!("{i}={v}"))
            })
            .collect();
        return if keys.is_empty() {
            Answer::NotFound
        } else {
            Answer::Text(keys.join("\n"))
        };
    }
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}/")
    };
    let mut children: Vec<String> = Vec::new();
    for key in tree.keys() {
        let Some(rest) = key.strip_prefix(&prefix) else {
            continue;
        };
        if rest.ends_with(".name") && !rest.contains('/') {
            continue;
        }
        let child = match rest.split_once('/') {
            Some((directory, _)) => format!("{directory}/"),
            None => rest.to_owned(),
        };
        if children.last() != Some(&child) {
            children.push(child);
        }
    }
    if children.is_empty() {
        Answer::NotFound
    } else {
        Answer::Text(children.join("\n"))
    }
}

fn categories(metadata: &GuestMetadata) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    let mut put = |path: &str, value: String| tree.insert(path.to_owned(), value);
    put("ami-id", metadata.image.to_string());
    put("ami-launch-index", metadata.launch_index.to_string());
    put("ami-manifest-path", "(unknown)".into());
    put("block-device-mapping/ami", "/dev/vda".into());
    put("block-device-mapping/root", "/dev/vda".into());
    put("instance-action", "none".into());
    put("instance-id", metadata.instance.to_string());
    put("instance-life-cycle", "on-demand".into());
    put("instance-type", metadata.instance_type.clone());
    put("placement/availability-zone", metadata.zone.clone());
    put("placement/availability-zone-id", metadata.zone_id.clone());
    put("placement/region", metadata.region.clone());
    put("profile", "default-hvm".into());
    put("reservation-id", metadata.reservation.to_string());
    put("services/domain", "amazonaws.com".into());
    put("services/partition", "aws".into());
    if let Some(primary) = metadata.interfaces.first() {
        put("hostname", primary.private_dns_name.clone());
        put("local-hostname", primary.private_dns_name.clone());
        put("local-ipv4", primary.address.to_string());
        put("mac", primary.mac.clone());
        put("security-groups", primary.group_names.join("\n"));
        if let Some(public) = primary.public_address {
            put("public-ipv4", public.to_string());
        }
        if let Some(name) = &primary.public_dns_name {
            put("public-hostname", name.clone());
        }
    }
    for (index, (name, line)) in metadata.public_keys.iter().enumerate() {
        put(&format!("public-keys/{index}/.name"), name.clone());
        put(&format!("public-keys/{index}/openssh-key"), line.clone());
    }
    if metadata.options.tags_enabled {
        for (key, value) in &metadata.tags {
            put(&format!("tags/instance/{key}"), value.clone());
        }
    }
    for interface in &metadata.interfaces {
        interface_categories(metadata, interface, &mut put);
    }
    tree
}

fn interface_categories(
    metadata: &GuestMetadata,
    interface: &MetadataInterface,
    put: &mut impl FnMut(&str, String) -> Option<String>,
) {
    let mut leaf = |name: &str, value: String| {
        put(
            &format!("network/interfaces/macs/{}/{name}", interface.mac),
            value,
        );
    };
    leaf("device-number", interface.device_index.to_string());
    leaf("interface-id", interface.interface.to_string());
    leaf("local-hostname", interface.private_dns_name.clone());
    leaf("local-ipv4s", interface.address.to_string());
    leaf("mac", interface.mac.clone());
    leaf("owner-id", metadata.account.to_string());
    leaf("security-group-ids", interface.group_ids.join("\n"));
    leaf("security-groups", interface.group_names.join("\n"));
    leaf("subnet-id", interface.subnet.to_string());
    leaf("subnet-ipv4-cidr-block", interface.subnet_cidr.clone());
    leaf("vpc-id", interface.vpc.to_string());
    leaf("vpc-ipv4-cidr-block", interface.vpc_cidr.clone());
    leaf("vpc-ipv4-cidr-blocks", interface.vpc_cidr.clone());
    if let Some(public) = interface.public_address {
        leaf("public-ipv4s", public.to_string());
        leaf(
            &format!("ipv4-associations/{public}"),
            interface.address.to_string(),
        );
    }
    if let Some(name) = &interface.public_dns_name {
        leaf("public-hostname", name.clone());
    }
}

fn identity_document(metadata: &GuestMetadata) -> String {
    let pending = metadata
        .pending_time
        .replace_nanosecond(0)
        .unwrap_or(metadata.pending_time)
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap_or_default();
    let document = serde_json::json!({
        "accountId": metadata.account.to_string(),
        "architecture": metadata.architecture,
        "availabilityZone": metadata.zone,
        "billingProducts": null,
        "devpayProductCodes": null,
        "marketplaceProductCodes": null,
        "imageId": metadata.image.to_string(),
        "instanceId": metadata.instance.to_string(),
        "instanceType": metadata.instance_type,
        "kernelId": null,
        "pendingTime": pending,
        "privateIp": metadata.interfaces.first().map(|i| i.address.to_string()),
        "ramdiskId": null,
        "region": metadata.region,
        "version": "2017-09-30",
    });
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

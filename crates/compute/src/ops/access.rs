//! ARNs and access questions that several operations of this room share (R8).

use aws_types::{AccountId, Arn, Region, Tags};
use aws_wire::call::Call;
use aws_wire::operation::AccessRequest;
use std::collections::BTreeMap;
use std::fmt::Display;

/// An ARN of EC2 in the call's region and account.
pub fn arn(call: &Call, kind: &str, id: impl Display) -> Arn {
    Arn::new("ec2", &call.region, call.account(), format!("{kind}/{id}"))
}

/// An ARN of EC2 that names no account: images and snapshots.
pub fn public_arn(region: &Region, kind: &str, id: impl Display) -> Arn {
    Arn::without_account("ec2", region, format!("{kind}/{id}"))
}

/// The question whether tags may be put on what a call creates: `ec2:CreateTags` with `ec2:CreateAction`.
pub fn create_tags(call: &Call, creating: &str, tags: &BTreeMap<String, Tags>) -> Vec<AccessRequest> {
    tags.iter()
        .filter(|(_, tags)| !tags.is_empty())
        .map(|(kind, tags)| {
            AccessRequest::on("ec2:CreateTags", arn(call, kind, "*"))
                .with("ec2:CreateAction", creating)
                .with_request_tags(tags)
        })
        .collect()
}

/// The account's own id, where an answer shows owners.
pub fn owner(account: AccountId) -> Option<String> {
    Some(account.to_string())
}

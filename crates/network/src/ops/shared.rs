//! What requests and answers of this room share: tags on the wire, access to resources, ids of requests.

use super::Network;
use crate::capability::tags::{self, TagIndex};
use crate::error::{malformed, store_error};
use crate::kinds;
use aws_shapes::ec2;
use aws_types::{AccountId, Arn, AwsError, ErrorCode, Tags};
use aws_wire::call::Call;
use aws_wire::operation::AccessRequest;
use state::{Record, Scope};

/// Tags as answers show them.
pub(crate) fn wire_tags(tags: &Tags) -> Vec<ec2::Tag> {
    tags::to_wire(tags)
}

/// The text of a flag's value.
pub(crate) fn of_account(call: &Call) -> Scope {
    Scope::account(call.account())
}

impl Network {
    /// ARN of a resource of the caller's account.
    pub(crate) fn arn(&self, account: AccountId, resource_type: &str, id: &str) -> Arn {
        kinds::arn(self.region(), account, resource_type, id)
    }

    /// All records of a kind that the caller's account has, ordered by id.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) async fn list<T: Record>(&self, call: &Call) -> Result<Vec<T>, AwsError> {
        self.store()
            .list::<T>(&of_account(call))
            .await
            .map_err(|error| store_error(&error))
    }

    /// A record of the caller's account.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) async fn find<T: Record>(&self, call: &Call, id: &str) -> Result<Option<T>, AwsError> {
        self.store()
            .find::<T>(&of_account(call), id)
            .await
            .map_err(|error| store_error(&error))
    }

    /// All tags of the caller's account.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) async fn tags(&self, call: &Call) -> Result<TagIndex, AwsError> {
        TagIndex::load(self.store(), call.account()).await
    }
}

/// An action on a resource that exists, with its tags under both prefixes that policies use.
pub(crate) fn on_resource(action: &'static str, arn: Arn, tags: &Tags) -> AccessRequest {
    let mut request = AccessRequest::on(action, arn).with_resource_tags(tags);
    request.context = request.context.with_tags("ec2:ResourceTag", tags);
    request
}

/// The right to tag what an action makes: `ec2:CreateTags` on the new resource with `ec2:CreateAction`. Nothing if the
/// request names no tags.
pub(crate) fn to_tag_on_create(
    create_action: &str,
    arn: Arn,
    specifications: &[ec2::TagSpecification],
) -> Option<AccessRequest> {
    let tags = requested_tags(specifications);
    (!tags.is_empty()).then(|| {
        AccessRequest::on("ec2:CreateTags", arn)
            .with("ec2:CreateAction", create_action)
            .with_request_tags(&tags)
    })
}

/// The tags of all specifications as they were sent, for `aws:RequestTag`; they are checked after the decision.
pub(crate) fn requested_tags(specifications: &[ec2::TagSpecification]) -> Tags {
    specifications
        .iter()
        .flat_map(|specification| sent_tags(&specification.tags))
        .collect()
}

/// Tags as they were sent, unchecked.
pub(crate) fn sent_tags(tags: &[ec2::Tag]) -> impl Iterator<Item = (String, String)> {
    tags.iter()
        .filter_map(|tag| Some((tag.key.clone()?, tag.value.clone().unwrap_or_default())))
}

/// A member the request must have.
///
/// # Errors
/// `MissingParameter`.
pub(crate) fn required<'a>(value: &'a Option<String>, name: &str) -> Result<&'a str, AwsError> {
    value
        .as_deref()
        .filter(|text| !text.is_empty())
        .ok_or_else(|| AwsError::missing_parameter(name))
}

/// Refuses an id that is not of its kind's shape.
///
/// # Errors
/// `<code>`.
pub(crate) fn check_shape(id: &str, prefix: &str, code: ErrorCode) -> Result<(), AwsError> {
    if aws_types::ids::is_well_formed(id, prefix) {
        Ok(())
    } else {
        Err(malformed(code, id, prefix))
    }
}

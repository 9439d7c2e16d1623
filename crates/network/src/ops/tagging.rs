//! CreateTags, DeleteTags and DescribeTags, for resources of every EC2 room.
//!
//! All or nothing over the resources of a request: each must exist, and the number of its tags is judged in the
//! transaction. A request too large for one store transaction (about 150 resources) is first checked as a whole and then
//! committed in batches; both calls are idempotent, so a retry completes what a crash cut off. A resource is found by its
//! id's prefix; see `capability::tags`. Tags of a deleted resource are gone with it, so DescribeTags reads tag rows only.

use super::Network;
use super::describe::{PAGE_5_TO_1000, raw_filters};
use super::shared::{on_resource, sent_tags};
use crate::capability::tags::{self, TagRemoval};
use crate::error::{NetworkError, update_error};
use crate::limits;
use crate::records::TagRow;
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_shapes::value::Unit;
use aws_types::filter::{Filters, Values, one};
use aws_types::page::PageRequest;
use aws_types::tag::check_key_is_not_reserved;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use state::Tx;

const TAG_FILTERS: &[&str] = &["key", "value", "resource-id", "resource-type", "tag"];
/// Most compares or operations that one batch plans for; leaves room below the store's bound.
const BATCH_COST_MAX: usize = 900;

/// CreateTags.
pub(crate) struct CreateTags(pub Network);

#[async_trait]
impl Operation for CreateTags {
    type Shape = operations::CreateTags;
    const ACTIONS: &'static [&'static str] = &["ec2:CreateTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::CreateTagsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        on_resources(&self.0, call, "ec2:CreateTags", &input.resources, &input.tags).await
    }

    async fn handle(&self, call: &Call, input: ec2::CreateTagsRequest) -> Result<Unit, AwsError> {
        let resources = &read_resources(&input.resources)?;
        if input.tags.is_empty() {
            return Err(AwsError::missing_parameter("tagSet"));
        }
        let tags = &tags::from_wire(&input.tags)?;
        apply(&self.0, call, resources, &Change::Add(tags)).await?;
        Ok(Unit {})
    }
}

/// DeleteTags.
pub(crate) struct DeleteTags(pub Network);

#[async_trait]
impl Operation for DeleteTags {
    type Shape = operations::DeleteTags;
    const ACTIONS: &'static [&'static str] = &["ec2:DeleteTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::DeleteTagsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        on_resources(&self.0, call, "ec2:DeleteTags", &input.resources, &input.tags).await
    }

    async fn handle(&self, call: &Call, input: ec2::DeleteTagsRequest) -> Result<Unit, AwsError> {
        let resources = &read_resources(&input.resources)?;
        let removals = &read_removals(&input.tags)?;
        apply(&self.0, call, resources, &Change::Remove(removals)).await?;
        Ok(Unit {})
    }
}

/// What a request does to each of its resources.
enum Change<'a> {
    Add(&'a Tags),
    Remove(&'a [TagRemoval]),
}

/// Changes the tags of all resources, in one transaction or in batches.
async fn apply(
    network: &Network,
    call: &Call,
    resources: &[String],
    change: &Change<'_>,
) -> Result<(), AwsError> {
    let batches = batches(network, call, resources, change).await?;
    if batches.len() > 1 || call.dry_run {
        // Writes nothing: refuses whatever a batch would refuse.
        let checked = network
            .store()
            .update(|tx: Tx| async move {
                account_active(&tx, call.account()).await?;
                for id in resources {
                    check_one(network, &tx, call, id, change).await?;
                }
                Ok::<_, NetworkError>(())
            })
            .await;
        checked.map_err(update_error)?;
    }
    call.finish_dry_run()?;
    for batch in batches {
        let committed = network
            .store()
            .update(|tx: Tx| async move {
                account_active(&tx, call.account()).await?;
                for id in batch {
                    check_one(network, &tx, call, id, change).await?;
                    change_one(network, &tx, call, id, change).await?;
                }
                Ok::<_, NetworkError>(())
            })
            .await;
        committed.map_err(update_error)?;
    }
    Ok(())
}

/// Cuts the resources so that each part fits a transaction, whatever tags they have.
async fn batches<'a>(
    network: &Network,
    call: &Call,
    resources: &'a [String],
    change: &Change<'_>,
) -> Result<Vec<&'a [String]>, AwsError> {
    let present = network.tags(call).await?;
    let added = match change {
        Change::Add(tags) => tags.len(),
        Change::Remove(_) => 0,
    };
    let mut batches = Vec::new();
    let (mut start, mut cost) = (0, 0);
    for (at, id) in resources.iter().enumerate() {
        // The record, the guard, two for each tag there is, two for each tag written.
        let own = 2 + 2 * present.of(id).len() + 2 * added;
        if cost + own > BATCH_COST_MAX && at > start {
            batches.push(&resources[start..at]);
            (start, cost) = (at, 0);
        }
        cost += own;
    }
    batches.push(&resources[start..]);
    Ok(batches)
}

async fn check_one(
    network: &Network,
    tx: &Tx,
    call: &Call,
    id: &str,
    change: &Change<'_>,
) -> Result<(), NetworkError> {
    let kind = network.kinds().fetch(id)?;
    if !kind.exists(tx, call.account(), id).await? {
        return Err(kind.not_found(id).into());
    }
    match change {
        Change::Add(tags) => tags::check_room(tx, call.account(), id, tags).await,
        Change::Remove(_) => Ok(()),
    }
}

async fn change_one(
    network: &Network,
    tx: &Tx,
    call: &Call,
    id: &str,
    change: &Change<'_>,
) -> Result<(), NetworkError> {
    match change {
        Change::Add(tags) => {
            let kind = network.kinds().fetch(id)?;
            tags::put(tx, call.account(), kind.resource_type(), id, tags).await
        }
        Change::Remove(removals) => tags::remove(tx, call.account(), id, removals).await,
    }
}

/// The right to tag or untag each resource, with the tags it has and those of the request.
async fn on_resources(
    network: &Network,
    call: &Call,
    action: &'static str,
    resources: &[String],
    requested: &[ec2::Tag],
) -> Result<Vec<AccessRequest>, AwsError> {
    let requested: Tags = sent_tags(requested).collect();
    let mut requests = Vec::with_capacity(resources.len());
    for id in resources.iter().take(limits::TAGGED_RESOURCES_MAX) {
        let kind = network.kinds().fetch(id)?;
        let arn = kind.arn(network.region(), call.account(), id);
        let tags = tags::of_resource(network.store(), call.account(), id).await?;
        requests.push(
            on_resource(action, arn, &tags)
                .with_request_tags(&requested)
                .owned_by(call.account()),
        );
    }
    if requests.is_empty() {
        requests.push(AccessRequest::on_any(action));
    }
    Ok(requests)
}

/// The resources of a request, each once.
fn read_resources(resources: &[String]) -> Result<Vec<String>, AwsError> {
    if resources.is_empty() {
        return Err(AwsError::missing_parameter("resourceIdSet"));
    }
    if resources.len() > limits::TAGGED_RESOURCES_MAX {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "The maximum number of resources in one request is {}",
            limits::TAGGED_RESOURCES_MAX
        )));
    }
    let mut distinct = resources.to_vec();
    distinct.sort();
    distinct.dedup();
    Ok(distinct)
}

fn read_removals(tags: &[ec2::Tag]) -> Result<Vec<TagRemoval>, AwsError> {
    let mut removals = Vec::with_capacity(tags.len());
    for tag in tags {
        let key = tag
            .key
            .clone()
            .ok_or_else(|| AwsError::missing_parameter("Tag.Key"))?;
        check_key_is_not_reserved(&key)?;
        removals.push(match &tag.value {
            None => TagRemoval::Key(key),
            Some(value) => TagRemoval::KeyWithValue(key, value.clone()),
        });
    }
    Ok(removals)
}

/// DescribeTags.
pub(crate) struct DescribeTags(pub Network);

#[async_trait]
impl Operation for DescribeTags {
    type Shape = operations::DescribeTags;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(&self, _: &Call, _: &ec2::DescribeTagsRequest) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeTags").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeTagsRequest,
    ) -> Result<ec2::DescribeTagsResult, AwsError> {
        let filters = Filters::parse(raw_filters(&input.filters), TAG_FILTERS)?;
        let binding = call.page_binding(operations::DescribeTags::SCHEMA);
        let page_key = &self.0.settings().page_key;
        let page = PageRequest::ec2(
            input.max_results,
            input.next_token.as_deref(),
            false,
            PAGE_5_TO_1000,
            page_key,
            &binding,
        )?;
        call.finish_dry_run()?;
        let rows = self.0.list::<TagRow>(call).await?;
        let passing = rows.iter().filter(|row| {
            let own = Tags::from([(row.key.clone(), row.value.clone())]);
            filters.matches(&own, |name| values(row, name))
        });
        let resume = |row: &&TagRow| TagRow::id_of(&row.resource, &row.key);
        let (page, next_token) = page.cut(passing, resume, page_key, &binding);
        Ok(ec2::DescribeTagsResult {
            tags: page
                .into_iter()
                .map(|row| ec2::TagDescription {
                    key: Some(row.key.clone()),
                    value: Some(row.value.clone()),
                    resource_id: Some(row.resource.clone()),
                    resource_type: Some(row.resource_type.clone()),
                })
                .collect(),
            next_token,
        })
    }
}

fn values<'a>(row: &'a TagRow, name: &str) -> Values<'a> {
    match name {
        "key" => one(row.key.as_str()),
        "value" => one(row.value.as_str()),
        "resource-id" => one(row.resource.as_str()),
        "resource-type" => one(row.resource_type.as_str()),
        _ => Vec::new(),
    }
}

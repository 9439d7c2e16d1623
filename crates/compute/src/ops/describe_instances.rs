//! DescribeInstances, DescribeInstanceStatus, DescribeInstanceCreditSpecifications.
//!
//! All read pages of instances in id order and cut their own pages out of what passes the filters. A page of an answer
//! counts instances; a launch whose instances are neighbours appears as one reservation unless a page ends inside it.

use super::instance_filters::INSTANCE_FILTERS;
use super::instance_view::{
    InstanceView, Joined, World, find_instances, group_by_reservation, position_after, render_state,
};
use super::request::{filters, ids};
use super::status::{STATUS_FILTERS, render_status, status_values};
use crate::context::Context;
use crate::error::{not_found, store_error};
use crate::limits;
use crate::records::{Instance, InstanceState, account_scope};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Filters, Values, one};
use aws_types::ids::InstanceId;
use aws_types::page::{PageRequest, QueryBinding, seal_token};
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use node_spec::GuestObservation;
use std::collections::BTreeMap;

/// A request for a list of instances, checked.
struct Query {
    named: Vec<InstanceId>,
    filters: Filters,
    page: PageRequest,
    binding: QueryBinding,
}

/// The members that such requests share.
struct Asked {
    instance_ids: Vec<String>,
    ids_max: usize,
    filters: Vec<ec2::Filter>,
    known: &'static [&'static str],
    max_results: Option<i32>,
    next_token: Option<String>,
}

impl Query {
    fn read(context: &Context, binding: QueryBinding, asked: Asked) -> Result<Query, AwsError> {
        let named = instance_ids(&asked.instance_ids, asked.ids_max)?;
        let filters = filters(asked.filters, asked.known)?;
        let page = PageRequest::ec2(
            asked.max_results,
            asked.next_token.as_deref(),
            !named.is_empty(),
            limits::PAGE_ITEMS_MIN..=limits::PAGE_ITEMS_MAX,
            &context.page_key,
            &binding,
        )?;
        Ok(Query {
            named,
            filters,
            page,
            binding,
        })
    }

    /// Ids to look up instead of scanning: those named, or those an `instance-id` filter without wildcard names.
    fn lookup(&self) -> Option<Vec<InstanceId>> {
        if !self.named.is_empty() {
            return Some(self.named.clone());
        }
        let values = self.filters.exact_values("instance-id")?;
        Some(values.into_iter().filter_map(InstanceId::parse).collect())
    }
}

/// Well-formed instance ids, without repeats.
pub(super) fn instance_ids(named: &[String], ids_max: usize) -> Result<Vec<InstanceId>, AwsError> {
    ids(
        named,
        ids_max,
        catalogue::INVALID_INSTANCE_ID_MALFORMED,
        InstanceId::parse,
    )
}

/// `InvalidInstanceID.NotFound` naming the ids.
pub(super) fn absent(ids: &[String]) -> AwsError {
    not_found(catalogue::INVALID_INSTANCE_ID_NOT_FOUND, "instance", ids)
}

/// Instances of the account in id order, one store page after the other, and what hangs on each page.
struct Scan<'a> {
    context: &'a Context,
    call: &'a Call,
    position: Option<state::Key>,
    at: Option<state::Revision>,
    lookup: Option<Vec<Instance>>,
    done: bool,
}

impl<'a> Scan<'a> {
    async fn open(context: &'a Context, call: &'a Call, query: &Query) -> Result<Scan<'a>, AwsError> {
        let account = call.account();
        let lookup = match query.lookup() {
            None => None,
            Some(ids) => {
                let mut found = find_instances(&context.store, account, &ids).await?;
                let missing: Vec<String> = query
                    .named
                    .iter()
                    .filter(|id| !found.iter().any(|instance| instance.id == **id))
                    .map(ToString::to_string)
                    .collect();
                if !missing.is_empty() {
                    return Err(absent(&missing));
                }
                found.sort_by(|a, b| a.id.cmp(&b.id));
                found.dedup_by(|a, b| a.id == b.id);
                if let Some(after) = &query.page.after {
                    found.retain(|instance| instance.id.as_str() > after.as_str());
                }
                Some(found)
            }
        };
        let position = query
            .page
            .after
            .as_deref()
            .map(|after| position_after(account, after));
        Ok(Scan {
            context,
            call,
            position,
            at: None,
            lookup,
            done: false,
        })
    }

    async fn next(&mut self) -> Result<Option<Vec<Instance>>, AwsError> {
        if self.done {
            return Ok(None);
        }
        if let Some(found) = self.lookup.take() {
            self.done = true;
            return Ok(Some(found));
        }
        let request = state::PageRequest {
            after: self.position.take(),
            at: self.at,
            ..Default::default()
        };
        let page = self
            .context
            .store
            .page::<Instance>(&account_scope(self.call.account()), request)
            .await
            .map_err(store_error)?;
        self.at = Some(page.revision);
        self.done = page.next.is_none();
        self.position = page.next;
        Ok(Some(page.rows.into_iter().map(|row| row.record).collect()))
    }
}

/// The page: what `render` makes of each instance that passes, and the token of the next page.
struct Cut<T> {
    items: Vec<T>,
    last: Option<InstanceId>,
    limit: usize,
    more: bool,
}

impl<T> Cut<T> {
    fn new(limit: usize) -> Cut<T> {
        Cut {
            items: Vec::new(),
            last: None,
            limit,
            more: false,
        }
    }

    /// False once the page is full and another item would follow.
    fn push(&mut self, id: &InstanceId, item: impl FnOnce() -> T) -> bool {
        if self.items.len() == self.limit {
            self.more = true;
            return false;
        }
        self.items.push(item());
        self.last = Some(id.clone());
        true
    }

    fn token(&self, context: &Context, query: &Query) -> Option<String> {
        let last = self.last.as_ref().filter(|_| self.more)?;
        Some(seal_token(&context.page_key, &query.binding, last.as_str()))
    }
}

/// DescribeInstances.
pub struct DescribeInstances(pub Context);

#[async_trait]
impl Operation for DescribeInstances {
    type Shape = operations::DescribeInstances;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInstances"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeInstances").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInstancesRequest,
    ) -> Result<ec2::DescribeInstancesResult, AwsError> {
        let ec2::DescribeInstancesRequest {
            instance_ids,
            // No instance is managed by a service yet, so including them changes nothing.
            include_managed_resources: _,
            dry_run: _,
            filters,
            next_token,
            max_results,
        } = input;
        let asked = Asked {
            instance_ids,
            ids_max: limits::IDS_PER_CALL_MAX,
            filters,
            known: INSTANCE_FILTERS,
            max_results,
            next_token,
        };
        let query = Query::read(
            &self.0,
            call.page_binding(<Self::Shape as OperationShape>::SCHEMA),
            asked,
        )?;
        let world = World::load(&self.0, call).await?;
        let mut scan = Scan::open(&self.0, call, &query).await?;
        let mut cut: Cut<()> = Cut::new(query.page.limit);
        let mut reservations: Vec<ec2::Reservation> = Vec::new();
        while let Some(mut instances) = scan.next().await? {
            if query.filters.is_empty() {
                // One more than fits tells whether another page follows.
                instances.truncate(cut.limit - cut.items.len() + 1);
            }
            let joined = Joined::load(&self.0.store, call.account(), &instances).await?;
            let mut views: Vec<InstanceView<'_>> = Vec::new();
            for instance in &instances {
                let view = joined.view(instance, &world);
                let passes = query.filters.matches(view.tags, |name| view.values(name));
                if passes && cut.push(&instance.id, || ()) {
                    views.push(view);
                }
            }
            append(&mut reservations, group_by_reservation(&views));
            if cut.more {
                break;
            }
        }
        Ok(ec2::DescribeInstancesResult {
            next_token: cut.token(&self.0, &query),
            reservations,
        })
    }
}

/// Adds reservations, joining one that continues from the page before.
fn append(reservations: &mut Vec<ec2::Reservation>, more: Vec<ec2::Reservation>) {
    let place: BTreeMap<Option<String>, usize> = reservations
        .iter()
        .enumerate()
        .map(|(index, one)| (one.reservation_id.clone(), index))
        .collect();
    for reservation in more {
        match place.get(&reservation.reservation_id) {
            Some(index) => reservations[*index].instances.extend(reservation.instances),
            None => reservations.push(reservation),
        }
    }
}

/// DescribeInstanceStatus.
pub struct DescribeInstanceStatus(pub Context);

#[async_trait]
impl Operation for DescribeInstanceStatus {
    type Shape = operations::DescribeInstanceStatus;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInstanceStatus"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeInstanceStatusRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeInstanceStatus").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInstanceStatusRequest,
    ) -> Result<ec2::DescribeInstanceStatusResult, AwsError> {
        let ec2::DescribeInstanceStatusRequest {
            instance_ids,
            max_results,
            next_token,
            include_managed_resources: _,
            dry_run: _,
            filters,
            include_all_instances,
        } = input;
        let asked = Asked {
            instance_ids,
            ids_max: limits::STATUS_IDS_PER_CALL_MAX,
            filters,
            known: STATUS_FILTERS,
            max_results,
            next_token,
        };
        let query = Query::read(
            &self.0,
            call.page_binding(<Self::Shape as OperationShape>::SCHEMA),
            asked,
        )?;
        let all = include_all_instances == Some(true);
        let mut scan = Scan::open(&self.0, call, &query).await?;
        let mut cut: Cut<ec2::InstanceStatus> = Cut::new(query.page.limit);
        while let Some(instances) = scan.next().await? {
            let shown: Vec<Instance> = instances
                .into_iter()
                .filter(|instance| all || instance.lifecycle.phase.state() == InstanceState::Running)
                .collect();
            let keys: Vec<_> = shown
                .iter()
                .map(|instance| state::RecordKey::node(&instance.node, &instance.id))
                .collect();
            let observed = self
                .0
                .store
                .find_many::<GuestObservation>(&keys)
                .await
                .map_err(store_error)?;
            for (instance, guest) in shown.iter().zip(&observed) {
                let status = render_status(instance, guest.as_ref(), call.now);
                let passes = query
                    .filters
                    .matches(&Tags::new(), |name| status_values(&status, name));
                if passes && !cut.push(&instance.id, || status) {
                    break;
                }
            }
            if cut.more {
                break;
            }
        }
        let next_token = cut.token(&self.0, &query);
        Ok(ec2::DescribeInstanceStatusResult {
            instance_statuses: cut.items,
            next_token,
        })
    }
}

/// DescribeInstanceCreditSpecifications.
pub struct DescribeInstanceCreditSpecifications(pub Context);

#[async_trait]
impl Operation for DescribeInstanceCreditSpecifications {
    type Shape = operations::DescribeInstanceCreditSpecifications;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInstanceCreditSpecifications"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeInstanceCreditSpecificationsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeInstanceCreditSpecifications").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInstanceCreditSpecificationsRequest,
    ) -> Result<ec2::DescribeInstanceCreditSpecificationsResult, AwsError> {
        let ec2::DescribeInstanceCreditSpecificationsRequest {
            dry_run: _,
            filters,
            instance_ids,
            max_results,
            next_token,
        } = input;
        let asked = Asked {
            instance_ids,
            ids_max: limits::IDS_PER_CALL_MAX,
            filters,
            known: &["instance-id"],
            max_results,
            next_token,
        };
        let query = Query::read(
            &self.0,
            call.page_binding(<Self::Shape as OperationShape>::SCHEMA),
            asked,
        )?;
        let mut scan = Scan::open(&self.0, call, &query).await?;
        let mut cut: Cut<ec2::InstanceCreditSpecification> = Cut::new(query.page.limit);
        while let Some(instances) = scan.next().await? {
            for instance in &instances {
                let Some(credits) = instance.credits else { continue };
                let passes = query.filters.matches(&Tags::new(), |name| match name {
                    "instance-id" => one(instance.id.as_str()),
                    _ => Values::new(),
                });
                let item = || ec2::InstanceCreditSpecification {
                    instance_id: Some(instance.id.to_string()),
                    cpu_credits: Some(credits.name().to_owned()),
                };
                if passes && !cut.push(&instance.id, item) {
                    break;
                }
            }
            if cut.more {
                break;
            }
        }
        let next_token = cut.token(&self.0, &query);
        Ok(ec2::DescribeInstanceCreditSpecificationsResult {
            instance_credit_specifications: cut.items,
            next_token,
        })
    }
}

/// The state of an instance before and after a call.
pub(super) fn state_change(
    id: &InstanceId,
    previous: InstanceState,
    current: InstanceState,
) -> ec2::InstanceStateChange {
    ec2::InstanceStateChange {
        instance_id: Some(id.to_string()),
        current_state: Some(render_state(current)),
        previous_state: Some(render_state(previous)),
    }
}

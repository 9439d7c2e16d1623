//! RunInstances: one transaction of intent, then the answer `pending`.
//!
//! | File | What |
//! |---|---|
//! | `request` | the input checked and classified, member by member, without the store |
//! | `devices`, `interfaces` | block devices and interfaces of the input |
//! | `resolve` | image, key, network and nodes with room, read in the transaction |
//! | `make` | the rows of the instances; launches too large for one transaction in parts |
//!
//! Capacity, addresses, names and the client token are held in the transaction that answers, so what was answered is not
//! taken back, and a failure leaves nothing.

mod devices;
mod interfaces;
mod make;
mod request;
mod resolve;
#[cfg(test)]
mod tests;

pub(crate) use make::{abandon, advance};
pub(super) use request::{check_user_data, encode_user_data, shutdown_behaviour};
pub(super) use resolve::insufficient_capacity;

use super::access::{arn, create_tags, public_arn};
use super::images::{IMAGE, find_image};
use super::instance_view::load_reservations;
use super::key_pairs::KEY_PAIR;
use super::{INSTANCE, VOLUME};
use crate::context::{Context, zones_of};
use crate::error::{ComputeError, store_error, update_error};
use crate::records::{Instance, Launch, Phase, account_scope};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::ids::{ImageId, InstanceId};
use aws_types::{AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use iam::capability::client_token::{self, TokenClaim};
use network::capability::tags;
use request::LaunchRequest;
use state::UpdateError;

/// RunInstances.
pub struct RunInstances(pub Context);

const ACTION: &str = "ec2:RunInstances";

/// What the transaction did.
enum Outcome {
    /// Everything is committed: these instances.
    Done(Vec<InstanceId>),
    /// The launch is stored and has to be advanced.
    Begun(Box<Launch>),
    /// An earlier call with the token made, or is making, these.
    Repeated(Vec<InstanceId>),
}

#[async_trait]
impl Operation for RunInstances {
    type Shape = operations::RunInstances;
    const ACTIONS: &'static [&'static str] = &[ACTION, "ec2:CreateTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::RunInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        self.access_requests(call, input).await
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::RunInstancesRequest,
    ) -> Result<ec2::Reservation, AwsError> {
        let schema = <Self::Shape as OperationShape>::SCHEMA;
        let claim = TokenClaim::of(call, schema, input.client_token.as_deref())?;
        let request = LaunchRequest::parse(input)?;
        let (claim, request) = (&claim, &request);
        let outcome = self
            .0
            .store
            .update(|tx| async move {
                if let Some(ids) = client_token::find(&tx, claim).await? {
                    return Ok(Outcome::Repeated(
                        ids.iter().filter_map(|id| InstanceId::parse(id)).collect(),
                    ));
                }
                account_active(&tx, call.account()).await?;
                let launch = resolve::resolve(&tx, call, request).await?;
                call.finish_dry_run()?;
                let ids: Vec<InstanceId> = launch.instances.iter().map(|(id, _)| id.clone()).collect();
                client_token::keep(&tx, claim, ids.iter().map(ToString::to_string).collect())?;
                let count = ids.len();
                if count <= make::batch_size(&launch) {
                    make::make_instances(&tx, &launch, 0..count).await?;
                    return Ok(Outcome::Done(ids));
                }
                make::begin(&tx, &launch).await?;
                Ok(Outcome::Begun(Box::new(launch)))
            })
            .await
            .map_err(update_error)?;
        let ids = match outcome {
            Outcome::Done(ids) => ids,
            Outcome::Begun(launch) => {
                self.finish(call, &launch).await?;
                launch.instances.into_iter().map(|(id, _)| id).collect()
            }
            Outcome::Repeated(ids) => {
                self.finish_earlier(call, &ids).await?;
                ids
            }
        };
        let reservations = load_reservations(&self.0, call, &ids).await?;
        reservations.into_iter().next().ok_or_else(AwsError::internal)
    }
}

impl RunInstances {
    /// Makes all parts of a stored launch; one that is refused half-way leaves nothing running.
    async fn finish(&self, call: &Call, launch: &Launch) -> Result<(), AwsError> {
        loop {
            match self
                .0
                .store
                .update(|tx| async move { advance(&tx, launch).await })
                .await
            {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(UpdateError::Aborted(ComputeError::Refused(refusal))) => {
                    self.0
                        .store
                        .update(|tx| async move { abandon(&tx, launch, call.now).await })
                        .await
                        .map_err(update_error)?;
                    return Err(refusal);
                }
                Err(error) => return Err(update_error(error)),
            }
        }
    }

    /// Completes a launch that an earlier call with the same token began.
    async fn finish_earlier(&self, call: &Call, ids: &[InstanceId]) -> Result<(), AwsError> {
        let launches = self
            .0
            .store
            .list::<Launch>(&account_scope(call.account()))
            .await
            .map_err(store_error)?;
        if let Some(launch) = launches
            .iter()
            .find(|launch| launch.instances.iter().any(|(id, _)| ids.contains(id)))
        {
            self.finish(call, launch).await?;
        }
        for id in ids {
            let found = self
                .0
                .store
                .find::<Instance>(&account_scope(call.account()), id)
                .await
                .map_err(store_error)?;
            if found.is_none_or(|instance| instance.lifecycle.phase == Phase::Terminated) {
                return Err(catalogue::IDEMPOTENT_INSTANCE_TERMINATED
                    .error("The instances that this client token launched are terminated."));
            }
        }
        Ok(())
    }

    /// Every resource the launch touches (R8). What cannot be resolved is asked about as named, so that a caller who is
    /// denied learns nothing else.
    async fn access_requests(
        &self,
        call: &Call,
        input: &ec2::RunInstancesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let type_name = input.instance_type.as_deref().unwrap_or("t3.micro");
        let by_type = tags::from_specifications(
            &input.tag_specifications,
            &[INSTANCE, VOLUME, tags::NETWORK_INTERFACE],
        )
        .unwrap_or_default();
        let on_new = |kind: &str| {
            let none = aws_types::Tags::new();
            AccessRequest::on(ACTION, arn(call, kind, "*"))
                .with_request_tags(by_type.get(kind).unwrap_or(&none))
                .with("ec2:InstanceType", type_name)
        };
        let mut requests = vec![
            on_new(INSTANCE)
                .with("ec2:RootDeviceType", "ebs")
                .with("ec2:Tenancy", "default"),
            on_new(VOLUME),
            on_new(tags::NETWORK_INTERFACE),
            self.image_access(call, input).await?,
        ];
        if let Some(name) = &input.key_name {
            requests.push(AccessRequest::on(ACTION, arn(call, KEY_PAIR, name)));
        }
        let (subnets, groups) = self.network_arns(call, input).await?;
        requests.push(AccessRequest::on_each(ACTION, subnets));
        requests.push(AccessRequest::on_each(ACTION, groups));
        requests.extend(create_tags(call, "RunInstances", &by_type));
        Ok(requests)
    }

    async fn image_access(
        &self,
        call: &Call,
        input: &ec2::RunInstancesRequest,
    ) -> Result<AccessRequest, AwsError> {
        let id = input.image_id.as_deref().unwrap_or("*");
        let request = AccessRequest::on(ACTION, public_arn(&call.region, IMAGE, id)).with("ec2:ImageID", id);
        let found = match ImageId::parse(id) {
            Some(id) => find_image(&self.0, &id).await?,
            None => None,
        };
        // Launching somebody else's public image is the launcher's own business: no resource policy grants it.
        let request = request.owned_by(call.account());
        Ok(match found.filter(|image| image.is_visible_to(call.account())) {
            Some(image) => request
                .with("ec2:Owner", image.account.to_string())
                .with("ec2:Public", image.public.to_string()),
            None => request,
        })
    }

    async fn network_arns(
        &self,
        call: &Call,
        input: &ec2::RunInstancesRequest,
    ) -> Result<(Vec<aws_types::Arn>, Vec<aws_types::Arn>), AwsError> {
        let named = || {
            let subnets = input
                .subnet_id
                .iter()
                .chain(input.network_interfaces.iter().flat_map(|one| &one.subnet_id));
            let groups = input
                .security_group_ids
                .iter()
                .chain(input.network_interfaces.iter().flat_map(|one| &one.groups));
            (
                subnets.map(|id| arn(call, tags::SUBNET, id)).collect(),
                groups.map(|id| arn(call, tags::SECURITY_GROUP, id)).collect(),
            )
        };
        let Ok(request) = LaunchRequest::parse(input.clone()) else {
            return Ok(named());
        };
        let zones = zones_of(&self.0.list_nodes().await?);
        let (zones, request) = (&zones, &request);
        let resolved = self
            .0
            .store
            .update(|tx| async move { resolve::resolve_networks(&tx, call.account(), zones, request).await })
            .await;
        match resolved {
            Ok(networks) => {
                let subnets = networks
                    .iter()
                    .map(|network| arn(call, tags::SUBNET, &network.subnet.id))
                    .collect();
                let groups = networks.iter().flat_map(|network| network.group_ids());
                Ok((
                    subnets,
                    groups.map(|id| arn(call, tags::SECURITY_GROUP, id)).collect(),
                ))
            }
            Err(UpdateError::Aborted(ComputeError::Refused(_))) => Ok(named()),
            Err(error) => Err(update_error(error)),
        }
    }
}

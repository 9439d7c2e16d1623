//! GetConsoleOutput (R74): the end of the serial console, asked of the one node that has it.
//!
//! The console is a file of the node. A node that cannot be asked is 503, not an empty console.

use super::access::arn;
use super::describe_instances::{absent, instance_ids};
use super::{INSTANCE, instance_view::find_instances};
use crate::context::Context;
use crate::limits;
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_types::AwsError;
use aws_types::ids::InstanceId;
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use network::capability::tags;

/// GetConsoleOutput.
pub struct GetConsoleOutput(pub Context);

#[async_trait]
impl Operation for GetConsoleOutput {
    type Shape = operations::GetConsoleOutput;
    const ACTIONS: &'static [&'static str] = &["ec2:GetConsoleOutput"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::GetConsoleOutputRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let id = input.instance_id.as_deref().unwrap_or("*");
        let request = AccessRequest::on("ec2:GetConsoleOutput", arn(call, INSTANCE, id));
        let own = match InstanceId::parse(id) {
            Some(_) => tags::of_resource(&self.0.store, call.account(), id).await?,
            None => aws_types::Tags::new(),
        };
        Ok(request.with_resource_tags(&own).into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::GetConsoleOutputRequest,
    ) -> Result<ec2::GetConsoleOutputResult, AwsError> {
        // The node's file is read at each call, so every answer is the latest.
        let ec2::GetConsoleOutputRequest {
            instance_id,
            latest: _,
            dry_run: _,
        } = input;
        let text = instance_id.ok_or_else(|| AwsError::missing_parameter("InstanceId"))?;
        let ids = instance_ids(std::slice::from_ref(&text), 1)?;
        let found = find_instances(&self.0.store, call.account(), &ids).await?;
        let instance = found.first().ok_or_else(|| absent(&[text]))?;
        let asked = self
            .0
            .queries
            .find_console_tail(&instance.node, &instance.id, limits::CONSOLE_BYTES_MAX)
            .await;
        let tail = asked.map_err(|error| {
            tracing::warn!(%error, instance = %instance.id, "no console");
            AwsError::unavailable()
        })?;
        Ok(ec2::GetConsoleOutputResult {
            instance_id: Some(instance.id.to_string()),
            timestamp: Some(tail.as_ref().map_or(call.now, |tail| tail.modified_at)),
            output: Some(
                tail.map(|tail| STANDARD.encode(last(&tail.bytes)))
                    .unwrap_or_default(),
            ),
        })
    }
}

fn last(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(limits::CONSOLE_BYTES_MAX)..]
}

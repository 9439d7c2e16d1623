//! sts:GetCallerIdentity: who the caller is. Needs no permission and cannot be denied (identity.md R53).

use async_trait::async_trait;
use aws_shapes::sts;
use aws_types::AwsError;
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};

/// The operation.
pub struct GetCallerIdentity;

#[async_trait]
impl Operation for GetCallerIdentity {
    type Shape = sts::operations::GetCallerIdentity;
    const ACTIONS: &'static [&'static str] = &["sts:GetCallerIdentity"];

    async fn access(
        &self,
        _call: &Call,
        _input: &sts::GetCallerIdentityRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::free("sts:GetCallerIdentity").into())
    }

    async fn handle(
        &self,
        call: &Call,
        _input: sts::GetCallerIdentityRequest,
    ) -> Result<sts::GetCallerIdentityResponse, AwsError> {
        let principal = &call.caller.principal;
        Ok(sts::GetCallerIdentityResponse {
            user_id: principal.userid(),
            account: Some(call.account().to_string()),
            arn: Some(principal.shown().to_owned()),
        })
    }
}

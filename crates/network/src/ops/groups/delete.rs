//! DeleteSecurityGroup.
//!
//! Refused while an interface or a rule of another group names the group; both lists are compared at commit, so a
//! launch and a delete never both succeed. The group's own rules, self-references included, and all tags go with it.

use super::{Target, on_group};
use crate::capability::tags;
use crate::error::{NetworkError, update_error};
use crate::ops::Network;
use crate::records::{Interface, SecurityGroup, SecurityGroupRule};
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_types::{AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use state::{Scope, Tx};

const ACTION: &str = "ec2:DeleteSecurityGroup";

/// DeleteSecurityGroup.
pub(crate) struct DeleteSecurityGroup(pub Network);

#[async_trait]
impl Operation for DeleteSecurityGroup {
    type Shape = operations::DeleteSecurityGroup;
    const ACTIONS: &'static [&'static str] = &[ACTION];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::DeleteSecurityGroupRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let request = on_group(
            &self.0,
            call,
            ACTION,
            input.group_id.as_ref(),
            input.group_name.as_ref(),
        )
        .await?;
        Ok(request.into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DeleteSecurityGroupRequest,
    ) -> Result<ec2::DeleteSecurityGroupResult, AwsError> {
        let target = &Target::read(input.group_id.as_ref(), input.group_name.as_ref())?;
        let id = self
            .0
            .store()
            .update(|tx: Tx| async move {
                account_active(&tx, call.account()).await?;
                let group = target.fetch(&tx, call.account()).await?;
                delete(&tx, &group).await?;
                call.finish_dry_run()?;
                Ok::<_, NetworkError>(group.id)
            })
            .await
            .map_err(update_error)?;
        Ok(ec2::DeleteSecurityGroupResult {
            r#return: Some(true),
            group_id: Some(id.to_string()),
        })
    }
}

async fn delete(tx: &Tx, group: &SecurityGroup) -> Result<(), NetworkError> {
    if group.is_default {
        return Err(catalogue::CANNOT_DELETE
            .error(format!(
                "the specified group: \"{}\" name: \"{}\" cannot be deleted by a user",
                group.id, group.name
            ))
            .into());
    }
    let named = [group.id.as_str()];
    let used = tx
        .list_by_index::<Interface>("group", &named)
        .await?
        .into_iter()
        .next()
        .is_some();
    let referenced = tx
        .list_by_index::<SecurityGroupRule>("referenced", &named)
        .await?;
    if used || referenced.iter().any(|rule| rule.group != group.id) {
        return Err(catalogue::DEPENDENCY_VIOLATION
            .error(format!("resource {} has a dependent object", group.id))
            .into());
    }
    tx.guard_index::<Interface>("group", &named).await?;
    tx.guard_index::<SecurityGroupRule>("referenced", &named).await?;
    let scope = Scope::account(group.account);
    let own = [group.vpc.as_str(), group.id.as_str()];
    for rule in tx.list_by_index::<SecurityGroupRule>("group", &own).await? {
        tags::remove_all(tx, group.account, rule.id.as_str()).await?;
        tx.delete::<SecurityGroupRule>(&scope, &rule.id)?;
    }
    tags::remove_all(tx, group.account, group.id.as_str()).await?;
    tx.delete::<SecurityGroup>(&scope, &group.id)?;
    Ok(())
}

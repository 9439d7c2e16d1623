//! RevokeSecurityGroupIngress and RevokeSecurityGroupEgress: by rule ids, or by exact properties.
//!
//! Where a named rule does not exist: in the default VPC the others are revoked and it is answered as unknown, elsewhere
//! nothing is revoked and the answer is `InvalidPermission.NotFound` (vpc.md R49).

use super::authorize::{read_rules, refuse_scalars};
use super::{Resolve, Target, on_group, resolve_rules};
use crate::capability::tags;
use crate::error::{NetworkError, update_error};
use crate::kinds::rule_absent;
use crate::ops::Network;
use crate::ops::shared::check_shape;
use crate::records::{Direction, SecurityGroup, SecurityGroupRule, Vpc};
use crate::rule::request::{RequestedRule, ScalarRule};
use crate::rule::{Rule, render};
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_types::ids::SecurityGroupRuleId;
use aws_types::{AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use state::{Scope, Tx};

const INGRESS: &str = "ec2:RevokeSecurityGroupIngress";
const EGRESS: &str = "ec2:RevokeSecurityGroupEgress";

/// What a request revokes.
enum Named {
    Ids(Vec<String>),
    Rules(Vec<RequestedRule>),
}

/// What was revoked, and what was not there.
#[derive(Default)]
struct Revoked {
    rows: Vec<SecurityGroupRule>,
    unknown: Vec<Rule>,
}

/// RevokeSecurityGroupIngress.
pub(crate) struct RevokeSecurityGroupIngress(pub Network);

#[async_trait]
impl Operation for RevokeSecurityGroupIngress {
    type Shape = operations::RevokeSecurityGroupIngress;
    const ACTIONS: &'static [&'static str] = &[INGRESS];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::RevokeSecurityGroupIngressRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let request = on_group(
            &self.0,
            call,
            INGRESS,
            input.group_id.as_ref(),
            input.group_name.as_ref(),
        )
        .await?;
        Ok(request.into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::RevokeSecurityGroupIngressRequest,
    ) -> Result<ec2::RevokeSecurityGroupIngressResult, AwsError> {
        let target = Target::read(input.group_id.as_ref(), input.group_name.as_ref())?;
        let scalars = ScalarRule {
            cidr: input.cidr_ip,
            protocol: input.ip_protocol,
            from_port: input.from_port,
            to_port: input.to_port,
            group_name: input.source_security_group_name,
            group_account: input.source_security_group_owner_id,
        };
        let named = read(&input.security_group_rule_ids, &input.ip_permissions, &scalars)?;
        let revoked = revoke(&self.0, call, Direction::Ingress, &target, &named).await?;
        Ok(ec2::RevokeSecurityGroupIngressResult {
            r#return: Some(true),
            unknown_ip_permissions: revoked.unknown.iter().map(render::permission).collect(),
            revoked_security_group_rules: revoked.rows.iter().map(render::revoked).collect(),
        })
    }
}

/// RevokeSecurityGroupEgress.
pub(crate) struct RevokeSecurityGroupEgress(pub Network);

#[async_trait]
impl Operation for RevokeSecurityGroupEgress {
    type Shape = operations::RevokeSecurityGroupEgress;
    const ACTIONS: &'static [&'static str] = &[EGRESS];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::RevokeSecurityGroupEgressRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(on_group(&self.0, call, EGRESS, input.group_id.as_ref(), None)
            .await?
            .into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::RevokeSecurityGroupEgressRequest,
    ) -> Result<ec2::RevokeSecurityGroupEgressResult, AwsError> {
        let target = Target::read(input.group_id.as_ref(), None)?;
        let scalars = ScalarRule {
            cidr: input.cidr_ip,
            protocol: input.ip_protocol,
            from_port: input.from_port,
            to_port: input.to_port,
            group_name: input.source_security_group_name,
            group_account: input.source_security_group_owner_id,
        };
        refuse_scalars(&scalars)?;
        let named = read(&input.security_group_rule_ids, &input.ip_permissions, &scalars)?;
        let revoked = revoke(&self.0, call, Direction::Egress, &target, &named).await?;
        Ok(ec2::RevokeSecurityGroupEgressResult {
            r#return: Some(true),
            unknown_ip_permissions: revoked.unknown.iter().map(render::permission).collect(),
            revoked_security_group_rules: revoked.rows.iter().map(render::revoked).collect(),
        })
    }
}

fn read(ids: &[String], permissions: &[ec2::IpPermission], scalars: &ScalarRule) -> Result<Named, AwsError> {
    let by_properties = !permissions.is_empty() || !scalars.is_absent();
    match (ids.is_empty(), by_properties) {
        (true, false) => Err(catalogue::MISSING_PARAMETER
            .error("Either 'ipPermissions' or 'securityGroupRuleIds' should be provided.")),
        (false, true) => Err(catalogue::INVALID_PARAMETER_COMBINATION
            .error("Only one of 'ipPermissions' or 'securityGroupRuleIds' should be provided.")),
        (true, true) => read_rules(permissions, scalars).map(Named::Rules),
        (false, false) => {
            for id in ids {
                check_shape(
                    id,
                    SecurityGroupRuleId::PREFIX,
                    catalogue::INVALID_SECURITY_GROUP_RULE_ID_MALFORMED,
                )?;
            }
            let mut ids = ids.to_vec();
            ids.sort();
            ids.dedup();
            Ok(Named::Ids(ids))
        }
    }
}

async fn revoke(
    network: &Network,
    call: &Call,
    direction: Direction,
    target: &Target,
    named: &Named,
) -> Result<Revoked, AwsError> {
    network
        .store()
        .update(|tx: Tx| async move {
            account_active(&tx, call.account()).await?;
            let group = target.fetch(&tx, call.account()).await?;
            let own = [group.vpc.as_str(), group.id.as_str()];
            let mut existing = tx.list_by_index::<SecurityGroupRule>("group", &own).await?;
            existing.retain(|row| row.direction == direction);
            let revoked = match named {
                Named::Ids(ids) => by_ids(existing, ids)?,
                Named::Rules(requested) => by_properties(&tx, &group, existing, requested).await?,
            };
            remove(&tx, group, &revoked.rows).await?;
            call.finish_dry_run()?;
            Ok::<_, NetworkError>(revoked)
        })
        .await
        .map_err(update_error)
}

fn by_ids(mut existing: Vec<SecurityGroupRule>, ids: &[String]) -> Result<Revoked, NetworkError> {
    for id in ids {
        if existing.iter().all(|row| row.id.as_str() != id) {
            return Err(rule_absent(id).into());
        }
    }
    existing.retain(|row| ids.iter().any(|id| row.id.as_str() == id));
    Ok(Revoked {
        rows: existing,
        unknown: Vec::new(),
    })
}

async fn by_properties(
    tx: &Tx,
    group: &SecurityGroup,
    mut existing: Vec<SecurityGroupRule>,
    requested: &[RequestedRule],
) -> Result<Revoked, NetworkError> {
    let mut revoked = Revoked::default();
    for rule in resolve_rules(tx, group, requested, Resolve::Comparable).await? {
        let wanted = rule.canonical();
        match existing.iter().position(|row| row.rule.canonical() == wanted) {
            Some(at) => revoked.rows.push(existing.swap_remove(at)),
            None => revoked.unknown.push(rule),
        }
    }
    if !revoked.unknown.is_empty() {
        let vpc = tx
            .fetch::<Vpc>(&Scope::account(group.account), &group.vpc)
            .await?;
        if !vpc.is_default {
            return Err(catalogue::INVALID_PERMISSION_NOT_FOUND
                .error("The specified rule does not exist in this security group.")
                .into());
        }
    }
    Ok(revoked)
}

async fn remove(tx: &Tx, mut group: SecurityGroup, rows: &[SecurityGroupRule]) -> Result<(), NetworkError> {
    if rows.is_empty() {
        return Ok(());
    }
    let scope = Scope::account(group.account);
    for row in rows {
        tags::remove_all(tx, row.account, row.id.as_str()).await?;
        tx.delete::<SecurityGroupRule>(&scope, &row.id)?;
    }
    group.rule_changes += 1;
    tx.put(&group)?;
    Ok(())
}

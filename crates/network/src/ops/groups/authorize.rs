//! AuthorizeSecurityGroupIngress and AuthorizeSecurityGroupEgress: all rules of a request, or none.
//!
//! The rules are answered in request order. Equality ignores descriptions. The older top-level members mean the same as
//! a permission on ingress; on egress they are refused, as they cannot say what a VPC's rule needs.

use super::{Resolve, Target, on_group, resolve_rules};
use crate::capability::tags;
use crate::error::{NetworkError, update_error};
use crate::limits;
use crate::ops::Network;
use crate::ops::shared::to_tag_on_create;
use crate::records::{Direction, SecurityGroup, SecurityGroupRule};
use crate::rule::request::{RequestedRule, ScalarRule, read_permissions, read_scalars};
use crate::rule::{Family, Rule, render};
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_shapes::{OperationSchema, OperationShape};
use aws_types::ids::SecurityGroupRuleId;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use iam::capability::client_token::{self, TokenClaim};
use state::{Scope, Tx};
use std::collections::BTreeSet;

const INGRESS: &str = "ec2:AuthorizeSecurityGroupIngress";
const EGRESS: &str = "ec2:AuthorizeSecurityGroupEgress";
/// Store operations one rule costs: row, entry by group, entry by referenced group, unique value.
const OPERATIONS_PER_RULE: usize = 4;
/// Room of a transaction for the group's row.
const OPERATIONS_BESIDE: usize = 8;

/// AuthorizeSecurityGroupIngress.
pub(crate) struct AuthorizeSecurityGroupIngress(pub Network);

#[async_trait]
impl Operation for AuthorizeSecurityGroupIngress {
    type Shape = operations::AuthorizeSecurityGroupIngress;
    const ACTIONS: &'static [&'static str] = &[INGRESS, "ec2:CreateTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::AuthorizeSecurityGroupIngressRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let group = on_group(
            &self.0,
            call,
            INGRESS,
            input.group_id.as_ref(),
            input.group_name.as_ref(),
        )
        .await?;
        Ok(with_rule_tags(
            &self.0,
            call,
            "AuthorizeSecurityGroupIngress",
            group,
            &input.tag_specifications,
        ))
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::AuthorizeSecurityGroupIngressRequest,
    ) -> Result<ec2::AuthorizeSecurityGroupIngressResult, AwsError> {
        let target = Target::read(input.group_id.as_ref(), input.group_name.as_ref())?;
        let scalars = ScalarRule {
            cidr: input.cidr_ip,
            protocol: input.ip_protocol,
            from_port: input.from_port,
            to_port: input.to_port,
            group_name: input.source_security_group_name,
            group_account: input.source_security_group_owner_id,
        };
        let requested = read_rules(&input.ip_permissions, &scalars)?;
        let rules = authorize(
            &self.0,
            call,
            Direction::Ingress,
            &target,
            &requested,
            &input.tag_specifications,
        )
        .await?;
        Ok(ec2::AuthorizeSecurityGroupIngressResult {
            r#return: Some(true),
            security_group_rules: rules,
        })
    }
}

/// AuthorizeSecurityGroupEgress.
pub(crate) struct AuthorizeSecurityGroupEgress(pub Network);

#[async_trait]
impl Operation for AuthorizeSecurityGroupEgress {
    type Shape = operations::AuthorizeSecurityGroupEgress;
    const ACTIONS: &'static [&'static str] = &[EGRESS, "ec2:CreateTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::AuthorizeSecurityGroupEgressRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let group = on_group(&self.0, call, EGRESS, input.group_id.as_ref(), None).await?;
        Ok(with_rule_tags(
            &self.0,
            call,
            "AuthorizeSecurityGroupEgress",
            group,
            &input.tag_specifications,
        ))
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::AuthorizeSecurityGroupEgressRequest,
    ) -> Result<ec2::AuthorizeSecurityGroupEgressResult, AwsError> {
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
        let requested = read_rules(&input.ip_permissions, &scalars)?;
        let rules = authorize(
            &self.0,
            call,
            Direction::Egress,
            &target,
            &requested,
            &input.tag_specifications,
        )
        .await?;
        Ok(ec2::AuthorizeSecurityGroupEgressResult {
            r#return: Some(true),
            security_group_rules: rules,
        })
    }
}

/// Refuses the top-level members, which egress does not take.
///
/// # Errors
/// `InvalidParameterCombination`.
pub(super) fn refuse_scalars(scalars: &ScalarRule) -> Result<(), AwsError> {
    if scalars.is_absent() {
        return Ok(());
    }
    Err(catalogue::INVALID_PARAMETER_COMBINATION
        .error("Egress rules must be specified with the parameter ipPermissions"))
}

/// Reads whichever form the request has.
///
/// # Errors
/// `MissingParameter` without either, `InvalidParameterCombination` with both, and those of the forms.
pub(super) fn read_rules(
    permissions: &[ec2::IpPermission],
    scalars: &ScalarRule,
) -> Result<Vec<RequestedRule>, AwsError> {
    match (permissions.is_empty(), scalars.is_absent()) {
        (true, true) => Err(AwsError::missing_parameter("ipPermissions")),
        (false, false) => Err(catalogue::INVALID_PARAMETER_COMBINATION.error(
            "The parameter ipPermissions may not be used with the parameters that name a single rule",
        )),
        (false, true) => read_permissions(permissions),
        (true, false) => read_scalars(scalars),
    }
}

fn with_rule_tags(
    network: &Network,
    call: &Call,
    create_action: &str,
    group: AccessRequest,
    specifications: &[ec2::TagSpecification],
) -> Vec<AccessRequest> {
    let new_rule = network.arn(call.account(), tags::SECURITY_GROUP_RULE, "*");
    let mut requests = vec![group];
    requests.extend(to_tag_on_create(create_action, new_rule, specifications));
    requests
}

fn schema_of(direction: Direction) -> &'static OperationSchema {
    match direction {
        Direction::Ingress => operations::AuthorizeSecurityGroupIngress::SCHEMA,
        Direction::Egress => operations::AuthorizeSecurityGroupEgress::SCHEMA,
    }
}

async fn authorize(
    network: &Network,
    call: &Call,
    direction: Direction,
    target: &Target,
    requested: &[RequestedRule],
    specifications: &[ec2::TagSpecification],
) -> Result<Vec<ec2::SecurityGroupRule>, AwsError> {
    let mut tags = tags::from_specifications(specifications, &[tags::SECURITY_GROUP_RULE])?;
    let tags = &tags.remove(tags::SECURITY_GROUP_RULE).unwrap_or_default();
    let operations = requested.len() * (OPERATIONS_PER_RULE + 2 * tags.len()) + OPERATIONS_BESIDE;
    if operations > state::limits::TXN_OPS_MAX {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error("The request names too many rules and tags at once. Split it into several requests."));
    }
    let claim = &TokenClaim::of(call, schema_of(direction), None)?;
    let rows = network
        .store()
        .update(|tx: Tx| async move {
            account_active(&tx, call.account()).await?;
            if let Some(ids) = client_token::find(&tx, claim).await? {
                return made_before(&tx, call, &ids).await;
            }
            let group = target.fetch(&tx, call.account()).await?;
            let rules = resolve_rules(&tx, &group, requested, Resolve::Existing).await?;
            let rows = add_rules(&tx, group, direction, rules, requested, tags).await?;
            client_token::keep(&tx, claim, rows.iter().map(|row| row.id.to_string()).collect())?;
            call.finish_dry_run()?;
            Ok::<_, NetworkError>(rows)
        })
        .await
        .map_err(update_error)?;
    Ok(rows
        .iter()
        .map(|row| render::rule(network.region(), row, tags))
        .collect())
}

/// The rules that an earlier attempt of the same call made, without those that are gone since.
async fn made_before(tx: &Tx, call: &Call, ids: &[String]) -> Result<Vec<SecurityGroupRule>, NetworkError> {
    let scope = Scope::account(call.account());
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        rows.extend(tx.find::<SecurityGroupRule>(&scope, id).await?);
    }
    Ok(rows)
}

async fn add_rules(
    tx: &Tx,
    mut group: SecurityGroup,
    direction: Direction,
    rules: Vec<Rule>,
    requested: &[RequestedRule],
    tags: &Tags,
) -> Result<Vec<SecurityGroupRule>, NetworkError> {
    let own = [group.vpc.as_str(), group.id.as_str()];
    let existing: Vec<Rule> = tx
        .list_by_index::<SecurityGroupRule>("group", &own)
        .await?
        .into_iter()
        .filter(|row| row.direction == direction)
        .map(|row| row.rule)
        .collect();
    let known: BTreeSet<String> = existing.iter().map(Rule::canonical).collect();
    let mut named = BTreeSet::new();
    for rule in &rules {
        if !named.insert(rule.canonical()) {
            return Err(catalogue::INVALID_PARAMETER_VALUE
                .error("The same permission must not appear multiple times")
                .into());
        }
    }
    if let Some(rule) = rules.iter().find(|rule| known.contains(&rule.canonical())) {
        return Err(catalogue::INVALID_PERMISSION_DUPLICATE
            .error(format!(
                "the specified rule \"{}\" already exists",
                rule.in_words()
            ))
            .into());
    }
    for family in [Family::Ipv4, Family::Ipv6] {
        let count = existing
            .iter()
            .chain(&rules)
            .filter(|rule| rule.counts_for(family))
            .count();
        if count > limits::RULES_PER_GROUP_MAX {
            return Err(catalogue::RULES_PER_SECURITY_GROUP_LIMIT_EXCEEDED
                .error("The maximum number of rules per security group has been reached.")
                .into());
        }
    }
    let mut rows = Vec::with_capacity(rules.len());
    for (rule, requested) in rules.into_iter().zip(requested) {
        let row = SecurityGroupRule {
            account: group.account,
            id: SecurityGroupRuleId::random(),
            group: group.id.clone(),
            vpc: group.vpc.clone(),
            direction,
            rule,
            description: requested.description.clone(),
        };
        tx.insert(&row)?;
        tags::put(
            tx,
            group.account,
            tags::SECURITY_GROUP_RULE,
            row.id.as_str(),
            tags,
        )
        .await?;
        rows.push(row);
    }
    // The guard of the group's rules; see `records::group`.
    group.rule_changes += 1;
    tx.put(&group)?;
    Ok(rows)
}

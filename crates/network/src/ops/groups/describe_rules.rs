//! DescribeSecurityGroupRules.

use crate::error::not_found;
use crate::kinds::rule_absent;
use crate::ops::Network;
use crate::ops::describe::{Asked, Described, PAGE_5_TO_1000, Query};
use crate::records::SecurityGroupRule;
use crate::rule::render;
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, one};
use aws_types::ids::SecurityGroupRuleId;
use aws_types::{AwsError, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};

const FILTERS: &[&str] = &["group-id", "security-group-rule-id", "tag"];

/// DescribeSecurityGroupRules.
pub(crate) struct DescribeSecurityGroupRules(pub Network);

#[async_trait]
impl Operation for DescribeSecurityGroupRules {
    type Shape = operations::DescribeSecurityGroupRules;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeSecurityGroupRules"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeSecurityGroupRulesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeSecurityGroupRules").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeSecurityGroupRulesRequest,
    ) -> Result<ec2::DescribeSecurityGroupRulesResult, AwsError> {
        let network = &self.0;
        let described = Described {
            schema: operations::DescribeSecurityGroupRules::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: FILTERS,
            prefix: SecurityGroupRuleId::PREFIX,
            malformed: catalogue::INVALID_SECURITY_GROUP_RULE_ID_MALFORMED,
            absent: rules_absent,
        };
        let asked = Asked {
            ids: &input.security_group_rule_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(network, call, &described, &asked)?;
        let rows = query.select(network.list::<SecurityGroupRule>(call).await?, |row| {
            row.id.as_str()
        })?;
        let tags = network.tags(call).await?;
        let (page, next_token) = query.page(network, &rows, |row| row.id.as_str(), &tags, values);
        Ok(ec2::DescribeSecurityGroupRulesResult {
            security_group_rules: page
                .into_iter()
                .map(|row| render::rule(network.region(), row, tags.of(row.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

fn rules_absent(ids: &[String]) -> AwsError {
    match ids {
        [id] => rule_absent(id),
        _ => not_found(
            catalogue::INVALID_SECURITY_GROUP_RULE_ID_NOT_FOUND,
            "security group rule",
            ids,
        ),
    }
}

fn values<'a>(row: &'a SecurityGroupRule, name: &str) -> Values<'a> {
    match name {
        "group-id" => one(row.group.as_str()),
        "security-group-rule-id" => one(row.id.as_str()),
        _ => Vec::new(),
    }
}

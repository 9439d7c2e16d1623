//! DescribeInternetGateways.

use crate::kinds::gateway_absent;
use crate::ops::Network;
use crate::ops::describe::{Asked, Described, PAGE_5_TO_1000, Query};
use crate::ops::shared::wire_tags;
use crate::records::InternetGateway;
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, one};
use aws_types::ids::InternetGatewayId;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};

const FILTERS: &[&str] = &[
    "attachment.state",
    "attachment.vpc-id",
    "internet-gateway-id",
    "owner-id",
    "tag",
    "tag-key",
];
/// AWS says `available` of internet gateways, not `attached`.
const ATTACHED: &str = "available";

/// DescribeInternetGateways.
pub(crate) struct DescribeInternetGateways(pub Network);

#[async_trait]
impl Operation for DescribeInternetGateways {
    type Shape = operations::DescribeInternetGateways;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeInternetGateways"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeInternetGatewaysRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeInternetGateways").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeInternetGatewaysRequest,
    ) -> Result<ec2::DescribeInternetGatewaysResult, AwsError> {
        let network = &self.0;
        let described = Described {
            schema: operations::DescribeInternetGateways::SCHEMA,
            page_sizes: PAGE_5_TO_1000,
            filters: FILTERS,
            prefix: InternetGatewayId::PREFIX,
            malformed: catalogue::INVALID_INTERNET_GATEWAY_ID_MALFORMED,
            absent: gateway_absent,
        };
        let asked = Asked {
            ids: &input.internet_gateway_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(network, call, &described, &asked)?;
        let rows = query.select(network.list::<InternetGateway>(call).await?, |row| {
            row.id.as_str()
        })?;
        let tags = network.tags(call).await?;
        let (page, next_token) = query.page(network, &rows, |row| row.id.as_str(), &tags, values);
        Ok(ec2::DescribeInternetGatewaysResult {
            internet_gateways: page
                .into_iter()
                .map(|row| render(row, tags.of(row.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

fn values<'a>(row: &'a InternetGateway, name: &str) -> Values<'a> {
    match (name, &row.attachment) {
        ("attachment.state", Some(_)) => one(ATTACHED),
        ("attachment.vpc-id", Some(attachment)) => one(attachment.vpc.as_str()),
        ("internet-gateway-id", _) => one(row.id.as_str()),
        ("owner-id", _) => one(row.account.to_string()),
        _ => Vec::new(),
    }
}

fn render(row: &InternetGateway, tags: &Tags) -> ec2::InternetGateway {
    ec2::InternetGateway {
        internet_gateway_id: Some(row.id.to_string()),
        owner_id: Some(row.account.to_string()),
        attachments: row
            .attachment
            .iter()
            .map(|attachment| ec2::InternetGatewayAttachment {
                state: Some(ATTACHED.to_owned()),
                vpc_id: Some(attachment.vpc.to_string()),
            })
            .collect(),
        tags: wire_tags(tags),
    }
}

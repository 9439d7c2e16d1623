//! DescribeRouteTables. Whether a route is active or a blackhole is computed here from its target, never stored.

use crate::kinds::route_table_absent;
use crate::ops::Network;
use crate::ops::describe::{Asked, Described, Query};
use crate::ops::shared::wire_tags;
use crate::plan::is_active;
use crate::records::{
    Interface, InternetGateway, Route, RouteOrigin, RouteTable, RouteTableAssociation, RouteTarget, Vpc,
};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, enums, operations};
use aws_types::filter::{Values, flag, one};
use aws_types::ids::RouteTableId;
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use std::borrow::Cow;

const FILTERS: &[&str] = &[
    "association.gateway-id",
    "association.route-table-association-id",
    "association.route-table-id",
    "association.subnet-id",
    "association.main",
    "owner-id",
    "route-table-id",
    "route.destination-cidr-block",
    "route.destination-ipv6-cidr-block",
    "route.destination-prefix-list-id",
    "route.egress-only-internet-gateway-id",
    "route.gateway-id",
    "route.instance-id",
    "route.nat-gateway-id",
    "route.transit-gateway-id",
    "route.origin",
    "route.state",
    "route.vpc-peering-connection-id",
    "vpc-id",
    "tag",
    "tag-key",
];

/// DescribeRouteTables.
pub(crate) struct DescribeRouteTables(pub Network);

/// A table with its associations and what its routes lead to.
struct TableRow {
    table: RouteTable,
    associations: Vec<RouteTableAssociation>,
    routes: Vec<RouteRow>,
}

/// A route with what its target is now.
struct RouteRow {
    route: Route,
    active: bool,
    instance: Option<(String, String)>,
}

impl RouteRow {
    fn gateway_id(&self) -> Option<Cow<'_, str>> {
        match &self.route.target {
            RouteTarget::Local => Some(Cow::Borrowed("local")),
            RouteTarget::InternetGateway { id } => Some(Cow::Borrowed(id.as_str())),
            RouteTarget::Interface { .. } => None,
        }
    }

    fn origin(&self) -> &'static str {
        match self.route.origin {
            RouteOrigin::CreateRouteTable => enums::route_origin::CREATE_ROUTE_TABLE,
            RouteOrigin::CreateRoute => enums::route_origin::CREATE_ROUTE,
        }
    }

    fn state(&self) -> &'static str {
        if self.active {
            enums::route_state::ACTIVE
        } else {
            enums::route_state::BLACKHOLE
        }
    }
}

#[async_trait]
impl Operation for DescribeRouteTables {
    type Shape = operations::DescribeRouteTables;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeRouteTables"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeRouteTablesRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeRouteTables").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeRouteTablesRequest,
    ) -> Result<ec2::DescribeRouteTablesResult, AwsError> {
        let network = &self.0;
        let described = Described {
            schema: operations::DescribeRouteTables::SCHEMA,
            page_sizes: 5..=100,
            filters: FILTERS,
            prefix: RouteTableId::PREFIX,
            malformed: catalogue::INVALID_ROUTE_TABLE_ID_MALFORMED,
            absent: route_table_absent,
        };
        let asked = Asked {
            ids: &input.route_table_ids,
            filters: &input.filters,
            max_results: input.max_results,
            next_token: input.next_token.as_deref(),
        };
        let query = Query::read(network, call, &described, &asked)?;
        let tables = query.select(network.list::<RouteTable>(call).await?, |table| table.id.as_str())?;
        let rows = self.rows(call, tables).await?;
        let tags = network.tags(call).await?;
        let (page, next_token) = query.page(network, &rows, |row| row.table.id.as_str(), &tags, values);
        Ok(ec2::DescribeRouteTablesResult {
            route_tables: page
                .into_iter()
                .map(|row| render(row, tags.of(row.table.id.as_str())))
                .collect(),
            next_token,
        })
    }
}

impl DescribeRouteTables {
    async fn rows(&self, call: &Call, tables: Vec<RouteTable>) -> Result<Vec<TableRow>, AwsError> {
        let vpcs = self.0.list::<Vpc>(call).await?;
        let associations = self.0.list::<RouteTableAssociation>(call).await?;
        let gateways = self.0.list::<InternetGateway>(call).await?;
        let has_interface_routes = tables
            .iter()
            .flat_map(|table| &table.routes)
            .any(|route| matches!(route.target, RouteTarget::Interface { .. }));
        let interfaces = if has_interface_routes {
            self.0.list::<Interface>(call).await?
        } else {
            Vec::new()
        };
        Ok(tables
            .into_iter()
            .map(|table| TableRow {
                associations: associations
                    .iter()
                    .filter(|association| association.table == table.id)
                    .cloned()
                    .collect(),
                routes: table
                    .routes
                    .iter()
                    .map(|route| RouteRow {
                        route: route.clone(),
                        active: vpcs
                            .iter()
                            .find(|vpc| vpc.id == table.vpc)
                            .is_some_and(|vpc| is_active(&route.target, vpc, &gateways, &interfaces)),
                        instance: instance_behind(&route.target, &interfaces),
                    })
                    .collect(),
                table,
            })
            .collect())
    }
}

/// Instance and owner of the interface a route leads to.
fn instance_behind(target: &RouteTarget, interfaces: &[Interface]) -> Option<(String, String)> {
    let RouteTarget::Interface { id } = target else {
        return None;
    };
    let interface = interfaces.iter().find(|interface| interface.id == *id)?;
    let attachment = interface.attachment.as_ref()?;
    Some((
        attachment.instance.to_string(),
        attachment.instance_account.to_string(),
    ))
}

fn values<'a>(row: &'a TableRow, name: &str) -> Values<'a> {
    match name {
        "association.route-table-association-id" => row
            .associations
            .iter()
            .map(|association| Cow::Borrowed(association.id.as_str()))
            .collect(),
        "association.route-table-id" => row
            .associations
            .iter()
            .map(|association| Cow::Borrowed(association.table.as_str()))
            .collect(),
        "association.subnet-id" => row
            .associations
            .iter()
            .filter_map(|association| association.subnet.as_ref())
            .map(|subnet| Cow::Borrowed(subnet.as_str()))
            .collect(),
        "association.main" => row
            .associations
            .iter()
            .flat_map(|association| flag(association.is_main()))
            .collect(),
        "owner-id" => one(row.table.account.to_string()),
        "route-table-id" => one(row.table.id.as_str()),
        "route.destination-cidr-block" => row
            .routes
            .iter()
            .map(|route| Cow::Owned(route.route.destination.to_string()))
            .collect(),
        "route.gateway-id" => row.routes.iter().filter_map(RouteRow::gateway_id).collect(),
        "route.instance-id" => row
            .routes
            .iter()
            .filter_map(|route| route.instance.as_ref())
            .map(|(instance, _)| Cow::Borrowed(instance.as_str()))
            .collect(),
        "route.origin" => row
            .routes
            .iter()
            .map(|route| Cow::Borrowed(route.origin()))
            .collect(),
        "route.state" => row
            .routes
            .iter()
            .map(|route| Cow::Borrowed(route.state()))
            .collect(),
        "vpc-id" => one(row.table.vpc.as_str()),
        // Gateway associations, and targets that do not exist yet.
        _ => Vec::new(),
    }
}

fn render(row: &TableRow, tags: &Tags) -> ec2::RouteTable {
    ec2::RouteTable {
        route_table_id: Some(row.table.id.to_string()),
        vpc_id: Some(row.table.vpc.to_string()),
        owner_id: Some(row.table.account.to_string()),
        associations: row
            .associations
            .iter()
            .map(|association| ec2::RouteTableAssociation {
                main: Some(association.is_main()),
                route_table_association_id: Some(association.id.to_string()),
                route_table_id: Some(association.table.to_string()),
                subnet_id: association.subnet.as_ref().map(ToString::to_string),
                association_state: Some(ec2::RouteTableAssociationState {
                    state: Some("associated".to_owned()),
                    status_message: None,
                }),
                ..ec2::RouteTableAssociation::default()
            })
            .collect(),
        routes: row.routes.iter().map(render_route).collect(),
        tags: wire_tags(tags),
        ..ec2::RouteTable::default()
    }
}

fn render_route(row: &RouteRow) -> ec2::Route {
    let interface = match &row.route.target {
        RouteTarget::Interface { id } => Some(id.to_string()),
        RouteTarget::Local | RouteTarget::InternetGateway { .. } => None,
    };
    ec2::Route {
        destination_cidr_block: Some(row.route.destination.to_string()),
        gateway_id: row.gateway_id().map(Cow::into_owned),
        network_interface_id: interface,
        instance_id: row.instance.as_ref().map(|(instance, _)| instance.clone()),
        instance_owner_id: row.instance.as_ref().map(|(_, owner)| owner.clone()),
        origin: Some(row.origin().to_owned()),
        state: Some(row.state().to_owned()),
        ..ec2::Route::default()
    }
}

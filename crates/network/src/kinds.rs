//! The kinds of resources of this room: their types, ARNs and "not found" errors, in one table.

use crate::capability::launch::group_absent;
use crate::capability::tags::{self, TagKinds};
use crate::error::not_found;
use crate::records::{
    DhcpOptions, Interface, InternetGateway, NetworkAcl, RouteTable, SecurityGroup, SecurityGroupRule,
    Subnet, Vpc,
};
use aws_types::ids::{
    DhcpOptionsId, InternetGatewayId, NetworkAclId, NetworkInterfaceId, RouteTableId, SecurityGroupId,
    SecurityGroupRuleId, SubnetId, VpcId,
};
use aws_types::{AccountId, Arn, AwsError, Region, catalogue};

/// Registers what this room has.
pub(crate) fn register(kinds: &mut TagKinds) {
    kinds.register::<Vpc>(VpcId::PREFIX, tags::VPC, |id| vpc_absent(&[id.to_owned()]));
    kinds.register::<Subnet>(SubnetId::PREFIX, tags::SUBNET, |id| {
        subnet_absent(&[id.to_owned()])
    });
    kinds.register::<RouteTable>(RouteTableId::PREFIX, tags::ROUTE_TABLE, |id| {
        route_table_absent(&[id.to_owned()])
    });
    kinds.register::<InternetGateway>(InternetGatewayId::PREFIX, tags::INTERNET_GATEWAY, |id| {
        gateway_absent(&[id.to_owned()])
    });
    kinds.register::<NetworkAcl>(NetworkAclId::PREFIX, tags::NETWORK_ACL, |id| {
        acl_absent(&[id.to_owned()])
    });
    kinds.register::<DhcpOptions>(DhcpOptionsId::PREFIX, tags::DHCP_OPTIONS, |id| {
        not_found(
            catalogue::INVALID_DHCP_OPTION_ID_NOT_FOUND,
            "dhcpOption",
            &[id.to_owned()],
        )
    });
    kinds.register::<SecurityGroup>(SecurityGroupId::PREFIX, tags::SECURITY_GROUP, group_absent);
    kinds.register::<SecurityGroupRule>(
        SecurityGroupRuleId::PREFIX,
        tags::SECURITY_GROUP_RULE,
        rule_absent,
    );
    kinds.register::<Interface>(NetworkInterfaceId::PREFIX, tags::NETWORK_INTERFACE, |id| {
        interface_absent(&[id.to_owned()])
    });
}

/// ARN of an EC2 resource of this room.
pub(crate) fn arn(region: &Region, account: AccountId, resource_type: &str, id: &str) -> Arn {
    Arn::new("ec2", region, account, format_args!("{resource_type}/{id}"))
}

pub(crate) fn vpc_absent(ids: &[String]) -> AwsError {
    not_found(catalogue::INVALID_VPC_ID_NOT_FOUND, "vpc", ids)
}

pub(crate) fn subnet_absent(ids: &[String]) -> AwsError {
    not_found(catalogue::INVALID_SUBNET_ID_NOT_FOUND, "subnet", ids)
}

pub(crate) fn route_table_absent(ids: &[String]) -> AwsError {
    not_found(catalogue::INVALID_ROUTE_TABLE_ID_NOT_FOUND, "routeTable", ids)
}

pub(crate) fn gateway_absent(ids: &[String]) -> AwsError {
    not_found(
        catalogue::INVALID_INTERNET_GATEWAY_ID_NOT_FOUND,
        "internetGateway",
        ids,
    )
}

pub(crate) fn acl_absent(ids: &[String]) -> AwsError {
    not_found(catalogue::INVALID_NETWORK_ACL_ID_NOT_FOUND, "networkAcl", ids)
}

pub(crate) fn interface_absent(ids: &[String]) -> AwsError {
    not_found(
        catalogue::INVALID_NETWORK_INTERFACE_ID_NOT_FOUND,
        "networkInterface",
        ids,
    )
}

pub(crate) fn rule_absent(id: &str) -> AwsError {
    catalogue::INVALID_SECURITY_GROUP_RULE_ID_NOT_FOUND
        .error(format!("The security group rule ID '{id}' does not exist"))
}

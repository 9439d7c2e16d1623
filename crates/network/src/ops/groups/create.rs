//! CreateSecurityGroup.

use super::fetch_default_vpc;
use crate::capability::tags;
use crate::defaults::{DEFAULT_GROUP, all_traffic};
use crate::error::{NetworkError, update_error};
use crate::kinds::vpc_absent;
use crate::limits;
use crate::ops::Network;
use crate::ops::shared::{check_shape, on_resource, required, to_tag_on_create, wire_tags};
use crate::records::{Direction, SecurityGroup, Vpc};
use crate::rule::RulePeer;
use crate::rule::request::is_plain_text;
use crate::{capability::launch::find_group_by_name, cidr};
use async_trait::async_trait;
use aws_shapes::OperationShape;
use aws_shapes::ec2::{self, operations};
use aws_types::ids::{SecurityGroupId, VpcId};
use aws_types::{AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, DryRun, Operation};
use iam::capability::account_active;
use iam::capability::client_token::{self, TokenClaim};
use state::{Scope, Tx};

const ACTION: &str = "ec2:CreateSecurityGroup";
const SET: &str = "a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*";

/// CreateSecurityGroup.
pub(crate) struct CreateSecurityGroup(pub Network);

/// A request that was checked.
struct Checked<'a> {
    name: &'a str,
    description: &'a str,
    vpc: Option<&'a str>,
    tags: Tags,
}

#[async_trait]
impl Operation for CreateSecurityGroup {
    type Shape = operations::CreateSecurityGroup;
    const ACTIONS: &'static [&'static str] = &[ACTION, "ec2:CreateTags"];
    const DRY_RUN: DryRun = DryRun::InOperation;

    async fn access(
        &self,
        call: &Call,
        input: &ec2::CreateSecurityGroupRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let network = &self.0;
        let account = call.account();
        let vpc_id = match &input.vpc_id {
            Some(id) => Some(id.clone()),
            None => {
                let account = account.to_string();
                let found = network.store().find_unique::<Vpc>("default", &[&account]).await;
                found
                    .map_err(|error| crate::store_error(&error))?
                    .map(|vpc| vpc.id.to_string())
            }
        };
        let new_group = network.arn(account, tags::SECURITY_GROUP, "*");
        let requested = crate::ops::shared::requested_tags(&input.tag_specifications);
        let mut on_new = AccessRequest::on(ACTION, new_group.clone()).with_request_tags(&requested);
        let mut requests = Vec::with_capacity(3);
        if let Some(id) = vpc_id {
            let vpc = network.arn(account, tags::VPC, &id);
            on_new = on_new.with("ec2:Vpc", vpc.as_str());
            let vpc_tags = tags::of_resource(network.store(), account, &id).await?;
            requests.push(on_resource(ACTION, vpc, &vpc_tags));
        }
        requests.push(on_new);
        requests.extend(to_tag_on_create(
            "CreateSecurityGroup",
            new_group,
            &input.tag_specifications,
        ));
        Ok(requests)
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::CreateSecurityGroupRequest,
    ) -> Result<ec2::CreateSecurityGroupResult, AwsError> {
        let checked = &check(&input)?;
        let claim = &TokenClaim::of(call, operations::CreateSecurityGroup::SCHEMA, None)?;
        let id = self
            .0
            .store()
            .update(|tx: Tx| async move {
                account_active(&tx, call.account()).await?;
                let id = match client_token::find(&tx, claim)
                    .await?
                    .and_then(|ids| ids.into_iter().next())
                {
                    Some(made) => made,
                    None => {
                        let group = create(&tx, call, checked).await?;
                        client_token::keep(&tx, claim, vec![group.id.to_string()])?;
                        group.id.to_string()
                    }
                };
                call.finish_dry_run()?;
                Ok::<_, NetworkError>(id)
            })
            .await
            .map_err(update_error)?;
        let arn = self.0.arn(call.account(), tags::SECURITY_GROUP, &id);
        Ok(ec2::CreateSecurityGroupResult {
            group_id: Some(id),
            security_group_arn: Some(arn.to_string()),
            tags: wire_tags(&checked.tags),
        })
    }
}

fn check(input: &ec2::CreateSecurityGroupRequest) -> Result<Checked<'_>, AwsError> {
    let name = required(&input.group_name, "GroupName")?;
    let description = required(&input.description, "GroupDescription")?;
    if !is_plain_text(name, limits::GROUP_TEXT_CHARS_MAX) {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Invalid security group name. Valid names are non-empty strings less than 256 characters from the \
             following set:  {SET}"
        )));
    }
    if name.to_ascii_lowercase().starts_with(SecurityGroupId::PREFIX) {
        return Err(catalogue::INVALID_PARAMETER_VALUE
            .error("invalid value for parameter groupName: group names may not be in the format sg-*"));
    }
    if name.eq_ignore_ascii_case(DEFAULT_GROUP) {
        return Err(catalogue::INVALID_GROUP_RESERVED
            .error(format!("Cannot use reserved security group name: {name}")));
    }
    if !is_plain_text(description, limits::GROUP_TEXT_CHARS_MAX) {
        return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
            "Invalid security group description. Valid descriptions are strings less than 256 characters from the \
             following set:  {SET}"
        )));
    }
    let vpc = input.vpc_id.as_deref().filter(|id| !id.is_empty());
    if let Some(id) = vpc {
        check_shape(id, VpcId::PREFIX, catalogue::INVALID_VPC_ID_MALFORMED)?;
    }
    let mut tags = tags::from_specifications(&input.tag_specifications, &[tags::SECURITY_GROUP])?;
    Ok(Checked {
        name,
        description,
        vpc,
        tags: tags.remove(tags::SECURITY_GROUP).unwrap_or_default(),
    })
}

async fn create(tx: &Tx, call: &Call, checked: &Checked<'_>) -> Result<SecurityGroup, NetworkError> {
    let account = call.account();
    let vpc = match checked.vpc {
        None => fetch_default_vpc(tx, account).await?,
        Some(id) => tx
            .find::<Vpc>(&Scope::account(account), id)
            .await?
            .ok_or_else(|| vpc_absent(&[id.to_owned()]))?,
    };
    if find_group_by_name(tx, &vpc.id, checked.name).await?.is_some() {
        return Err(catalogue::INVALID_GROUP_DUPLICATE
            .error(format!(
                "The security group '{}' already exists for VPC '{}'",
                checked.name, vpc.id
            ))
            .into());
    }
    let groups = tx
        .list_by_index::<SecurityGroup>("vpc", &[vpc.id.as_str()])
        .await?
        .len();
    if groups >= limits::GROUPS_PER_VPC_MAX {
        return Err(catalogue::SECURITY_GROUP_LIMIT_EXCEEDED
            .error("The maximum number of security groups has been reached.")
            .into());
    }
    let group = SecurityGroup {
        account,
        id: SecurityGroupId::random(),
        vpc: vpc.id,
        name: checked.name.to_owned(),
        description: checked.description.to_owned(),
        is_default: false,
        rule_changes: 0,
    };
    tx.insert(&group)?;
    tx.insert(&all_traffic(
        &group,
        Direction::Egress,
        RulePeer::Ipv4 {
            block: cidr::ANY_IPV4,
        },
    ))?;
    tags::put(
        tx,
        account,
        tags::SECURITY_GROUP,
        group.id.as_str(),
        &checked.tags,
    )
    .await?;
    Ok(group)
}

//! Tags of EC2 resources: the table, the kinds of resources that may have them, and the members of requests.
//!
//! Every tag of every EC2 resource is a row here (DESIGN §4). The room that owns a resource writes its tags in the
//! transaction that makes or deletes it: [`put`], [`remove_all`]. Answers read them in bulk: [`TagIndex::load`]. CreateTags and
//! DeleteTags find a resource by its id's prefix in [`TagKinds`], where each room registers what it has.

use crate::error::{NetworkError, store_error};
use crate::records::TagRow;
use async_trait::async_trait;
use aws_shapes::ec2;
use aws_types::tag::{Tag, collect_tags};
use aws_types::{AccountId, Arn, AwsError, Region, Tags, catalogue, limits};
use state::{Record, Scope, Store, StoreError, Tx};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Resource type of VPCs.
pub const VPC: &str = "vpc";
/// Resource type of subnets.
pub const SUBNET: &str = "subnet";
/// Resource type of route tables.
pub const ROUTE_TABLE: &str = "route-table";
/// Resource type of internet gateways.
pub const INTERNET_GATEWAY: &str = "internet-gateway";
/// Resource type of network ACLs.
pub const NETWORK_ACL: &str = "network-acl";
/// Resource type of DHCP option sets.
pub const DHCP_OPTIONS: &str = "dhcp-options";
/// Resource type of security groups.
pub const SECURITY_GROUP: &str = "security-group";
/// Resource type of security group rules.
pub const SECURITY_GROUP_RULE: &str = "security-group-rule";
/// Resource type of network interfaces.
pub const NETWORK_INTERFACE: &str = "network-interface";

/// Answers whether a resource exists.
#[async_trait]
trait Existence: Send + Sync {
    async fn exists(&self, tx: &Tx, account: AccountId, id: &str) -> Result<bool, StoreError>;
}

struct RecordExists<T>(PhantomData<fn() -> T>);

#[async_trait]
impl<T: Record> Existence for RecordExists<T> {
    async fn exists(&self, tx: &Tx, account: AccountId, id: &str) -> Result<bool, StoreError> {
        Ok(tx.find::<T>(&Scope::account(account), id).await?.is_some())
    }
}

/// A kind of resource that may have tags.
pub struct TagKind {
    prefix: &'static str,
    resource_type: &'static str,
    not_found: fn(&str) -> AwsError,
    existence: Box<dyn Existence>,
}

impl TagKind {
    /// The type as DescribeTags and ARNs name it.
    pub fn resource_type(&self) -> &'static str {
        self.resource_type
    }

    /// ARN of a resource of this kind. Images and snapshots have no account in theirs.
    pub fn arn(&self, region: &Region, account: AccountId, id: &str) -> Arn {
        let resource = format!("{}/{id}", self.resource_type);
        match self.resource_type {
            "image" | "snapshot" => Arn::without_account("ec2", region, resource),
            _ => Arn::new("ec2", region, account, resource),
        }
    }

    /// The kind's error for an id that does not exist.
    pub fn not_found(&self, id: &str) -> AwsError {
        (self.not_found)(id)
    }

    /// Whether the resource exists; compared at commit.
    ///
    /// # Errors
    /// The store could not be read.
    pub async fn exists(&self, tx: &Tx, account: AccountId, id: &str) -> Result<bool, StoreError> {
        self.existence.exists(tx, account, id).await
    }
}

/// The kinds that every room registered. Built once at start, before the operations are.
#[derive(Default)]
pub struct TagKinds {
    kinds: Vec<TagKind>,
}

impl TagKinds {
    /// The kinds of this room.
    pub fn new() -> TagKinds {
        let mut kinds = TagKinds::default();
        crate::kinds::register(&mut kinds);
        kinds
    }

    /// Adds a kind: ids that start with `prefix` (with its hyphen) are records of `T`, keyed by account and id.
    ///
    /// # Panics
    /// If the prefix is registered already: a mistake in the code, found at start.
    pub fn register<T: Record>(
        &mut self,
        prefix: &'static str,
        resource_type: &'static str,
        not_found: fn(&str) -> AwsError,
    ) {
        assert!(
            self.kinds.iter().all(|kind| kind.prefix != prefix),
            "{prefix} is registered twice"
        );
        let existence = Box::new(RecordExists::<T>(PhantomData));
        self.kinds.push(TagKind {
            prefix,
            resource_type,
            not_found,
            existence,
        });
    }

    /// The kind of an id: its prefix and 8 or 17 hex digits.
    ///
    /// # Errors
    /// `InvalidID` for an id of no kind.
    pub fn fetch(&self, id: &str) -> Result<&TagKind, AwsError> {
        self.kinds
            .iter()
            .find(|kind| aws_types::ids::is_well_formed(id, kind.prefix))
            .ok_or_else(|| catalogue::INVALID_ID.error(format!("The ID '{id}' is not valid")))
    }

    /// Prefixes and types of all kinds, for tests.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.kinds.iter().map(|kind| (kind.prefix, kind.resource_type))
    }
}

/// Writes the tags of a resource that is being made. The tags were checked where the request was read.
///
/// # Errors
/// The store failed.
pub async fn put(
    tx: &Tx,
    account: AccountId,
    resource_type: &str,
    resource: &str,
    tags: &Tags,
) -> Result<(), NetworkError> {
    for (key, value) in tags {
        tx.put(&TagRow {
            account,
            resource: resource.to_owned(),
            resource_type: resource_type.to_owned(),
            key: key.clone(),
            value: value.clone(),
        })?;
    }
    Ok(())
}

/// Judges whether a resource that exists may get more tags; [`put`] them in the same transaction.
///
/// # Errors
/// `TagLimitExceeded` above 50 tags that are not AWS's own.
pub async fn check_room(
    tx: &Tx,
    account: AccountId,
    resource: &str,
    tags: &Tags,
) -> Result<(), NetworkError> {
    // Compared as a whole: two calls that each add the 50th tag do not both.
    let account_text = account.to_string();
    tx.guard_index::<TagRow>("resource", &[&account_text, resource])
        .await?;
    let mut keys: Vec<String> = rows_of(tx, account, resource)
        .await?
        .into_iter()
        .map(|row| row.key)
        .collect();
    keys.extend(tags.keys().cloned());
    keys.sort();
    keys.dedup();
    let own = keys.iter().filter(|key| !key.starts_with("aws:")).count();
    if own > limits::TAGS_PER_RESOURCE_MAX {
        return Err(catalogue::TAG_LIMIT_EXCEEDED
            .error(format!(
                "The maximum number of tags per resource is {} (resource {resource})",
                limits::TAGS_PER_RESOURCE_MAX
            ))
            .into());
    }
    Ok(())
}

/// What DeleteTags takes away from a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagRemoval {
    /// The key, whatever its value.
    Key(String),
    /// The key, if it has this value.
    KeyWithValue(String, String),
}

/// Removes tags from a resource; what is not there is not an error. No removals at all mean all but AWS's own.
///
/// # Errors
/// The store failed.
pub async fn remove(
    tx: &Tx,
    account: AccountId,
    resource: &str,
    removals: &[TagRemoval],
) -> Result<(), NetworkError> {
    let scope = Scope::account(account);
    for row in rows_of(tx, account, resource).await? {
        let goes = if removals.is_empty() {
            !row.key.starts_with("aws:")
        } else {
            removals.iter().any(|removal| match removal {
                TagRemoval::Key(key) => *key == row.key,
                TagRemoval::KeyWithValue(key, value) => *key == row.key && *value == row.value,
            })
        };
        if goes {
            tx.delete::<TagRow>(&scope, TagRow::id_of(resource, &row.key))?;
        }
    }
    Ok(())
}

/// Removes all tags of a resource that is being deleted, AWS's own included.
///
/// # Errors
/// The store failed.
pub async fn remove_all(tx: &Tx, account: AccountId, resource: &str) -> Result<(), NetworkError> {
    for row in rows_of(tx, account, resource).await? {
        tx.delete::<TagRow>(&Scope::account(account), TagRow::id_of(resource, &row.key))?;
    }
    Ok(())
}

async fn rows_of(tx: &Tx, account: AccountId, resource: &str) -> Result<Vec<TagRow>, StoreError> {
    let account = account.to_string();
    tx.list_by_index::<TagRow>("resource", &[&account, resource])
        .await
}

/// The tags of one resource, read inside a transaction.
///
/// # Errors
/// The store could not be read.
pub async fn of_resource_in(tx: &Tx, account: AccountId, resource: &str) -> Result<Tags, NetworkError> {
    Ok(rows_of(tx, account, resource)
        .await?
        .into_iter()
        .map(|row| (row.key, row.value))
        .collect())
}

/// The tags of one resource.
///
/// # Errors
/// `Unavailable` if the store could not be read.
pub async fn of_resource(store: &Store, account: AccountId, resource: &str) -> Result<Tags, AwsError> {
    let account = account.to_string();
    let rows = store
        .list_by_index::<TagRow>("resource", &[&account, resource])
        .await
        .map_err(|error| store_error(&error))?;
    Ok(rows.into_iter().map(|row| (row.key, row.value)).collect())
}

/// The tags of many resources, by resource.
#[derive(Debug, Default)]
pub struct TagIndex {
    by_resource: BTreeMap<String, Tags>,
    none: Tags,
}

impl TagIndex {
    /// All tags of an account, in one read. For answers that show many resources.
    ///
    /// # Errors
    /// `Unavailable` if the store could not be read.
    pub async fn load(store: &Store, account: AccountId) -> Result<TagIndex, AwsError> {
        let rows = store
            .list::<TagRow>(&Scope::account(account))
            .await
            .map_err(|error| store_error(&error))?;
        let mut index = TagIndex::default();
        rows.into_iter().for_each(|row| index.add(row));
        Ok(index)
    }

    /// The tags of these resources. For answers that show a page of many.
    ///
    /// # Errors
    /// `Unavailable` if the store could not be read.
    pub async fn load_of<'a>(
        store: &Store,
        account: AccountId,
        resources: impl IntoIterator<Item = &'a str>,
    ) -> Result<TagIndex, AwsError> {
        let account = account.to_string();
        let values: Vec<[&str; 2]> = resources
            .into_iter()
            .map(|resource| [account.as_str(), resource])
            .collect();
        let values: Vec<&[&str]> = values.iter().map(<[&str; 2]>::as_slice).collect();
        let lists = store
            .list_by_index_each::<TagRow>("resource", &values)
            .await
            .map_err(|error| store_error(&error))?;
        let mut index = TagIndex::default();
        lists.into_iter().flatten().for_each(|row| index.add(row));
        Ok(index)
    }

    fn add(&mut self, row: TagRow) {
        let tags = self.by_resource.entry(row.resource).or_default();
        tags.insert(row.key, row.value);
    }

    /// The tags of a resource; none is an empty map.
    pub fn of(&self, resource: &str) -> &Tags {
        self.by_resource.get(resource).unwrap_or(&self.none)
    }
}

/// Tags as answers show them, by key.
pub fn to_wire(tags: &Tags) -> Vec<ec2::Tag> {
    tags.iter()
        .map(|(key, value)| ec2::Tag {
            key: Some(key.clone()),
            value: Some(value.clone()),
        })
        .collect()
}

/// Reads `Tag.N`. A value that is absent is empty.
///
/// # Errors
/// `MissingParameter` without a key; what [`collect_tags`] refuses.
pub fn from_wire(tags: &[ec2::Tag]) -> Result<Tags, AwsError> {
    let mut read = Vec::with_capacity(tags.len());
    for tag in tags {
        let key = tag
            .key
            .clone()
            .ok_or_else(|| AwsError::missing_parameter("Tag.Key"))?;
        read.push(Tag {
            key,
            value: tag.value.clone().unwrap_or_default(),
        });
    }
    collect_tags(read)
}

/// Reads `TagSpecification.N`: tags by the resource type they are for. `allowed` are the types the operation makes.
///
/// # Errors
/// `InvalidParameterValue` for another type, one named twice, or a bad tag; `MissingParameter` without a type.
pub fn from_specifications(
    specifications: &[ec2::TagSpecification],
    allowed: &[&str],
) -> Result<BTreeMap<String, Tags>, AwsError> {
    let mut by_type = BTreeMap::new();
    for specification in specifications {
        let resource_type = specification
            .resource_type
            .clone()
            .ok_or_else(|| AwsError::missing_parameter("TagSpecification.ResourceType"))?;
        if !allowed.contains(&resource_type.as_str()) {
            return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                "'{resource_type}' is not a valid taggable resource type for this operation."
            )));
        }
        let tags = from_wire(&specification.tags)?;
        if by_type.insert(resource_type.clone(), tags).is_some() {
            return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                "Tag specification resource type '{resource_type}' must not appear twice."
            )));
        }
    }
    Ok(by_type)
}

#[cfg(test)]
mod tests {
    use super::{TagKinds, from_specifications};
    use aws_shapes::ec2;

    fn specification(resource_type: &str, key: &str) -> ec2::TagSpecification {
        ec2::TagSpecification {
            resource_type: Some(resource_type.into()),
            tags: vec![ec2::Tag {
                key: Some(key.into()),
                value: None,
            }],
        }
    }

    #[test]
    fn specifications_are_for_the_types_an_operation_makes() {
        let read = from_specifications(&[specification("instance", "a")], &["instance"]).expect("allowed");
        assert_eq!(read["instance"]["a"], "");
        for bad in [
            vec![specification("volume", "a")],
            vec![specification("instance", "a"), specification("instance", "b")],
            vec![specification("instance", "aws:a")],
        ] {
            let error = from_specifications(&bad, &["instance"]).expect_err("refused");
            assert_eq!(error.code, "InvalidParameterValue");
        }
    }

    #[test]
    fn kinds_are_found_by_prefix_and_shape() {
        let kinds = TagKinds::new();
        assert_eq!(kinds.fetch("vpc-12345678").expect("kind").resource_type(), "vpc");
        assert_eq!(
            kinds
                .fetch("sgr-0123456789abcdef0")
                .expect("kind")
                .resource_type(),
            "security-group-rule"
        );
        for bad in ["", "vpc-", "vpc-zzzzzzzz", "x-12345678", "12345678"] {
            assert_eq!(
                kinds.fetch(bad).err().expect("no kind").code,
                "InvalidID",
                "{bad}"
            );
        }
    }
}

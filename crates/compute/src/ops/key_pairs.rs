//! CreateKeyPair, ImportKeyPair, DescribeKeyPairs, DeleteKeyPair (R85–R88).
//!
//! A private key is generated on the blocking pool before the transaction, answered, and forgotten. A name is claimed by a
//! unique value, so of two parallel creations one wins. Instances keep a copy of the public key; deleting a pair does not
//! reach them.

use super::access::{arn, create_tags};
use super::request::{choice, filters};
use crate::context::Context;
use crate::error::{ComputeError, store_error, update_error};
use crate::keys::{self, PrivateFormat};
use crate::limits;
use crate::records::{KeyPair, KeyType, account_scope};
use async_trait::async_trait;
use aws_shapes::ec2::{self, operations};
use aws_types::filter::{Values, one};
use aws_types::ids::KeyPairId;
use aws_types::{AccountId, AwsError, Tags, catalogue};
use aws_wire::call::Call;
use aws_wire::operation::{AccessRequest, Operation};
use network::capability::tags;
use state::UpdateError;
use std::collections::BTreeMap;

/// Resource type of key pairs.
pub const KEY_PAIR: &str = "key-pair";

fn key_name(name: Option<&str>) -> Result<String, AwsError> {
    let name = name.ok_or_else(|| AwsError::missing_parameter("KeyName"))?;
    if name.is_empty()
        || name.len() > limits::KEY_NAME_CHARS_MAX
        || !name.bytes().all(|b| (b' '..=b'~').contains(&b))
    {
        return Err(AwsError::invalid_value(
            name,
            "keyName",
            "It must be 1 to 255 ASCII characters.",
        ));
    }
    Ok(name.to_owned())
}

fn duplicate(name: &str) -> AwsError {
    catalogue::INVALID_KEY_PAIR_DUPLICATE.error(format!("The keypair '{name}' already exists."))
}

/// The key pair of this name.
///
/// # Errors
/// `InvalidKeyPair.NotFound`.
pub(super) fn absent(name: &str) -> AwsError {
    catalogue::INVALID_KEY_PAIR_NOT_FOUND.error(format!("The key pair '{name}' does not exist"))
}

fn specified_tags(specifications: &[ec2::TagSpecification]) -> Result<BTreeMap<String, Tags>, AwsError> {
    tags::from_specifications(specifications, &[KEY_PAIR])
}

fn create_access(
    call: &Call,
    action: &'static str,
    name: Option<&str>,
    specifications: &[ec2::TagSpecification],
) -> Vec<AccessRequest> {
    let by_type = specified_tags(specifications).unwrap_or_default();
    let own = by_type.get(KEY_PAIR).cloned().unwrap_or_default();
    let mut requests =
        vec![AccessRequest::on(action, arn(call, KEY_PAIR, name.unwrap_or("*"))).with_request_tags(&own)];
    requests.extend(create_tags(call, action.trim_start_matches("ec2:"), &by_type));
    requests
}

async fn is_taken(context: &Context, account: AccountId, name: &str) -> Result<bool, AwsError> {
    let value = [account.to_string(), name.to_owned()];
    let found = context
        .store
        .find_unique::<KeyPair>("name", &[&value[0], &value[1]])
        .await
        .map_err(store_error)?;
    Ok(found.is_some())
}

async fn insert(
    context: &Context,
    call: &Call,
    public: keys::Public,
    name: &str,
    own: &Tags,
) -> Result<KeyPair, AwsError> {
    let pair = KeyPair {
        account: call.account(),
        name: name.to_owned(),
        id: KeyPairId::random(),
        key_type: public.key_type,
        fingerprint: public.fingerprint,
        public_key: public.line,
        created_at: call.now,
    };
    let pair = &pair;
    let committed = context
        .store
        .update(|tx| async move {
            iam::capability::account_active(&tx, pair.account).await?;
            if tx.list::<KeyPair>(&account_scope(pair.account)).await?.len()
                >= limits::KEY_PAIRS_PER_ACCOUNT_MAX
            {
                let error =
                    catalogue::KEY_PAIR_LIMIT_EXCEEDED.error("The maximum number of key pairs is reached.");
                return Err(ComputeError::from(error));
            }
            tx.insert(pair)?;
            tags::put(&tx, pair.account, KEY_PAIR, pair.id.as_str(), own).await?;
            Ok(())
        })
        .await;
    match committed {
        Ok(()) => Ok(pair.clone()),
        Err(UpdateError::UniqueTaken { index: "name", .. }) => Err(duplicate(name)),
        Err(error) => Err(update_error(error)),
    }
}

/// CreateKeyPair.
pub struct CreateKeyPair(pub Context);

#[async_trait]
impl Operation for CreateKeyPair {
    type Shape = operations::CreateKeyPair;
    const ACTIONS: &'static [&'static str] = &["ec2:CreateKeyPair", "ec2:CreateTags"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::CreateKeyPairRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(create_access(
            call,
            "ec2:CreateKeyPair",
            input.key_name.as_deref(),
            &input.tag_specifications,
        ))
    }

    async fn handle(&self, call: &Call, input: ec2::CreateKeyPairRequest) -> Result<ec2::KeyPair, AwsError> {
        let name = key_name(input.key_name.as_deref())?;
        let key_type = choice(
            input.key_type.as_deref().unwrap_or("rsa"),
            "keyType",
            |value| match value {
                "rsa" => Some(KeyType::Rsa),
                "ed25519" => Some(KeyType::Ed25519),
                _ => None,
            },
        )?;
        let format = choice(
            input.key_format.as_deref().unwrap_or("pem"),
            "keyFormat",
            |value| match value {
                "pem" => Some(PrivateFormat::Pem),
                "ppk" => Some(PrivateFormat::Ppk),
                _ => None,
            },
        )?;
        let own = specified_tags(&input.tag_specifications)?
            .remove(KEY_PAIR)
            .unwrap_or_default();
        // Spares making a key for nothing; the commit decides.
        if is_taken(&self.0, call.account(), &name).await? {
            return Err(duplicate(&name));
        }
        let comment = name.clone();
        let made = tokio::task::spawn_blocking(move || keys::create(key_type, format, &comment)).await;
        let created = match made {
            Ok(Ok(created)) => created,
            Ok(Err(error)) => {
                tracing::error!(%error, "a key pair could not be made");
                return Err(AwsError::internal());
            }
            Err(error) => {
                tracing::error!(%error, "making a key pair was cut off");
                return Err(AwsError::internal());
            }
        };
        let pair = insert(&self.0, call, created.public, &name, &own).await?;
        Ok(ec2::KeyPair {
            key_pair_id: Some(pair.id.to_string()),
            tags: tags::to_wire(&own),
            key_name: Some(pair.name),
            key_fingerprint: Some(pair.fingerprint),
            key_material: Some(created.private.to_string()),
        })
    }
}

/// ImportKeyPair.
pub struct ImportKeyPair(pub Context);

#[async_trait]
impl Operation for ImportKeyPair {
    type Shape = operations::ImportKeyPair;
    const ACTIONS: &'static [&'static str] = &["ec2:ImportKeyPair", "ec2:CreateTags"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::ImportKeyPairRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(create_access(
            call,
            "ec2:ImportKeyPair",
            input.key_name.as_deref(),
            &input.tag_specifications,
        ))
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::ImportKeyPairRequest,
    ) -> Result<ec2::ImportKeyPairResult, AwsError> {
        let name = key_name(input.key_name.as_deref())?;
        let own = specified_tags(&input.tag_specifications)?
            .remove(KEY_PAIR)
            .unwrap_or_default();
        let material = input
            .public_key_material
            .ok_or_else(|| AwsError::missing_parameter("PublicKeyMaterial"))?;
        let public = keys::import(&material, &name).map_err(|_| {
            catalogue::INVALID_KEY_FORMAT.error("Key is not in valid OpenSSH public key format")
        })?;
        let pair = insert(&self.0, call, public, &name, &own).await?;
        Ok(ec2::ImportKeyPairResult {
            key_fingerprint: Some(pair.fingerprint),
            key_name: Some(pair.name),
            key_pair_id: Some(pair.id.to_string()),
            tags: tags::to_wire(&own),
        })
    }
}

/// DescribeKeyPairs.
pub struct DescribeKeyPairs(pub Context);

#[async_trait]
impl Operation for DescribeKeyPairs {
    type Shape = operations::DescribeKeyPairs;
    const ACTIONS: &'static [&'static str] = &["ec2:DescribeKeyPairs"];

    async fn access(
        &self,
        _: &Call,
        _: &ec2::DescribeKeyPairsRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        Ok(AccessRequest::on_any("ec2:DescribeKeyPairs").into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DescribeKeyPairsRequest,
    ) -> Result<ec2::DescribeKeyPairsResult, AwsError> {
        let filters = filters(
            input.filters,
            &["fingerprint", "key-name", "key-pair-id", "tag", "tag-key"],
        )?;
        let account = call.account();
        let mut pairs = self
            .0
            .store
            .list::<KeyPair>(&account_scope(account))
            .await
            .map_err(store_error)?;
        for name in &input.key_names {
            if !pairs.iter().any(|pair| pair.name == *name) {
                return Err(absent(name));
            }
        }
        for id in &input.key_pair_ids {
            if !pairs.iter().any(|pair| pair.id.as_str() == id) {
                return Err(absent(id));
            }
        }
        let by_key = tags::TagIndex::load(&self.0.store, account).await?;
        pairs.retain(|pair| {
            (input.key_names.is_empty() || input.key_names.contains(&pair.name))
                && (input.key_pair_ids.is_empty()
                    || input.key_pair_ids.iter().any(|id| id == pair.id.as_str()))
                && filters.matches(by_key.of(pair.id.as_str()), |name| match name {
                    "fingerprint" => one(pair.fingerprint.as_str()),
                    "key-name" => one(pair.name.as_str()),
                    "key-pair-id" => one(pair.id.as_str()),
                    _ => Values::new(),
                })
        });
        pairs.sort_by(|a, b| a.name.cmp(&b.name));
        let shows_key = input.include_public_key == Some(true);
        let key_pairs = pairs
            .into_iter()
            .map(|pair| ec2::KeyPairInfo {
                key_type: Some(pair.key_type.name().to_owned()),
                tags: tags::to_wire(by_key.of(pair.id.as_str())),
                public_key: shows_key.then_some(pair.public_key),
                create_time: Some(pair.created_at),
                key_name: Some(pair.name),
                key_fingerprint: Some(pair.fingerprint),
                key_pair_id: Some(pair.id.into()),
            })
            .collect();
        Ok(ec2::DescribeKeyPairsResult { key_pairs })
    }
}

/// DeleteKeyPair.
pub struct DeleteKeyPair(pub Context);

impl DeleteKeyPair {
    async fn find(
        &self,
        call: &Call,
        input: &ec2::DeleteKeyPairRequest,
    ) -> Result<Option<KeyPair>, AwsError> {
        let scope = account_scope(call.account());
        let found = match (&input.key_pair_id, &input.key_name) {
            (Some(id), _) => self.0.store.find::<KeyPair>(&scope, id).await,
            (None, Some(name)) => {
                let account = call.account().to_string();
                self.0
                    .store
                    .find_unique::<KeyPair>("name", &[&account, name])
                    .await
            }
            (None, None) => Ok(None),
        };
        found.map_err(store_error)
    }
}

#[async_trait]
impl Operation for DeleteKeyPair {
    type Shape = operations::DeleteKeyPair;
    const ACTIONS: &'static [&'static str] = &["ec2:DeleteKeyPair"];

    async fn access(
        &self,
        call: &Call,
        input: &ec2::DeleteKeyPairRequest,
    ) -> Result<Vec<AccessRequest>, AwsError> {
        let request = match self.find(call, input).await? {
            Some(pair) => {
                let own = tags::of_resource(&self.0.store, pair.account, pair.id.as_str()).await?;
                AccessRequest::on("ec2:DeleteKeyPair", arn(call, KEY_PAIR, pair.name))
                    .with_resource_tags(&own)
            }
            None => {
                let named = input
                    .key_name
                    .as_deref()
                    .or(input.key_pair_id.as_deref())
                    .unwrap_or("*");
                AccessRequest::on("ec2:DeleteKeyPair", arn(call, KEY_PAIR, named))
            }
        };
        Ok(request.into())
    }

    async fn handle(
        &self,
        call: &Call,
        input: ec2::DeleteKeyPairRequest,
    ) -> Result<ec2::DeleteKeyPairResult, AwsError> {
        if input.key_pair_id.is_none() && input.key_name.is_none() {
            return Err(AwsError::missing_parameter("KeyName"));
        }
        let found = self.find(call, &input).await?;
        let Some(pair) = &found else {
            return Ok(ec2::DeleteKeyPairResult {
                r#return: Some(true),
                key_pair_id: None,
            });
        };
        self.0
            .store
            .update(|tx| async move {
                tx.delete::<KeyPair>(&account_scope(pair.account), &pair.id)?;
                tags::remove_all(&tx, pair.account, pair.id.as_str()).await?;
                Ok(())
            })
            .await
            .map_err(update_error)?;
        Ok(ec2::DeleteKeyPairResult {
            r#return: Some(true),
            key_pair_id: Some(pair.id.to_string()),
        })
    }
}

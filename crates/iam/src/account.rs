//! How accounts come to be.
//!
//! One transaction makes an account whole: the record and its unique name, the status, the account's key, the admin
//! user with AdministratorAccess and one key, and whatever other rooms owe it at birth (a default VPC), which they add
//! through an [`AccountInitializer`]. So there is no moment in which an account exists without its parts.
//!
//! [`ensure_bootstrap`] makes the three accounts of a new cloud and runs at every start: on a cloud that has them it
//! changes nothing but what an initialiser of a newer build adds.

use std::sync::Arc;

use async_trait::async_trait;
use aws_types::AccountId;
use state::{Scope, Store, StoreError, Tx};
use time::OffsetDateTime;

use crate::error::IamError;
use crate::keys::{Keys, SecretText};
use crate::managed;
use crate::records::{
    AccessKey, Account, AccountCounter, AccountState, AccountStatus, Attachment, Founding, KeyStatus, User,
    new_key_id, new_unique_id,
};

/// Name of the first user of every account that has users.
pub const ADMIN_NAME: &str = "admin";

/// What a room owes each account at its birth. Idempotent, because it also runs for existing accounts at every start;
/// it does nothing but read and write through the transaction, which may run several times.
#[async_trait]
pub trait AccountInitializer: Send + Sync + 'static {
    /// For the log.
    fn name(&self) -> &'static str;

    /// Adds to the transaction what the account does not have yet.
    async fn ensure(&self, tx: &Tx, account: AccountId) -> Result<(), StoreError>;
}

/// The admin of an account, with its key.
#[derive(Debug, Clone)]
pub struct AdminCredential {
    /// The account.
    pub account: AccountId,
    /// The user.
    pub user: User,
    /// Access key id.
    pub access_key_id: String,
    /// Its secret.
    pub secret: SecretText,
}

/// The accounts of a new cloud.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    /// Admin of the operator's account `000000000001`.
    pub operator: AdminCredential,
    /// Admin of the first tenant's account `000000000002`.
    pub tenant: AdminCredential,
}

/// Why the accounts of a cloud cannot be made or found.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A transaction failed.
    #[error("could not make account {account}")]
    Make {
        /// The account.
        account: AccountId,
        /// Why.
        #[source]
        source: Box<state::UpdateError<IamError>>,
    },
    /// The admin's key of an account is gone, so there is no credential to hand out.
    #[error("could not find the founding key of account {account}")]
    Find {
        /// The account.
        account: AccountId,
        /// Why.
        #[source]
        source: IamError,
    },
}

/// Makes the system's, the operator's and the first tenant's account unless they exist, runs every initialiser for all
/// accounts of the cloud, and answers the founding credentials.
///
/// # Errors
/// [`BootstrapError`]. Nothing is half made.
pub async fn ensure_bootstrap(
    store: &Store,
    keys: &Keys,
    initializers: &[Arc<dyn AccountInitializer>],
    now: OffsetDateTime,
) -> Result<Bootstrap, BootstrapError> {
    let founders = [
        (AccountId::SYSTEM, "system", false),
        (AccountId::OPERATOR, "operator", true),
        (AccountId::FIRST_TENANT, "tenant", true),
    ];
    for (id, name, with_admin) in founders {
        let make = |tx: Tx| async move {
            if tx.find::<Account>(&Scope::NONE, id.to_string()).await?.is_none() {
                found_account(&tx, keys, id, name, with_admin, now)?;
            }
            if tx
                .find::<AccountCounter>(&Scope::NONE, AccountCounter::ID)
                .await?
                .is_none()
            {
                let next = AccountId::from_number(AccountId::FIRST_TENANT.number() + 1);
                tx.insert(&AccountCounter {
                    next: next.unwrap_or(AccountId::FIRST_TENANT),
                })?;
            }
            initialise(&tx, initializers, id).await
        };
        store.update(make).await.map_err(|source| BootstrapError::Make {
            account: id,
            source: Box::new(source),
        })?;
    }
    let find_failed = |account| move |source| BootstrapError::Find { account, source };
    let accounts: Vec<Account> = store
        .list_all()
        .await
        .map_err(|error| find_failed(AccountId::SYSTEM)(error.into()))?;
    for account in accounts
        .iter()
        .filter(|account| account.id > AccountId::FIRST_TENANT)
    {
        let owed = |tx: Tx| async move { initialise(&tx, initializers, account.id).await };
        store.update(owed).await.map_err(|source| BootstrapError::Make {
            account: account.id,
            source: Box::new(source),
        })?;
    }
    Ok(Bootstrap {
        operator: founding_credential(store, keys, AccountId::OPERATOR)
            .await
            .map_err(find_failed(AccountId::OPERATOR))?,
        tenant: founding_credential(store, keys, AccountId::FIRST_TENANT)
            .await
            .map_err(find_failed(AccountId::FIRST_TENANT))?,
    })
}

/// Adds to a transaction what other rooms owe an account.
async fn initialise(
    tx: &Tx,
    initializers: &[Arc<dyn AccountInitializer>],
    account: AccountId,
) -> Result<(), IamError> {
    for initializer in initializers {
        initializer.ensure(tx, account).await?;
    }
    Ok(())
}

/// Adds a new account to a transaction.
fn found_account(
    tx: &Tx,
    keys: &Keys,
    id: AccountId,
    name: &str,
    with_admin: bool,
    now: OffsetDateTime,
) -> Result<(), IamError> {
    tx.insert(&Account {
        id,
        name: name.to_owned(),
        created: now,
        source: "bootstrap".to_owned(),
    })?;
    tx.insert(&AccountStatus {
        account: id,
        state: AccountState::Active,
    })?;
    let (record, key) = keys.new_account_key(id)?;
    tx.insert(&record)?;
    if !with_admin {
        return Ok(());
    }
    let user = User {
        account: id,
        id: new_unique_id("AIDA"),
        name: ADMIN_NAME.to_owned(),
        path: "/".to_owned(),
        tags: aws_types::Tags::new(),
        created: now,
    };
    tx.insert(&user)?;
    if let Some(policy) = managed::find_arn("AdministratorAccess") {
        tx.insert(&Attachment {
            account: id,
            entity_id: user.id.clone(),
            policy,
        })?;
    }
    let access_key_id = new_key_id(id);
    let secret = SecretText::random_access_key();
    let sealed = key
        .seal(
            <AccessKey as state::Record>::TABLE,
            &access_key_id,
            secret.expose().as_bytes(),
        )
        .map_err(crate::keys::KeysError::from)?;
    tx.insert(&AccessKey {
        id: access_key_id.clone(),
        account: id,
        user_id: user.id.clone(),
        status: KeyStatus::Active,
        secret: sealed,
        created: now,
    })?;
    tx.insert(&Founding {
        account: id,
        user_id: user.id,
        access_key_id,
    })?;
    Ok(())
}

async fn founding_credential(
    store: &Store,
    keys: &Keys,
    account: AccountId,
) -> Result<AdminCredential, IamError> {
    let scope = Scope::account(account);
    let founding: Founding = store.fetch(&scope, Founding::ID).await?;
    let user: User = store.fetch(&scope, &founding.user_id).await?;
    let key: AccessKey = store.fetch(&scope, &founding.access_key_id).await?;
    let secret = open_secret(keys, &key).await?;
    Ok(AdminCredential {
        account,
        user,
        access_key_id: key.id,
        secret,
    })
}

/// The secret of an access key.
pub(crate) async fn open_secret(keys: &Keys, key: &AccessKey) -> Result<SecretText, crate::keys::KeysError> {
    let account_key = keys
        .account_key(key.account, Some(key.secret.key_version))
        .await?;
    let bytes = account_key.open(<AccessKey as state::Record>::TABLE, &key.id, &key.secret)?;
    SecretText::from_bytes(&bytes).ok_or(crate::keys::SealError::Malformed.into())
}

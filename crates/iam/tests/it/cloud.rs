//! A small cloud in memory, with its key file in a directory of its own.

use aws_types::{AccountId, Region};
use aws_wire::call::Call;
use iam::{AccountInitializer, Authenticator, Bootstrap, Keys, ensure_bootstrap};
use state::{Record, Store, StoreError};
use std::sync::Arc;
use tempfile::TempDir;
use time::OffsetDateTime;

/// The cloud.
pub struct Cloud {
    _dir: TempDir,
    pub store: Store,
    pub keys: Keys,
    pub bootstrap: Bootstrap,
    pub authenticator: Authenticator,
}

impl Cloud {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(initializers: &[Arc<dyn AccountInitializer>]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::memory();
        let keys = Keys::open(&dir.path().join("keys"), &store).await.expect("keys");
        let bootstrap = ensure_bootstrap(&store, &keys, initializers, OffsetDateTime::now_utc())
            .await
            .expect("accounts");
        let authenticator = Authenticator::new(store.clone(), keys.clone());
        Self {
            _dir: dir,
            store,
            keys,
            bootstrap,
            authenticator,
        }
    }

    /// Writes one record.
    pub async fn put<T: Record>(&self, record: &T) {
        self.store
            .update(|tx| {
                let record = record.clone();
                async move { tx.put(&record) }
            })
            .await
            .expect("written");
    }

    /// Deletes one record.
    pub async fn delete<T: Record>(&self, record: &T) {
        let key = record.key();
        self.store
            .update(|tx| {
                let key = key.clone();
                async move { tx.delete::<T>(&key.scope, &key.id) }
            })
            .await
            .expect("deleted");
    }

    /// A call of the tenant's admin.
    pub async fn call(&self) -> Call {
        let credential = self
            .authenticator
            .find(&self.bootstrap.tenant.access_key_id)
            .await
            .expect("the founding key");
        let region = Region::parse("eu-central-1").expect("a region");
        Call::new(credential.caller(), region, OffsetDateTime::now_utc())
    }
}

/// The account that tests use.
pub const TENANT: AccountId = AccountId::FIRST_TENANT;

/// Lets a closure of a transaction fail with the store's error only.
pub type StoreResult<T> = Result<T, StoreError>;

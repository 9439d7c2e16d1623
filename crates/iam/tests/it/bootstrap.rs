//! The accounts of a new cloud, made once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use aws_types::AccountId;
use iam::records::{
    AccessKey, Account, AccountKeyRecord, AccountState, AccountStatus, Attachment, Founding, KeyCheck, User,
};
use iam::{AccountInitializer, ensure_bootstrap};
use serde::{Deserialize, Serialize};
use state::engine::ReadOp;
use state::{Record, RecordKey, Scope, StoreError, Tx, table_range};
use time::OffsetDateTime;

use crate::cloud::{Cloud, StoreResult, TENANT};

#[tokio::test]
async fn a_second_start_changes_nothing() {
    let cloud = Cloud::new().await;
    let revision = cloud.store.revision().await.expect("readable");
    let again = ensure_bootstrap(&cloud.store, &cloud.keys, &[], OffsetDateTime::now_utc())
        .await
        .expect("found");
    assert_eq!(cloud.store.revision().await.expect("readable"), revision);
    for (first, second) in [
        (&cloud.bootstrap.operator, &again.operator),
        (&cloud.bootstrap.tenant, &again.tenant),
    ] {
        assert_eq!(first.access_key_id, second.access_key_id);
        assert_eq!(first.secret.expose(), second.secret.expose());
        assert_eq!(first.user, second.user);
    }
}

#[tokio::test]
async fn three_accounts_of_which_the_system_has_no_users() {
    let cloud = Cloud::new().await;
    let accounts: Vec<Account> = cloud.store.list_all().await.expect("readable");
    let ids: Vec<AccountId> = accounts.iter().map(|account| account.id).collect();
    assert_eq!(
        ids,
        [AccountId::SYSTEM, AccountId::OPERATOR, AccountId::FIRST_TENANT]
    );
    for id in ids {
        let scope = Scope::account(id);
        let status: AccountStatus = cloud
            .store
            .fetch(&scope, AccountStatus::ID)
            .await
            .expect("a status");
        assert_eq!(status.state, AccountState::Active);
        let keys: Vec<AccountKeyRecord> = cloud.store.list(&scope).await.expect("readable");
        assert_eq!(keys.len(), 1);
        let users: Vec<User> = cloud.store.list(&scope).await.expect("readable");
        let attachments: Vec<Attachment> = cloud.store.list(&scope).await.expect("readable");
        let expected = usize::from(id != AccountId::SYSTEM);
        assert_eq!((users.len(), attachments.len()), (expected, expected));
    }
    assert_eq!(
        cloud.bootstrap.tenant.user.arn().as_str(),
        "arn:aws:iam::000000000002:user/admin"
    );
}

/// No byte of the store holds a secret in the clear.
#[tokio::test]
async fn secrets_are_sealed_at_rest() {
    let cloud = Cloud::new().await;
    let tables = [
        Account::TABLE,
        AccessKey::TABLE,
        AccountKeyRecord::TABLE,
        AccountStatus::TABLE,
        Attachment::TABLE,
        Founding::TABLE,
        KeyCheck::TABLE,
        User::TABLE,
    ];
    let reads = tables.map(|table| ReadOp::Range {
        range: table_range(table),
        limit: 1_000,
    });
    let answer = cloud.store.read(reads.to_vec(), None).await.expect("readable");
    assert!(
        answer.pages.iter().all(|page| !page.rows.is_empty()),
        "every table is looked through"
    );
    let secret = cloud.bootstrap.tenant.secret.expose().as_bytes();
    for row in answer.pages.iter().flat_map(|page| &page.rows) {
        assert!(
            !row.value.windows(secret.len()).any(|window| window == secret),
            "{}",
            row.key
        );
    }
    let shown = format!("{:?}", cloud.bootstrap);
    assert!(!shown.contains(cloud.bootstrap.tenant.secret.expose()));
}

/// A sealed secret that is copied to another key's record does not open there.
#[tokio::test]
async fn a_moved_secret_does_not_open() {
    let cloud = Cloud::new().await;
    let fetch = |admin: &iam::AdminCredential| {
        let (scope, id) = (Scope::account(admin.account), admin.access_key_id.clone());
        let store = cloud.store.clone();
        async move { store.fetch::<AccessKey>(&scope, &id).await.expect("the key") }
    };
    let operator = fetch(&cloud.bootstrap.operator).await;
    let mut tenant = fetch(&cloud.bootstrap.tenant).await;
    tenant.secret = operator.secret;
    cloud.put(&tenant).await;
    let found = cloud.authenticator.find(&tenant.id).await;
    assert_eq!(found.err(), Some(iam::AuthFault::Unreadable));
}

#[derive(Clone, Serialize, Deserialize)]
struct Gift {
    account: AccountId,
}

impl Record for Gift {
    const TABLE: &'static str = "gifts";
    const VERSION: u32 = 1;
    fn key(&self) -> RecordKey {
        RecordKey::account(self.account, "gift")
    }
}

struct Giver(AtomicUsize);

/// An initializer that cannot do its part.
struct Failing;

#[async_trait]
impl AccountInitializer for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }
    async fn ensure(&self, tx: &Tx, account: AccountId) -> Result<(), StoreError> {
        tx.fetch::<Gift>(&Scope::account(account), "never given")
            .await
            .map(drop)
    }
}

/// An account is made with all its parts or not at all.
#[tokio::test]
async fn an_initializer_that_fails_leaves_no_account() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = state::Store::memory();
    let keys = iam::Keys::open(dir.path(), &store).await.expect("keys");
    let initializers: Vec<Arc<dyn AccountInitializer>> = vec![Arc::new(Failing)];
    let made = ensure_bootstrap(&store, &keys, &initializers, OffsetDateTime::now_utc()).await;
    assert!(made.is_err());
    let accounts: Vec<Account> = store.list_all().await.expect("readable");
    assert!(accounts.is_empty());
}

#[async_trait]
impl AccountInitializer for Giver {
    fn name(&self) -> &'static str {
        "giver"
    }
    async fn ensure(&self, tx: &Tx, account: AccountId) -> Result<(), StoreError> {
        if tx.find::<Gift>(&Scope::account(account), "gift").await?.is_none() {
            self.0.fetch_add(1, Ordering::Relaxed);
            tx.insert(&Gift { account })?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn initializers_run_for_every_account_and_once() {
    let giver = Arc::new(Giver(AtomicUsize::new(0)));
    let initializers: Vec<Arc<dyn AccountInitializer>> = vec![giver.clone()];
    let cloud = Cloud::with(&initializers).await;
    ensure_bootstrap(
        &cloud.store,
        &cloud.keys,
        &initializers,
        OffsetDateTime::now_utc(),
    )
    .await
    .expect("found");
    assert_eq!(giver.0.load(Ordering::Relaxed), 3);
    let gift: StoreResult<Gift> = cloud.store.fetch(&Scope::account(TENANT), "gift").await;
    assert_eq!(gift.expect("given").account, TENANT);
}

//! From key id to caller, and that every change binds the next request.

use aws_types::{AccountId, Region};
use aws_wire::call::Call;
use aws_wire::sigv4::{Scope as SigningScope, SigningKey};
use iam::records::{AccessKey, AccountState, AccountStatus, Attachment, KeyStatus, User};
use iam::{AuthFault, Credential};
use policy::{Context, Decision, Request, decide};
use state::Scope;
use std::sync::Arc;
use time::OffsetDateTime;

use crate::cloud::{Cloud, TENANT};

fn may(credential: &Credential, action: &str) -> Decision {
    let caller = credential.caller();
    let facts = Context::new();
    decide(
        &caller.policies.layers(None),
        &Request {
            principal: &caller.principal,
            action,
            resource: "*",
            owner: None,
            facts: &facts,
        },
    )
}

#[tokio::test]
async fn the_admin_may_do_everything_in_its_own_account() {
    let cloud = Cloud::new().await;
    let admin = &cloud.bootstrap.tenant;
    let credential = cloud
        .authenticator
        .find(&admin.access_key_id)
        .await
        .expect("known");
    assert_eq!(credential.account, TENANT);
    assert_eq!(
        credential.principal.shown(),
        "arn:aws:iam::000000000002:user/admin"
    );
    assert_eq!(
        credential.principal.userid().as_deref(),
        Some(admin.user.id.as_str())
    );
    assert!(may(&credential, "ec2:RunInstances").is_allowed());

    let call = Call::new(
        credential.caller(),
        Region::parse("eu-central-1").expect("a region"),
        OffsetDateTime::now_utc(),
    );
    assert_eq!(call.account(), TENANT);
}

#[tokio::test]
async fn signing_keys_come_from_the_secret() {
    let cloud = Cloud::new().await;
    let admin = &cloud.bootstrap.tenant;
    let credential = cloud
        .authenticator
        .find(&admin.access_key_id)
        .await
        .expect("known");
    for service in ["ec2", "sts", "ec2"] {
        let scope = SigningScope {
            date: "20261130".into(),
            region: "eu-central-1".into(),
            service: service.into(),
        };
        let own = SigningKey::derive(admin.secret.expose(), "20261130", "eu-central-1", service);
        let signature = |key: &SigningKey| key.signature("20261130T000000Z", &scope.text(), b"x");
        assert_eq!(signature(&credential.signing_key(&scope)), signature(&own));
    }
}

#[tokio::test]
async fn unknown_and_malformed_keys_are_unknown() {
    let cloud = Cloud::new().await;
    for id in ["AKIAIOSFODNN7EXAMPLE", "", "AKIA", "ASIAIOSFODNN7EXAMPLE"] {
        assert_eq!(
            cloud.authenticator.find(id).await.err(),
            Some(AuthFault::UnknownKey),
            "{id}"
        );
    }
    let unissued = iam::records::new_key_id(TENANT);
    assert_eq!(
        cloud.authenticator.find(&unissued).await.err(),
        Some(AuthFault::UnknownKey)
    );
}

#[tokio::test]
async fn unchanged_records_are_not_decoded_again() {
    let cloud = Cloud::new().await;
    let id = &cloud.bootstrap.tenant.access_key_id;
    let first = cloud.authenticator.find(id).await.expect("known");
    let second = cloud.authenticator.find(id).await.expect("known");
    assert!(Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn deactivation_suspension_detachment_and_deletion_bind_the_next_request() {
    let cloud = Cloud::new().await;
    let admin = &cloud.bootstrap.tenant;
    let id = &admin.access_key_id;
    let scope = Scope::account(TENANT);
    let find = || cloud.authenticator.find(id);
    find().await.expect("known, and cached from here");

    let active: AccessKey = cloud.store.fetch(&scope, id).await.expect("the key");
    cloud
        .put(&AccessKey {
            status: KeyStatus::Inactive,
            ..active.clone()
        })
        .await;
    assert_eq!(find().await.err(), Some(AuthFault::UnknownKey));
    cloud.put(&active).await;
    find().await.expect("active again");

    cloud
        .put(&AccountStatus {
            account: TENANT,
            state: AccountState::Suspended,
        })
        .await;
    assert_eq!(
        find().await.expect("known").account_state,
        AccountState::Suspended
    );
    cloud
        .put(&AccountStatus {
            account: TENANT,
            state: AccountState::Active,
        })
        .await;
    assert_eq!(find().await.expect("known").account_state, AccountState::Active);

    let attachments: Vec<Attachment> = cloud.store.list(&scope).await.expect("readable");
    cloud.delete(&attachments[0]).await;
    assert!(!may(&find().await.expect("known"), "ec2:RunInstances").is_allowed());
    cloud.put(&attachments[0]).await;
    assert!(may(&find().await.expect("known"), "ec2:RunInstances").is_allowed());

    let user: User = cloud.store.fetch(&scope, &admin.user.id).await.expect("the user");
    cloud.delete(&user).await;
    assert_eq!(find().await.err(), Some(AuthFault::UnknownKey));
}

/// An attached policy that does not exist is never evaluated as if it were empty.
#[tokio::test]
async fn a_policy_that_is_not_there_is_unreadable() {
    let cloud = Cloud::new().await;
    let admin = &cloud.bootstrap.tenant;
    let policy = aws_types::Arn::parse("arn:aws:iam::aws:policy/Gone").expect("an ARN");
    cloud
        .put(&Attachment {
            account: TENANT,
            entity_id: admin.user.id.clone(),
            policy,
        })
        .await;
    assert_eq!(
        cloud.authenticator.find(&admin.access_key_id).await.err(),
        Some(AuthFault::Unreadable)
    );
    let operator = cloud
        .authenticator
        .find(&cloud.bootstrap.operator.access_key_id)
        .await
        .expect("unaffected");
    assert_eq!(operator.account, AccountId::OPERATOR);
}

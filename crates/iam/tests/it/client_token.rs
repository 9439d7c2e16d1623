//! Client tokens and the account's status, inside a transaction.

use aws_shapes::OperationShape;
use aws_shapes::ec2::operations::RunInstances;
use aws_types::AwsError;
use aws_wire::call::Call;
use aws_wire::parameters::Parameters;
use bytes::Bytes;
use iam::capability::client_token::{TokenClaim, find, keep};
use iam::capability::{CapabilityError, account_active};
use iam::reconcile::ClientTokenSweep;
use iam::records::{AccountState, AccountStatus, ClientToken};
use state::{PassCause, PassContext, Reconciler, UpdateError};
use time::Duration;

use crate::cloud::{Cloud, TENANT};

fn claim(call: &Call, body: &'static str, token: Option<&str>) -> Result<TokenClaim, AwsError> {
    let call = call
        .clone()
        .with_parameters(Parameters::form("", Bytes::from_static(body.as_bytes())));
    TokenClaim::of(&call, RunInstances::SCHEMA, token)
}

/// Claims the token and, if it is new, keeps `made` for it.
async fn run(
    cloud: &Cloud,
    claim: &TokenClaim,
    made: &str,
) -> Result<Vec<String>, UpdateError<CapabilityError>> {
    cloud
        .store
        .update(|tx| async move {
            if let Some(results) = find(&tx, claim).await? {
                return Ok(results);
            }
            keep(&tx, claim, vec![made.to_owned()])?;
            Ok(vec![made.to_owned()])
        })
        .await
}

#[tokio::test]
async fn the_same_token_gives_the_first_result_and_other_parameters_are_refused() {
    let cloud = Cloud::new().await;
    let call = cloud.call().await;
    let first = claim(&call, "ImageId=ami-1&ClientToken=x", Some("x")).expect("a token");
    assert_eq!(run(&cloud, &first, "i-1").await.expect("new"), ["i-1"]);
    let repeat = claim(&call, "ClientToken=x&DryRun=false&ImageId=ami-1", Some("x")).expect("a token");
    assert_eq!(run(&cloud, &repeat, "i-2").await.expect("a repeat"), ["i-1"]);
    let other = claim(&call, "ImageId=ami-2&ClientToken=x", Some("x")).expect("a token");
    match run(&cloud, &other, "i-3").await {
        Err(UpdateError::Aborted(CapabilityError::Refused(error))) => {
            assert_eq!(
                (error.code.as_ref(), error.status),
                ("IdempotentParameterMismatch", 400)
            );
        }
        outcome => panic!("{outcome:?}"),
    }
    let another = claim(&call, "ImageId=ami-2&ClientToken=y", Some("y")).expect("a token");
    assert_eq!(run(&cloud, &another, "i-4").await.expect("new"), ["i-4"]);
}

#[tokio::test]
async fn without_a_token_the_invocation_id_counts_and_without_both_nothing_does() {
    let cloud = Cloud::new().await;
    let mut call = cloud.call().await;
    let none = claim(&call, "ImageId=ami-1", None).expect("no token");
    assert_eq!(run(&cloud, &none, "i-1").await.expect("new"), ["i-1"]);
    assert_eq!(run(&cloud, &none, "i-2").await.expect("new"), ["i-2"]);
    call.invocation_id = Some("5c2ab3a5-0000-4000-8000-000000000000".into());
    let sdk = claim(&call, "ImageId=ami-1", None).expect("an invocation");
    assert_eq!(run(&cloud, &sdk, "i-3").await.expect("new"), ["i-3"]);
    assert_eq!(run(&cloud, &sdk, "i-4").await.expect("a retry"), ["i-3"]);
}

#[tokio::test]
async fn malformed_tokens_are_refused() {
    let call = Cloud::new().await.call().await;
    for bad in ["", "ä", "a\nb", &"x".repeat(65)] {
        let error = claim(&call, "", Some(bad)).expect_err("malformed");
        assert_eq!(error.code, "InvalidParameterValue");
    }
    claim(&call, "", Some(&"x".repeat(64))).expect("the longest");
}

#[tokio::test]
async fn expired_tokens_are_new_again_and_are_swept() {
    let cloud = Cloud::new().await;
    let mut call = cloud.call().await;
    let now = call.now;
    call.now = now - Duration::hours(25);
    let old = claim(&call, "ImageId=ami-1", Some("x")).expect("a token");
    assert_eq!(run(&cloud, &old, "i-1").await.expect("new"), ["i-1"]);
    call.now = now;
    let fresh = claim(&call, "ImageId=ami-2", Some("fresh")).expect("a token");
    assert_eq!(run(&cloud, &fresh, "i-2").await.expect("new"), ["i-2"]);
    let again = claim(&call, "ImageId=ami-9", Some("x")).expect("a token");
    let found = cloud
        .store
        .update(|tx| {
            let again = again.clone();
            async move { find(&tx, &again).await }
        })
        .await;
    assert_eq!(
        found.expect("readable"),
        None,
        "an expired token is as good as none"
    );

    let context = PassContext::new(cloud.store.clone(), PassCause::Timer);
    let report = ClientTokenSweep.pass(&context).await.expect("a pass");
    assert_eq!((report.changed, report.failed), (1, 0));
    let left: Vec<ClientToken> = cloud.store.list_all().await.expect("readable");
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn only_active_accounts_may_go_on() {
    let cloud = Cloud::new().await;
    let active = || {
        cloud
            .store
            .update(|tx| async move { account_active(&tx, TENANT).await })
    };
    active().await.expect("active");
    for state in [AccountState::Suspended, AccountState::Terminating] {
        cloud
            .put(&AccountStatus {
                account: TENANT,
                state,
            })
            .await;
        match active().await {
            Err(UpdateError::Aborted(CapabilityError::Refused(error))) => assert_eq!(error.code, "Blocked"),
            outcome => panic!("{outcome:?}"),
        }
    }
}

//! Denials, account status, panics and cancellation around a running operation.

use iam::records::AccountState;

use crate::cloud::Cloud;

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_names_principal_action_and_resource() {
    let cloud = Cloud::new().await;
    cloud.detach_all().await;
    let seen = cloud.boto3(&["regions", "regions dry", "who", "panic"]).await;
    for case in ["regions", "regions dry"] {
        let denied = &seen[case];
        assert_eq!(denied["code"], "UnauthorizedOperation", "{denied}");
        assert_eq!(denied["status"], 403);
        let message = denied["message"].as_str().expect("a message");
        assert_eq!(
            message,
            "You are not authorized to perform this operation. User: arn:aws:iam::000000000002:user/admin is not \
             authorized to perform: ec2:DescribeRegions on resource: \
             arn:aws:ec2:eu-central-1:000000000002:region/here because no identity-based policy allows the \
             ec2:DescribeRegions action"
        );
    }
    assert_eq!(
        seen["panic"]["code"], "UnauthorizedOperation",
        "refused before the operation ran"
    );
    assert_eq!(seen["who"]["status"], 200, "needs no permission");
    let audit = cloud.audit();
    let line = audit
        .iter()
        .find(|line| line["requestId"] == seen["regions"]["id"])
        .expect("a line");
    assert_eq!(line["verdict"], "denied");
    assert_eq!(line["resources"][0]["allowed"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_a_suspended_account_are_refused_and_of_others_not() {
    let cloud = Cloud::new().await;
    cloud.set_state(AccountState::Suspended).await;
    let seen = cloud.boto3(&["who", "regions", "wrong secret"]).await;
    assert_eq!(
        (&seen["who"]["code"], &seen["who"]["status"]),
        (&"AccessDenied".into(), &403.into())
    );
    assert_eq!(
        (&seen["regions"]["code"], &seen["regions"]["status"]),
        (&"Blocked".into(), &403.into())
    );
    assert_eq!(
        seen["wrong secret"]["code"], "SignatureDoesNotMatch",
        "the status is told to its owner only"
    );
    let operator = cloud
        .boto3_as(&cloud.bootstrap.operator, &["who", "regions"])
        .await;
    assert_eq!(operator["who"]["answer"]["Account"], "000000000001");
    assert_eq!(operator["regions"]["status"], 200);
    cloud.set_state(AccountState::Active).await;
    assert_eq!(cloud.boto3(&["who"]).await["who"]["status"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_running_calls_finish() {
    let cloud = Cloud::new().await;
    let client = cloud
        .client_command("python3", &cloud.bootstrap.tenant)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client.py"))
        .arg("images")
        .output();
    let client = tokio::spawn(client);
    cloud.waiting.notified().await;
    cloud.stop.send_replace(true);
    cloud.release.notify_one();
    let output = client.await.expect("joined").expect("python3 runs");
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(seen["images"]["status"], 200, "{seen}");
    cloud.serving.await.expect("it ended by itself");
}

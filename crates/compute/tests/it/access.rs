//! Every operation of the room, for a caller whom nothing is granted: denied, with the action named, and nothing done.

use crate::cloud::Cloud;

#[tokio::test]
async fn every_operation_denies_a_caller_without_policies() {
    let cloud = Cloud::new().await;
    let mut denied = 0;
    for operation in cloud.operations() {
        let schema = operation.schema();
        let error = cloud
            .call_without_policies(operation.as_ref())
            .await
            .expect_err(schema.name);
        assert_eq!(
            (error.code.as_ref(), error.status),
            ("UnauthorizedOperation", 403),
            "{}",
            schema.name
        );
        assert!(
            error.message.contains(&format!("ec2:{}", schema.name)),
            "{}: {}",
            schema.name,
            error.message
        );
        denied += 1;
    }
    assert_eq!(denied, 23, "a new operation is counted here");
}

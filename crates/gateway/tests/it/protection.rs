//! Lockout and throttle, as clients meet them.

use serde_json::Value;

use crate::cloud::Cloud;

fn codes(series: &Value) -> Vec<&str> {
    series
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["code"].as_str().unwrap_or("ok"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_distinct_failures_lock_the_key_and_another_key_from_here_works() {
    let cloud = Cloud::new().await;
    let seen = cloud.boto3(&["eleven distinct failures", "who"]).await;
    let failures = codes(&seen["eleven distinct failures"]);
    assert!(
        failures[..10].iter().all(|code| *code == "SignatureDoesNotMatch"),
        "{failures:?}"
    );
    assert_eq!(failures[10], "Throttling");
    let locked = &seen["eleven distinct failures"][10];
    let retry_after: u64 = locked["retry_after"]
        .as_str()
        .expect("Retry-After")
        .parse()
        .expect("seconds");
    assert!((1..=30).contains(&retry_after));
    assert_eq!(
        seen["who"]["code"], "Throttling",
        "the right secret does not unlock"
    );
    let operator = cloud.boto3_as(&cloud.bootstrap.operator, &["who"]).await;
    assert_eq!(operator["who"]["status"], 200);
    let verdicts: Vec<Value> = cloud
        .audit()
        .into_iter()
        .map(|line| line["verdict"].clone())
        .collect();
    assert_eq!(
        verdicts
            .iter()
            .filter(|verdict| **verdict == "locked-out")
            .count(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_request_repeated_locks_nothing() {
    let cloud = Cloud::new().await;
    let seen = cloud.boto3(&["one failure repeated", "who"]).await;
    let series = seen["one failure repeated"].as_array().expect("a list");
    assert_eq!(series.len(), 30);
    assert!(series.iter().all(|one| one["status"] == 403), "{series:?}");
    assert_eq!(seen["who"]["status"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn launches_beyond_the_burst_are_throttled() {
    let cloud = Cloud::with_throttle(true).await;
    let seen = cloud.boto3(&["60 launches", "who"]).await;
    let launches = codes(&seen["60 launches"]);
    assert!(
        launches[..40].iter().all(|code| *code == "NotImplemented"),
        "{launches:?}"
    );
    assert!(launches.contains(&"RequestLimitExceeded"), "{launches:?}");
    let refused = seen["60 launches"].as_array().expect("a list");
    let refused = refused
        .iter()
        .find(|one| one["code"] == "RequestLimitExceeded")
        .expect("one");
    assert_eq!(refused["status"], 503);
    assert_eq!(refused["retry_after"], "1");
    assert_eq!(seen["who"]["status"], 200, "other actions have their own bucket");
}

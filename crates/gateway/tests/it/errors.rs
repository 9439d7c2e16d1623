//! What clients see when something is wrong before an operation runs: the table of identity.md R20, by real clients.

use crate::cloud::Cloud;

/// Case, code, status; `None` for success.
const ROWS: &[(&str, Option<&str>, u64)] = &[
    ("who", None, 200),
    ("who global", None, 200),
    ("14 minutes", None, 200),
    ("wrong region", Some("SignatureDoesNotMatch"), 403),
    ("wrong region ec2", Some("AuthFailure"), 401),
    ("wrong secret", Some("SignatureDoesNotMatch"), 403),
    ("wrong secret ec2", Some("AuthFailure"), 401),
    ("unknown key", Some("InvalidClientTokenId"), 403),
    ("unknown key ec2", Some("AuthFailure"), 401),
    ("key with token", Some("InvalidClientTokenId"), 403),
    ("unsigned", Some("MissingAuthenticationToken"), 403),
    ("unsigned ec2", Some("MissingAuthenticationToken"), 403),
    ("late", Some("SignatureDoesNotMatch"), 403),
    ("early", Some("SignatureDoesNotMatch"), 403),
    ("late ec2", Some("RequestExpired"), 400),
    ("unbuilt", Some("NotImplemented"), 501),
    ("unbuilt ec2", Some("NotImplemented"), 501),
    ("unbuilt iam", Some("NotImplemented"), 501),
    ("unknown json service", Some("NotImplementedException"), 501),
    ("regions", None, 200),
    ("regions dry", Some("DryRunOperation"), 412),
    ("panic", Some("InternalError"), 500),
];

/// Case, what the body holds, status.
const RAW_ROWS: &[(&str, &str, u64)] = &[
    (
        "signed raw",
        "<Arn>arn:aws:iam::000000000002:user/admin</Arn>",
        200,
    ),
    ("presigned", "<Account>000000000002</Account>", 200),
    ("presigned ended", "<Code>RequestExpired</Code>", 400),
    ("presigned mutated", "<Code>SignatureDoesNotMatch</Code>", 403),
    ("mutated body", "<Code>SignatureDoesNotMatch</Code>", 403),
    ("claimed hash", "<Code>SignatureDoesNotMatch</Code>", 403),
    ("unknown action", "<Code>InvalidAction</Code>", 400),
    ("no action", "<Code>MissingAction</Code>", 400),
    (
        "unknown action ec2",
        "<Response><Errors><Error><Code>InvalidAction</Code>",
        400,
    ),
    ("huge body", "<Code>RequestEntityTooLarge</Code>", 413),
    ("huge header", "<Code>RequestHeaderSectionTooLarge</Code>", 431),
    ("huge unsigned body", "<Code>RequestEntityTooLarge</Code>", 413),
    ("sigv2", "Signature Version 4", 400),
    ("malformed", "<Code>IncompleteSignature</Code>", 400),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_has_its_code_its_status_and_its_id() {
    let cloud = Cloud::new().await;
    let names: Vec<&str> = ROWS
        .iter()
        .map(|row| row.0)
        .chain(RAW_ROWS.iter().map(|row| row.0))
        .collect();
    let seen = cloud.boto3(&names).await;
    let audit = cloud.audit();
    let mut ids = Vec::new();
    for (name, code, status) in ROWS {
        let outcome = &seen[*name];
        assert_eq!(outcome["code"].as_str(), *code, "{name}: {outcome}");
        assert_eq!(outcome["status"].as_u64(), Some(*status), "{name}: {outcome}");
        ids.push((name, outcome["id"].as_str().expect(name)));
    }
    for (name, part, status) in RAW_ROWS {
        let outcome = &seen[*name];
        let body = outcome["body"].as_str().expect(name);
        assert!(body.contains(part), "{name}: {body}");
        assert_eq!(outcome["status"].as_u64(), Some(*status), "{name}");
        let id = outcome["id"].as_str().expect(name);
        assert!(
            body.contains(id),
            "{name}: the envelope has the header's id: {body}"
        );
        ids.push((name, id));
    }
    // One audit line for each call, under the id that the client saw.
    for (name, id) in &ids {
        let lines: Vec<_> = audit
            .iter()
            .filter(|line| line["requestId"].as_str() == Some(id))
            .collect();
        assert_eq!(lines.len(), 1, "{name}");
    }
    assert_eq!(audit.len(), ids.len());
    let skewed = seen["late"]["message"].as_str().expect("a message");
    assert!(skewed.starts_with("Signature expired: 2"), "{skewed}");
    assert!(
        skewed.contains("is now earlier than") && skewed.ends_with("- 15 min.)"),
        "{skewed}"
    );
    assert_eq!(seen["wrong secret"]["type"], "Sender");
    assert!(
        seen["unbuilt"]["message"]
            .as_str()
            .expect("a message")
            .contains("sts:AssumeRole")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_names_who_did_what_and_no_secret() {
    let cloud = Cloud::new().await;
    let seen = cloud
        .boto3(&["regions", "wrong secret", "regions dry", "key with token"])
        .await;
    let audit = cloud.audit();
    let line = |name: &str| {
        let id = &seen[name]["id"];
        audit.iter().find(|line| &line["requestId"] == id).expect(name)
    };
    let regions = line("regions");
    let admin = &cloud.bootstrap.tenant;
    assert_eq!(regions["principal"], "arn:aws:iam::000000000002:user/admin");
    assert_eq!(regions["principalType"], "User");
    assert_eq!(regions["account"], "000000000002");
    assert_eq!(regions["accessKeyId"], admin.access_key_id.as_str());
    assert_eq!(regions["service"], "ec2");
    assert_eq!(regions["action"], "DescribeRegions");
    assert_eq!(regions["verdict"], "allowed");
    assert_eq!(regions["sourceIp"], "127.0.0.1");
    assert_eq!(regions["tls"], "TLSv1.3");
    let pair = &regions["resources"][0];
    assert_eq!(pair["action"], "ec2:DescribeRegions");
    assert_eq!(
        pair["resource"],
        "arn:aws:ec2:eu-central-1:000000000002:region/here"
    );
    assert_eq!(pair["policy"], "arn:aws:iam::aws:policy/AdministratorAccess");
    assert_eq!(line("wrong secret")["verdict"], "unauthenticated");
    assert_eq!(line("wrong secret")["principal"], serde_json::Value::Null);
    assert_eq!(line("regions dry")["dryRun"], true);
    let text = std::fs::read_to_string(cloud.dir.path().join("log/audit.jsonl")).expect("the audit log");
    for secret in [admin.secret.expose(), "surplus", "Signature="] {
        assert!(!text.contains(secret));
    }
}

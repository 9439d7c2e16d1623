//! TLS, HTTP versions, the CA file and other clients.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cloud::{Cloud, REGION};

async fn curl(cloud: &Cloud, arguments: &[&str]) -> (bool, String) {
    let output = cloud
        .client_command("curl", &cloud.bootstrap.tenant)
        .args(["-sS", "--max-time", "20"])
        .args(arguments)
        .output()
        .await
        .expect("curl runs");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_signs_over_http_1_and_2_and_tls_1_2() {
    let cloud = Cloud::new().await;
    let admin = &cloud.bootstrap.tenant;
    let user = format!("{}:{}", admin.access_key_id, admin.secret.expose());
    let sigv4 = format!("aws:amz:{REGION}:sts");
    let (ca, url) = (cloud.ca.to_str().expect("a path"), cloud.endpoint());
    let base = [
        "--cacert",
        ca,
        "--aws-sigv4",
        &sigv4,
        "--user",
        &user,
        "-w",
        " HTTP/%{http_version}",
        "-d",
        "Action=GetCallerIdentity&Version=2011-06-15",
        &url,
    ];
    for (extra, version) in [
        (vec!["--http2"], "HTTP/2"),
        (vec!["--http1.1"], "HTTP/1.1"),
        (vec!["--tls-max", "1.2"], "HTTP/2"),
        (vec!["--tlsv1.3"], "HTTP/2"),
    ] {
        let (ok, text) = curl(&cloud, &[extra.as_slice(), &base].concat()).await;
        assert!(
            ok && text.contains("<Arn>arn:aws:iam::000000000002:user/admin</Arn>"),
            "{extra:?}: {text}"
        );
        assert!(text.contains(version), "{extra:?}: {text}");
    }
    let (_, address) = curl(
        &cloud,
        &[
            "--cacert",
            ca,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &format!("https://127.0.0.1:{}/", cloud.address.port()),
        ],
    )
    .await;
    assert_eq!(address, "403", "the certificate names the address too");
    let (trusted, text) = curl(&cloud, &[&url]).await;
    assert!(!trusted, "no other CA vouches for it: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ca_file_is_served_to_anybody() {
    let cloud = Cloud::new().await;
    let url = format!("{}/.well-known/spinifex-ca.pem", cloud.endpoint());
    let (ok, text) = curl(&cloud, &["-k", &url]).await;
    assert!(ok);
    assert_eq!(text, std::fs::read_to_string(&cloud.ca).expect("the CA file"));
    assert!(text.starts_with("-----BEGIN CERTIFICATE-----"));
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_is_told_so_and_silence_delays_nobody() {
    let cloud = Cloud::new().await;
    let silent = TcpStream::connect(cloud.address).await.expect("connected");
    let mut plain = TcpStream::connect(cloud.address).await.expect("connected");
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .expect("sent");
    let mut answer = Vec::new();
    // The peer may reset after its answer, since it read only one byte of ours.
    let _ = plain.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.ends_with("Use an https:// address.\n"), "{answer}");
    assert_eq!(cloud.boto3(&["who"]).await["who"]["status"], 200);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_aws_cli_needs_only_its_environment() {
    let cloud = Cloud::new().await;
    let output = cloud
        .client_command("aws", &cloud.bootstrap.tenant)
        .args(["sts", "get-caller-identity", "--output", "text", "--query", "Arn"])
        .output()
        .await
        .expect("the CLI runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "arn:aws:iam::000000000002:user/admin"
    );
}

//! The public example of AWS's documentation, botocore's signer against our verifier, and mutations.

use std::process::Command;

use proptest::prelude::{Strategy, any, prop, proptest};
use proptest::{prop_assert, prop_assert_eq};
use time::macros::datetime;

use super::canonical::{PathStyle, QueryStyle, RequestView, canonical_request, hex_sha256};
use super::present::{Carrier, PresentFault, Presented, show_timestamp};
use super::sign::{Signer, SigningKey};
use super::verify::{VerifyFault, check_required_headers, check_time, verify};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// The worked example of the General Reference: IAM ListUsers.
#[test]
fn the_documented_example_verifies() {
    let headers: [(&str, &[u8]); 4] = [
        (
            "content-type",
            b"application/x-www-form-urlencoded; charset=utf-8",
        ),
        ("host", b"iam.amazonaws.com"),
        ("x-amz-date", b"20150830T123600Z"),
        (
            "authorization",
            b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
              SignedHeaders=content-type;host;x-amz-date, \
              Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        ),
    ];
    let request = RequestView {
        method: "GET",
        path: "/",
        query: "Action=ListUsers&Version=2010-05-08",
        headers: &headers,
    };
    let canonical = canonical_request(
        &request,
        &["content-type", "host", "x-amz-date"],
        &hex_sha256(b""),
        PathStyle::EncodedTwice,
        QueryStyle::Normalised,
    );
    assert_eq!(
        hex_sha256(&canonical),
        "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
    );
    let presented = Presented::parse(&request).expect("well formed");
    let key = SigningKey::derive(SECRET, "20150830", "us-east-1", "iam");
    check_required_headers(&presented, &request, false).expect("host and date are signed");
    verify(
        &presented,
        &request,
        &hex_sha256(b""),
        PathStyle::EncodedTwice,
        &key,
    )
    .expect("AWS's own signature");
}

#[test]
fn paths_are_normalised_and_encoded_again_but_not_for_s3() {
    let canonical_path = |path: &str, style| {
        let request = RequestView {
            method: "GET",
            path,
            query: "",
            headers: &[],
        };
        let text = canonical_request(&request, &[], "", style, QueryStyle::Normalised);
        String::from_utf8(text)
            .expect("ASCII")
            .lines()
            .nth(1)
            .expect("second line")
            .to_owned()
    };
    for (path, twice) in [
        ("", "/"),
        ("/", "/"),
        ("//", "/"),
        ("/a/./b/../c", "/a/c"),
        ("/a//b/", "/a/b/"),
        ("/example/..", "/"),
        ("/a%20b", "/a%2520b"),
        ("/2013-04-01/hostedzone/", "/2013-04-01/hostedzone/"),
        ("/f/arn:aws", "/f/arn%3Aaws"),
    ] {
        assert_eq!(canonical_path(path, PathStyle::EncodedTwice), twice, "{path}");
    }
    assert_eq!(
        canonical_path("/b/a//../%20x", PathStyle::Verbatim),
        "/b/a//../%20x"
    );
}

#[test]
fn queries_are_sorted_by_encoded_name_then_value() {
    let canonical_query = |query: &str| {
        let request = RequestView {
            method: "GET",
            path: "/",
            query,
            headers: &[],
        };
        let text = canonical_request(&request, &[], "", PathStyle::Verbatim, QueryStyle::Normalised);
        String::from_utf8(text)
            .expect("ASCII")
            .lines()
            .nth(2)
            .expect("third line")
            .to_owned()
    };
    for (query, expected) in [
        ("b=2&a=1", "a=1&b=2"),
        ("a=2&a=1", "a=1&a=2"),
        ("a", "a="),
        ("k=a=b", "k=a%3Db"),
        ("k=a%2Bb", "k=a%2Bb"),
        ("k=a+b", "k=a%20b"),
        ("k=%e1%88%b4", "k=%E1%88%B4"),
        ("k=%zz", "k=%25zz"),
        ("X-Amz-Signature=0&a=1", "a=1"),
    ] {
        assert_eq!(canonical_query(query), expected, "{query}");
    }
}

#[test]
fn header_values_are_trimmed_collapsed_and_joined() {
    let headers: [(&str, &[u8]); 3] = [("h", b"  a   b  "), ("h", b"c"), ("other", b"x")];
    let request = RequestView {
        method: "GET",
        path: "/",
        query: "",
        headers: &headers,
    };
    let text = canonical_request(&request, &["h"], "", PathStyle::Verbatim, QueryStyle::Normalised);
    assert!(String::from_utf8(text).expect("ASCII").contains("\nh:a b,c\n"));
}

fn header_request(authorization: &[u8]) -> [(&str, &[u8]); 3] {
    [
        ("host", b"h"),
        ("x-amz-date", b"20150830T123600Z"),
        ("authorization", authorization),
    ]
}

fn parse_header(authorization: &str) -> Result<Presented, PresentFault> {
    let headers = header_request(authorization.as_bytes());
    Presented::parse(&RequestView {
        method: "GET",
        path: "/",
        query: "",
        headers: &headers,
    })
}

#[test]
fn authorization_parts_come_in_any_order_and_spacing_each_once() {
    let scope = "AKID/20150830/us-east-1/iam/aws4_request";
    let mac = "0".repeat(64);
    for good in [
        format!("AWS4-HMAC-SHA256 Signature={mac},SignedHeaders=host;x-amz-date,Credential={scope}"),
        format!("AWS4-HMAC-SHA256   Credential={scope} ,  SignedHeaders=Host;X-Amz-Date,Signature={mac}"),
    ] {
        let presented = parse_header(&good).expect("well formed");
        assert_eq!(presented.key_id, "AKID");
        assert_eq!(presented.signed_headers, ["host", "x-amz-date"]);
        assert_eq!(presented.carrier, Carrier::Header);
    }
    for bad in [
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host"),
        format!("AWS4-HMAC-SHA256 Credential={scope}, Signature={mac}"),
        format!("AWS4-HMAC-SHA256 SignedHeaders=host, Signature={mac}"),
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={mac}, Signature={mac}"),
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={mac}, Extra=1"),
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;host, Signature={mac}"),
        format!(
            "AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={}",
            &mac[1..]
        ),
        format!(
            "AWS4-HMAC-SHA256 Credential=AKID/20150831/us-east-1/iam/aws4_request, SignedHeaders=host, Signature={mac}"
        ),
        format!(
            "AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/iam, SignedHeaders=host, Signature={mac}"
        ),
        format!("AWS4-ECDSA-P256-SHA256 Credential={scope}, SignedHeaders=host, Signature={mac}"),
        "AWS AKID:c2ln".to_owned(),
        String::new(),
    ] {
        assert!(parse_header(&bad).is_err(), "{bad}");
    }
}

#[test]
fn both_forms_and_neither_are_told_apart() {
    let headers = header_request(b"AWS4-HMAC-SHA256 x=y");
    let both = RequestView {
        method: "GET",
        path: "/",
        query: "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        headers: &headers,
    };
    assert_eq!(Presented::parse(&both).err(), Some(PresentFault::Both));
    let neither = RequestView {
        method: "GET",
        path: "/",
        query: "",
        headers: &headers[..2],
    };
    assert_eq!(Presented::parse(&neither).err(), Some(PresentFault::Absent));
    let old = RequestView {
        method: "GET",
        path: "/",
        query: "AWSAccessKeyId=A&Signature=x",
        headers: &headers[..2],
    };
    assert!(matches!(Presented::parse(&old), Err(PresentFault::Algorithm(_))));
}

#[test]
fn the_clock_may_be_off_by_fifteen_minutes() {
    let scope = "AKID/20150830/us-east-1/iam/aws4_request";
    let mac = "0".repeat(64);
    let presented = parse_header(&format!(
        "AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={mac}"
    ))
    .expect("well formed");
    assert_eq!(check_time(&presented, datetime!(2015-08-30 12:51:00 UTC)), Ok(()));
    assert_eq!(check_time(&presented, datetime!(2015-08-30 12:21:00 UTC)), Ok(()));
    let late = check_time(&presented, datetime!(2015-08-30 12:51:01 UTC)).expect_err("a second too late");
    assert_eq!(
        late.to_string(),
        "Signature expired: 20150830T123600Z is now earlier than 20150830T123601Z (20150830T125101Z - 15 min.)"
    );
    let early = check_time(&presented, datetime!(2015-08-30 12:20:59 UTC)).expect_err("a second too early");
    assert!(matches!(early, VerifyFault::NotYetCurrent { .. }));
}

#[test]
fn presigned_requests_have_a_beginning_and_an_end() {
    let query = |expires: &str| {
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20150830%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20150830T123600Z&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
            "0".repeat(64)
        )
    };
    let parse = |text: &str| {
        Presented::parse(&RequestView {
            method: "GET",
            path: "/",
            query: text,
            headers: &[("host", b"h")],
        })
    };
    let presented = parse(&query("60")).expect("well formed");
    assert_eq!(check_time(&presented, datetime!(2015-08-30 12:37:00 UTC)), Ok(()));
    assert_eq!(check_time(&presented, datetime!(2015-08-30 12:21:00 UTC)), Ok(()));
    for outside in [
        datetime!(2015-08-30 12:37:01 UTC),
        datetime!(2015-08-30 12:20:59 UTC),
    ] {
        assert_eq!(check_time(&presented, outside), Err(VerifyFault::PresignedEnded));
    }
    for bad in ["0", "604801", "-1", "x", ""] {
        assert!(parse(&query(bad)).is_err(), "{bad}");
    }
    parse(&query("604800")).expect("a week");
}

#[test]
fn headers_that_must_be_signed_are_demanded() {
    let mac = "0".repeat(64);
    let with = |signed: &str, extra: &'static str, s3: bool| {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/iam/aws4_request, SignedHeaders={signed}, Signature={mac}"
        );
        let mut headers = header_request(authorization.as_bytes()).to_vec();
        headers.push((extra, b"v"));
        let request = RequestView {
            method: "GET",
            path: "/",
            query: "",
            headers: &headers,
        };
        check_required_headers(&Presented::parse(&request).expect("well formed"), &request, s3)
    };
    assert_eq!(with("host;x-amz-date", "user-agent", false), Ok(()));
    assert_eq!(with("host;x-amz-date", "x-amz-content-sha256", false), Ok(()));
    assert!(with("host;x-amz-date", "x-amz-content-sha256", true).is_err());
    assert!(with("host;x-amz-date", "x-amz-target", false).is_err());
    assert!(with("x-amz-date", "user-agent", false).is_err());
    assert_eq!(
        with("host;x-amz-date;absent", "user-agent", false),
        Err(VerifyFault::SignedButAbsent("absent".to_owned()))
    );
}

/// A request as botocore signed it.
#[derive(Debug)]
struct Signed {
    name: String,
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    service: String,
    payload: Option<String>,
}

/// Lets botocore sign a set of awkward requests.
fn sign_with_botocore() -> Vec<Signed> {
    let output = Command::new("python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/sigv4/sign_with_botocore.py"
        ))
        .arg(SECRET)
        .output()
        .expect("python3 runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cases: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    cases
        .as_array()
        .expect("a list")
        .iter()
        .map(|case| Signed {
            name: text(&case["name"]),
            method: text(&case["method"]),
            path: text(&case["path"]),
            query: text(&case["query"]),
            headers: case["headers"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|pair| (text(&pair[0]), text(&pair[1])))
                .collect(),
            body: text(&case["body"]).into_bytes(),
            service: text(&case["service"]),
            payload: case["payload"].as_str().map(str::to_owned),
        })
        .collect()
}

fn check(signed: &Signed) -> Result<(), String> {
    let headers: Vec<(&str, &[u8])> = signed
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let request = RequestView {
        method: &signed.method,
        path: &signed.path,
        query: &signed.query,
        headers: &headers,
    };
    let presented = Presented::parse(&request).map_err(|fault| fault.to_string())?;
    let s3 = signed.service == "s3";
    check_required_headers(&presented, &request, s3).map_err(|fault| fault.to_string())?;
    let scope = &presented.scope;
    if scope.service != signed.service || scope.region != "eu-central-1" || presented.key_id != "AKIDEXAMPLE"
    {
        return Err("another scope".to_owned());
    }
    let key = SigningKey::derive(SECRET, &scope.date, &scope.region, &scope.service);
    let style = if s3 {
        PathStyle::Verbatim
    } else {
        PathStyle::EncodedTwice
    };
    let hash = signed.payload.clone().unwrap_or_else(|| hex_sha256(&signed.body));
    verify(&presented, &request, &hash, style, &key).map_err(|fault| fault.to_string())
}

#[test]
fn what_botocore_signs_verifies_and_no_flipped_bit_does() {
    let cases = sign_with_botocore();
    assert!(cases.len() >= 10, "the script signs every awkward case");
    for case in &cases {
        check(case).unwrap_or_else(|fault| panic!("{}: {fault}\n{case:?}", case.name));
        assert_mutations_fail(case);
    }
}

/// Flips the lowest bit of each byte of everything signed.
fn assert_mutations_fail(case: &Signed) {
    let clone = || Signed {
        name: case.name.clone(),
        method: case.method.clone(),
        path: case.path.clone(),
        query: case.query.clone(),
        headers: case.headers.clone(),
        body: case.body.clone(),
        service: case.service.clone(),
        payload: case.payload.clone(),
    };
    let flip = |text: &str, at: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1;
        String::from_utf8(bytes).ok()
    };
    let refused = |mutant: Signed, what: String| {
        assert!(
            check(&mutant).is_err(),
            "{}: {what} was accepted\n{mutant:?}",
            case.name
        );
    };
    for at in 0..case.method.len() {
        if let Some(method) = flip(&case.method, at) {
            refused(Signed { method, ..clone() }, format!("method byte {at}"));
        }
    }
    // A dot that becomes a slash leaves the same normalised path, which is the same request.
    let path_bytes = if case.name == "dots" {
        1..1
    } else {
        1..case.path.len()
    };
    for at in path_bytes {
        if let Some(path) = flip(&case.path, at) {
            refused(Signed { path, ..clone() }, format!("path byte {at}"));
        }
    }
    for at in 0..case.query.len() {
        // Upper and lower case of a percent-encoded byte are one request.
        if let Some(query) = flip(&case.query, at).filter(|query| !query.eq_ignore_ascii_case(&case.query)) {
            refused(Signed { query, ..clone() }, format!("query byte {at}"));
        }
    }
    for (index, (name, value)) in case.headers.iter().enumerate() {
        if name == "user-agent" {
            continue;
        }
        for at in 0..value.len() {
            let Some(mutated) = flip(value, at) else { continue };
            // A blank that becomes `!` counts; blanks between the parts of Authorization do not.
            let mut headers = case.headers.clone();
            headers[index].1 = mutated;
            refused(Signed { headers, ..clone() }, format!("{name} byte {at}"));
        }
    }
    if case.payload.is_none() {
        for at in 0..case.body.len() {
            let mut body = case.body.clone();
            body[at] ^= 1;
            refused(Signed { body, ..clone() }, format!("body byte {at}"));
        }
    }
}

fn word() -> impl Strategy<Value = String> {
    prop::string::string_regex("[ -~äß+=&%/]{0,12}").expect("a valid expression")
}

proptest! {
    /// What we sign we verify, whatever is in path, query, headers and body.
    #[test]
    fn our_signatures_verify(
        path in word(),
        pairs in prop::collection::vec((word(), word()), 0..5),
        header in word(),
        body in prop::collection::vec(any::<u8>(), 0..64),
        flip in any::<prop::sample::Index>(),
    ) {
        let path = format!("/{}", super::canonical::uri_encode(&path));
        let query: Vec<String> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", super::canonical::uri_encode(name), super::canonical::uri_encode(value)))
            .collect();
        let query = query.join("&");
        let timestamp = show_timestamp(datetime!(2026-11-30 13:00:00 UTC));
        let mut headers: Vec<(&str, &[u8])> =
            vec![("host", b"localhost:9999"), ("x-amz-date", timestamp.as_bytes()), ("x-amz-meta", header.as_bytes())];
        let key = SigningKey::derive(SECRET, "20261130", "eu-central-1", "sts");
        let signer = Signer {
            key_id: "AKIDEXAMPLE",
            key: &key,
            region: "eu-central-1",
            service: "sts",
            path_style: PathStyle::EncodedTwice,
        };
        let unsigned = RequestView { method: "POST", path: &path, query: &query, headers: &headers };
        let authorization = signer.authorization(&unsigned, &timestamp, &body);
        headers.push(("authorization", authorization.as_bytes()));
        let request = RequestView { method: "POST", path: &path, query: &query, headers: &headers };
        let presented = Presented::parse(&request).expect("our own header");
        let outcome = verify(&presented, &request, &hex_sha256(&body), PathStyle::EncodedTwice, &key);
        prop_assert_eq!(outcome, Ok(()));
        if !body.is_empty() {
            let mut other = body.clone();
            let at = flip.index(other.len());
            other[at] ^= 0x10;
            let outcome = verify(&presented, &request, &hex_sha256(&other), PathStyle::EncodedTwice, &key);
            prop_assert!(outcome.is_err());
        }
    }

    /// No bytes make the parser panic.
    #[test]
    fn parsing_never_panics(header in any::<Vec<u8>>(), query in ".{0,80}") {
        let headers = header_request(&header);
        let _ = Presented::parse(&RequestView { method: "GET", path: "/", query: &query, headers: &headers });
        let prefixed = [b"AWS4-HMAC-SHA256 ".as_slice(), &header].concat();
        let headers = header_request(&prefixed);
        let _ = Presented::parse(&RequestView { method: "GET", path: "/", query: "", headers: &headers });
        let query = format!("X-Amz-Algorithm=AWS4-HMAC-SHA256&{query}");
        let _ = Presented::parse(&RequestView { method: "GET", path: "/", query: &query, headers: &headers[..2] });
    }
}

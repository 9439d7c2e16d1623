//! Every operation of `operations.toml`, and one service at least per protocol, against botocore: what it serialises we
//! must decode to the same values, what we encode it must parse to the same values.
//!
//! One Python process (`botocore_peer.py`) makes the samples from its own model and checks our answers. Without
//! botocore the tests fail: a codec that was not checked counts as broken.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use aws_shapes::schema::{OperationSchema, ServiceSchema};
use aws_wire::{Detected, decode_into, detect_operation, encode_output};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use serde_json::{Value, json};

use crate::canonical;

/// The Python process; it ends with this value.
pub struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    pub fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/botocore_peer.py");
        let mut child = Command::new("python3")
            .args(["-W", "ignore", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need python3 with what tests/requirements.txt names");
        let requests = child.stdin.take().expect("a piped stdin");
        let answers = BufReader::new(child.stdout.take().expect("a piped stdout"));
        let mut peer = Self {
            child,
            requests,
            answers,
        };
        let greeting = peer.answer();
        let pinned = pinned_version();
        assert_eq!(
            greeting["botocore"].as_str(),
            Some(pinned.as_str()),
            "operations.toml pins botocore {pinned}; run `pip install botocore=={pinned}`"
        );
        peer
    }

    pub fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").expect("the Python process ended");
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("reading from the Python process");
        assert!(
            !line.is_empty(),
            "the Python process ended; these tests need botocore: run `pip install -r tests/requirements.txt`",
        );
        serde_json::from_str(&line).expect("the Python process answers JSON")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pinned_version() -> String {
    let operations = include_str!("../../../aws-shapes/operations.toml");
    let line = operations
        .lines()
        .find_map(|line| line.strip_prefix("botocore = "));
    line.expect("operations.toml pins botocore")
        .trim_matches('"')
        .to_owned()
}

/// All services with shapes, the product's and those of the proof.
pub fn services() -> impl Iterator<Item = &'static ServiceSchema> {
    aws_shapes::SERVICES
        .iter()
        .chain(aws_shapes::proof::SERVICES)
        .copied()
}

/// What the Python side needs of a response.
pub fn describe(response: &Response<Bytes>) -> (u16, Value, String) {
    let headers: serde_json::Map<String, Value> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    (
        response.status().as_u16(),
        headers.into(),
        STANDARD.encode(response.body()),
    )
}

/// A request as the Python side describes it.
pub fn request_of(sample: &Value) -> (Parts, Bytes) {
    let text = |key: &str| sample[key].as_str().expect("a text of the sample");
    let mut request = Request::builder().method(text("method")).uri(text("url"));
    for (name, value) in sample["headers"].as_object().expect("headers") {
        request = request.header(name, value.as_str().expect("a header's text"));
    }
    let body = Bytes::from(STANDARD.decode(text("body")).expect("base64"));
    (request.body(()).expect("a request").into_parts().0, body)
}

fn check_input(operation: &'static OperationSchema, sample: &Value, faults: &mut Vec<String>) {
    let what = format!(
        "{}:{} input {}",
        operation.service.name, operation.name, sample["variant"]
    );
    let (parts, body) = request_of(sample);
    match detect_operation(operation.service, &parts, &body) {
        Ok(Detected::Known(found)) if std::ptr::eq(found, operation) => {}
        other => faults.push(format!(
            "{what}: detected as {:?}",
            other.map(|found| found.name())
        )),
    }
    let mut input = (operation.new_input)();
    if let Err(error) = decode_into(operation, &parts, &body, input.as_mut()) {
        faults.push(format!(
            "{what}: {error}\n{} {}\n{}",
            parts.method,
            parts.uri,
            String::from_utf8_lossy(&body)
        ));
        return;
    }
    compare(
        &what,
        &canonical::write(input.as_ref()),
        &sample["canonical"],
        faults,
    );
}

fn check_output(
    peer: &mut Peer,
    operation: &'static OperationSchema,
    sample: &Value,
    faults: &mut Vec<String>,
) {
    let what = format!(
        "{}:{} output {}",
        operation.service.name, operation.name, sample["variant"]
    );
    let mut output = (operation.new_output)();
    canonical::read(&sample["canonical"], output.as_mut());
    let response = encode_output(operation, output.as_ref(), "req-0123");
    let (status, headers, body) = describe(&response);
    let answer = peer.ask(&json!({
        "do": "parse", "service": operation.service.name, "operation": operation.name,
        "status": status, "headers": headers, "body": body,
    }));
    if let Some(failure) = answer.get("failure") {
        faults.push(format!(
            "{what}: botocore: {failure}\n{}",
            String::from_utf8_lossy(response.body())
        ));
        return;
    }
    if answer["request_id"] != "req-0123" {
        faults.push(format!("{what}: the request id is {}", answer["request_id"]));
    }
    compare(&what, &answer["canonical"], &sample["canonical"], faults);
}

/// Notes the first place where two values differ.
fn compare(what: &str, ours: &Value, theirs: &Value, faults: &mut Vec<String>) {
    fn differ(path: &str, left: &Value, right: &Value) -> Option<String> {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                let names = left.keys().chain(right.keys());
                names.into_iter().find_map(|name| {
                    let pick =
                        |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or(Value::Null);
                    differ(&format!("{path}.{name}"), &pick(left), &pick(right))
                })
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                let pairs = left.iter().zip(right).enumerate();
                pairs
                    .into_iter()
                    .find_map(|(index, (left, right))| differ(&format!("{path}[{index}]"), left, right))
            }
            _ if left == right => None,
            _ => Some(format!("{path}: got {left}, wanted {right}")),
        }
    }
    if let Some(difference) = differ("", ours, theirs) {
        faults.push(format!("{what}: {difference}"));
    }
}

#[test]
fn every_operation_agrees_with_botocore() {
    let mut peer = Peer::start();
    let mut faults = Vec::new();
    let (mut inputs, mut outputs) = (0, 0);
    for operation in services().flat_map(|service| service.operations.iter().copied()) {
        let samples = peer
            .ask(&json!({"do": "samples", "service": operation.service.name, "operation": operation.name}));
        if let Some(failure) = samples.get("failure") {
            faults.push(format!(
                "{}:{}: no samples: {failure}",
                operation.service.name, operation.name
            ));
            continue;
        }
        for sample in samples["inputs"].as_array().expect("inputs") {
            check_input(operation, sample, &mut faults);
            inputs += 1;
        }
        for sample in samples["outputs"].as_array().expect("outputs") {
            check_output(&mut peer, operation, sample, &mut faults);
            outputs += 1;
        }
        if !operation.has_output {
            let empty = json!({"variant": "empty", "canonical": {}});
            check_output(&mut peer, operation, &empty, &mut faults);
            outputs += 1;
        }
    }
    println!("{inputs} requests of botocore decoded, {outputs} answers parsed by it");
    assert!(
        faults.is_empty(),
        "{} disagreements with botocore:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(inputs > 200 && outputs > 200, "the services have operations");
}

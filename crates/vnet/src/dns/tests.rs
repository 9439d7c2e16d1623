//! Names of a network as a table, and hostile queries.

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};

use super::View;
use crate::program::{NetworkProgram, Port};

fn view() -> View {
    let port: Port = serde_json::from_value(serde_json::json!({
        "id": "a", "number": 1, "mac": "02:00:00:00:00:01", "subnet": "s", "address": "10.0.1.10", "groups": [],
        "dhcp": { "hostname": "ip-10-0-1-10", "domain": "eu-central-1.compute.internal" }
    }))
    .expect("a port");
    let program: NetworkProgram = serde_json::from_value(serde_json::json!({
        "network": "n", "generation": 1, "blocks": ["10.0.0.0/16"], "subnets": [], "tables": [], "ports": [],
        "groups": []
    }))
    .expect("a program");
    View::new(&NetworkProgram {
        ports: vec![port],
        ..program
    })
}

fn ask(name: &str, kind: RecordType) -> Option<Message> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).expect("a name"), kind));
    view().answer(&message)
}

fn outcome(name: &str, kind: RecordType) -> Option<(ResponseCode, Vec<String>)> {
    let answer = ask(name, kind)?;
    let data = answer
        .answers
        .iter()
        .map(|record| record.data.to_string())
        .collect();
    Some((answer.metadata.response_code, data))
}

#[test]
fn own_names_are_answered_and_absent_ones_end_here() {
    let found = |data: &str| Some((ResponseCode::NoError, vec![data.to_owned()]));
    let name = "ip-10-0-1-10.eu-central-1.compute.internal.";
    assert_eq!(outcome(name, RecordType::A), found("10.0.1.10"));
    assert_eq!(outcome(&name.to_uppercase(), RecordType::A), found("10.0.1.10"));
    assert_eq!(outcome("10.1.0.10.in-addr.arpa.", RecordType::PTR), found(name));
    assert_eq!(
        outcome(name, RecordType::AAAA),
        Some((ResponseCode::NoError, Vec::new()))
    );
    let absent = Some((ResponseCode::NXDomain, Vec::new()));
    assert_eq!(
        outcome("ip-10-0-1-11.eu-central-1.compute.internal.", RecordType::A),
        absent
    );
    assert_eq!(outcome("11.1.0.10.in-addr.arpa.", RecordType::PTR), absent);
    assert_eq!(outcome("example.com.", RecordType::A), None);
    assert_eq!(outcome("1.2.0.192.in-addr.arpa.", RecordType::PTR), None);
}

#[test]
fn negative_answers_say_for_how_long() {
    let answer = ask("absent.internal.", RecordType::A).expect("ours");
    assert_eq!(answer.authorities.len(), 1);
    assert!(answer.metadata.authoritative);
}

#[test]
fn hostile_queries_do_no_harm() {
    let mut state = 3u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let mut plain = Message::new(7, MessageType::Query, OpCode::Query);
    plain.add_query(Query::query(
        Name::from_ascii("a.internal.").expect("a name"),
        RecordType::A,
    ));
    let plain = plain.to_vec().expect("it encodes");
    for _ in 0..50_000 {
        let mut bytes = plain.clone();
        for _ in 0..3 {
            let place = usize::from(noise()) % bytes.len();
            bytes[place] = noise();
        }
        if let Ok(message) = Message::from_vec(&bytes) {
            let _ = view().answer(&message).map(|answer| answer.to_vec());
        }
    }
}

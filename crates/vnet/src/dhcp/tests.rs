//! The DHCP conversation as a table: who gets an answer, and which.

use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode};
use dhcproto::{Encodable, Encoder};

use super::{Answer, Lease, answer, respond};
use crate::program::{DhcpOptions, MacAddress};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 5];

fn lease() -> Lease {
    Lease {
        mac: MacAddress(MAC),
        address: [10, 0, 0, 5].into(),
        mask: [255, 255, 255, 0].into(),
        router: [10, 0, 0, 1].into(),
        mtu: 1450,
        options: DhcpOptions {
            hostname: Some("ip-10-0-0-5".to_owned()),
            ..DhcpOptions::default()
        },
    }
}

fn request(kind: MessageType, options: &[DhcpOption]) -> Message {
    let none = [0, 0, 0, 0].into();
    let mut message = Message::new_with_id(7, none, none, none, none, &MAC);
    message.opts_mut().insert(DhcpOption::MessageType(kind));
    for option in options {
        message.opts_mut().insert(option.clone());
    }
    message
}

fn kind(answer: &Answer) -> MessageType {
    answer.message.opts().msg_type().expect("every answer has a type")
}

#[test]
fn an_offer_carries_the_lease() {
    let offer = answer(&lease(), &request(MessageType::Discover, &[])).expect("an offer");
    assert_eq!(kind(&offer), MessageType::Offer);
    assert_eq!(offer.to, std::net::Ipv4Addr::from([10, 0, 0, 5]));
    assert_eq!(offer.message.yiaddr(), offer.to);
    let option = |code| offer.message.opts().get(code).cloned();
    assert_eq!(
        option(OptionCode::Router),
        Some(DhcpOption::Router(vec![[10, 0, 0, 1].into()]))
    );
    assert_eq!(
        option(OptionCode::InterfaceMtu),
        Some(DhcpOption::InterfaceMtu(1450))
    );
    assert_eq!(
        option(OptionCode::AddressLeaseTime),
        Some(DhcpOption::AddressLeaseTime(3600))
    );
    assert_eq!(
        option(OptionCode::Hostname),
        Some(DhcpOption::Hostname("ip-10-0-0-5".to_owned()))
    );
    assert_eq!(option(OptionCode::DomainNameServer), None);
}

#[test]
fn requests_are_granted_refused_or_not_ours() {
    let ask = |address: [u8; 4]| DhcpOption::RequestedIpAddress(address.into());
    let server = |address: [u8; 4]| DhcpOption::ServerIdentifier(address.into());
    let outcome = |options: &[DhcpOption]| {
        answer(&lease(), &request(MessageType::Request, options)).map(|answer| kind(&answer))
    };
    assert_eq!(
        outcome(&[ask([10, 0, 0, 5]), server([10, 0, 0, 1])]),
        Some(MessageType::Ack)
    );
    assert_eq!(outcome(&[ask([10, 0, 0, 5])]), Some(MessageType::Ack));
    assert_eq!(outcome(&[ask([10, 0, 0, 6])]), Some(MessageType::Nak));
    assert_eq!(outcome(&[ask([10, 0, 0, 5]), server([10, 0, 0, 9])]), None);
    let mut renewal = request(MessageType::Request, &[]);
    renewal.set_ciaddr([10, 0, 0, 5]);
    assert_eq!(
        answer(&lease(), &renewal).map(|answer| kind(&answer)),
        Some(MessageType::Ack)
    );
}

#[test]
fn the_broadcast_flag_is_honoured() {
    let mut discover = request(MessageType::Discover, &[]);
    discover.set_flags(Flags::default().set_broadcast());
    let offer = answer(&lease(), &discover).expect("an offer");
    assert_eq!(offer.to, std::net::Ipv4Addr::BROADCAST);
}

#[test]
fn others_get_no_answer() {
    let mut foreign = request(MessageType::Discover, &[]);
    foreign.set_chaddr(&[2, 0, 0, 0, 0, 6]);
    let mut relayed = request(MessageType::Discover, &[]);
    relayed.set_giaddr([10, 0, 0, 9]);
    let mut reply = request(MessageType::Discover, &[]);
    reply.set_opcode(Opcode::BootReply);
    for message in [
        foreign,
        relayed,
        reply,
        request(MessageType::Release, &[]),
        request(MessageType::Decline, &[]),
    ] {
        assert_eq!(answer(&lease(), &message), None);
    }
}

fn noise(state: &mut u32) -> u8 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*state >> 24) as u8
}

#[test]
fn garbage_gets_no_answer() {
    let mut state = 1;
    for length in 0..600 {
        let bytes: Vec<u8> = (0..length).map(|_| noise(&mut state)).collect();
        assert_eq!(respond(&lease(), &bytes), None);
    }
}

#[test]
fn strange_options_do_no_harm() {
    let mut plain = Vec::new();
    let discover = request(MessageType::Discover, &[]);
    discover
        .encode(&mut Encoder::new(&mut plain))
        .expect("it encodes");
    assert!(respond(&lease(), &plain).is_some());
    plain.truncate(240);
    let mut state = 7;
    for round in 0..20_000 {
        let mut bytes = plain.clone();
        bytes.extend_from_slice(&[53, 1, 1]);
        for _ in 0..round % 40 {
            bytes.push(noise(&mut state));
        }
        let _ = respond(&lease(), &bytes);
    }
}

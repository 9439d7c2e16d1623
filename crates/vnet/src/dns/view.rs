//! The names of one network, and the answers that follow from them alone.
//!
//! Pure. A name is ours if a port has it, if it is below a private-use domain (`.internal`), or if it is the
//! reverse name of an address in the network's blocks: for those the answer is final and nothing is asked elsewhere.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use hickory_proto::op::{Edns, Message, ResponseCode};
use hickory_proto::rr::rdata::{A, PTR, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use ipnet::{IpNet, Ipv4Net};

use crate::program::NetworkProgram;

/// How long answers may be kept.
const TTL_SECONDS: u32 = 60;
/// What we take over UDP from a client that says so (the DNS flag day's size).
const UDP_PAYLOAD_BYTES: u16 = 1_232;

/// The names of a network.
#[derive(Debug, Default)]
pub(crate) struct View {
    addresses: BTreeMap<Name, Ipv4Addr>,
    names: BTreeMap<Ipv4Addr, Name>,
    blocks: Vec<Ipv4Net>,
}

fn parse(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?.to_lowercase();
    name.set_fqdn(true);
    Some(name)
}

impl View {
    /// The names that the program's ports have: host name and domain as DHCP hands them out.
    pub(crate) fn new(program: &NetworkProgram) -> View {
        let mut view = View {
            blocks: program.blocks.clone(),
            ..View::default()
        };
        for port in &program.ports {
            if let (Some(host), Some(domain)) = (&port.dhcp.hostname, &port.dhcp.domain)
                && let Some(name) = parse(&format!("{host}.{domain}"))
            {
                view.addresses.insert(name.clone(), port.address);
                view.names.insert(port.address, name);
            }
        }
        view
    }

    /// The final answer to a query with one question; none if the name is not ours.
    pub(crate) fn answer(&self, query: &Message) -> Option<Message> {
        let question = query.queries.first()?;
        let name = question.name().to_lowercase();
        if question.query_class() != DNSClass::IN {
            return None;
        }
        let reverse = match name.parse_arpa_name() {
            Ok(IpNet::V4(net)) => Some(net),
            _ => None,
        };
        let record = match reverse {
            Some(net) if self.blocks.iter().any(|block| block.contains(&net)) => {
                let known = self.names.get(&net.addr()).filter(|_| net.prefix_len() == 32);
                known.map(|name| (RecordType::PTR, RData::PTR(PTR(name.clone()))))
            }
            _ => match self.addresses.get(&name) {
                Some(address) => Some((RecordType::A, RData::A(A(*address)))),
                None if parse("internal")?.zone_of(&name) => None,
                None => return None,
            },
        };
        let code = if record.is_some() {
            ResponseCode::NoError
        } else {
            ResponseCode::NXDomain
        };
        let mut answer = reply(query, code);
        answer.metadata.authoritative = true;
        match record {
            Some((kind, data)) if [kind, RecordType::ANY].contains(&question.query_type()) => {
                answer.add_answer(Record::from_rdata(question.name().clone(), TTL_SECONDS, data));
            }
            _ => {
                let zone = if name.num_labels() > 1 {
                    name.base_name()
                } else {
                    name
                };
                let contact = Name::root();
                let soa = SOA::new(zone.clone(), contact, 1, 3_600, 600, 86_400, TTL_SECONDS);
                answer.add_authority(Record::from_rdata(zone, TTL_SECONDS, RData::SOA(soa)));
            }
        }
        Some(answer)
    }
}

fn reply(query: &Message, code: ResponseCode) -> Message {
    let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.response_code = code;
    reply.add_queries(query.queries.iter().take(1).cloned());
    if query.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(UDP_PAYLOAD_BYTES);
        reply.set_edns(edns);
    }
    reply
}

/// An answer that has nothing but an error.
pub(super) fn refuse(query: &Message, code: ResponseCode) -> Message {
    reply(query, code)
}

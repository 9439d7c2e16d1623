//! One call: who asks, when, from where, with which request id. Made once by the gateway, read by everything after.
//!
//! A [`Call`] is complete before any operation sees it and does not change. It has one clock reading, so that
//! everything one call writes or compares agrees on the time, and it answers the global condition keys of
//! policies (`aws:…`, identity.md 2.7) only when one is asked for. What a call means, its decoded input, is with
//! the operation; only digests of its parameters are here, for client tokens and page tokens.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use aws_shapes::OperationSchema;
use aws_types::page::QueryBinding;
use aws_types::{AccountId, Region, Tags};
use policy::{Facts, HeldPolicies, Principal, Values};
use rand::RngCore;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::parameters::Parameters;

/// The id of a request: a random UUID (version 4), equal in envelope, header, log and audit line.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// A new random id.
    pub fn random() -> Self {
        let mut bytes = [0_u8; 16];
        rand::rng().fill_bytes(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let digits = hex::encode(bytes);
        let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
        Self(format!("{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..]).into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A caller that has proved who it is, with the policies it holds.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The account whose resources the call is about.
    pub account: AccountId,
    /// Who it is.
    pub principal: Principal,
    /// The access key id that signed; absent for in-process calls.
    pub access_key_id: Option<String>,
    /// Tags of the user, or of the role overridden by the session's.
    pub tags: Arc<Tags>,
    /// What it may do, compiled.
    pub policies: Arc<HeldPolicies>,
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Id of the request.
    pub request_id: RequestId,
    /// Who asks.
    pub caller: Caller,
    /// The region served (`us-east-1` where a global service was asked there).
    pub region: Region,
    /// The one clock reading of this call.
    pub now: OffsetDateTime,
    /// Address of the peer, IPv4-mapped addresses as IPv4.
    pub source_ip: IpAddr,
    /// `User-Agent` as sent.
    pub user_agent: Option<String>,
    /// True if the listener was TLS, and for in-process calls.
    pub secure_transport: bool,
    /// `amz-sdk-invocation-id`: equal in all attempts of one SDK call.
    pub invocation_id: Option<String>,
    /// `DryRun` was true: decide and validate, change nothing.
    pub dry_run: bool,
    parameters: Parameters,
}

impl Call {
    /// A call made in process for `caller` at `now`: no parameters, from the loopback address. The gateway sets
    /// the public fields and [`Call::with_parameters`].
    pub fn new(caller: Caller, region: Region, now: OffsetDateTime) -> Self {
        Self {
            request_id: RequestId::random(),
            caller,
            region,
            now,
            source_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            user_agent: None,
            secure_transport: true,
            invocation_id: None,
            dry_run: false,
            parameters: Parameters::default(),
        }
    }

    /// The same call with its parameters as sent.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Parameters) -> Self {
        self.parameters = parameters;
        self
    }

    /// Shorthand for the caller's account.
    pub fn account(&self) -> AccountId {
        self.caller.account
    }

    /// Digest of everything the caller asked for but the client token, `DryRun` and authentication: two calls
    /// with one client token are the same request exactly if this is equal (identity.md R31).
    pub fn parameter_digest(&self, operation: &OperationSchema) -> [u8; 32] {
        let token = operation.idempotency_token;
        self.parameters
            .digest(|name| token.is_some_and(|token| token.eq_ignore_ascii_case(name)))
    }

    /// What page tokens of this call are bound to: account, action, and all parameters but page size and token.
    pub fn page_binding(&self, operation: &OperationSchema) -> QueryBinding {
        let paging = |name: &str| {
            operation.paginator.is_some_and(|pages| {
                pages
                    .input_tokens
                    .iter()
                    .chain(&pages.limit_key)
                    .any(|own| own.eq_ignore_ascii_case(name))
            })
        };
        QueryBinding::new(self.account(), operation.name, &self.parameters.digest(paging))
    }
}

impl Facts for Call {
    fn find(&self, key: &str) -> Option<Values<'_>> {
        let name = key.strip_prefix("aws:")?;
        let owned = |text: String| Some(Values::One(Cow::Owned(text)));
        let borrowed = |text| Some(Values::One(Cow::Borrowed(text)));
        let principal = &self.caller.principal;
        match name {
            "sourceip" => owned(self.source_ip.to_string()),
            "securetransport" => borrowed(if self.secure_transport { "true" } else { "false" }),
            "currenttime" => owned(self.now.format(&Rfc3339).ok()?),
            "epochtime" => owned(self.now.unix_timestamp().to_string()),
            "requestedregion" => borrowed(self.region.as_str()),
            "useragent" => self.user_agent.as_deref().and_then(borrowed),
            "principalaccount" => owned(principal.account()?.to_string()),
            "principalarn" => borrowed(principal.principal_arn()?),
            "principaltype" => borrowed(principal.kind()),
            "userid" => owned(principal.userid()?),
            "username" => borrowed(principal.username()?),
            "principalisawsservice" | "viaawsservice" => borrowed("false"),
            _ => {
                let tag = name.strip_prefix("principaltag/")?;
                let (_, value) = self
                    .caller
                    .tags
                    .iter()
                    .find(|(own, _)| own.eq_ignore_ascii_case(tag))?;
                borrowed(value)
            }
        }
    }
}

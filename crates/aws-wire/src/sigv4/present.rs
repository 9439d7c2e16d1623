//! The credentials that a request presents, parsed strictly from its header or its query.
//!
//! Nothing here is believed: it only says which key claims to have signed what. Every part must be there exactly
//! once; a request with both forms is malformed, and so are SigV2 and SigV4a, with a text that says so.

use percent_encoding::percent_decode_str;
use time::OffsetDateTime;
use time::macros::format_description;

use super::canonical::RequestView;
use super::{ALGORITHM, SCOPE_END};

/// Longest presigned validity in seconds.
const EXPIRES_SECONDS_MAX: u32 = 604_800;

/// Where the credentials stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// In `Authorization`.
    Header,
    /// In the query: presigned, valid for this many seconds.
    Query {
        /// `X-Amz-Expires`.
        expires_seconds: u32,
    },
}

/// The scope of a signing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// `YYYYMMDD`.
    pub date: String,
    /// Region.
    pub region: String,
    /// Service, by its signing name.
    pub service: String,
}

impl Scope {
    /// As it stands in the string to sign.
    pub fn text(&self) -> String {
        format!("{}/{}/{}/{SCOPE_END}", self.date, self.region, self.service)
    }
}

/// What a request presents.
#[derive(Debug, Clone)]
pub struct Presented {
    /// Access key id.
    pub key_id: String,
    /// Scope of the key.
    pub scope: Scope,
    /// Names of the signed headers, lower case, sorted.
    pub signed_headers: Vec<String>,
    /// The signature.
    pub signature: [u8; 32],
    /// `YYYYMMDDThhmmssZ`, as signed.
    pub timestamp: String,
    /// The same as an instant.
    pub signed_at: OffsetDateTime,
    /// Header or query.
    pub carrier: Carrier,
    /// `x-amz-security-token`, from where the credentials stood.
    pub session_token: Option<String>,
}

/// Why nothing can be taken from a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PresentFault {
    /// The request has no credentials.
    #[error("Request is missing Authentication Token")]
    Absent,
    /// Both header and query have some.
    #[error("Only one of the Authorization header and the X-Amz-Algorithm query parameter may be present.")]
    Both,
    /// Another signature algorithm.
    #[error(
        "Unsupported signature algorithm '{0}': only AWS4-HMAC-SHA256 (Signature Version 4) is supported."
    )]
    Algorithm(String),
    /// A part is missing.
    #[error("Authorization {place} requires '{part}' parameter.")]
    Missing {
        /// Header or query.
        place: &'static str,
        /// The part.
        part: &'static str,
    },
    /// A part is there more than once.
    #[error("'{0}' is present more than once in the request's credentials.")]
    Repeated(String),
    /// A part does not have its form.
    #[error("The request's credentials are malformed: '{part}' {problem}.")]
    Form {
        /// The part.
        part: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
}

fn form(part: &'static str, problem: &'static str) -> PresentFault {
    PresentFault::Form { part, problem }
}

impl Presented {
    /// Reads the credentials of a request.
    ///
    /// # Errors
    /// [`PresentFault`].
    pub fn parse(request: &RequestView<'_>) -> Result<Self, PresentFault> {
        let mut headers = request.header_values("authorization");
        let header = headers.next();
        if headers.next().is_some() {
            return Err(PresentFault::Repeated("Authorization".to_owned()));
        }
        let in_query = request.query.contains("X-Amz-Algorithm=");
        match header {
            Some(_) if in_query => Err(PresentFault::Both),
            Some(header) => Self::from_header(request, header),
            None if in_query => Self::from_query(request),
            None if query_has(request.query, "AWSAccessKeyId")
                || query_has(request.query, "SignatureVersion") =>
            {
                Err(PresentFault::Algorithm("Signature Version 2".to_owned()))
            }
            None => Err(PresentFault::Absent),
        }
    }

    fn from_header(request: &RequestView<'_>, header: &[u8]) -> Result<Self, PresentFault> {
        let header = std::str::from_utf8(header)
            .map_err(|_| form("Authorization", "is not text"))?
            .trim();
        let (algorithm, rest) = header.split_once([' ', '\t']).unwrap_or((header, ""));
        if algorithm != ALGORITHM {
            return Err(PresentFault::Algorithm(algorithm.chars().take(64).collect()));
        }
        let (mut credential, mut signed, mut signature) = (None, None, None);
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| form("Authorization", "has a part without a value"))?;
            let slot = match name.trim() {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed,
                "Signature" => &mut signature,
                _ => return Err(form("Authorization", "has a part that is not known")),
            };
            if slot.replace(value.trim()).is_some() {
                return Err(PresentFault::Repeated(name.trim().to_owned()));
            }
        }
        let missing = |part| PresentFault::Missing {
            place: "header",
            part,
        };
        let signature = signature.ok_or(missing("Signature"))?;
        let signed = signed.ok_or(missing("SignedHeaders"))?;
        let (key_id, scope) = parse_credential(credential.ok_or(missing("Credential"))?)?;
        let (timestamp, signed_at) = header_time(request)?;
        let session_token = single_header(request, "x-amz-security-token")?.map(str::to_owned);
        Self::assemble(
            key_id,
            scope,
            signed,
            signature,
            timestamp,
            signed_at,
            Carrier::Header,
            session_token,
        )
    }

    fn from_query(request: &RequestView<'_>) -> Result<Self, PresentFault> {
        const NAMES: [&str; 7] = [
            "X-Amz-Algorithm",
            "X-Amz-Credential",
            "X-Amz-Date",
            "X-Amz-Expires",
            "X-Amz-SignedHeaders",
            "X-Amz-Signature",
            "X-Amz-Security-Token",
        ];
        let mut values: [Option<String>; NAMES.len()] = Default::default();
        for pair in request.query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(at) = NAMES.iter().position(|known| *known == name) else {
                continue;
            };
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| form("X-Amz-…", "is not text"))?
                .into_owned();
            if values[at].replace(value).is_some() {
                return Err(PresentFault::Repeated(name.to_owned()));
            }
        }
        let [
            algorithm,
            credential,
            date,
            expires,
            signed,
            signature,
            session_token,
        ] = values;
        let missing = |part| PresentFault::Missing { place: "query", part };
        let algorithm = algorithm.unwrap_or_default();
        if algorithm != ALGORITHM {
            return Err(PresentFault::Algorithm(algorithm.chars().take(64).collect()));
        }
        let signature = signature.ok_or(missing("X-Amz-Signature"))?;
        let signed = signed.ok_or(missing("X-Amz-SignedHeaders"))?;
        let (key_id, scope) = parse_credential(&credential.ok_or(missing("X-Amz-Credential"))?)?;
        let timestamp = date.ok_or(missing("X-Amz-Date"))?;
        let signed_at =
            parse_timestamp(&timestamp).ok_or(form("X-Amz-Date", "is not of the form YYYYMMDDThhmmssZ"))?;
        let expires = expires.ok_or(missing("X-Amz-Expires"))?;
        let expires_seconds = expires
            .parse()
            .ok()
            .filter(|seconds| (1..=EXPIRES_SECONDS_MAX).contains(seconds))
            .ok_or(form(
                "X-Amz-Expires",
                "is not a number of seconds from 1 to 604800",
            ))?;
        let carrier = Carrier::Query { expires_seconds };
        Self::assemble(
            key_id,
            scope,
            &signed,
            &signature,
            timestamp,
            signed_at,
            carrier,
            session_token,
        )
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one record, each parsed by its caller"
    )]
    fn assemble(
        key_id: String,
        scope: Scope,
        signed: &str,
        signature: &str,
        timestamp: String,
        signed_at: OffsetDateTime,
        carrier: Carrier,
        session_token: Option<String>,
    ) -> Result<Self, PresentFault> {
        if !timestamp.starts_with(&scope.date) {
            return Err(form("Credential", "has another date than the request"));
        }
        let mut signed_headers: Vec<String> = signed.split(';').map(str::to_ascii_lowercase).collect();
        signed_headers.sort_unstable();
        let count = signed_headers.len();
        signed_headers.dedup();
        if signed_headers.len() != count || signed_headers.iter().any(String::is_empty) {
            return Err(form("SignedHeaders", "repeats a name or has an empty one"));
        }
        let mut bytes = [0_u8; 32];
        let lower = signature
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !lower || hex::decode_to_slice(signature, &mut bytes).is_err() {
            return Err(form("Signature", "is not 64 lower-case hexadecimal digits"));
        }
        Ok(Self {
            key_id,
            scope,
            signed_headers,
            signature: bytes,
            timestamp,
            signed_at,
            carrier,
            session_token,
        })
    }
}

fn query_has(query: &str, name: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next() == Some(name))
}

fn parse_credential(text: &str) -> Result<(String, Scope), PresentFault> {
    let parts: Vec<&str> = text.split('/').collect();
    let [key_id, date, region, service, SCOPE_END] = parts[..] else {
        return Err(form("Credential", "is not KEY/DATE/REGION/SERVICE/aws4_request"));
    };
    let key_ok =
        !key_id.is_empty() && key_id.len() <= 128 && key_id.bytes().all(|b| b.is_ascii_alphanumeric());
    let date_ok = date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
    let word = |text: &str| {
        !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !key_ok || !date_ok || !word(region) || !word(service) {
        return Err(form("Credential", "is not KEY/DATE/REGION/SERVICE/aws4_request"));
    }
    let scope = Scope {
        date: date.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
    };
    Ok((key_id.to_owned(), scope))
}

fn single_header<'a>(
    request: &'a RequestView<'_>,
    name: &'static str,
) -> Result<Option<&'a str>, PresentFault> {
    let mut values = request.header_values(name);
    let first = values.next();
    if values.next().is_some() {
        return Err(PresentFault::Repeated(name.to_owned()));
    }
    first
        .map(|value| {
            std::str::from_utf8(value)
                .map(str::trim)
                .map_err(|_| form(name, "is not text"))
        })
        .transpose()
}

/// `X-Amz-Date`, else `Date` in either form.
fn header_time(request: &RequestView<'_>) -> Result<(String, OffsetDateTime), PresentFault> {
    if let Some(text) = single_header(request, "x-amz-date")? {
        let at = parse_timestamp(text).ok_or(form("X-Amz-Date", "is not of the form YYYYMMDDThhmmssZ"))?;
        return Ok((text.to_owned(), at));
    }
    let text = single_header(request, "date")?.ok_or(PresentFault::Missing {
        place: "header",
        part: "X-Amz-Date",
    })?;
    let at = parse_timestamp(text)
        .or_else(|| parse_http_date(text))
        .ok_or(form("Date", "is not a date"))?;
    Ok((show_timestamp(at), at))
}

/// An instant as signatures write it.
pub fn show_timestamp(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

fn parse_timestamp(text: &str) -> Option<OffsetDateTime> {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    (text.len() == 16)
        .then(|| time::PrimitiveDateTime::parse(text, form).ok())?
        .map(|at| at.assume_utc())
}

fn parse_http_date(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &time::format_description::well_known::Rfc2822).ok()
}

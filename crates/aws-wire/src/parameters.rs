//! The parameters of a request as sent, kept only to be digested.
//!
//! Client tokens and page tokens are bound to what the caller asked for. The digest is taken over the parameters
//! as sent and not over the decoded input, so it needs no serialiser, and over their sorted form, because SDKs
//! order a map's members as they like. Only what the request asks for counts: authentication and `DryRun` are
//! left out always, the token or page size by the caller of [`Parameters::digest`].

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A request's parameters.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    /// Method and path of REST requests.
    target: String,
    query: String,
    body: Bytes,
    json: bool,
}

impl Parameters {
    /// Parameters in the query string, in a form body, or both: the query protocols.
    pub fn form(query: &str, body: Bytes) -> Self {
        Self {
            target: String::new(),
            query: query.to_owned(),
            body,
            json: false,
        }
    }

    /// Parameters in a JSON body.
    pub fn json(body: Bytes) -> Self {
        Self {
            target: String::new(),
            query: String::new(),
            body,
            json: true,
        }
    }

    /// Parameters in method, path, query and body: the REST protocols. `json` where the body is JSON.
    pub fn rest(method: &str, path: &str, query: &str, body: Bytes, json: bool) -> Self {
        Self {
            target: format!("{method} {path}"),
            query: query.to_owned(),
            body,
            json,
        }
    }

    /// SHA-256 over all parameters for which `leave_out` is false.
    pub fn digest(&self, leave_out: impl Fn(&str) -> bool) -> [u8; 32] {
        let left_out = |name: &str| {
            leave_out(name)
                || name.eq_ignore_ascii_case("DryRun")
                || name
                    .get(..6)
                    .is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-amz-"))
        };
        let is_form = self.target.is_empty() && !self.json;
        let body_form = if is_form {
            std::str::from_utf8(&self.body).unwrap_or_default()
        } else {
            ""
        };
        let mut pairs: Vec<(String, String)> = form_pairs(&self.query)
            .chain(form_pairs(body_form))
            .filter(|(name, _)| !left_out(name))
            .collect();
        pairs.sort();
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(self.target.as_bytes());
        for (name, value) in &pairs {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        if !is_form {
            match serde_json::from_slice::<Value>(&self.body) {
                Ok(Value::Object(members)) if self.json => {
                    let mut members: Vec<(&String, &Value)> =
                        members.iter().filter(|(name, _)| !left_out(name)).collect();
                    members.sort_by_key(|(name, _)| *name);
                    for (name, value) in members {
                        part(name.as_bytes());
                        part(sorted(value).to_string().as_bytes());
                    }
                }
                _ => part(&self.body),
            }
        }
        hash.finalize().into()
    }
}

/// The pairs of a form or query string, decoded; `+` is a blank. Bytes that are not UTF-8 are replaced: such
/// requests are refused by the decoder.
pub fn form_pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (form_text(name), form_text(value))
    })
}

fn form_text(text: &str) -> String {
    percent_decode_str(&text.replace('+', " "))
        .decode_utf8_lossy()
        .into_owned()
}

/// The value with the members of every object in order of name.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut ordered: Vec<(&String, &Value)> = members.iter().collect();
            ordered.sort_by_key(|(name, _)| *name);
            Value::Object(
                ordered
                    .into_iter()
                    .map(|(name, value)| (name.clone(), sorted(value)))
                    .collect(),
            )
        }
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Parameters;

    fn token(name: &str) -> bool {
        name.eq_ignore_ascii_case("ClientToken")
    }

    #[test]
    fn order_token_dry_run_and_signature_do_not_count() {
        let a = Parameters::form(
            "",
            Bytes::from_static(b"Action=Run&A.1=x+y&ClientToken=1&DryRun=true"),
        );
        let b = Parameters::form(
            "A.1=x%20y&X-Amz-Signature=9",
            Bytes::from_static(b"ClientToken=2&Action=Run"),
        );
        assert_eq!(a.digest(token), b.digest(token));
        let other = Parameters::form("", Bytes::from_static(b"Action=Run&A.1=x+z&ClientToken=1"));
        assert_ne!(a.digest(token), other.digest(token));
    }

    #[test]
    fn json_members_count_in_any_order() {
        let a = Parameters::json(Bytes::from_static(br#"{"a":{"x":1,"y":2},"clientToken":"1"}"#));
        let b = Parameters::json(Bytes::from_static(br#"{"clientToken":"2", "a":{"y":2,"x":1}}"#));
        assert_eq!(a.digest(token), b.digest(token));
        let other = Parameters::json(Bytes::from_static(br#"{"a":{"x":2,"y":1}}"#));
        assert_ne!(a.digest(token), other.digest(token));
    }

    #[test]
    fn boundaries_between_names_and_values_count() {
        let a = Parameters::form("ab=c", Bytes::new());
        let b = Parameters::form("a=bc", Bytes::new());
        assert_ne!(a.digest(|_| false), b.digest(|_| false));
    }
}

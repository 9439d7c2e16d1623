//! Pages: how a list is cut, and the opaque tokens that continue it.
//!
//! A token names the key to resume after, is authenticated by the cloud's page key and bound to account, action and
//! query (identity.md R27, R28). Any page size gives the same concatenation; an object present throughout appears
//! once; the last page has no token.

use crate::error::{AwsError, catalogue};
use crate::limits;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

const MAC_BYTES: usize = 16;
const VERSION: u8 = 1;

/// The key that authenticates page tokens; the same on every gateway of a cloud.
#[derive(Clone)]
pub struct PageKey([u8; 32]);

impl PageKey {
    /// Wraps the secret bytes.
    pub fn new(bytes: [u8; 32]) -> PageKey {
        PageKey(bytes)
    }
}
impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageKey(..)")
    }
}

/// What a token is bound to: account, action and every parameter of the query but page size and token.
#[derive(Clone, Debug)]
pub struct QueryBinding([u8; 32]);

impl QueryBinding {
    /// Binds to an account, an action and a digest-able form of the query.
    pub fn new(account: crate::AccountId, action: &str, query: &[u8]) -> QueryBinding {
        let mut hash = Sha256::new();
        hash.update(account.number().to_be_bytes());
        hash.update((action.len() as u64).to_be_bytes());
        hash.update(action.as_bytes());
        hash.update(query);
        QueryBinding(hash.finalize().into())
    }
}

/// A page as asked for.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Most items to return.
    pub limit: usize,
    /// Resume strictly after this key.
    pub after: Option<String>,
}

impl PageRequest {
    /// Reads `MaxResults` and `NextToken` of an EC2 operation whose page size lies in `bounds`.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a size out of bounds or a token that is foreign, altered or of another query;
    /// `InvalidParameterCombination` if explicit ids are named with either.
    pub fn ec2(
        max_results: Option<i32>,
        next_token: Option<&str>,
        has_ids: bool,
        bounds: std::ops::RangeInclusive<i32>,
        key: &PageKey,
        binding: &QueryBinding,
    ) -> Result<PageRequest, AwsError> {
        if has_ids && max_results.is_some() {
            return Err(catalogue::INVALID_PARAMETER_COMBINATION.error(
                "The parameter MaxResults cannot be used with the parameter that lists explicit ids",
            ));
        }
        let limit = match max_results {
            None => limits::PAGE_ITEMS_DEFAULT,
            Some(n) if bounds.contains(&n) => usize::try_from(n).unwrap_or(limits::PAGE_ITEMS_DEFAULT),
            Some(n) => {
                return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                    "Value ( {n} ) for parameter maxResults is invalid. Expecting a value between {} and {}.",
                    bounds.start(),
                    bounds.end()
                )));
            }
        };
        let after = match next_token {
            None | Some("") => None,
            Some(token) => Some(open_token(key, binding, token).ok_or_else(|| {
                AwsError::invalid_value(token, "nextToken", "The token is not valid for this request.")
            })?),
        };
        Ok(PageRequest { limit, after })
    }

    /// Cuts the page from `items`, which are ordered by `key_of`, and makes the token of the next one.
    pub fn cut<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        key_of: impl Fn(&T) -> String,
        key: &PageKey,
        binding: &QueryBinding,
    ) -> (Vec<T>, Option<String>) {
        let mut page = Vec::new();
        let mut more = false;
        for item in items {
            if self.after.as_ref().is_some_and(|after| key_of(&item) <= *after) {
                continue;
            }
            if page.len() == self.limit {
                more = true;
                break;
            }
            page.push(item);
        }
        let token = if more {
            page.last().map(|last| seal_token(key, binding, &key_of(last)))
        } else {
            None
        };
        (page, token)
    }
}

/// Makes the token that resumes after `resume_after`.
pub fn seal_token(key: &PageKey, binding: &QueryBinding, resume_after: &str) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&tag(key, binding, resume_after.as_bytes()));
    bytes.extend_from_slice(resume_after.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The key a token resumes after; nothing if it is foreign, altered or bound to another query.
pub fn open_token(key: &PageKey, binding: &QueryBinding, token: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION || rest.len() < MAC_BYTES {
        return None;
    }
    let (given, resume_after) = rest.split_at(MAC_BYTES);
    let mut mac = keyed(key, binding);
    mac.update(resume_after);
    mac.verify_truncated_left(given).ok()?;
    String::from_utf8(resume_after.to_vec()).ok()
}

fn keyed(key: &PageKey, binding: &QueryBinding) -> Hmac<Sha256> {
    // HMAC takes keys of any length, so this cannot fail.
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("hmac accepts a 32-byte key");
    mac.update(&binding.0);
    mac
}

fn tag(key: &PageKey, binding: &QueryBinding, data: &[u8]) -> [u8; MAC_BYTES] {
    let mut mac = keyed(key, binding);
    mac.update(data);
    let full = mac.finalize().into_bytes();
    let mut short = [0u8; MAC_BYTES];
    short.copy_from_slice(&full[..MAC_BYTES]);
    short
}

#[cfg(test)]
mod tests {
    use super::{PageKey, PageRequest, QueryBinding, open_token, seal_token};
    use crate::AccountId;

    #[test]
    fn tokens_are_bound_to_key_and_query() {
        let (key, other) = (PageKey::new([1; 32]), PageKey::new([2; 32]));
        let binding = QueryBinding::new(AccountId::FIRST_TENANT, "DescribeVpcs", b"x");
        let token = seal_token(&key, &binding, "vpc-1");
        assert_eq!(open_token(&key, &binding, &token).as_deref(), Some("vpc-1"));
        assert_eq!(open_token(&other, &binding, &token), None);
        let elsewhere = QueryBinding::new(AccountId::FIRST_TENANT, "DescribeVpcs", b"y");
        assert_eq!(open_token(&key, &elsewhere, &token), None);
        assert_eq!(open_token(&key, &binding, "AAAA"), None);
        assert_eq!(open_token(&key, &binding, "%%%"), None);
    }

    #[test]
    fn any_page_size_gives_the_same_concatenation() {
        let key = PageKey::new([1; 32]);
        let binding = QueryBinding::new(AccountId::FIRST_TENANT, "A", b"");
        let items: Vec<String> = (0..23).map(|i| format!("k{i:03}")).collect();
        for size in 5..30 {
            let (mut all, mut token) = (Vec::new(), None::<String>);
            loop {
                let page = PageRequest::ec2(Some(size), token.as_deref(), false, 5..=1000, &key, &binding)
                    .expect("in bounds");
                let (part, next) = page.cut(items.clone(), Clone::clone, &key, &binding);
                all.extend(part);
                token = next;
                if token.is_none() {
                    break;
                }
            }
            assert_eq!(all, items);
        }
    }
}

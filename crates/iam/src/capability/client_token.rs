//! Client tokens, inside another service's transaction.
//!
//! ```text
//! let claim = TokenClaim::of(call, schema, input.client_token.as_deref())?;
//! // in the transaction:
//! match client_token::find(&tx, &claim).await? {
//!     Some(results) => render what `results` names,
//!     None => { …; client_token::keep(&tx, &claim, ids)?; }
//! }
//! ```
//! The record is committed with the intent, so the same token gives the same result at any gateway, after a restart and
//! while the first is in progress. Operations without a token use the SDK's invocation id, which is equal in all
//! attempts of one call. A call with neither is never a repeat.

use aws_shapes::OperationSchema;
use aws_types::{AccountId, AwsError, catalogue};
use aws_wire::call::Call;
use state::{Scope, Tx};
use time::OffsetDateTime;

use super::CapabilityError;
use crate::limits::{CLIENT_TOKEN_CHARS_MAX, CLIENT_TOKEN_KEPT, INVOCATION_KEPT};
use crate::records::ClientToken;

/// What a call claims by its token.
#[derive(Debug, Clone)]
pub struct TokenClaim {
    account: AccountId,
    action: String,
    token: Option<Token>,
    digest: String,
    now: OffsetDateTime,
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    kept: std::time::Duration,
}

impl TokenClaim {
    /// The claim of a call whose input carries `token`, or none.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a token that is empty, too long or not printable ASCII.
    pub fn of(call: &Call, operation: &OperationSchema, token: Option<&str>) -> Result<Self, AwsError> {
        let printable = |text: &str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
        let token = match token {
            Some(text) if text.is_empty() || text.len() > CLIENT_TOKEN_CHARS_MAX || !printable(text) => {
                let name = operation.idempotency_token.unwrap_or("ClientToken");
                return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                    "Value for parameter {name} is invalid: it must have 1 to {CLIENT_TOKEN_CHARS_MAX} printable \
                     ASCII characters."
                )));
            }
            Some(text) => Some(Token {
                text: format!("t:{text}"),
                kept: CLIENT_TOKEN_KEPT,
            }),
            None => call
                .invocation_id
                .as_deref()
                .filter(|id| id.len() <= 128 && printable(id))
                .map(|id| {
                    let text = format!("i:{}:{id}", call.caller.principal.userid().unwrap_or_default());
                    Token {
                        text,
                        kept: INVOCATION_KEPT,
                    }
                }),
        };
        Ok(Self {
            account: call.account(),
            action: format!("{}:{}", operation.service.name, operation.name),
            token,
            digest: hex::encode(call.parameter_digest(operation)),
            now: call.now,
        })
    }
}

/// What an earlier call with this token made; nothing if this is the first.
///
/// # Errors
/// `Refused` with `IdempotentParameterMismatch` if the earlier call had other parameters; `Store`.
pub async fn find(tx: &Tx, claim: &TokenClaim) -> Result<Option<Vec<String>>, CapabilityError> {
    let Some(token) = &claim.token else {
        return Ok(None);
    };
    let id = ClientToken::id(&claim.action, &token.text);
    let earlier: Option<ClientToken> = tx.find(&Scope::account(claim.account), id).await?;
    match earlier {
        Some(earlier) if earlier.expires <= claim.now => Ok(None),
        Some(earlier) if earlier.digest != claim.digest => Err(CapabilityError::Refused(
            catalogue::IDEMPOTENT_PARAMETER_MISMATCH
                .error("The client token you have provided has been used before with other parameters."),
        )),
        Some(earlier) => Ok(Some(earlier.results)),
        None => Ok(None),
    }
}

/// Remembers, with the transaction, what this call makes.
///
/// # Errors
/// `Store`.
pub fn keep(tx: &Tx, claim: &TokenClaim, results: Vec<String>) -> Result<(), CapabilityError> {
    let Some(token) = &claim.token else { return Ok(()) };
    tx.put(&ClientToken {
        account: claim.account,
        action: claim.action.clone(),
        token: token.text.clone(),
        digest: claim.digest.clone(),
        results,
        expires: claim.now + token.kept,
    })?;
    Ok(())
}

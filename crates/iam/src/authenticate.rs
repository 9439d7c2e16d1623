//! From an access key id to a caller: its secret, its principal, its account's state, its compiled policies.
//!
//! Every request reads the revisions of the records that its credential is made of, at one revision of the store, so a
//! change binds the next request (identity.md R58) and what cannot be read is an error, never an older answer. Only if
//! one of them moved are the records decoded, the secret unsealed and the policies looked up again; otherwise the
//! credential of before is used, with the signing keys it has derived (R17). The cache is bounded and holds no decision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_types::{AccountId, Tags};
use aws_wire::call::Caller;
use aws_wire::sigv4::{Scope as SigningScope, SigningKey};
use policy::{HeldPolicies, Principal};
use state::engine::ReadOp;
use state::{Record, Revision, Scope, Store, StoreError, index_range, key_of};

use crate::account::open_secret;
use crate::error::log;
use crate::keys::{Keys, SecretText};
use crate::limits::{ATTACHED_POLICIES_MAX, CREDENTIALS_CACHED_MAX, SIGNING_KEYS_CACHED_MAX};
use crate::managed;
use crate::records::{AccessKey, AccountState, AccountStatus, Attachment, KeyStatus, User, key_account};

/// Why a key id leads to no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthFault {
    /// No such key, an inactive one, or one whose user is gone.
    #[error("the access key is unknown or inactive")]
    UnknownKey,
    /// The records could not be read; nothing is known about the key.
    #[error("the access key's records could not be read")]
    Unreadable,
}

/// A usable key with everything that a request needs to know about it.
pub struct Credential {
    /// Access key id.
    pub access_key_id: String,
    /// Whose it is.
    pub principal: Principal,
    /// Owner of the principal.
    pub account: AccountId,
    /// The account's state when the key was looked up.
    pub account_state: AccountState,
    tags: Arc<Tags>,
    policies: Arc<HeldPolicies>,
    secret: SecretText,
    signing_keys: Mutex<Vec<(SigningScope, SigningKey)>>,
}

impl Credential {
    /// The signing key for a scope, derived once.
    pub fn signing_key(&self, scope: &SigningScope) -> SigningKey {
        let mut known = lock(&self.signing_keys);
        if let Some((_, key)) = known.iter().find(|(own, _)| own == scope) {
            return key.clone();
        }
        let key = SigningKey::derive(self.secret.expose(), &scope.date, &scope.region, &scope.service);
        if known.len() >= SIGNING_KEYS_CACHED_MAX {
            known.remove(0);
        }
        known.push((scope.clone(), key.clone()));
        key
    }

    /// The caller that this credential proves.
    pub fn caller(&self) -> Caller {
        Caller {
            account: self.account,
            principal: self.principal.clone(),
            access_key_id: Some(self.access_key_id.clone()),
            tags: Arc::clone(&self.tags),
            policies: Arc::clone(&self.policies),
        }
    }
}

/// The revisions of the records that a credential is made of.
type Fingerprint = Vec<Revision>;

struct Known {
    user_id: String,
    fingerprint: Fingerprint,
    credential: Arc<Credential>,
}

/// Looks up access keys. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    keys: Keys,
    known: Mutex<HashMap<String, Known>>,
}

impl Authenticator {
    /// Looks keys up in `store`, unsealing with `keys`.
    pub fn new(store: Store, keys: Keys) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                keys,
                known: Mutex::default(),
            }),
        }
    }

    /// The credential of a key id as of now.
    ///
    /// # Errors
    /// [`AuthFault`]. The reason behind `Unreadable` is in the log.
    pub async fn find(&self, key_id: &str) -> Result<Arc<Credential>, AuthFault> {
        let account = key_account(key_id).ok_or(AuthFault::UnknownKey)?;
        let user_id = lock(&self.inner.known)
            .get(key_id)
            .map(|known| known.user_id.clone());
        let user_id = match user_id {
            Some(user_id) => user_id,
            None => self.fetch_key(account, key_id).await?.user_id,
        };
        let fingerprint = self.fingerprint(account, key_id, &user_id).await?;
        if let Some(known) = lock(&self.inner.known).get(key_id)
            && known.fingerprint == fingerprint
        {
            return Ok(Arc::clone(&known.credential));
        }
        match self.load(account, key_id).await {
            Ok((user_id, credential)) => {
                let credential = Arc::new(credential);
                let mut known = lock(&self.inner.known);
                if known.len() >= CREDENTIALS_CACHED_MAX {
                    known.clear();
                }
                let entry = Known {
                    user_id,
                    fingerprint,
                    credential: Arc::clone(&credential),
                };
                known.insert(key_id.to_owned(), entry);
                Ok(credential)
            }
            Err(fault) => {
                lock(&self.inner.known).remove(key_id);
                Err(fault)
            }
        }
    }

    async fn fingerprint(
        &self,
        account: AccountId,
        key_id: &str,
        user_id: &str,
    ) -> Result<Fingerprint, AuthFault> {
        let scope = Scope::account(account);
        let account_text = account.to_string();
        let attachments = index_range(Attachment::TABLE, "entity", &[&account_text, user_id]);
        let reads = vec![
            ReadOp::Get(key_of::<AccessKey>(&scope, key_id)),
            ReadOp::Get(key_of::<AccountStatus>(&scope, AccountStatus::ID)),
            ReadOp::Get(key_of::<User>(&scope, user_id)),
            ReadOp::Range {
                range: attachments,
                limit: ATTACHED_POLICIES_MAX + 1,
            },
        ];
        let answer = self
            .inner
            .store
            .read(reads, None)
            .await
            .map_err(|error| unreadable(&StoreError::Unreadable(error)))?;
        // Absent rows leave a mark, so that a row which goes and one which comes never look alike.
        let fingerprint = answer
            .pages
            .iter()
            .flat_map(|page| {
                page.rows
                    .iter()
                    .map(|row| row.mod_revision)
                    .chain(std::iter::once(Revision::ZERO))
            })
            .collect();
        Ok(fingerprint)
    }

    async fn fetch_key(&self, account: AccountId, key_id: &str) -> Result<AccessKey, AuthFault> {
        let key: Option<AccessKey> = self
            .inner
            .store
            .find(&Scope::account(account), key_id)
            .await
            .map_err(|e| unreadable(&e))?;
        key.filter(|key| key.status == KeyStatus::Active)
            .ok_or(AuthFault::UnknownKey)
    }

    async fn load(&self, account: AccountId, key_id: &str) -> Result<(String, Credential), AuthFault> {
        let store = &self.inner.store;
        let scope = Scope::account(account);
        let key = self.fetch_key(account, key_id).await?;
        let user: Option<User> = store
            .find(&scope, &key.user_id)
            .await
            .map_err(|e| unreadable(&e))?;
        let user = user.ok_or(AuthFault::UnknownKey)?;
        let status: AccountStatus = store
            .fetch(&scope, AccountStatus::ID)
            .await
            .map_err(|e| unreadable(&e))?;
        let account_text = account.to_string();
        let attachments: Vec<Attachment> = store
            .list_by_index("entity", &[&account_text, &user.id])
            .await
            .map_err(|e| unreadable(&e))?;
        let identity = attachments
            .iter()
            .map(|attachment| {
                managed::find(attachment.policy.as_str()).ok_or_else(|| {
                    tracing::error!(policy = %attachment.policy, user = %user.arn(), "an attached policy does not exist");
                    AuthFault::Unreadable
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let secret = open_secret(&self.inner.keys, &key).await.map_err(|error| {
            log("could not open the secret of an access key", &error);
            AuthFault::Unreadable
        })?;
        let principal = Principal::User {
            arn: user.arn(),
            account,
            id: user.id.clone(),
            name: user.name.clone(),
        };
        let credential = Credential {
            access_key_id: key.id,
            principal,
            account,
            account_state: status.state,
            tags: Arc::new(user.tags),
            policies: Arc::new(HeldPolicies {
                identity,
                boundary: None,
                session: None,
            }),
            secret,
            signing_keys: Mutex::default(),
        };
        Ok((key.user_id, credential))
    }
}

fn unreadable(error: &StoreError) -> AuthFault {
    log("could not read the records of an access key", error);
    AuthFault::Unreadable
}

/// Locks a cache; its changes are single insertions and removals, so it is whole even if a holder panicked.
fn lock<T>(cache: &Mutex<T>) -> MutexGuard<'_, T> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

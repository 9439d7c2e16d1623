//! The key hierarchy: master key, account keys, sealed secrets (identity.md R93, R94).
//!
//! ```text
//! DIR/keys/master.key   32 bytes, mode 0600, never in the store
//!   wraps  account key  one for each account, versioned, in the store
//!     seals  secrets    access keys today, volume keys and more later
//!   wraps  ring key     one for each purpose of the cloud: page tokens
//! ```
//! Everything is AES-256-GCM with random nonces, and bound to its place: table, record, account and key version are the
//! associated data, so a ciphertext that is moved to another record does not open. A check value in the store tells a
//! wrong or lost master key from a new cloud; with a store that has one, no key is ever generated.

mod master;
mod seal;
mod secret;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aws_types::AccountId;
use aws_types::page::PageKey;
use state::{Scope, Store, StoreError, Tx, UpdateError};

use crate::limits::ACCOUNT_KEYS_CACHED_MAX;
use crate::records::{AccountKeyRecord, KeyCheck, RingKeyRecord};

pub use seal::{Place, SealError, SealKey, Sealed};
pub use secret::SecretText;

/// The version that new account keys get; rotation raises it.
const FIRST_VERSION: u32 = 1;

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The key file could not be read or written.
    #[error("could not {attempted} {path}")]
    File {
        /// As in "could not …".
        attempted: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others than its owner may read or write the key file.
    #[error("{path} has mode {mode:04o}; a key file must not be wider than 0600")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file does not hold 32 bytes.
    #[error("{path} holds {bytes} bytes instead of 32")]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The store was made with a master key that is not there any more. Never replaced by a new one.
    #[error("the store needs the master key {path}, which does not exist")]
    Lost {
        /// Where it must be.
        path: PathBuf,
    },
    /// The master key is not the one the store was made with.
    #[error("{path} is not the master key of this store")]
    Wrong {
        /// The file.
        path: PathBuf,
    },
    /// A sealed value could not be made or opened.
    #[error("could not use a sealed value")]
    Seal(#[from] SealError),
    /// The store could not be read.
    #[error("could not read the keys from the store")]
    Store(#[from] StoreError),
    /// The store could not be written.
    #[error("could not write keys to the store")]
    Update(#[source] Box<UpdateError<StoreError>>),
}

/// The keys of a cloud. Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    inner: Arc<Inner>,
}

struct Inner {
    master: SealKey,
    store: Store,
    accounts: Mutex<HashMap<(AccountId, u32), SealKey>>,
}

impl Keys {
    /// Opens the master key in `dir` (`DIR/keys`), or makes it for a store that has none yet.
    ///
    /// # Errors
    /// [`KeysError`]; in particular a lost, wrong or too widely readable key file ends the start.
    pub async fn open(dir: &Path, store: &Store) -> Result<Self, KeysError> {
        let path = dir.join(master::FILE);
        let check: Option<KeyCheck> = store.find(&Scope::NONE, KeyCheck::ID).await?;
        let master = match (master::read(&path)?, &check) {
            (Some(master), _) => master,
            (None, None) => master::create(dir)?,
            (None, Some(_)) => return Err(KeysError::Lost { path }),
        };
        match check {
            Some(check) if master.open(&check.sealed, &KeyCheck::place()).is_err() => {
                return Err(KeysError::Wrong { path });
            }
            Some(_) => {}
            None => {
                let sealed = master.seal(FIRST_VERSION, &KeyCheck::place(), KeyCheck::TEXT)?;
                let check = KeyCheck { sealed };
                let insert = |tx: Tx| {
                    let check = check.clone();
                    async move { tx.insert(&check) }
                };
                store
                    .update(insert)
                    .await
                    .map_err(|error| KeysError::Update(Box::new(error)))?;
            }
        }
        Ok(Self {
            inner: Arc::new(Inner {
                master,
                store: store.clone(),
                accounts: Mutex::default(),
            }),
        })
    }

    /// A new key for an account, wrapped, to be inserted in the transaction that makes the account.
    ///
    /// # Errors
    /// [`KeysError::Seal`].
    pub fn new_account_key(&self, account: AccountId) -> Result<(AccountKeyRecord, AccountKey), KeysError> {
        let key = SealKey::random();
        let id = AccountKeyRecord::id(FIRST_VERSION);
        let place = AccountKeyRecord::place(account, &id);
        let wrapped = self.inner.master.seal(FIRST_VERSION, &place, key.bytes())?;
        let record = AccountKeyRecord {
            account,
            version: FIRST_VERSION,
            wrapped,
        };
        Ok((
            record,
            AccountKey {
                account,
                version: FIRST_VERSION,
                key,
            },
        ))
    }

    /// The key of an account in a version, to open what it sealed; `None` for the current version.
    ///
    /// # Errors
    /// [`KeysError::Store`] with `NotFound` if the account has none.
    pub async fn account_key(
        &self,
        account: AccountId,
        version: Option<u32>,
    ) -> Result<AccountKey, KeysError> {
        let version = version.unwrap_or(FIRST_VERSION);
        let ready = self.cache().get(&(account, version)).cloned();
        if let Some(key) = ready {
            return Ok(AccountKey {
                account,
                version,
                key,
            });
        }
        let id = AccountKeyRecord::id(version);
        let record: AccountKeyRecord = self.inner.store.fetch(&Scope::account(account), &id).await?;
        let place = AccountKeyRecord::place(account, &id);
        let key = SealKey::from_secret(&self.inner.master.open(&record.wrapped, &place)?)?;
        let mut cache = self.cache();
        if cache.len() >= ACCOUNT_KEYS_CACHED_MAX {
            cache.clear();
        }
        cache.insert((account, version), key.clone());
        Ok(AccountKey {
            account,
            version,
            key,
        })
    }

    /// The key that authenticates page tokens; the same for every process of the cloud.
    ///
    /// # Errors
    /// [`KeysError`].
    pub async fn page_key(&self) -> Result<PageKey, KeysError> {
        let key = self.ring_key("page").await?;
        Ok(PageKey::new(*key.bytes()))
    }

    async fn ring_key(&self, purpose: &'static str) -> Result<SealKey, KeysError> {
        let place = RingKeyRecord::place(purpose);
        let fresh = SealKey::random();
        let wrapped = self.inner.master.seal(FIRST_VERSION, &place, fresh.bytes())?;
        let candidate = RingKeyRecord {
            purpose: purpose.to_owned(),
            version: FIRST_VERSION,
            wrapped,
        };
        let ensure = |tx: Tx| {
            let candidate = candidate.clone();
            async move {
                match tx.find::<RingKeyRecord>(&Scope::NONE, &candidate.purpose).await? {
                    Some(existing) => Ok(existing),
                    None => tx.insert(&candidate).map(|()| candidate),
                }
            }
        };
        let record = self
            .inner
            .store
            .update(ensure)
            .await
            .map_err(|error| KeysError::Update(Box::new(error)))?;
        Ok(SealKey::from_secret(
            &self.inner.master.open(&record.wrapped, &place)?,
        )?)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, HashMap<(AccountId, u32), SealKey>> {
        // Single insertions and removals: whole even if a holder panicked.
        self.inner.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One account's key in one version.
pub struct AccountKey {
    account: AccountId,
    version: u32,
    key: SealKey,
}

impl AccountKey {
    /// Seals `secret` for the record `id` of `table`.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(&self, table: &'static str, id: &str, secret: &[u8]) -> Result<Sealed, SealError> {
        self.key.seal(
            self.version,
            &Place {
                table,
                id,
                account: self.account,
            },
            secret,
        )
    }

    /// Opens what [`AccountKey::seal`] made for the same record.
    ///
    /// # Errors
    /// [`SealError::Foreign`] if it was altered or belongs elsewhere.
    pub fn open(
        &self,
        table: &'static str,
        id: &str,
        sealed: &Sealed,
    ) -> Result<zeroize::Zeroizing<Vec<u8>>, SealError> {
        self.key.open(
            sealed,
            &Place {
                table,
                id,
                account: self.account,
            },
        )
    }
}

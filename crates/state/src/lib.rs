//! The store: tables, transactions, watches, and the reconcile loop, over the engines redb and memory.
//!
//! One linearizable, transactional, watchable store holds all intent and all observation. Map:
//!
//! | file | what |
//! |---|---|
//! | `store` | [`Store`], the handle: typed reads, `update`, watches, canary, commit markers |
//! | `record` | [`Record`], its envelope, versions and migrations, index entries |
//! | `engine` | the contract [`engine::Engine`] and the engines `memory` and `redb` |
//! | `reconcile` | [`Reconciler`], [`Controller`], pass reports and status |
//! | `key`, `result`, `error`, `limits` | tuple codec; outcomes; errors of typed calls; bounds |
//! | `fault` | named crash points for process tests |
//!
//! Every service room and `node` use it; it knows none of them. Leases, claims, presence and the etcd engine come next
//! and have their key spaces reserved in `key`. The fault harness for reconcilers is in the crate `lab`.

pub mod engine;
mod error;
pub mod fault;
pub mod key;
pub mod limits;
pub mod reconcile;
mod record;
mod result;
mod store;

pub use error::{StoreError, UpdateError};
pub use key::{Key, KeyRange};
pub use reconcile::{
    Controller, ControllerHandle, PassCause, PassContext, PassError, PassReport, Reconciler, ReconcilerStatus,
};
pub use record::{
    Index, InvalidField, Migration, MigrationError, Record, RecordKey, Scope, WRITER, index_range, key_of,
    scope_range, table_range,
};
pub use result::{BoundsError, Change, DecodeError, Read, Refusal, Revision, TxnId, Unreadable};
pub use store::{Page, PageRequest, Probe, ProbeFailure, Row, Store, TableChange, TableItem, TableWatch, Tx};

//! Stores for the tests, each alone in its directory, and the records they hold.

use serde::{Deserialize, Serialize};
use state::engine::{HistoryLimits, MemoryEngine, RedbEngine};
use state::{Index, InvalidField, Migration, MigrationError, Record, RecordKey, Scope, Store};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Makes stores of one engine.
pub(crate) struct Fixture {
    dir: Option<TempDir>,
}

pub(crate) fn memory() -> Fixture {
    Fixture { dir: None }
}

pub(crate) fn redb() -> Fixture {
    Fixture {
        dir: Some(TempDir::new().expect("temporary directory")),
    }
}

impl Fixture {
    pub(crate) fn store(&self) -> Store {
        self.store_with(HistoryLimits::default())
    }

    /// A store that keeps only this many changes.
    pub(crate) fn store_keeping(&self, changes_max: u64) -> Store {
        let limits = HistoryLimits {
            changes_max,
            span_min: Duration::from_secs(3_600),
            ..HistoryLimits::default()
        };
        self.store_with(limits)
    }

    fn store_with(&self, history: HistoryLimits) -> Store {
        match &self.dir {
            None => Store::with_engine(Arc::new(MemoryEngine::with_history(history))),
            Some(dir) => {
                let engine = RedbEngine::open(&dir.path().join("state.redb"), history).expect("open");
                Store::with_engine(Arc::new(engine))
            }
        }
    }
}

/// Fails the test if `work` takes longer than half a minute.
pub(crate) async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work)
        .await
        .expect("done in time")
}

/// A record with indexes, a unique name and an older version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub account: String,
    pub id: String,
    pub name: String,
    pub network: String,
    pub size: u32,
}

pub(crate) fn account(id: &str) -> Scope {
    Scope::account(id)
}

pub(crate) fn machine(account: &str, id: &str, network: &str) -> Machine {
    Machine {
        account: account.to_owned(),
        id: id.to_owned(),
        name: format!("name-of-{id}"),
        network: network.to_owned(),
        size: 1,
    }
}

impl Record for Machine {
    const TABLE: &'static str = "machines";
    const VERSION: u32 = 2;

    fn key(&self) -> RecordKey {
        RecordKey::account(&self.account, &self.id)
    }

    fn indexes(&self) -> Vec<Index> {
        vec![Index::new("by-network", [&self.account, &self.network])]
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("name", [&self.account, &self.name])]
    }

    fn migrations() -> &'static [Migration] {
        &[add_size]
    }

    fn validate(&self) -> Result<(), InvalidField> {
        if self.size == 0 {
            return Err(InvalidField {
                field: "size",
                must: "positive",
            });
        }
        Ok(())
    }
}

/// Version 1 had no size.
fn add_size(mut record: serde_json::Value) -> Result<serde_json::Value, MigrationError> {
    let fields = record.as_object_mut().ok_or(MigrationError { field: "record" })?;
    fields.insert("size".to_owned(), 1.into());
    Ok(record)
}

/// A counter of the cloud, without indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counter {
    pub id: String,
    pub count: u64,
}

impl Record for Counter {
    const TABLE: &'static str = "counters";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.id)
    }
}

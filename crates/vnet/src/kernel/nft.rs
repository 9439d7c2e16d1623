//! nftables of the calling thread's namespace: one atomic transaction, and the listing to compare with.
//!
//! libnftables keeps process-wide tables and is not documented as thread-safe, so one lock covers every use. A
//! context lives for one operation. The text that is run is rendered by `ruleset` from typed values only.

use std::sync::{Mutex, PoisonError};

use crate::error::VnetError;
use crate::sys::Nft;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn run(attempt: &'static str, commands: &str, json: bool) -> Result<String, VnetError> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let result = Nft::open().and_then(|mut nft| nft.run(commands, json));
    result.map_err(|message| VnetError::Nftables { attempt, message })
}

/// Runs a script as one transaction: all of it or nothing.
pub(crate) fn transact(script: &str) -> Result<(), VnetError> {
    run("change the ruleset", script, false).map(|_| ())
}

/// The whole ruleset of the namespace as libnftables' JSON.
pub(crate) fn list() -> Result<serde_json::Value, VnetError> {
    parse(&run("list the ruleset", "list ruleset", true)?)
}

/// One table as JSON; none if it does not exist.
pub(crate) fn find_table(family: &str, name: &str) -> Result<Option<serde_json::Value>, VnetError> {
    let tables = parse(&run("list tables", "list tables", true)?)?;
    let entries = tables["nftables"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let exists = entries
        .iter()
        .any(|entry| entry["table"]["family"] == family && entry["table"]["name"] == name);
    if !exists {
        return Ok(None);
    }
    parse(&run(
        "list a table",
        &format!("list table {family} {name}"),
        true,
    )?)
    .map(Some)
}

fn parse(text: &str) -> Result<serde_json::Value, VnetError> {
    serde_json::from_str(text).map_err(|source| VnetError::Listing { source })
}

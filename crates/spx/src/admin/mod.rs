//! The operator's commands to a running cloud: one JSON line a question over `run/admin.sock`, JSON lines back.
//!
//! Both ends use the types here. The socket is 0600, so whoever may ask is root or the owner of the data directory.
//! Long work sends progress lines before its answer.

pub mod client;
pub mod server;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum Question {
    /// How the cloud is.
    Status,
    /// All nodes.
    Nodes,
    /// All instances of all accounts.
    Instances,
    /// All reconcile loops.
    Reconcilers,
    /// All images.
    Images,
    /// Makes a raw disk an image.
    ImportImage(ImportImage),
    /// Removes an image that nothing uses.
    RemoveImage {
        /// The image.
        image: String,
    },
    /// Drains guests and ends everything.
    Down,
}

/// A raw disk to be made an image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportImage {
    /// The disk, on this machine.
    pub file: PathBuf,
    /// Name, unique in the owning account.
    pub name: String,
    /// Description.
    pub description: String,
    /// `legacy-bios` or `uefi`.
    pub boot_mode: String,
}

/// A line of an answer. The last one is `Done` or `Failed`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
pub enum Line {
    /// Work goes on.
    Progress {
        /// What is being done.
        what: String,
    },
    /// It is done.
    Done {
        /// What was asked for.
        answer: Answer,
    },
    /// It was not done.
    Failed {
        /// Why, for a person.
        message: String,
    },
}

/// What a question is answered with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "value")]
pub enum Answer {
    /// To `Status`.
    Status(Status),
    /// To every list: column names and rows.
    Table(Table),
    /// To `ImportImage`: the image's id.
    Image(String),
    /// To `RemoveImage` and `Down`.
    Ok,
}

/// How the cloud is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Version of the binary.
    pub version: String,
    /// Address of the APIs.
    pub endpoint: String,
    /// Process id.
    pub pid: u32,
    /// Engine of the store.
    pub engine: String,
    /// What a write and read-back of the store showed.
    pub store: String,
    /// How guests run.
    pub accelerator: String,
    /// Instances by state.
    pub instances: Vec<(String, usize)>,
}

/// A list for a person or a script.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Column names, upper case.
    pub columns: Vec<String>,
    /// Rows in column order.
    pub rows: Vec<Vec<String>>,
}

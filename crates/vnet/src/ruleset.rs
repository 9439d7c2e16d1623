//! An nftables ruleset as values: what we want, what the kernel has, and the one script that leads from one to the
//! other.
//!
//! Each rule carries the digest of its own text as its comment, so that the kernel's listing compares with what was
//! wanted without understanding nft's way of printing. Objects that compare equal are not touched: their counters,
//! and the flows they judge, go on. Chains that hang on a device have the device's index in their name, so a device
//! that was replaced gets a new chain. Only typed values get in here: names are made by `compile`, never by tenants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::VnetError;

/// The tables of a namespace, by family and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ruleset {
    pub(crate) tables: BTreeMap<TableKey, Table>,
}

/// Family and name of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableKey {
    pub(crate) family: String,
    pub(crate) name: String,
}

impl TableKey {
    pub(crate) fn new(family: &str, name: &str) -> TableKey {
        TableKey {
            family: family.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// A table that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub(crate) chains: BTreeMap<String, Chain>,
    pub(crate) sets: BTreeMap<String, Set>,
}

/// A chain: rule texts in order, and where packets enter it if not from other chains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    pub(crate) hook: Option<Hook>,
    /// The device of an ingress chain. The chain's name is extended by its index.
    pub(crate) device: Option<String>,
    pub(crate) rules: Vec<String>,
}

/// Where packets enter a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    /// `filter` or `nat`.
    pub(crate) kind: String,
    /// `forward`, `ingress` and so on.
    pub(crate) hook: String,
    pub(crate) priority: i64,
    /// What happens to packets that no rule decides.
    pub(crate) drop: bool,
}

/// A named set, or a map if its keys have values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Set {
    /// nft types of the parts of a key.
    pub(crate) key: Vec<String>,
    /// nft type of the value.
    pub(crate) value: Option<String>,
    /// Keys, parts joined by ` . `, with their values (empty in a set).
    pub(crate) elements: BTreeMap<String, String>,
}

impl Set {
    /// An empty set of keys of these types.
    pub(crate) fn of(key: &[&str]) -> Set {
        Set {
            key: key.iter().map(|part| (*part).to_owned()).collect(),
            ..Set::default()
        }
    }

    /// An empty map from keys to values of these types.
    pub(crate) fn map(key: &[&str], value: &str) -> Set {
        Set {
            value: Some(value.to_owned()),
            ..Set::of(key)
        }
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, key: impl Into<String>) {
        self.elements.insert(key.into(), String::new());
    }

    /// Adds a key with its value.
    pub(crate) fn insert_value(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.elements.insert(key.into(), value.into());
    }

    fn render(&self, key: &str, value: &str) -> String {
        let parts: Vec<String> = key
            .split(" . ")
            .zip(&self.key)
            .map(|(part, kind)| {
                if kind == "ifname" {
                    format!("\"{part}\"")
                } else {
                    part.to_owned()
                }
            })
            .collect();
        let key = parts.join(" . ");
        if self.value.is_some() {
            format!("{key} : {value}")
        } else {
            key
        }
    }
}

/// What the kernel has, reduced to what is compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Observed {
    tables: BTreeMap<TableKey, ObservedTable>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ObservedTable {
    chains: BTreeMap<String, ObservedChain>,
    sets: BTreeMap<String, Set>,
    /// Something that we never make is in the table.
    foreign: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ObservedChain {
    hook: Option<Hook>,
    digests: Vec<String>,
}

fn digest(rule: &str) -> String {
    hex::encode(&Sha256::digest(rule.as_bytes())[..8])
}

impl Ruleset {
    /// The table of this name, made empty if it is absent.
    pub(crate) fn table(&mut self, family: &str, name: &str) -> &mut Table {
        self.tables.entry(TableKey::new(family, name)).or_default()
    }

    /// Gives device chains their final names.
    pub(crate) fn bind(
        mut self,
        index_of: impl Fn(&str) -> Result<u32, VnetError>,
    ) -> Result<Ruleset, VnetError> {
        for table in self.tables.values_mut() {
            let mut chains = BTreeMap::new();
            for (name, chain) in std::mem::take(&mut table.chains) {
                let name = match &chain.device {
                    Some(device) => format!("{name}_{}", index_of(device)?),
                    None => name,
                };
                chains.insert(name, chain);
            }
            table.chains = chains;
        }
        Ok(self)
    }

    /// What the kernel reads back as when it carries this ruleset.
    pub(crate) fn observed(&self) -> Observed {
        let table = |table: &Table| ObservedTable {
            chains: table
                .chains
                .iter()
                .map(|(name, chain)| {
                    let digests = chain.rules.iter().map(|rule| digest(rule)).collect();
                    (
                        name.clone(),
                        ObservedChain {
                            hook: chain.hook.clone(),
                            digests,
                        },
                    )
                })
                .collect(),
            sets: table.sets.clone(),
            foreign: false,
        };
        Observed {
            tables: self
                .tables
                .iter()
                .map(|(key, value)| (key.clone(), table(value)))
                .collect(),
        }
    }

    /// The script that makes the kernel carry this ruleset; none if it does. Tables that are not ours are deleted:
    /// only use it on namespaces of our own, or on a listing of one table.
    pub(crate) fn plan(&self, kernel: &Observed) -> Option<String> {
        let mut script = String::new();
        for key in kernel.tables.keys().filter(|key| !self.tables.contains_key(key)) {
            let _ = writeln!(script, "delete table {} {}", key.family, key.name);
        }
        let empty = ObservedTable::default();
        let wanted = self.observed();
        for (key, table) in &self.tables {
            let after = &wanted.tables[key];
            let before = match kernel.tables.get(key) {
                Some(before) if before == after => continue,
                Some(before) if before.can_become(after) => before,
                Some(_) => {
                    let _ = writeln!(script, "delete table {} {}", key.family, key.name);
                    &empty
                }
                None => &empty,
            };
            plan_table(&mut script, key, table, before, after);
        }
        (!script.is_empty()).then_some(script)
    }
}

fn plan_table(
    script: &mut String,
    key: &TableKey,
    table: &Table,
    before: &ObservedTable,
    after: &ObservedTable,
) {
    let place = format!("{} {}", key.family, key.name);
    let changed = |name: &String| before.chains.get(name) != after.chains.get(name);
    let _ = writeln!(script, "add table {place}");
    for (name, set) in table
        .sets
        .iter()
        .filter(|(name, _)| !before.sets.contains_key(*name))
    {
        let kind = set.key.join(" . ");
        let _ = match &set.value {
            Some(value) => writeln!(script, "add map {place} {name} {{ type {kind} : {value}; }}"),
            None => writeln!(script, "add set {place} {name} {{ type {kind}; }}"),
        };
    }
    for (name, chain) in table
        .chains
        .iter()
        .filter(|(name, _)| !before.chains.contains_key(*name))
    {
        let _ = match &chain.hook {
            None => writeln!(script, "add chain {place} {name}"),
            Some(hook) => {
                let device = chain
                    .device
                    .as_ref()
                    .map(|name| format!(" device \"{name}\""))
                    .unwrap_or_default();
                let policy = if hook.drop { "drop" } else { "accept" };
                writeln!(
                    script,
                    "add chain {place} {name} {{ type {} hook {}{device} priority {}; policy {policy}; }}",
                    hook.kind, hook.hook, hook.priority
                )
            }
        };
    }
    for name in before.chains.keys().filter(|name| changed(name)) {
        let _ = writeln!(script, "flush chain {place} {name}");
    }
    let nothing = Set::default();
    for (name, old) in &before.sets {
        let new = after.sets.get(name).unwrap_or(&nothing);
        let gone = old
            .elements
            .iter()
            .filter(|(key, value)| new.elements.get(*key) != Some(value));
        write_elements(script, "delete", &place, name, old, gone);
    }
    for (name, new) in &after.sets {
        let old = before.sets.get(name).unwrap_or(&nothing);
        let fresh = new
            .elements
            .iter()
            .filter(|(key, value)| old.elements.get(*key) != Some(value));
        write_elements(script, "add", &place, name, new, fresh);
    }
    for (name, chain) in table.chains.iter().filter(|(name, _)| changed(name)) {
        for rule in &chain.rules {
            let _ = writeln!(
                script,
                "add rule {place} {name} {rule} comment \"{}\"",
                digest(rule)
            );
        }
    }
    for name in before
        .chains
        .keys()
        .filter(|name| !after.chains.contains_key(*name))
    {
        let _ = writeln!(script, "delete chain {place} {name}");
    }
    for (name, set) in before
        .sets
        .iter()
        .filter(|(name, _)| !after.sets.contains_key(*name))
    {
        let kind = if set.value.is_some() { "map" } else { "set" };
        let _ = writeln!(script, "delete {kind} {place} {name}");
    }
}

fn write_elements<'a>(
    script: &mut String,
    verb: &str,
    place: &str,
    name: &str,
    set: &Set,
    elements: impl Iterator<Item = (&'a String, &'a String)>,
) {
    let elements: Vec<String> = elements.map(|(key, value)| set.render(key, value)).collect();
    if !elements.is_empty() {
        let _ = writeln!(
            script,
            "{verb} element {place} {name} {{ {} }}",
            elements.join(", ")
        );
    }
}

impl ObservedTable {
    /// Whether changes within the table lead there; else the table is made anew in the same transaction.
    fn can_become(&self, after: &ObservedTable) -> bool {
        let same_hooks = self.chains.iter().all(|(name, chain)| {
            after
                .chains
                .get(name)
                .is_none_or(|after| after.hook == chain.hook)
        });
        let same_types = self.sets.iter().all(|(name, set)| {
            after
                .sets
                .get(name)
                .is_none_or(|after| after.key == set.key && after.value == set.value)
        });
        !self.foreign && same_hooks && same_types
    }
}

impl Observed {
    /// Reads libnftables' JSON listing.
    pub(crate) fn parse(listing: &Value) -> Observed {
        let mut observed = Observed::default();
        let entries = listing["nftables"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for (kind, entry) in entries
            .iter()
            .filter_map(|entry| entry.as_object()?.iter().next())
        {
            if kind == "metainfo" {
                continue;
            }
            let family = text(&entry["family"]);
            let name = text(&entry[if kind == "table" { "name" } else { "table" }]);
            let table = observed.tables.entry(TableKey { family, name }).or_default();
            match kind.as_str() {
                "table" => {}
                "chain" => table.chains.entry(text(&entry["name"])).or_default().hook = hook(entry),
                "rule" => {
                    let chain = table.chains.entry(text(&entry["chain"])).or_default();
                    chain.digests.push(text(&entry["comment"]));
                }
                "set" | "map" => {
                    table.sets.insert(text(&entry["name"]), set(entry));
                }
                _ => table.foreign = true,
            }
        }
        observed
    }

    /// Keeps one table of a listing.
    pub(crate) fn only(mut self, key: &TableKey) -> Observed {
        self.tables.retain(|name, _| name == key);
        self
    }

    /// Names what differs, for errors and logs.
    pub(crate) fn differences(&self, other: &Observed) -> Vec<String> {
        let mut differences = Vec::new();
        let keys: BTreeSet<&TableKey> = self.tables.keys().chain(other.tables.keys()).collect();
        let empty = ObservedTable::default();
        for key in keys {
            let mine = self.tables.get(key).unwrap_or(&empty);
            let theirs = other.tables.get(key).unwrap_or(&empty);
            let mut names: BTreeSet<String> = BTreeSet::new();
            for name in mine.chains.keys().chain(theirs.chains.keys()) {
                if mine.chains.get(name) != theirs.chains.get(name) {
                    names.insert(format!("chain {name}"));
                }
            }
            for name in mine.sets.keys().chain(theirs.sets.keys()) {
                if mine.sets.get(name) != theirs.sets.get(name) {
                    names.insert(format!("set {name}"));
                }
            }
            if mine.foreign || theirs.foreign {
                names.insert("a foreign object".to_owned());
            }
            let names = names
                .into_iter()
                .map(|name| format!("{} {} {name}", key.family, key.name));
            differences.extend(names);
        }
        differences
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn hook(entry: &Value) -> Option<Hook> {
    Some(Hook {
        kind: entry["type"].as_str()?.to_owned(),
        hook: text(&entry["hook"]),
        priority: entry["prio"].as_i64().unwrap_or_default(),
        drop: entry["policy"] == "drop",
    })
}

fn set(entry: &Value) -> Set {
    let key = match &entry["type"] {
        Value::Array(parts) => parts.iter().map(text).collect(),
        one => vec![text(one)],
    };
    let value = entry["map"].as_str().map(str::to_owned);
    let listed = entry["elem"].as_array().map(Vec::as_slice).unwrap_or_default();
    let elements = listed
        .iter()
        .map(|element| match element {
            Value::Array(pair) if value.is_some() && pair.len() == 2 => (part(&pair[0]), part(&pair[1])),
            key => (part(key), String::new()),
        })
        .collect();
    Set { key, value, elements }
}

/// One key, value or part of a key in our own spelling.
fn part(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(object) => match object.iter().next().map(|(kind, inner)| (kind.as_str(), inner)) {
            Some(("concat", Value::Array(parts))) => parts.iter().map(part).collect::<Vec<_>>().join(" . "),
            Some(("elem", inner)) => part(&inner["val"]),
            Some((verdict @ ("jump" | "goto"), inner)) => format!("{verdict} {}", text(&inner["target"])),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

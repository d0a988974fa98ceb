//! An agent's catalog folder made into a snapshot: files read, entries united, guests found and prepared.
//!
//! Owns the order of these steps and the faults between them (G1-55, G1-56). Reading and preparing are two steps, so that a
//! check needs no sandbox. It must not know how a guest is compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::limits::DefaultExecutor;
use catalog::read::FILE_BYTES_MAX;
use catalog::{Capability, Entry, ExecutorRef, Fault, Grants, Reading, Rules, Snapshot, read_file, unite};
use futures::StreamExt;
use job::executor::{Executor, Guest, GuestSource, PrepareError};
use job::ids::AgentId;
use sha2::{Digest, Sha256};

use crate::config::{AgentConfig, LimitsConfig};
use crate::folder::{Folder, FolderError, WASM_BYTES_MAX};

/// Guests prepared at the same time; compiling is the sandbox's own affair and has its own threads.
const PREPARE_AT_ONCE: usize = 4;

/// A guest that comes with the program.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// Its name in `[agent.default_executor] guest`.
    pub name: &'static str,
    /// Its WebAssembly.
    pub bytes: Arc<[u8]>,
}

/// What the deployment lays down for an agent's entries, from its configuration.
#[derive(Debug, Clone)]
pub struct AgentRules {
    /// Whose.
    pub id: AgentId,
    /// The rules.
    pub rules: Rules,
}

impl AgentRules {
    /// The rules of an agent of this configuration.
    pub fn new(agent: &AgentConfig, limits: &LimitsConfig) -> Self {
        let default_executor = agent.default_executor.as_ref().map(|executor| DefaultExecutor {
            guest: executor.guest.as_str().into(),
            defaults: executor.limits,
            grants: Grants { env: executor.grants_env.clone() },
        });
        Self { id: agent.id.clone(), rules: Rules { defaults: limits.defaults, ceilings: limits.max, default_executor } }
    }
}

/// Why an agent has no catalog at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The folder cannot be read.
    #[error("{0}; {mend}", mend = .0.mend)]
    Folder(#[from] FolderError),
    /// The folder holds no entry, not even a bad one.
    #[error("the catalog folder {folder} holds no capability; put a file such as review.json with one entry into it")]
    Empty {
        /// The folder.
        folder: String,
    },
}

/// A guest some entries need: its bytes, or why there are none.
#[derive(Debug, Clone)]
pub struct Needed {
    /// What to prepare.
    pub source: GuestSource,
    /// Content hash of the bytes, the same for equal guests under several names.
    pub content: [u8; 32],
}

/// A folder that has been read: everything but the preparing of its guests.
#[derive(Debug)]
pub struct Checked {
    /// Whose.
    pub agent: AgentId,
    /// The good entries, in the order of files and of entries in them.
    pub entries: Vec<Entry>,
    /// The guests they need.
    pub guests: BTreeMap<ExecutorRef, Needed>,
    /// What was refused, and why.
    pub faults: Vec<Fault>,
}

/// Reads an agent's folder. Blocks on the file system; prepares nothing, so it is the whole of a check without compiling.
pub fn read_agent(agent: &AgentConfig, limits: &LimitsConfig, builtins: &[Builtin]) -> Result<Checked, LoadError> {
    let AgentRules { id, rules } = AgentRules::new(agent, limits);
    let folder = Folder::open(&agent.catalog)?;
    let readings: Vec<Reading> = folder.catalog_files()?.iter().map(|name| read_catalog_file(&folder, name, &rules)).collect();
    let (entries, faults) = unite(readings);
    if entries.is_empty() && faults.is_empty() {
        return Err(LoadError::Empty { folder: folder.path().display().to_string() });
    }
    let default_guest = rules.default_executor.map(|default| default.guest);
    let mut checked = Checked { agent: id, entries: Vec::new(), guests: BTreeMap::new(), faults };
    let mut unreadable: BTreeMap<ExecutorRef, FolderError> = BTreeMap::new();
    for entry in entries {
        let executor = entry.executor.clone();
        if !checked.guests.contains_key(&executor) && !unreadable.contains_key(&executor) {
            match find_guest(&folder, &executor, default_guest.as_deref(), builtins) {
                Ok(guest) => drop(checked.guests.insert(executor.clone(), guest)),
                Err(error) => drop(unreadable.insert(executor.clone(), error)),
            }
        }
        match unreadable.get(&executor) {
            Some(error) => checked.faults.push(executor_fault(&entry, &error.what, &error.mend)),
            None => checked.entries.push(entry),
        }
    }
    Ok(checked)
}

fn read_catalog_file(folder: &Folder, name: &str, rules: &Rules) -> Reading {
    let shown = folder.shown(name);
    match folder.read(name, FILE_BYTES_MAX as u64) {
        Ok(text) => read_file(&shown, &text, rules),
        Err(error) => Reading::failed(&shown, error.what, error.mend),
    }
}

fn find_guest(
    folder: &Folder,
    executor: &ExecutorRef,
    default_guest: Option<&str>,
    builtins: &[Builtin],
) -> Result<Needed, FolderError> {
    let name = match executor {
        ExecutorRef::File(name) => name,
        ExecutorRef::Default => default_guest.unwrap_or_default(),
    };
    let builtin = builtins.iter().find(|builtin| *executor == ExecutorRef::Default && builtin.name == name);
    let bytes = match builtin {
        Some(builtin) => builtin.bytes.clone(),
        None => folder.read(name, WASM_BYTES_MAX)?,
    };
    let shown = if builtin.is_some() { name.to_owned() } else { folder.shown(name) };
    let content = Sha256::digest(&bytes).into();
    Ok(Needed { source: GuestSource { name: shown, bytes }, content })
}

fn executor_fault(entry: &Entry, what: &str, mend: &str) -> Fault {
    let place = entry.executor_place.clone();
    let what = match entry.executor {
        ExecutorRef::Default => format!("the agent's default executor: {what}"),
        ExecutorRef::File(_) => what.to_owned(),
    };
    Fault { place, service: Some(entry.service.clone()), field: Some("executor".into()), what, mend: mend.to_owned() }
}

/// Prepares the guests of a folder, equal bytes once. An entry whose guest fails is refused like any other bad one (G1-55).
pub async fn prepare(checked: Checked, executor: &dyn Executor) -> Snapshot {
    let mut sources: BTreeMap<[u8; 32], GuestSource> = BTreeMap::new();
    for needed in checked.guests.values() {
        sources.entry(needed.content).or_insert_with(|| needed.source.clone());
    }
    let prepared: BTreeMap<[u8; 32], Result<Arc<dyn Guest>, PrepareError>> = futures::stream::iter(sources)
        .map(|(content, source)| async move { (content, executor.prepare(source).await) })
        .buffer_unordered(PREPARE_AT_ONCE)
        .collect()
        .await;
    let mut snapshot = Snapshot { agent: checked.agent, entries: BTreeMap::new(), faults: checked.faults };
    for entry in checked.entries {
        let content = checked.guests.get(&entry.executor).map(|needed| needed.content);
        match content.and_then(|content| prepared.get(&content)) {
            Some(Ok(guest)) => {
                let service = entry.service.clone();
                snapshot.entries.insert(service, Arc::new(Capability { entry, guest: guest.clone() }));
            }
            Some(Err(error)) => snapshot.faults.push(executor_fault(&entry, &error.what, &error.mend)),
            None => snapshot.faults.push(executor_fault(&entry, "its guest was not found", "name a .wasm in the catalog folder")),
        }
    }
    snapshot
}

/// Reads an agent's folder and prepares its guests. The reading blocks, so call it where that is allowed.
pub async fn load_agent(
    agent: &AgentConfig,
    limits: &LimitsConfig,
    builtins: &[Builtin],
    executor: &dyn Executor,
) -> Result<Snapshot, LoadError> {
    Ok(prepare(read_agent(agent, limits, builtins)?, executor).await)
}

#[cfg(test)]
mod tests;

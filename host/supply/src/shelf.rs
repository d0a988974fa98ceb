//! An agent's catalog folder, read again and again: what is live, what was seen, and what has become of it.
//!
//! Owns the order of a reload: files read where they changed, entries joined with the live ones, changed guests found and
//! prepared, and only then the snapshot swapped (G1-55, G1-56). It must not know when a reload is due, nor how a guest is compiled.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use catalog::read::FILE_BYTES_MAX;
use catalog::{Capability, Entry, ExecutorRef, Fault, Known, Merged, Reading, Rules, Snapshot, merge, reread_file};
use futures::StreamExt;
use job::executor::{Executor, Guest, GuestSource, PrepareError};
use sha2::{Digest, Sha256};

use crate::changes::{Change, changes};
use crate::config::{AgentConfig, LimitsConfig};
use crate::folder::{Folder, FolderError, Stamp, WASM_BYTES_MAX};
use crate::load::{Builtin, LoadError, rules_of};

/// Guests prepared at the same time; compiling is the sandbox's own affair and has its own threads.
const PREPARE_AT_ONCE: usize = 4;

type Content = [u8; 32];

/// A catalog file as it was read last.
struct SeenFile {
    stamp: Option<Stamp>,
    content: Content,
    reading: Arc<Reading>,
}

/// A guest's file as it was read last.
struct SeenGuest {
    stamp: Option<Stamp>,
    content: Content,
}

/// What a look at the folder found.
pub struct Gathered {
    merged: Merged,
    /// The bytes each executor stands for, by their hash.
    contents: BTreeMap<ExecutorRef, Result<Content, FolderError>>,
    /// Guests that are not prepared yet.
    sources: BTreeMap<Content, GuestSource>,
    folder: Option<(u64, u64)>,
}

/// An agent's catalog.
pub struct Shelf {
    agent: AgentConfig,
    rules: Rules,
    builtins: Arc<[Builtin]>,
    files: HashMap<String, SeenFile>,
    guests: HashMap<ExecutorRef, SeenGuest>,
    prepared: HashMap<Content, Arc<dyn Guest>>,
    live: Arc<Snapshot>,
    folder: Option<(u64, u64)>,
}

impl Shelf {
    /// An empty one.
    pub fn new(agent: &AgentConfig, limits: &LimitsConfig, builtins: &[Builtin]) -> Self {
        Self {
            agent: agent.clone(),
            rules: rules_of(agent, limits),
            builtins: builtins.into(),
            files: HashMap::new(),
            guests: HashMap::new(),
            prepared: HashMap::new(),
            live: Arc::new(Snapshot::empty(agent.id.clone())),
            folder: None,
        }
    }

    /// A new one in the place of one whose reading may fail: it knows what is live and nothing else.
    pub(crate) fn again(&self, limits: &LimitsConfig, builtins: &[Builtin]) -> Self {
        Self { live: self.live.clone(), ..Self::new(&self.agent, limits, builtins) }
    }

    /// Whose it is.
    pub fn agent(&self) -> &AgentConfig {
        &self.agent
    }

    /// What is live.
    pub fn live(&self) -> &Arc<Snapshot> {
        &self.live
    }

    /// Which folder was read last.
    pub(crate) fn folder(&self) -> Option<(u64, u64)> {
        self.folder
    }

    /// The folders within the catalog folder that its guests lie in, as paths from there.
    pub(crate) fn guest_folders(&self) -> BTreeSet<String> {
        let parent = |executor: &ExecutorRef| match executor {
            ExecutorRef::File(name) => name.rsplit_once('/').map(|(folder, _)| folder.to_owned()),
            ExecutorRef::Default => None,
        };
        self.guests.keys().filter_map(parent).collect()
    }

    /// The deployment lays down other rules, or names another folder: every file is read anew.
    pub(crate) fn set_rules(&mut self, agent: &AgentConfig, limits: &LimitsConfig) {
        self.agent = agent.clone();
        self.rules = rules_of(agent, limits);
        self.files.clear();
        self.guests.clear();
    }

    /// A folder without any entry, not even a bad one, is a mistake where a node starts with it.
    pub(crate) fn check_filled(&self) -> Result<(), LoadError> {
        if self.live.entries.is_empty() && self.live.faults.is_empty() {
            return Err(LoadError::Empty { folder: self.agent.catalog.display().to_string() });
        }
        Ok(())
    }

    /// Looks at the folder and reads what has changed. Blocks on the file system. Changes nothing that is live.
    pub fn gather(&mut self) -> Result<Gathered, FolderError> {
        let folder = Folder::open(&self.agent.catalog)?;
        let names = folder.catalog_files()?;
        // Known by these rules only: after a change of rules no file is known, so neither is an entry.
        let before: Vec<Arc<Entry>> = self.files.values().flat_map(|seen| seen.reading.entries.iter().cloned()).collect();
        let known = Known::of(&before);
        let mut files = HashMap::with_capacity(names.len());
        let mut readings = Vec::with_capacity(names.len());
        for name in names {
            let seen = read_catalog_file(&folder, &name, &self.rules, &known, self.files.remove(&name));
            readings.push(seen.reading.clone());
            files.insert(name, seen);
        }
        self.files = files;
        let merged = merge(&self.live, &readings);
        let mut gathered = Gathered { contents: BTreeMap::new(), sources: BTreeMap::new(), folder: folder.identity(), merged };
        let executors: BTreeSet<ExecutorRef> = gathered.merged.entries.values().map(|entry| entry.executor.clone()).collect();
        self.guests.retain(|executor, _| executors.contains(executor));
        for executor in executors {
            let content = self.find_guest(&folder, &executor, &mut gathered.sources);
            gathered.contents.insert(executor, content);
        }
        Ok(gathered)
    }

    fn find_guest(
        &mut self,
        folder: &Folder,
        executor: &ExecutorRef,
        sources: &mut BTreeMap<Content, GuestSource>,
    ) -> Result<Content, FolderError> {
        let name = match executor {
            ExecutorRef::File(name) => name.clone(),
            ExecutorRef::Default => self.rules.default_executor.as_ref().map(|default| default.guest.clone()).unwrap_or_default(),
        };
        let builtin = self.builtins.iter().find(|builtin| *executor == ExecutorRef::Default && builtin.name == &*name);
        let (shown, fresh_bytes, stamp) = match builtin {
            Some(builtin) => (name.to_string(), builtin.bytes.clone(), None),
            None => {
                // Unchanged bytes need no second look, unless they could not be prepared.
                let seen = self.guests.get(executor).filter(|seen| self.prepared.contains_key(&seen.content));
                let fresh = folder.reread(&name, WASM_BYTES_MAX, seen.and_then(|seen| seen.stamp.as_ref()))?;
                match (fresh.bytes, seen) {
                    (None, Some(seen)) => return Ok(seen.content),
                    (bytes, _) => (folder.shown(&name), bytes.unwrap_or_default(), fresh.stamp),
                }
            }
        };
        let content: Content = Sha256::digest(&fresh_bytes).into();
        self.guests.insert(executor.clone(), SeenGuest { stamp, content });
        if !self.prepared.contains_key(&content) {
            sources.entry(content).or_insert(GuestSource { name: shown, bytes: fresh_bytes });
        }
        Ok(content)
    }

    /// Prepares what is new, equal bytes once, and swaps. An entry whose guest fails is refused like any other bad one, and keeps
    /// its last good version if it has one (G1-55). Returns what has changed.
    pub async fn settle(&mut self, gathered: Gathered, executor: &dyn Executor) -> Vec<Change> {
        let mut preparing = futures::stream::iter(gathered.sources)
            .map(|(content, source)| async move { (content, executor.prepare(source).await) })
            .buffer_unordered(PREPARE_AT_ONCE);
        let mut failed: BTreeMap<Content, PrepareError> = BTreeMap::new();
        while let Some((content, prepared)) = preparing.next().await {
            match prepared {
                Ok(guest) => drop(self.prepared.insert(content, guest)),
                Err(error) => drop(failed.insert(content, error)),
            }
        }
        drop(preparing);
        let mut next = Snapshot::empty(self.agent.id.clone());
        next.faults = gathered.merged.faults;
        for (service, entry) in gathered.merged.entries {
            let old = self.live.entries.get(&service);
            match self.guest_of(&entry, &gathered.contents, &failed) {
                Ok(guest) => {
                    let same = |old: &&Arc<Capability>| Arc::ptr_eq(&old.entry, &entry) && old.guest.hash() == guest.hash();
                    let capability = old.filter(same).cloned().unwrap_or_else(|| Arc::new(Capability { entry, guest }));
                    next.entries.insert(service, capability);
                }
                Err((what, mend)) => {
                    next.faults.push(executor_fault(&entry, &what, &mend));
                    next.entries.extend(old.map(|old| (service, old.clone())));
                }
            }
        }
        let needed: BTreeSet<Content> = gathered.contents.values().filter_map(|content| content.as_ref().ok()).copied().collect();
        self.prepared.retain(|content, _| needed.contains(content));
        self.folder = gathered.folder;
        let changes = changes(&self.live, &next);
        self.live = Arc::new(next);
        changes
    }

    fn guest_of(
        &self,
        entry: &Entry,
        contents: &BTreeMap<ExecutorRef, Result<Content, FolderError>>,
        failed: &BTreeMap<Content, PrepareError>,
    ) -> Result<Arc<dyn Guest>, (String, String)> {
        let content = match contents.get(&entry.executor) {
            Some(Ok(content)) => content,
            Some(Err(error)) => return Err((error.what.clone(), error.mend.clone())),
            None => return Err(("its guest was not found".into(), "name a .wasm in the catalog folder".into())),
        };
        match (self.prepared.get(content), failed.get(content)) {
            (Some(guest), _) => Ok(guest.clone()),
            (None, Some(error)) => Err((error.what.clone(), error.mend.clone())),
            (None, None) => Err(("its guest was not prepared".into(), "save the file again".into())),
        }
    }

    /// The folder cannot be read: everything stays, and this is the one fault. Returns what has changed.
    pub(crate) fn unreadable(&mut self, error: &FolderError) -> Vec<Change> {
        let file: Arc<str> = self.agent.catalog.display().to_string().into();
        let place = catalog::Place::whole(&file);
        let fault = Fault { place, service: None, field: None, what: error.what.clone(), mend: error.mend.clone() };
        let next = Snapshot { faults: vec![fault], ..Snapshot::clone(&self.live) };
        self.folder = None;
        let changes = changes(&self.live, &next);
        self.live = Arc::new(next);
        changes
    }
}

fn read_catalog_file(folder: &Folder, name: &str, rules: &Rules, known: &Known<'_>, seen: Option<SeenFile>) -> SeenFile {
    let shown = folder.shown(name);
    let fresh = match folder.reread(name, FILE_BYTES_MAX as u64, seen.as_ref().and_then(|seen| seen.stamp.as_ref())) {
        Ok(fresh) => fresh,
        Err(error) => {
            let reading = Arc::new(Reading::failed(&shown, error.what, error.mend));
            return SeenFile { stamp: None, content: Content::default(), reading };
        }
    };
    match (fresh.bytes, seen) {
        (None, Some(seen)) => seen,
        (bytes, seen) => {
            let bytes = bytes.unwrap_or_default();
            let content: Content = Sha256::digest(&bytes).into();
            let reading = match seen.filter(|seen| seen.content == content) {
                Some(seen) => seen.reading,
                None => Arc::new(reread_file(&shown, &bytes, rules, known)),
            };
            SeenFile { stamp: fresh.stamp, content, reading }
        }
    }
}

fn executor_fault(entry: &Entry, what: &str, mend: &str) -> Fault {
    let place = entry.executor_place.clone();
    let what = match entry.executor {
        ExecutorRef::Default => format!("the agent's default executor: {what}"),
        ExecutorRef::File(_) => what.to_owned(),
    };
    Fault { place, service: Some(entry.service.clone()), field: Some("executor".into()), what, mend: mend.to_owned() }
}

#[cfg(test)]
mod tests;

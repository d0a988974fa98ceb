//! The larder: everything a node reads from its machine, kept fresh while it runs (DC-07, G1-36, G1-55).
//!
//! Owns when files are read again and what is told about it: settings, catalogs, agents that come. It must not know who runs a
//! capability, advertises it, or writes the log.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::Snapshot;
use job::executor::Executor;
use job::ids::AgentId;

use crate::changes::Change;
use crate::config::{AgentConfig, Config, FILE_BYTES_MAX, Inputs, Setting, renew};
use crate::folder::FolderError;
use crate::load::{Builtin, LoadError};
use crate::shelf::{Gathered, Shelf};
use crate::watch::{Wanted, Watch, want};

/// What a look brought.
#[derive(Debug)]
pub enum News {
    /// The configuration file changed: what is in force from now on, and each setting that differs.
    Settings {
        /// In force.
        config: Box<Config>,
        /// What differs.
        changed: Vec<Setting>,
    },
    /// The configuration file was refused; what was in force stays.
    SettingsRejected {
        /// Why, with place and mend.
        why: String,
    },
    /// The configuration file is fine again after it was refused.
    SettingsMended,
    /// An agent's catalog changed.
    Catalog {
        /// What is live from now on.
        snapshot: Arc<Snapshot>,
        /// What differs.
        changes: Vec<Change>,
    },
    /// An agent was added to the configuration, and its catalog is here.
    Arrived {
        /// What is live from now on.
        snapshot: Arc<Snapshot>,
    },
    /// An added agent has no catalog yet; it is tried again at each look.
    Missing {
        /// Whose.
        agent: AgentId,
        /// Why.
        why: String,
    },
}

/// The larder of a node.
pub struct Larder {
    started: Inputs,
    last: Inputs,
    config: Config,
    /// Why the configuration file was refused last.
    refused: Option<String>,
    shelves: Vec<Shelf>,
    /// Agents that were added and have no catalog yet, with the reason that was told last.
    missing: Vec<(AgentConfig, String)>,
    builtins: Arc<[Builtin]>,
    executor: Arc<dyn Executor>,
    watch: Watch,
}

impl Larder {
    /// Reads every agent's catalog. A folder that cannot be read, or holds nothing, ends the start: the node would do nothing.
    pub async fn open(
        inputs: Inputs,
        config: Config,
        builtins: &[Builtin],
        executor: Arc<dyn Executor>,
    ) -> Result<Self, LoadError> {
        let mut larder = Self {
            started: inputs.clone(),
            last: inputs,
            refused: None,
            shelves: config.agents.iter().map(|agent| Shelf::new(agent, &config.limits, builtins)).collect(),
            missing: Vec::new(),
            config,
            builtins: builtins.into(),
            executor,
            watch: Watch::new(),
        };
        // Watched before it is read, so that nothing is written unseen in between.
        larder.watch_again(&BTreeSet::new());
        for nth in 0..larder.shelves.len() {
            let gathered = larder.gather(nth).await?;
            let executor = larder.executor.clone();
            larder.shelves[nth].settle(gathered, &*executor).await;
            larder.shelves[nth].check_filled()?;
        }
        larder.watch_again(&BTreeSet::new());
        Ok(larder)
    }

    /// What is live now, agent by agent.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.shelves.iter().map(Shelf::live)
    }

    /// Waits until something may have changed, looks, and tells what is new; often nothing is.
    pub async fn next(&mut self) -> Vec<News> {
        self.watch.due().await;
        let mut news = Vec::new();
        self.look_at_settings(&mut news).await;
        let mut replaced = BTreeSet::new();
        for nth in 0..self.shelves.len() {
            let folder = self.shelves[nth].folder();
            news.extend(self.look_at_catalog(nth).await);
            if self.shelves[nth].folder() != folder {
                replaced.insert(self.shelves[nth].agent().catalog.clone());
            }
        }
        self.welcome(&mut news).await;
        self.watch_again(&replaced);
        news
    }

    async fn look_at_catalog(&mut self, nth: usize) -> Option<News> {
        let changes = match self.gather(nth).await {
            Ok(gathered) => {
                let executor = self.executor.clone();
                self.shelves[nth].settle(gathered, &*executor).await
            }
            Err(error) => self.shelves[nth].unreadable(&error),
        };
        (!changes.is_empty()).then(|| News::Catalog { snapshot: self.shelves[nth].live().clone(), changes })
    }

    /// Looks at a folder on a thread that may wait for a disk.
    async fn gather(&mut self, nth: usize) -> Result<Gathered, FolderError> {
        let agent = self.shelves[nth].agent().clone();
        let again = self.shelves[nth].again(&self.config.limits, &self.builtins);
        let mut shelf = std::mem::replace(&mut self.shelves[nth], again);
        let looked = tokio::task::spawn_blocking(move || {
            let gathered = shelf.gather();
            (shelf, gathered)
        });
        match looked.await {
            Ok((shelf, gathered)) => {
                self.shelves[nth] = shelf;
                gathered
            }
            Err(error) => {
                let what = format!("reading {} failed in the node itself: {error}", agent.catalog.display());
                Err(FolderError { what, mend: "please report it; what was live stays".into() })
            }
        }
    }

    async fn look_at_settings(&mut self, news: &mut Vec<News>) {
        let Some((path, text)) = self.last.file.clone() else { return };
        let fresh = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || read_settings(&path)).await.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        let renewed = match fresh {
            Ok(fresh) if fresh == text => {
                // The file is what it was before it was spoilt.
                if self.refused.take().is_some() {
                    news.push(News::SettingsMended);
                }
                return;
            }
            Ok(fresh) => {
                let inputs = Inputs { file: Some((path, fresh)), ..self.last.clone() };
                renew(&self.started, &self.last, &inputs, &self.config)
                    .map(|(config, changed)| (inputs, config, changed))
                    .map_err(|error| error.to_string())
            }
            Err(error) => Err(format!("{} cannot be read: {error}; put it back", path.display())),
        };
        match renewed {
            Ok((inputs, config, changed)) => {
                self.last = inputs;
                if self.refused.take().is_some() {
                    news.push(News::SettingsMended);
                }
                self.apply(config);
                if !changed.is_empty() {
                    news.push(News::Settings { config: Box::new(self.config.clone()), changed });
                }
            }
            Err(why) if self.refused.as_ref() == Some(&why) => {}
            Err(why) => {
                self.refused = Some(why.clone());
                news.push(News::SettingsRejected { why });
            }
        }
    }

    /// Lays down the new rules for every agent, and notes agents that are new.
    fn apply(&mut self, config: Config) {
        self.config = config;
        for shelf in &mut self.shelves {
            if let Some(agent) = self.config.agents.iter().find(|agent| agent.id == shelf.agent().id) {
                shelf.set_rules(agent, &self.config.limits);
            }
        }
        let known: BTreeSet<&AgentId> = self.shelves.iter().map(|shelf| &shelf.agent().id).collect();
        let missing = self.config.agents.iter().filter(|agent| !known.contains(&agent.id));
        self.missing = missing.map(|agent| (agent.clone(), String::new())).collect();
    }

    /// Loads the catalogs of agents that were added.
    async fn welcome(&mut self, news: &mut Vec<News>) {
        for (agent, told) in std::mem::take(&mut self.missing) {
            self.shelves.push(Shelf::new(&agent, &self.config.limits, &self.builtins));
            let nth = self.shelves.len() - 1;
            let loaded = match self.gather(nth).await {
                Ok(gathered) => {
                    let executor = self.executor.clone();
                    self.shelves[nth].settle(gathered, &*executor).await;
                    self.shelves[nth].check_filled()
                }
                Err(error) => Err(error.into()),
            };
            match loaded {
                Ok(()) => news.push(News::Arrived { snapshot: self.shelves[nth].live().clone() }),
                Err(error) => {
                    self.shelves.truncate(nth);
                    let why = error.to_string();
                    if why != told {
                        news.push(News::Missing { agent: agent.id.clone(), why: why.clone() });
                    }
                    self.missing.push((agent, why));
                }
            }
        }
    }

    /// Watches what is read now: each catalog folder and its name in the folder above, the folders of guests, and the
    /// configuration file by its name.
    fn watch_again(&mut self, replaced: &BTreeSet<PathBuf>) {
        let mut wanted = Wanted::new();
        let agents = self.shelves.iter().map(Shelf::agent).chain(self.missing.iter().map(|(agent, _)| agent));
        for path in agents.map(|agent| &agent.catalog) {
            want_by_name(&mut wanted, path);
            if path.is_dir() {
                want(&mut wanted, path.clone(), None);
            }
        }
        for shelf in &self.shelves {
            for folder in shelf.guest_folders() {
                let folder = shelf.agent().catalog.join(folder);
                if folder.is_dir() {
                    want(&mut wanted, folder, None);
                }
            }
        }
        if let Some((path, _)) = &self.last.file {
            want_by_name(&mut wanted, path);
        }
        let renewed: BTreeSet<PathBuf> =
            wanted.keys().filter(|path| replaced.iter().any(|folder| path.starts_with(folder))).cloned().collect();
        self.watch.set(wanted, &renewed);
    }
}

/// Watches the name of a path in the folder above it, where there is one.
fn want_by_name(wanted: &mut Wanted, path: &Path) {
    if let (Some(above), Some(name)) = (path.parent(), path.file_name())
        && (above.as_os_str().is_empty() || above.is_dir())
    {
        want(wanted, above.to_owned(), Some(name.to_owned()));
    }
}

/// The text of a configuration file, or as much as shows that it is too long: some files never end.
pub fn read_settings(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    Ok(text)
}

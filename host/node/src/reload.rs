//! What is new in the larder, carried to the rooms while the node runs: catalogs, settings, agents (DC-07, G1-36, G1-55).
//!
//! Owns the order of a swap (engine first, then the profile) and the one log line of each change. It must not know files.

use std::sync::Arc;

use catalog::Snapshot;
use doors::mqtt::mesh::Mesh;
use engine::Engine;
use job::status::{Board, Condition, Severity};
use supply::changes::Change;
use supply::config::{Applies, Setting};
use supply::{Config, Deployment, Larder, News};
use wire::mqtt::registry::{Advertised, OwnerPolicy, Profile};

use crate::start::places_of;

/// Most log lines of one look at one catalog; the rest are counted.
const LINES_MAX: usize = 200;
/// Most faults of one agent that health names; the rest are counted.
const CONDITIONS_MAX: usize = 50;
/// The name of the configuration's condition on the status board.
const SETTINGS: &str = "settings";

/// Where news are carried.
pub(crate) struct Rooms {
    pub(crate) engine: Engine,
    pub(crate) mesh: Arc<Mesh>,
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) board: Board,
}

/// Carries news for as long as the node takes work. `config` is what is in force.
pub(crate) async fn keep_fresh(mut larder: Larder, rooms: Rooms, mut config: Config) {
    metrics::describe_counter!(
        "amp_catalog_changes_total",
        "Changes of catalogs taken or rejected while the node runs, by kind."
    );
    metrics::describe_gauge!("amp_catalog_entries", "Capabilities offered, by agent.");
    metrics::describe_gauge!("amp_catalog_faults", "Faults in a catalog, by agent.");
    larder.snapshots().for_each(|snapshot| count(snapshot));
    loop {
        for news in larder.next().await {
            rooms.carry(news, &mut config).await;
        }
    }
}

impl Rooms {
    async fn carry(&self, news: News, config: &mut Config) {
        match news {
            News::Catalog { snapshot, changes } => self.swap(config, &snapshot, &changes),
            News::Settings { config: fresh, changed } => self.settle(config, *fresh, &changed),
            News::SettingsRejected { why } => {
                tracing::error!("configuration rejected, keeping what was in force: {why}");
                let condition = Condition {
                    severity: Severity::Degraded,
                    what: format!("the configuration file was rejected: {why}"),
                    mend: "mend the file; `amp-node check` names the line".into(),
                };
                self.board.raise(SETTINGS, condition);
            }
            News::SettingsMended => {
                tracing::info!("the configuration file is fine again");
                self.board.clear(SETTINGS);
            }
            News::Arrived { snapshot } => self.welcome(config, &snapshot).await,
            News::Missing { agent, why } => {
                tracing::error!(%agent, "agent not added yet: {why}");
                let mend = "mend it; the agent is added within seconds".into();
                let condition = Condition { severity: Severity::Degraded, what: format!("agent {agent}: {why}"), mend };
                self.board.raise(&missing_name(&agent), condition);
            }
        }
    }

    /// The catalog of an agent: jobs find the new one before anybody is told of it.
    fn swap(&self, config: &Config, snapshot: &Arc<Snapshot>, changes: &[Change]) {
        self.engine.publish(snapshot);
        if changes.iter().any(Change::is_swap) {
            self.mesh.advertise(profile(config, snapshot));
        }
        tell(snapshot, changes);
        show_faults(&self.board, snapshot);
        count(snapshot);
    }

    fn settle(&self, config: &mut Config, fresh: Config, changed: &[Setting]) {
        self.deployment.apply(&fresh);
        self.engine.set_places(places_of(&fresh));
        let renamed = |agent: &&supply::config::AgentConfig| {
            config.agents.iter().any(|known| known.id == agent.id && known.display_name != agent.display_name)
        };
        for agent in fresh.agents.iter().filter(renamed) {
            if let Some(snapshot) = self.engine.snapshot(&agent.id) {
                self.mesh.advertise(profile(&fresh, &snapshot));
            }
        }
        *config = fresh;
        for setting in changed {
            match setting.applies {
                Applies::AfterRestart => tracing::warn!("configuration: {setting}"),
                Applies::Now | Applies::AsItRuns => tracing::info!("configuration: {setting}"),
            }
        }
    }

    /// An agent that was added: what the journal holds of it goes on, then its door opens.
    async fn welcome(&self, config: &Config, snapshot: &Arc<Snapshot>) {
        let agent = &snapshot.agent;
        self.board.clear(&missing_name(agent));
        let recovered = self.engine.add(snapshot).await.unwrap_or_else(|error| {
            tracing::error!(%agent, %error, "unfinished jobs of this agent could not be read; they go on after a restart");
            0
        });
        self.mesh.add(profile(config, snapshot));
        tracing::info!(%agent, capabilities = snapshot.entries.len(), recovered, "agent added");
        for fault in &snapshot.faults {
            tracing::error!(%agent, "{fault}");
        }
        show_faults(&self.board, snapshot);
        count(snapshot);
    }
}

/// One line for each change.
fn tell(snapshot: &Snapshot, changes: &[Change]) {
    let agent = &snapshot.agent;
    for change in changes {
        let kind = match change {
            Change::Added { .. } => "added",
            Change::Changed { .. } => "changed",
            Change::Removed { .. } => "removed",
            Change::Rejected { .. } => "rejected",
            Change::Mended { .. } => "mended",
        };
        metrics::counter!("amp_catalog_changes_total", "kind" => kind).increment(1);
    }
    for change in changes.iter().take(LINES_MAX) {
        match change.is_rejection() {
            true => tracing::error!(%agent, "catalog: {change}"),
            false => tracing::info!(%agent, "catalog: {change}"),
        }
    }
    if changes.len() > LINES_MAX {
        tracing::info!(%agent, more = changes.len() - LINES_MAX, "catalog: and more changes");
    }
}

fn count(snapshot: &Snapshot) {
    let agent = snapshot.agent.to_string();
    let gauge = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    metrics::gauge!("amp_catalog_entries", "agent" => agent.clone()).set(gauge(snapshot.entries.len()));
    metrics::gauge!("amp_catalog_faults", "agent" => agent).set(gauge(snapshot.faults.len()));
}

/// The prefix of the names of an agent's faults on the board. A colon, which no agent id holds, ends it.
fn fault_prefix(agent: &job::ids::AgentId) -> String {
    format!("catalog:{agent}:")
}

fn missing_name(agent: &job::ids::AgentId) -> String {
    format!("agent:{agent}")
}

/// Puts the faults of a catalog on the board, and takes down those that are mended: health is degraded while any entry is bad.
pub(crate) fn show_faults(board: &Board, snapshot: &Snapshot) {
    let prefix = fault_prefix(&snapshot.agent);
    let mut names = Vec::new();
    for (nth, fault) in snapshot.faults.iter().take(CONDITIONS_MAX).enumerate() {
        let more = snapshot.faults.len() - CONDITIONS_MAX.min(snapshot.faults.len());
        let rest = if nth + 1 == CONDITIONS_MAX && more > 0 { format!(" (and {more} more faults)") } else { String::new() };
        let what = format!("{}: {}{rest}", fault.place, fault.what);
        let name = format!("{prefix}{nth}");
        board.raise(&name, Condition { severity: Severity::Degraded, what, mend: fault.mend.clone() });
        names.push(name);
    }
    board.keep_only(&prefix, &names);
}

/// What an agent shows of itself.
pub(crate) fn profile(config: &Config, snapshot: &Snapshot) -> Profile {
    let display_name = config.agents.iter().find(|agent| agent.id == snapshot.agent).map(|agent| agent.display_name.clone());
    let capabilities = snapshot
        .offers()
        .map(|offer| Advertised {
            service: offer.service.to_string(),
            description: offer.description.to_string(),
            request_schema: Some(offer.request_schema),
        })
        .collect();
    Profile {
        agent: snapshot.agent.clone(),
        display_name: display_name.unwrap_or_else(|| snapshot.agent.to_string()),
        capabilities,
        owner_policy: OwnerPolicy { required: true, verified: false },
    }
}

//! What all journeys share: the ports, the limits, the tables, and the signs that the node stops.
//!
//! Owns how the engine's shared parts fit together and what it reports of itself. It must not know the steps of a journey.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use catalog::{Entry, Snapshot};
use job::admission::Memory;
use job::clock::Timestamp;
use job::ids::{AgentId, JobKey};
use job::outcome::{Outcome, Usage};
use job::reason::Reason;
use job::status::{Board, Condition, Severity};
use job::store::{CancelOrder, JobStore, StoreError};
use job::variables::Variables;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::journey::until;
use crate::live::{Table, Voice};
use crate::places::{PlaceLimits, Want};
use crate::turnstile::Turnstile;

/// How long a cancel of an unknown job stands, in milliseconds (G1-25).
pub const TOMBSTONE_MS: i64 = 5 * 60 * 1000;
/// Prompts that may loop, rendered at the same time.
const RENDERERS: usize = 2;
/// The name of the journal's condition on the status board.
const JOURNAL: &str = "journal";

/// The engine's settings.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Places and queue.
    pub places: PlaceLimits,
    /// How long finished jobs answer for themselves.
    pub memory: Memory,
    /// Whether a commit waits for the disk (`journal.sync = "full"`): then idempotent jobs start ahead of it (G1-49).
    pub sync_full: bool,
}

/// The engine's shared part.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    /// The catalog of each agent. Both the map and its catalogs are swapped whole.
    agents: ArcSwap<HashMap<AgentId, Arc<Snapshot>>>,
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) variables: Arc<dyn Variables>,
    pub(crate) voice: Arc<Voice>,
    pub(crate) table: Table,
    pub(crate) turnstile: Turnstile,
    /// Prompts that may loop are rendered on threads of their own, this many at a time.
    pub(crate) renderers: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) workers: tokio::runtime::Handle,
    /// No work is taken any more, and what waits stays in the journal.
    pub(crate) stopping: CancellationToken,
    /// The time for running jobs is over.
    pub(crate) halted: CancellationToken,
    pub(crate) retire: AtomicBool,
    pub(crate) board: Board,
    journal_failed: AtomicBool,
}

impl Core {
    pub(crate) fn new(settings: Settings, ports: crate::engine::Ports, agents: Vec<Arc<Snapshot>>) -> Self {
        let agents: HashMap<_, _> = agents.into_iter().map(|snapshot| (snapshot.agent.clone(), snapshot)).collect();
        Self {
            settings,
            agents: ArcSwap::from_pointee(agents),
            voice: Arc::new(Voice::new(ports.clock, ports.courier, ports.store.clone())),
            store: ports.store,
            variables: ports.variables,
            table: Table::new(),
            turnstile: Turnstile::new(settings.places),
            renderers: Arc::new(Semaphore::new(RENDERERS)),
            tasks: TaskTracker::new(),
            workers: ports.workers,
            stopping: CancellationToken::new(),
            halted: CancellationToken::new(),
            retire: AtomicBool::new(false),
            board: ports.board,
            journal_failed: AtomicBool::new(false),
        }
    }

    /// The catalog of an agent as it is now.
    pub(crate) fn snapshot(&self, agent: &AgentId) -> Option<Arc<Snapshot>> {
        self.agents.load().get(agent).cloned()
    }

    /// The agents of now.
    pub(crate) fn agents(&self) -> Vec<AgentId> {
        self.agents.load().keys().cloned().collect()
    }

    /// Swaps the catalog of an agent, or adds the agent. False: it is new.
    pub(crate) fn publish(&self, snapshot: &Arc<Snapshot>) -> bool {
        let before = self.agents.rcu(|agents| {
            let mut agents = HashMap::clone(agents);
            agents.insert(snapshot.agent.clone(), snapshot.clone());
            agents
        });
        before.contains_key(&snapshot.agent)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.voice.clock.now()
    }

    pub(crate) fn retiring(&self) -> bool {
        self.retire.load(Ordering::Acquire)
    }

    pub(crate) fn want(&self, key: &JobKey, entry: &Entry, depth: u32) -> Want {
        Want {
            turn: (key.agent.clone(), key.door, key.owner.clone()),
            service: (key.agent.clone(), entry.service.clone()),
            max_concurrent: entry.max_concurrent,
            depth,
        }
    }

    /// Sleeps until the wall clock shows this time; for ever when there is none.
    pub(crate) async fn sleep_until(&self, then: Option<Timestamp>) {
        match then {
            None => std::future::pending().await,
            Some(then) => tokio::time::sleep(until(self.now(), then)).await,
        }
    }

    /// A cancel of this job, should it win.
    pub(crate) fn cancel_order(&self, key: JobKey, usage: Usage, notice_ts: Timestamp, ts: Timestamp) -> CancelOrder {
        let outcome = Outcome::ended(Reason::Requested, "cancelled by its requester", usage, ts);
        CancelOrder { key, notice_ts, outcome, tombstone_until: ts.plus_ms(TOMBSTONE_MS) }
    }

    /// Keeps the status board true about the journal (G1-51).
    pub(crate) fn note_store(&self, error: Option<&StoreError>) {
        match error {
            None => {
                if self.journal_failed.swap(false, Ordering::AcqRel) {
                    tracing::info!("the journal works again");
                    self.board.clear(JOURNAL);
                }
            }
            Some(StoreError::Closed) => {}
            Some(error) => {
                if !self.journal_failed.swap(true, Ordering::AcqRel) {
                    tracing::error!(%error, "the journal failed; requests stay unacknowledged and outcomes wait until it works");
                }
                let what = format!("{error}; requests stay unacknowledged, nothing is lost");
                let mend =
                    "free space on the disk that holds node.data_dir, or mend its permissions; work then goes on by itself";
                self.board.raise(JOURNAL, Condition { severity: Severity::Down, what, mend: mend.into() });
            }
        }
    }

    /// Counts an ending and says so in the log.
    pub(crate) fn count_end(&self, key: &JobKey, outcome: &Outcome) {
        let kind = outcome.reserved().map_or("done", |reserved| reserved.word());
        let reason = outcome.reason().map_or("", Reason::word);
        metrics::counter!("amp_engine_jobs_ended_total", "type" => kind, "reason" => reason).increment(1);
        let (fuel, wall_ms, attempt) = (outcome.usage.fuel, outcome.usage.wall_ms, outcome.usage.attempt);
        if kind == "error" || kind == "timeout" {
            tracing::info!(job = %key, r#type = kind, reason, fuel, wall_ms, attempt, "job ended");
        } else {
            tracing::debug!(job = %key, r#type = kind, reason, fuel, wall_ms, attempt, "job ended");
        }
    }
}

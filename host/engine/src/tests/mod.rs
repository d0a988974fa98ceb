//! The engine's tests, on the kit's journal, courier, clock and guests: no disk, no broker, no sandbox.
//!
//! Owns the rig. The journeys are in `journeys`, stops and restarts in `restarts`, the crash rounds in `crashes`.

mod crashes;
mod journeys;
mod restarts;

use std::sync::Arc;

use catalog::{Capability, LimitSet, Rules, Snapshot, read_file};
use job::clock::Timestamp;
use job::courier::EventKind;
use job::ids::{JobKey, Owner};
use job::jobs::{Jobs, Submission, Unavailable};
use job::json::JsonText;
use job::lineage::Lineage;
use job::status::Board;
use job::store::{Admitted, Item, Outbox};
use kit::{FakeClock, FixedVariables, MemoryJournal, RecordingCourier, ScriptedExecutor, ScriptedGuest, samples};

use crate::{Engine, PlaceLimits, Ports, Settings};

const LIMITS: LimitSet = LimitSet { timeout_ms: 1_000, fuel: 1_000_000, memory_mb: 16, output_kb: 64 };
const NOW: i64 = 1_000_000;

/// What the tests' agent offers: one plain capability, one that may not run twice, one strict, one that needs variables.
const CATALOG: &str = r#"[
  { "service": "schema.review", "description": "d", "prompt": "Review {{migration}}.", "executor": "g.wasm" },
  { "service": "once.only", "description": "d", "prompt": "x", "executor": "g.wasm", "idempotent": false },
  { "service": "strict.one", "description": "d", "prompt": "x", "executor": "g.wasm", "strict": true,
    "requestSchema": { "pr": "number" } },
  { "service": "with.secret", "description": "d", "prompt": "use ${TOKEN} for {{what}}", "executor": "g.wasm" },
  { "service": "narrow.one", "description": "d", "prompt": "x", "executor": "g.wasm", "limits": { "maxConcurrent": 1 } }
]"#;

struct Rig {
    engine: Engine,
    journal: MemoryJournal,
    courier: Arc<RecordingCourier>,
    guest: Arc<ScriptedGuest>,
    clock: FakeClock,
    board: Board,
}

fn settings() -> Settings {
    Settings {
        places: PlaceLimits { max_running: 8, max_live: 1_000, max_queued: 16, max_depth: 4 },
        memory: samples::MEMORY,
        sync_full: false,
    }
}

fn snapshot(guest: &Arc<ScriptedGuest>, catalog: &str) -> Arc<Snapshot> {
    let rules = Rules { defaults: LIMITS, ceilings: LIMITS, default_executor: None };
    let reading = read_file("test.json", catalog.as_bytes(), &rules);
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    let guest = ScriptedExecutor::guest(guest);
    let entries = reading
        .entries
        .into_iter()
        .map(|entry| (entry.service.clone(), Arc::new(Capability { entry, guest: guest.clone() })))
        .collect();
    Arc::new(Snapshot { agent: samples::agent(), entries, faults: Vec::new() })
}

impl Rig {
    fn new(guest: Arc<ScriptedGuest>) -> Self {
        Self::with(guest, settings(), MemoryJournal::default(), CATALOG)
    }

    fn with(guest: Arc<ScriptedGuest>, settings: Settings, journal: MemoryJournal, catalog: &str) -> Self {
        let courier = Arc::new(RecordingCourier::default());
        let clock = FakeClock::at(NOW);
        let board = Board::default();
        let ports = Ports {
            store: Arc::new(journal.clone()),
            courier: courier.clone(),
            variables: Arc::new(FixedVariables::default().secret("TOKEN", "hunter2-hunter2")),
            clock: Arc::new(clock.clone()),
            board: board.clone(),
            workers: tokio::runtime::Handle::current(),
        };
        let engine = Engine::new(settings, ports, vec![snapshot(&guest, catalog)]);
        journal.attach(engine.courier());
        Self { engine, journal, courier, guest, clock, board }
    }

    /// A new process on what this one's journal holds.
    fn restarted(&self) -> Self {
        Self::with(ScriptedGuest::answering("{}"), settings(), self.journal.reopen(), CATALOG)
    }

    async fn submit(&self, submission: Submission) -> Result<Admitted, Unavailable> {
        self.engine.submit(submission).await
    }

    async fn accepted(&self, submission: Submission) -> JobKey {
        let key = submission.key.clone();
        assert_eq!(self.submit(submission).await, Ok(Admitted::Accepted));
        key
    }

    /// Items due for this key now, in order.
    fn due(&self, key: &JobKey) -> Vec<Item> {
        let mine = |row: job::store::OutboxRow| {
            let job::store::Route::Mesh(other) = &row.route;
            (other == key).then_some(row.item)
        };
        self.courier.due().into_iter().filter_map(mine).collect()
    }

    async fn reason_of(&self, key: &JobKey) -> &'static str {
        self.courier.outcome_of(key).await.reason().map_or("done", |reason| reason.word())
    }
}

/// A request for `schema.review` under this id.
fn request(job: &str) -> Submission {
    let key = samples::key(job);
    Submission {
        lineage: Lineage::root(key.job.clone()),
        key,
        requested_by: "Alice".into(),
        service: "schema.review".into(),
        args: JsonText::trusted(r#"{"migration":"ALTER"}"#),
        hash: [1; 32],
        redelivered: false,
        expires: None,
    }
}

fn request_of(service: &str, job: &str) -> Submission {
    Submission { service: service.into(), ..request(job) }
}

fn owned(owner: &str, submission: Submission) -> Submission {
    let owner = Owner::from_slug(owner).expect("slug");
    Submission { key: JobKey { owner, ..submission.key }, ..submission }
}

fn kinds(events: &[EventKind]) -> Vec<String> {
    events
        .iter()
        .map(|kind| match kind {
            EventKind::Accepted => "accepted".to_owned(),
            EventKind::Started => "started".to_owned(),
            EventKind::Progress { message } => format!("progress {message}"),
        })
        .collect()
}

fn at(ms: i64) -> Timestamp {
    Timestamp(ms)
}

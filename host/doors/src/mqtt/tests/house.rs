//! A node small enough for a test: one agent's door, the echo engine, a journal in memory.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use job::clock::{Clock, Timestamp};
use job::ids::AgentId;
use job::jobs::Jobs;
use job::status::{Board, Condition};
use job::store::Outbox;
use kit::MemoryJournal;
use tokio::time::Instant;
use wire::mqtt::registry::{Advertised, OwnerPolicy, Profile};
use wire::mqtt::topics::Root;

use super::fake::{Echo, EchoJobs};
use super::observer::PATIENCE;
use crate::mqtt::mesh::{Closed, Connection, Mesh};
use crate::mqtt::settings::{BrokerAddress, Login, MeshSettings};

struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        Timestamp(i64::try_from(since.as_millis()).expect("within range"))
    }
}

pub(super) fn agent() -> AgentId {
    AgentId::parse("dba").expect("an agent")
}

pub(super) fn profile(description: &str) -> Profile {
    let service = Advertised { service: "echo".into(), description: description.into(), request_schema: None };
    Profile {
        agent: agent(),
        display_name: "Echo".into(),
        capabilities: vec![service],
        owner_policy: OwnerPolicy { required: true, verified: false },
    }
}

/// The node.
pub(super) struct House {
    pub(super) mesh: Mesh,
    pub(super) echo: Arc<Echo>,
    pub(super) journal: MemoryJournal,
    pub(super) board: Board,
}

impl House {
    /// Opens a node on this broker, with an empty journal.
    pub(super) async fn open(broker: &BrokerAddress) -> Self {
        let house = Self::begin(broker, MemoryJournal::default(), None);
        house.online().await;
        house
    }

    /// Starts a node without waiting for its connection.
    pub(super) fn begin(broker: &BrokerAddress, journal: MemoryJournal, login: Option<Login>) -> Self {
        let board = Board::default();
        let settings = MeshSettings {
            broker: broker.clone(),
            login,
            root: Root::parse("agents").expect("a root"),
            payload_bytes_max: 1024 * 1024,
            packet_bytes_max: 16 * 1024 * 1024,
            instance: ulid::Ulid::new().to_string(),
        };
        let mesh = Mesh::new(settings, vec![profile("Answers.")], Arc::new(WallClock), board.clone());
        let echo = Echo::new(journal.clone());
        echo.set_courier(mesh.courier());
        journal.attach(mesh.courier());
        let jobs: Arc<dyn Jobs> = Arc::new(EchoJobs(echo.clone()));
        let outbox: Arc<dyn Outbox> = Arc::new(journal.clone());
        mesh.start(&jobs, &outbox);
        Self { mesh, echo, journal, board }
    }

    pub(super) async fn online(&self) {
        self.connection("online", |state| *state == Connection::Online).await;
    }

    pub(super) async fn connection(&self, what: &str, fits: impl Fn(&Connection) -> bool) -> Connection {
        let mut state = self.mesh.connection(&agent()).expect("its connection");
        let waited = tokio::time::timeout(PATIENCE, state.wait_for(|state| fits(state))).await;
        waited.unwrap_or_else(|_| panic!("never {what}: {:?}", self.board.conditions())).expect("it lives").clone()
    }

    /// Waits for a condition on the board that fits.
    pub(super) async fn condition(&self, name: &str, fits: impl Fn(&Condition) -> bool) -> Condition {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(condition) = self.board.conditions().get(name).filter(|condition| fits(condition)) {
                return condition.clone();
            }
            assert!(Instant::now() < until, "{name} is not named: {:?}", self.board.conditions());
            // The board tells nobody that something was put up, so this one wait looks again and again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the broker has all rows.
    pub(super) async fn delivered(&self) {
        self.left(0).await;
    }

    /// Waits until the broker has all rows but so many.
    pub(super) async fn left(&self, rows: usize) {
        let until = Instant::now() + PATIENCE;
        while self.journal.outbox().len() != rows {
            assert!(Instant::now() < until, "rows stay: {:?}", self.journal.outbox().len());
            // The journal tells nobody that a row was marked, so this one wait looks again and again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn close(self) -> Closed {
        let closed = self.mesh.close(Instant::now() + Duration::from_secs(10)).await;
        closed[&agent()]
    }
}

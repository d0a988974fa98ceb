//! The mesh door of a node, all its agents together, as the rest of the program sees it.
//!
//! Owns starting, draining and closing. It must not know connections: each agent's door is a task of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use job::clock::Clock;
use job::courier::Courier;
use job::ids::AgentId;
use job::jobs::Jobs;
use job::status::Board;
use job::store::Outbox;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::mqtt::registry::Profile;

use super::door::{Door, Parts};
use super::post::{Mail, Post, PostOffice};
use super::settings::MeshSettings;

/// Where an agent's connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// Not tried yet, or the first try is under way.
    Connecting,
    /// The broker has let the agent in, and sends it commands.
    Online,
    /// It is gone or was refused, for this reason; it is tried again.
    Down(String),
    /// The agent left because another instance was here first.
    Collided(Collision),
}

/// Another instance with the same client id that started earlier (G1-15).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Collision {
    /// The agent that left.
    pub agent: AgentId,
    /// The other instance, as its status names it.
    pub other: String,
    /// The whole sentence.
    pub what: String,
}

/// How far a door got in closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closed {
    /// Everything committed was acknowledged by the broker. What was not stays in the journal for the next start.
    pub delivered: bool,
    /// Profile and status were cleared, acknowledged.
    pub cleared: bool,
}

/// One agent's place.
struct Place {
    profile: Arc<Profile>,
    post: Arc<Post>,
    inbox: Option<UnboundedReceiver<Mail>>,
    state: watch::Sender<Connection>,
    task: Option<JoinHandle<()>>,
}

impl Place {
    fn new(profile: Profile) -> Self {
        let (post, inbox) = Post::new();
        let state = watch::Sender::new(Connection::Connecting);
        Self { profile: Arc::new(profile), post, inbox: Some(inbox), state, task: None }
    }
}

/// Whom the doors hand requests to, and whose rows they deliver.
struct Behind {
    jobs: Arc<dyn Jobs>,
    outbox: Arc<dyn Outbox>,
}

/// The mesh door of a node.
pub struct Mesh {
    settings: Arc<MeshSettings>,
    clock: Arc<dyn Clock>,
    board: Board,
    places: Mutex<HashMap<AgentId, Place>>,
    office: Arc<PostOffice>,
    behind: OnceLock<Behind>,
}

impl Mesh {
    /// Prepares a door for each profile. Nothing is opened before [`Mesh::start`]; the courier may be used at once.
    pub fn new(settings: MeshSettings, profiles: Vec<Profile>, clock: Arc<dyn Clock>, board: Board) -> Self {
        let office = Arc::new(PostOffice::new(settings.root.clone()));
        let mesh = Self { settings: Arc::new(settings), clock, board, places: Mutex::default(), office, behind: OnceLock::new() };
        profiles.into_iter().for_each(|profile| mesh.prepare(profile));
        mesh
    }

    fn places(&self) -> MutexGuard<'_, HashMap<AgentId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prepare(&self, profile: Profile) {
        let agent = profile.agent.clone();
        let place = Place::new(profile);
        self.office.open(&agent, &place.post);
        self.places().entry(agent).or_insert(place);
    }

    /// The courier to attach to the journal and to give to the engine.
    pub fn courier(&self) -> Arc<dyn Courier> {
        self.office.clone()
    }

    /// Opens the doors: each agent connects and keeps trying. Attach the courier to the outbox before. Needs a tokio runtime; a
    /// second call does nothing.
    pub fn start(&self, jobs: &Arc<dyn Jobs>, outbox: &Arc<dyn Outbox>) {
        self.behind.get_or_init(|| Behind { jobs: jobs.clone(), outbox: outbox.clone() });
        self.open_all();
    }

    /// Prepares a door for another agent, and opens it if the others are open. An agent that has a door keeps it.
    pub fn add(&self, profile: Profile) {
        self.prepare(profile);
        self.open_all();
    }

    /// Opens the doors that are prepared and not open.
    fn open_all(&self) {
        let Some(behind) = self.behind.get() else { return };
        for place in self.places().values_mut() {
            let Some(inbox) = place.inbox.take() else { continue };
            let door = Door::new(Parts {
                settings: self.settings.clone(),
                profile: place.profile.clone(),
                post: place.post.clone(),
                inbox,
                jobs: behind.jobs.clone(),
                outbox: behind.outbox.clone(),
                clock: self.clock.clone(),
                board: self.board.clone(),
                state: place.state.clone(),
            });
            place.task = Some(tokio::spawn(door.run()));
        }
    }

    /// Publishes a new profile of one of the agents, now or at its next connection (G1-36).
    pub fn advertise(&self, profile: Profile) {
        if let Some(place) = self.places().get(&profile.agent) {
            place.post.put(Mail::Advertise(Arc::new(profile)));
        }
    }

    /// Watches one agent's connection.
    pub fn connection(&self, agent: &AgentId) -> Option<watch::Receiver<Connection>> {
        self.places().get(agent).map(|place| place.state.subscribe())
    }

    /// Resolves once every agent has left because of a collision, with one of them (exit code 3 of `run`).
    pub async fn all_collided(&self) -> Collision {
        let mut last = None;
        let mut heard = Vec::new();
        // Agents may be added meanwhile; it is over only when each that there is then has left.
        loop {
            let next = self
                .places()
                .iter()
                .find(|(agent, _)| !heard.contains(*agent))
                .map(|(agent, place)| (agent.clone(), place.state.subscribe()));
            let Some((agent, mut state)) = next else { break };
            heard.push(agent);
            if let Ok(state) = state.wait_for(|state| matches!(state, Connection::Collided(_))).await
                && let Connection::Collided(collision) = &*state
            {
                last = Some(collision.clone());
            }
        }
        match last {
            Some(collision) => collision,
            // A node without agents cannot collide.
            None => std::future::pending().await,
        }
    }

    /// From now on invokes are left unacknowledged with the broker, which keeps them for the next start. Cancels still count.
    pub fn drain(&self) {
        for place in self.places().values() {
            place.post.put(Mail::Drain);
        }
    }

    /// Closes all doors: delivers what is committed until `until` at the latest, clears profile and status, says goodbye.
    /// The engine must have stopped before. Returns what each agent managed.
    pub async fn close(&self, until: Instant) -> HashMap<AgentId, Closed> {
        let mut waits = Vec::new();
        let places: Vec<(AgentId, Place)> = self.places().drain().collect();
        for (agent, mut place) in places {
            let (done, wait) = oneshot::channel();
            place.post.put(Mail::Close(until, done));
            waits.push((agent, place.task.take(), wait));
        }
        let mut all = HashMap::new();
        for (agent, task, wait) in waits {
            // A door that is gone already, or was never opened, has closed nothing.
            let closed = wait.await.unwrap_or_default();
            if let Some(task) = task
                && let Err(error) = task.await
            {
                tracing::error!(%agent, %error, "the door's task failed");
            }
            all.insert(agent, closed);
        }
        all
    }
}

impl Drop for Mesh {
    /// Ends doors that were not closed at once and without a word, as a kill would: the broker publishes their wills.
    fn drop(&mut self) {
        for task in self.places().values().filter_map(|place| place.task.as_ref()) {
            task.abort();
        }
    }
}

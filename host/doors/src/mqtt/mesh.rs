//! The mesh door of a node, all its agents together, as the rest of the program sees it.
//!
//! Owns starting, draining and closing. It must not know connections: each agent's door is a task of its own.

use std::collections::HashMap;
use std::sync::Arc;

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

/// The mesh door of a node.
pub struct Mesh {
    settings: Arc<MeshSettings>,
    clock: Arc<dyn Clock>,
    board: Board,
    places: HashMap<AgentId, Place>,
    office: Arc<PostOffice>,
}

impl Mesh {
    /// Prepares a door for each profile. Nothing is opened before [`Mesh::start`]; the courier may be used at once.
    pub fn new(settings: MeshSettings, profiles: Vec<Profile>, clock: Arc<dyn Clock>, board: Board) -> Self {
        let mut places = HashMap::new();
        let mut boxes = HashMap::new();
        for profile in profiles {
            let (post, inbox) = Post::new();
            boxes.insert(profile.agent.clone(), post.clone());
            let state = watch::Sender::new(Connection::Connecting);
            let agent = profile.agent.clone();
            places.insert(agent, Place { profile: Arc::new(profile), post, inbox: Some(inbox), state, task: None });
        }
        let office = Arc::new(PostOffice { boxes, root: settings.root.clone() });
        Self { settings: Arc::new(settings), clock, board, places, office }
    }

    /// The courier to attach to the journal and to give to the engine.
    pub fn courier(&self) -> Arc<dyn Courier> {
        self.office.clone()
    }

    /// Opens the doors: each agent connects and keeps trying. Attach the courier to the outbox before. Needs a tokio runtime; a
    /// second call does nothing.
    pub fn start(&mut self, jobs: &Arc<dyn Jobs>, outbox: &Arc<dyn Outbox>) {
        for place in self.places.values_mut() {
            let Some(inbox) = place.inbox.take() else { continue };
            let door = Door::new(Parts {
                settings: self.settings.clone(),
                profile: place.profile.clone(),
                post: place.post.clone(),
                inbox,
                jobs: jobs.clone(),
                outbox: outbox.clone(),
                clock: self.clock.clone(),
                board: self.board.clone(),
                state: place.state.clone(),
            });
            place.task = Some(tokio::spawn(door.run()));
        }
    }

    /// Publishes a new profile of one of the agents, now or at its next connection (G1-36).
    pub fn advertise(&self, profile: Profile) {
        if let Some(place) = self.places.get(&profile.agent) {
            place.post.put(Mail::Advertise(Arc::new(profile)));
        }
    }

    /// Watches one agent's connection.
    pub fn connection(&self, agent: &AgentId) -> Option<watch::Receiver<Connection>> {
        self.places.get(agent).map(|place| place.state.subscribe())
    }

    /// Resolves once every agent has left because of a collision, with one of them (exit code 3 of `run`).
    pub async fn all_collided(&self) -> Collision {
        let mut last = None;
        for place in self.places.values() {
            let mut state = place.state.subscribe();
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
        for place in self.places.values() {
            place.post.put(Mail::Drain);
        }
    }

    /// Closes all doors: delivers what is committed until `until` at the latest, clears profile and status, says goodbye.
    /// The engine must have stopped before. Returns what each agent managed.
    pub async fn close(mut self, until: Instant) -> HashMap<AgentId, Closed> {
        let mut waits = Vec::new();
        for (agent, mut place) in self.places.drain() {
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
        for task in self.places.values().filter_map(|place| place.task.as_ref()) {
            task.abort();
        }
    }
}

//! The letter box of one agent's door: what other threads put in without waiting, and how much may lie there.
//!
//! Owns the bounds. Rows past them are left in the journal, from which the door fetches them later; events past them are
//! dropped, progress first. It must not know topics or connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use job::courier::{Courier, Event, EventKind};
use job::ids::{AgentId, JobKey};
use job::outcome::Ending;
use job::store::{Item, OutboxRow, RowId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use wire::mqtt::registry::Profile;
use wire::mqtt::topics::Root;

use super::mesh::Closed;

/// Most rows of one agent in memory.
pub(crate) const ROWS_MAX: usize = 10_000;
/// Most bytes that the rows of one agent take in memory, roughly.
pub(crate) const ROW_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most events of one agent in memory; past the half of it progress is dropped.
pub(crate) const EVENTS_MAX: usize = 8192;
/// Most bytes that the events of one agent take in memory, roughly; past the half of it progress is dropped.
pub(crate) const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that one entry takes besides its texts, roughly.
const ENTRY_BYTES: usize = 512;
/// Bytes of a packet that are neither payload nor topic, at most.
pub(crate) const PACKET_FRAME_BYTES: usize = 16;
/// Bytes of a result payload that are ours rather than the guest's, without owner and job id, at most.
const RESULT_FRAME_BYTES: usize = 1024;

/// What lies in the letter box.
pub(crate) enum Mail {
    /// A committed row.
    Row(OutboxRow),
    /// A committed row is due no more.
    Withdraw(RowId, JobKey),
    /// A row was left in the journal.
    Wake,
    /// A milestone.
    Event(Event),
    /// The profile has changed.
    Advertise(Arc<Profile>),
    /// Take no more invokes.
    Drain,
    /// Deliver what is left until then, clear profile and status, say goodbye.
    Close(tokio::time::Instant, oneshot::Sender<Closed>),
}

/// How much of one kind is in memory, the letter box included.
#[derive(Debug, Default)]
pub(crate) struct Load {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Load {
    fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One entry of this size is gone.
    pub(crate) fn remove(&self, bytes: usize) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Entries in memory.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn within(&self, count: usize, bytes: usize) -> bool {
        self.count() < count && self.bytes.load(Ordering::Relaxed) < bytes
    }
}

/// The shared side of the letter box.
#[derive(Debug)]
pub(crate) struct Post {
    mail: UnboundedSender<Mail>,
    /// Rows are left in the journal until the door fetches them.
    lagging: AtomicBool,
    rows: Load,
    events: Load,
    dropped_events: AtomicUsize,
    /// Largest packet the broker says it takes, in bytes; 0 while unknown or unlimited.
    packet_bytes_max: AtomicU32,
    /// One byte less than the smallest packet it was seen to refuse as too large; a broker need not say its limit.
    learned_bytes_max: AtomicUsize,
}

impl Post {
    /// An empty box, lagging from the start: what the journal holds already has to be fetched first.
    pub(crate) fn new() -> (Arc<Self>, UnboundedReceiver<Mail>) {
        let (mail, inbox) = unbounded_channel();
        let post = Self {
            mail,
            lagging: AtomicBool::new(true),
            rows: Load::default(),
            events: Load::default(),
            dropped_events: AtomicUsize::new(0),
            packet_bytes_max: AtomicU32::new(0),
            learned_bytes_max: AtomicUsize::new(usize::MAX),
        };
        (Arc::new(post), inbox)
    }

    /// Puts something in. False: nobody empties the box any more.
    pub(crate) fn put(&self, mail: Mail) -> bool {
        self.mail.send(mail).is_ok()
    }

    /// A row was committed. Called in commit order from one thread at a time, so that once one row is left in the journal all
    /// later ones are, until the door has fetched them.
    fn deliver(&self, row: OutboxRow) {
        if self.lagging.load(Ordering::Acquire) || !self.rows.within(ROWS_MAX, ROW_BYTES_MAX) {
            // The door may be asleep; one letter is enough to have it look, however many rows are left.
            if !self.lagging.swap(true, Ordering::AcqRel) {
                self.put(Mail::Wake);
            }
            return;
        }
        self.rows.add(row_bytes(&row));
        self.put(Mail::Row(row));
    }

    fn announce(&self, event: Event) {
        let share = if matches!(event.kind, EventKind::Progress { .. }) { 2 } else { 1 };
        if !self.events.within(EVENTS_MAX / share, EVENT_BYTES_MAX / share) {
            self.dropped_events.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.events.add(event_bytes(&event));
        self.put(Mail::Event(event));
    }

    /// Whether rows are left in the journal.
    pub(crate) fn is_lagging(&self) -> bool {
        self.lagging.load(Ordering::Acquire)
    }

    /// From now on rows are put into the box again. To be called before the journal is asked for what was left there.
    pub(crate) fn stop_lagging(&self) {
        self.lagging.store(false, Ordering::Release);
    }

    /// Rows are to be left in the journal from now on.
    pub(crate) fn start_lagging(&self) {
        self.lagging.store(true, Ordering::Release);
    }

    /// Rows in memory.
    pub(crate) fn rows(&self) -> &Load {
        &self.rows
    }

    /// Events in memory.
    pub(crate) fn events(&self) -> &Load {
        &self.events
    }

    /// Counts a row that was fetched from the journal.
    pub(crate) fn fetched(&self, row: &OutboxRow) {
        self.rows.add(row_bytes(row));
    }

    /// Whether there is room for a page of this many rows.
    pub(crate) fn has_room(&self, rows: usize) -> bool {
        self.rows.within(ROWS_MAX.saturating_sub(rows), ROW_BYTES_MAX / 2)
    }

    /// Events dropped since the last call.
    pub(crate) fn take_dropped_events(&self) -> usize {
        self.dropped_events.swap(0, Ordering::Relaxed)
    }

    /// Notes the packet limit that the broker says at a connection.
    pub(crate) fn set_packet_bytes_max(&self, max: Option<u32>) {
        self.packet_bytes_max.store(max.unwrap_or(0), Ordering::Relaxed);
    }

    /// Notes that the broker takes no packet above this. It holds for this process, whatever later connections say.
    pub(crate) fn learn_packet_bytes_max(&self, max: usize) {
        self.learned_bytes_max.fetch_min(max, Ordering::Relaxed);
    }

    /// The packet limit in bytes that the broker says, if it does.
    pub(crate) fn told_bytes_max(&self) -> Option<usize> {
        match self.packet_bytes_max.load(Ordering::Relaxed) {
            0 => None,
            max => usize::try_from(max).ok(),
        }
    }

    /// The broker's packet limit in bytes as far as it is known, told or learned.
    pub(crate) fn packet_bytes_max(&self) -> Option<usize> {
        let learned = Some(self.learned_bytes_max.load(Ordering::Relaxed)).filter(|max| *max != usize::MAX);
        self.told_bytes_max().into_iter().chain(learned).min()
    }
}

/// Bytes a row takes in memory, roughly.
pub(crate) fn row_bytes(row: &OutboxRow) -> usize {
    let body = match &row.item {
        Item::Outcome(outcome) | Item::Duplicate(outcome) | Item::Rejection(outcome) => match &outcome.ending {
            Ending::Done { body, .. } => body.as_str().len(),
            Ending::Ended { message, extra, .. } => message.len() + extra.as_str().len(),
        },
        Item::CancelAcknowledged(_) | Item::CancelRejected(_) => 0,
    };
    ENTRY_BYTES + body
}

/// Bytes an event takes in memory, roughly.
pub(crate) fn event_bytes(event: &Event) -> usize {
    match &event.kind {
        EventKind::Progress { message } => ENTRY_BYTES + message.len(),
        EventKind::Accepted | EventKind::Started => ENTRY_BYTES,
    }
}

/// The job a row is about.
pub(crate) fn route_key(row: &OutboxRow) -> &JobKey {
    let job::store::Route::Mesh(key) = &row.route;
    key
}

/// The courier of all agents of one node: finds each agent's letter box.
#[derive(Debug)]
pub(crate) struct PostOffice {
    /// Read for every row and event, written when an agent is added.
    boxes: RwLock<HashMap<AgentId, Arc<Post>>>,
    root: Root,
}

impl PostOffice {
    /// An office without boxes.
    pub(crate) fn new(root: Root) -> Self {
        Self { boxes: RwLock::default(), root }
    }

    /// Opens a box for an agent, unless it has one.
    pub(crate) fn open(&self, agent: &AgentId, post: &Arc<Post>) {
        let mut boxes = self.boxes.write().unwrap_or_else(PoisonError::into_inner);
        boxes.entry(agent.clone()).or_insert_with(|| post.clone());
    }

    fn post(&self, agent: &AgentId) -> Option<Arc<Post>> {
        let post = self.boxes.read().unwrap_or_else(PoisonError::into_inner).get(agent).cloned();
        if post.is_none() {
            // The agent was taken out of the configuration; its rows wait in the journal until it is back.
            tracing::debug!(%agent, "no door for this agent");
        }
        post
    }
}

impl Courier for PostOffice {
    fn deliver(&self, row: OutboxRow) {
        if let Some(post) = self.post(row.route.agent()) {
            post.deliver(row);
        }
    }

    fn withdraw(&self, id: RowId, key: &JobKey) {
        if let Some(post) = self.post(&key.agent) {
            post.put(Mail::Withdraw(id, key.clone()));
        }
    }

    fn announce(&self, event: Event) {
        if let Some(post) = self.post(&event.key.agent) {
            post.announce(event);
        }
    }

    fn result_bytes_max(&self, key: &JobKey) -> Option<usize> {
        let max = self.post(&key.agent)?.packet_bytes_max()?;
        let topic = self.root.result(&key.owner, &key.job).len();
        let ids = key.owner.as_str().len() + 6 * key.job.as_str().len();
        Some(max.saturating_sub(topic + ids + PACKET_FRAME_BYTES + RESULT_FRAME_BYTES))
    }
}

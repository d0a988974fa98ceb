//! A job while it lives in this process: its stamps, its events, and the ways to reach it.
//!
//! Owns the table of live jobs and the order of what each of them says. It must not know how a job runs or ends.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use job::clock::{Clock, Stamps, Timestamp};
use job::courier::{Courier, Event, EventKind, Gate};
use job::ids::JobKey;
use job::store::{Cancelled, JobStore, StoreError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Most progress events of one job that go out; further ones are counted and dropped.
pub const PROGRESS_EVENTS_MAX: u32 = 10_000;
/// How far shown stamps may run ahead of those the journal knows, in milliseconds (G1-38).
const STAMP_NOTE_MS: i64 = 1_000;

/// What every live job shares.
pub(crate) struct Voice {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) courier: Arc<dyn Courier>,
    pub(crate) store: Arc<dyn JobStore>,
    noted: AtomicI64,
}

impl Voice {
    pub(crate) fn new(clock: Arc<dyn Clock>, courier: Arc<dyn Courier>, store: Arc<dyn JobStore>) -> Self {
        Self { clock, courier, store, noted: AtomicI64::new(0) }
    }

    fn note(&self, ts: Timestamp) {
        let noted = self.noted.load(Ordering::Relaxed);
        if ts.0 - noted >= STAMP_NOTE_MS && self.noted.compare_exchange(noted, ts.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.store.note_stamp(ts);
        }
    }
}

/// Who waits to hear what became of a cancel.
pub(crate) type CancelReply = oneshot::Sender<Result<Cancelled, StoreError>>;

/// One live job.
pub(crate) struct Live {
    pub(crate) key: JobKey,
    /// Fires when a cancel has come; the journey then decides, since it alone ends the job.
    pub(crate) cancel: CancellationToken,
    gate: Gate,
    voice: Arc<Voice>,
    said: Mutex<Said>,
    replies: Mutex<Replies>,
}

struct Said {
    stamps: Stamps,
    /// Events that wait for the job's own row to be committed (G1-49); none once it is.
    held: Option<Vec<Event>>,
    progress: u32,
    /// The stamp of the outcome, once there is one.
    outcome: Option<Timestamp>,
}

enum Replies {
    Open(Vec<CancelReply>),
    /// The journey has ended; a cancel asks the journal by itself.
    Closed,
}

impl Live {
    /// A job whose stamps start after `floor`. Its events are held until [`Live::release_events`].
    pub(crate) fn new(key: JobKey, floor: Timestamp, voice: Arc<Voice>) -> Arc<Self> {
        let said = Said { stamps: Stamps::after(floor), held: Some(Vec::new()), progress: 0, outcome: None };
        Arc::new(Self {
            key,
            cancel: CancellationToken::new(),
            gate: Gate::default(),
            voice,
            said: Mutex::new(said),
            replies: Mutex::new(Replies::Open(Vec::new())),
        })
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next stamp of this job.
    pub(crate) fn stamp(&self) -> Timestamp {
        let now = self.voice.clock.now();
        self.said().stamps.next(now)
    }

    /// Says something to the requester, in order, once the job's row is committed.
    pub(crate) fn say(&self, kind: EventKind) {
        let now = self.voice.clock.now();
        let mut said = self.said();
        if matches!(kind, EventKind::Progress { .. }) {
            said.progress += 1;
            if said.progress > PROGRESS_EVENTS_MAX {
                metrics::counter!("amp_engine_progress_dropped_total").increment(1);
                return;
            }
        }
        let ts = said.stamps.next(now);
        let event = Event { key: self.key.clone(), kind, ts, gate: self.gate.clone() };
        match &mut said.held {
            Some(held) => held.push(event),
            None => {
                self.voice.note(ts);
                // Under the lock, so that events reach the courier in the order of their stamps; a courier never blocks.
                self.voice.courier.announce(event);
            }
        }
    }

    /// The job's row is committed: what was held goes out, and from now on everything at once.
    pub(crate) fn release_events(&self) {
        let mut said = self.said();
        for event in said.held.take().into_iter().flatten() {
            self.voice.note(event.ts);
            self.voice.courier.announce(event);
        }
    }

    /// The stamp of the job's own outcome, the last it shows.
    pub(crate) fn stamp_outcome(&self) -> Timestamp {
        let ts = self.stamp();
        self.said().outcome = Some(ts);
        ts
    }

    /// The outcome with this stamp is committed. If it is this job's own, its row is committed too, and what it said before goes
    /// out first; another outcome of this key, such as that of a cancel that was here first, releases nothing.
    pub(crate) fn release_events_before(&self, outcome: Timestamp) {
        if self.said().outcome == Some(outcome) {
            self.release_events();
        }
    }

    /// From now on the job says nothing more.
    pub(crate) fn silence(&self) {
        self.gate.close();
    }

    /// Asks the journey to cancel. None: the journey has ended, so the journal knows better.
    pub(crate) fn ask_cancel(&self) -> Option<oneshot::Receiver<Result<Cancelled, StoreError>>> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let Replies::Open(waiting) = &mut *replies else { return None };
        let (reply, answer) = oneshot::channel();
        waiting.push(reply);
        self.cancel.cancel();
        Some(answer)
    }

    /// The cancels that wait for an answer so far.
    pub(crate) fn take_replies(&self) -> Vec<CancelReply> {
        match &mut *self.replies.lock().unwrap_or_else(PoisonError::into_inner) {
            Replies::Open(waiting) => std::mem::take(waiting),
            Replies::Closed => Vec::new(),
        }
    }

    /// Ends the journey's part: cancels that come later go to the journal. Returns those that came before.
    pub(crate) fn close_replies(&self) -> Vec<CancelReply> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *replies, Replies::Closed) {
            Replies::Open(waiting) => waiting,
            Replies::Closed => Vec::new(),
        }
    }
}

/// Keys that ended or were cancelled a little while ago. A request for one of them waits for the journal's verdict before it does
/// any work (G1-25, G1-49). Only hashes are kept; a collision costs one wait.
const RECENT_MAX: usize = 65_536;

/// The live jobs of this process.
pub(crate) struct Table(Mutex<Jobs>);

struct Jobs {
    live: HashMap<JobKey, Arc<Live>>,
    hasher: RandomState,
    recent: std::collections::HashSet<u64>,
    recent_order: std::collections::VecDeque<u64>,
}

impl Jobs {
    fn note_recent(&mut self, key: &JobKey) {
        let hash = self.hasher.hash_one(key);
        if self.recent.insert(hash) {
            self.recent_order.push_back(hash);
        }
        if self.recent_order.len() > RECENT_MAX
            && let Some(oldest) = self.recent_order.pop_front()
        {
            self.recent.remove(&oldest);
        }
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Jobs {
            live: HashMap::new(),
            hasher: RandomState::new(),
            recent: std::collections::HashSet::new(),
            recent_order: std::collections::VecDeque::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this key ended or was cancelled a little while ago.
    pub(crate) fn is_recent(&self, key: &JobKey) -> bool {
        let jobs = self.lock();
        jobs.recent.contains(&jobs.hasher.hash_one(key))
    }

    /// The live job with this key.
    pub(crate) fn get(&self, key: &JobKey) -> Option<Arc<Live>> {
        self.lock().live.get(key).cloned()
    }

    /// Adds a job. One with the same key that is just ending gives way; its own removal then leaves this one alone.
    pub(crate) fn insert(&self, live: &Arc<Live>) {
        self.lock().live.insert(live.key.clone(), live.clone());
    }

    /// Removes a job that has ended, if the table still holds this very one.
    pub(crate) fn remove(&self, live: &Arc<Live>) {
        let mut jobs = self.lock();
        if jobs.live.get(&live.key).is_some_and(|held| Arc::ptr_eq(held, live)) {
            jobs.live.remove(&live.key);
            jobs.note_recent(&live.key);
        }
    }

    /// A cancel came for a key that does not live.
    pub(crate) fn note_cancel(&self, key: &JobKey) {
        self.lock().note_recent(key);
    }

    /// How many live.
    pub(crate) fn len(&self) -> usize {
        self.lock().live.len()
    }
}

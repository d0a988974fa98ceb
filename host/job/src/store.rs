//! The journal port: what the engine asks of a store, and the outbox a door empties.
//!
//! Owns the records that cross the port and the promises each call makes. It must not know SQL, files or batching.
//!
//! Every call is one transaction; calls take effect in the order they were made, and a returned future resolves only after
//! its transaction is committed. After each commit the store tells the attached [`Courier`] what became due or was
//! withdrawn, in commit order and before the futures of that commit resolve.

use std::sync::Arc;

use crate::BoxFuture;
use crate::admission::{Memory, PayloadHash, Request};
use crate::clock::Timestamp;
use crate::courier::Courier;
use crate::ids::{AgentId, JobKey};
use crate::json::JsonText;
use crate::lineage::Lineage;
use crate::outcome::Outcome;

/// Why a store could not do its work. Nothing of the call took effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the database takes no more (G1-51).
    #[error("the journal takes no more: {0}")]
    Full(String),
    /// Any other failure, worth another try later.
    #[error("the journal failed: {0}")]
    Failed(String),
    /// The store is shut.
    #[error("the journal is closed")]
    Closed,
}

/// A request that is to become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// requestedBy as the requester wrote it.
    pub requested_by: String,
    /// The capability.
    pub service: String,
    /// The arguments, a JSON object.
    pub args: JsonText,
    /// Parent, root and depth.
    pub lineage: Lineage,
    /// When the request's own time is up (G1-52).
    pub expires: Option<Timestamp>,
    /// Whether it starts as soon as this call is made. The row then counts its first attempt at once; otherwise
    /// [`JobStore::start`] counts it when its turn comes.
    pub starts_now: bool,
}

/// What the engine wants done with a request, unless the key is known already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Journal it as a job.
    Run(NewJob),
    /// Answer with this rejection. A rejection is not remembered (G1-17).
    Refuse(Outcome),
}

/// One request for [`JobStore::admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The job it names.
    pub key: JobKey,
    /// Its bytes, transport mark and time, for [`crate::admission::verdict`].
    pub request: Request,
    /// How long finished jobs answer for themselves.
    pub memory: Memory,
    /// What to do when the verdict is `Fresh`. A `Refuse` answers instead of a duplicate notice too, and is dropped on a
    /// redelivery; a `Run` under a tombstone ends as [`Outcome::cancelled_ahead`] with a cancel_acknowledged before it.
    pub intent: Intent,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// It is a job now.
    Accepted,
    /// It was refused; the rejection is in the outbox.
    Refused,
    /// Its key is active; a duplicate notice is in the outbox.
    Duplicate,
    /// The same request is active already; nothing was stored.
    Redelivered,
    /// The same request ended before; its stored outcome is in the outbox again, in place of a row that was there still.
    Resent,
    /// Its cancel was here first; the cancelled outcome is in the outbox.
    CancelledAhead,
}

/// What became of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The cancel won: cancel_acknowledged, then the outcome, are in the outbox in this order.
    Won,
    /// The job had ended otherwise: a cancel_rejected notice is in the outbox.
    TooLate,
    /// The job had ended cancelled already: silence.
    Again,
    /// No such job: a tombstone is kept and a cancel_rejected notice is in the outbox (G1-26).
    Unknown,
}

/// A cancel for [`JobStore::cancel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelOrder {
    /// The job it names.
    pub key: JobKey,
    /// Stamp of the notice that goes first (cancel_acknowledged, or cancel_rejected).
    pub notice_ts: Timestamp,
    /// The outcome if the cancel wins; stamped later than the notice.
    pub outcome: Outcome,
    /// How long a tombstone stands if the job is unknown.
    pub tombstone_until: Timestamp,
}

/// A job the journal holds that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Which job.
    pub key: JobKey,
    /// The request as it was accepted, but for `starts_now`, which is false: it has to be started again.
    pub job: NewJob,
    /// Its bytes.
    pub hash: PayloadHash,
    /// When it was accepted.
    pub accepted: Timestamp,
    /// Attempts begun so far. 0: it never started.
    pub attempts: u32,
    /// The latest stamp this job, or any other, may have shown (G1-38).
    pub stamp_floor: Timestamp,
}

/// The id of an outbox row; rises in the order rows were committed.
pub type RowId = i64;

/// Where an outbox row goes: data, never code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The job topics of this key on the mesh.
    Mesh(JobKey),
}

impl Route {
    /// The agent whose door delivers it.
    pub fn agent(&self) -> &AgentId {
        match self {
            Self::Mesh(key) => &key.agent,
        }
    }
}

/// What an outbox row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The outcome of an accepted job; retained.
    Outcome(Outcome),
    /// The answer to a request for an active job; retained until the outcome overwrites it.
    Duplicate(Outcome),
    /// The answer to a refused request; retained.
    Rejection(Outcome),
    /// An event: the cancel won.
    CancelAcknowledged(Timestamp),
    /// An event: the cancel changed nothing (reason not_active).
    CancelRejected(Timestamp),
}

impl Item {
    /// The outcome it carries, none for an event.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Outcome(outcome) | Self::Duplicate(outcome) | Self::Rejection(outcome) => Some(outcome),
            Self::CancelAcknowledged(_) | Self::CancelRejected(_) => None,
        }
    }

    /// Whether it stands on a retained topic.
    pub fn is_retained(&self) -> bool {
        self.outcome().is_some()
    }
}

/// Something committed that must be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its place in the order of commits.
    pub id: RowId,
    /// Where it goes.
    pub route: Route,
    /// What it says.
    pub item: Item,
}

/// The journal.
pub trait JobStore: Outbox {
    /// Admits a request: looks the key up, applies [`crate::admission::verdict`], and stores what follows.
    fn admit(&self, arrival: Arrival) -> BoxFuture<'static, Result<Admitted, StoreError>>;

    /// Counts an attempt of a job that waited in the queue, or runs again. False: it is not active any more.
    fn start(&self, key: JobKey) -> BoxFuture<'static, Result<bool, StoreError>>;

    /// Takes back the attempts these jobs have begun last, since a polite stop counts none (G1-42).
    fn release(&self, keys: Vec<JobKey>) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Ends an active job and puts its outcome into the outbox, in one transaction; undelivered duplicate and rejection rows
    /// of its topic go (G1-16). False: it had ended before, and nothing changed. The compare-and-set of G1-27.
    fn finish(&self, key: JobKey, outcome: Outcome) -> BoxFuture<'static, Result<bool, StoreError>>;

    /// Cancels: the other side of the same compare-and-set.
    fn cancel(&self, order: CancelOrder) -> BoxFuture<'static, Result<Cancelled, StoreError>>;

    /// Every job of this agent that has not ended, oldest first.
    fn unfinished(&self, agent: AgentId) -> BoxFuture<'static, Result<Vec<Unfinished>, StoreError>>;

    /// Remembers that stamps up to this one have been shown, without waiting for the commit.
    fn note_stamp(&self, ts: Timestamp);

    /// Forgets finished jobs that ended before `ended_before`, the oldest until at most `max_bytes` are held, and tombstones
    /// past their time. Nothing whose outbox row is undelivered goes. Returns how many jobs went.
    fn forget(&self, now: Timestamp, ended_before: Timestamp, max_bytes: u64) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// Commits all that was asked before and closes. Later calls answer [`StoreError::Closed`].
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// The outbox, as the door that empties it sees it.
pub trait Outbox: Send + Sync + 'static {
    /// Names who is told of rows from now on. Rows committed before are found by [`Outbox::due`].
    fn attach(&self, courier: Arc<dyn Courier>);

    /// The undelivered rows of this agent with an id above `after`, in order, at most `limit`.
    fn due(&self, agent: AgentId, after: RowId, limit: usize) -> BoxFuture<'static, Result<Vec<OutboxRow>, StoreError>>;

    /// Marks rows as delivered. Not waited for: a row that is marked too late is delivered once more.
    fn delivered(&self, ids: Vec<RowId>);
}

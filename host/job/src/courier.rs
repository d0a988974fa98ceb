//! The courier port: how what was committed, and what merely happens, reaches a door.
//!
//! Owns the event and the gate that silences a job's events. It must not know topics or connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::Timestamp;
use crate::ids::JobKey;
use crate::store::{OutboxRow, RowId};

/// Silences the events of one job, those already queued at a door included (S1-67). Closed once, never opened again.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// From now on no event of the job goes out.
    pub fn close(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether events still go out.
    pub fn is_open(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

/// An advisory milestone of a job: never stored, may be lost (protocol document section 5).
#[derive(Debug, Clone)]
pub struct Event {
    /// Whose milestone.
    pub key: JobKey,
    /// Which one.
    pub kind: EventKind,
    /// When.
    pub ts: Timestamp,
    /// Checked by the door just before it sends.
    pub gate: Gate,
}

/// The milestones the engine reports (G1-21; the list is open).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The job is journaled.
    Accepted,
    /// The job runs.
    Started,
    /// The guest, or the host about the guest, says something.
    Progress {
        /// For people.
        message: String,
    },
}

/// The doors, as the store and the engine see them. No call may block or wait: each hands over and returns.
pub trait Courier: Send + Sync + 'static {
    /// A committed row is due. Called in commit order.
    fn deliver(&self, row: OutboxRow);

    /// A committed row is due no more, because a later one took its place.
    fn withdraw(&self, id: RowId, key: &JobKey);

    /// Something happened. The door may drop it when it is too far behind.
    fn announce(&self, event: Event);

    /// The most bytes that a result of this agent may have on its way out, if the door knows a limit.
    fn result_bytes_max(&self, key: &JobKey) -> Option<usize>;
}

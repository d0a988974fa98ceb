//! How calls wait for the writer: in the order they were made, without holding up the thread that makes them.
//!
//! Owns the queue, the marks that may lag, and the wake-up of the writer. It must not know SQL.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use job::clock::Timestamp;
use job::courier::Courier;
use job::store::{RowId, StoreError};
use tokio::sync::{oneshot, watch};

use crate::desk::Desk;
use crate::fault::Fault;

/// Most calls that wait at once. A caller waits by its future, so this bounds memory, not threads; a call beyond it fails and
/// may be made again later.
pub const CALLS_WAITING_MAX: usize = 65_536;

/// Most calls of one commit.
const BATCH_CALLS_MAX: usize = 256;

/// Most delivery marks of one commit.
const BATCH_MARKS_MAX: usize = 4096;

/// How long a mark that nobody waits for may lag when nothing else is to be committed.
const LAG: Duration = Duration::from_millis(5);

/// How long marks wait after a commit of theirs has failed.
const LAG_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// One call, ready for the writer.
pub(crate) trait Call: Send {
    /// Does the work within the open transaction and keeps the answer. May be run again after a rollback.
    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), Fault>;

    /// Answers the caller, once the transaction is committed or has failed.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Asked<T, W> {
    work: W,
    answer: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, W: FnMut(&mut Desk<'_>) -> Result<T, Fault> + Send> Call for Asked<T, W> {
    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), Fault> {
        self.answer = Some(match (self.work)(desk) {
            Ok(done) => Ok(done),
            Err(fault) if fault.spoils_the_batch() => return Err(fault),
            // It wrote nothing, so the others of its batch go on.
            Err(fault) => Err((&fault).into()),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { answer, reply, work: _ } = *self;
        let result = committed.and_then(|()| answer.unwrap_or(Err(StoreError::Closed)));
        // A caller that has gone away wanted no answer.
        drop(reply.send(result));
    }
}

/// What the writer is to do next.
pub(crate) enum Turn {
    /// Commit these, with these delivery marks and the latest stamp.
    Commit(Vec<Box<dyn Call>>, Vec<RowId>),
    /// Nothing will ever come again; the flag says whether the journal was closed in good order.
    Stop(bool),
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Box<dyn Call>>,
    delivered: Vec<RowId>,
    /// A stamp beyond what the database knows wants to be written.
    stamp: bool,
    /// Since when marks wait, and until when they have to.
    marks_due: Option<Instant>,
    asleep: bool,
    closing: bool,
    abandoned: bool,
    /// The writer is gone.
    gone: bool,
}

impl Waiting {
    fn has_marks(&self) -> bool {
        self.stamp || !self.delivered.is_empty()
    }

    fn take(&mut self) -> Turn {
        let calls = self.calls.drain(..self.calls.len().min(BATCH_CALLS_MAX)).collect();
        let marks = self.delivered.drain(..self.delivered.len().min(BATCH_MARKS_MAX)).collect();
        self.stamp = false;
        self.marks_due = None;
        Turn::Commit(calls, marks)
    }
}

/// What callers and the writer share.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    noted: AtomicI64,
    /// No shown stamp is later than this, says the database.
    stamp_ahead: AtomicI64,
    courier: Mutex<Option<Arc<dyn Courier>>>,
    gone: watch::Sender<bool>,
}

impl Queue {
    pub(crate) fn new(stamp_ahead: Timestamp) -> Self {
        Self {
            waiting: Mutex::default(),
            wake: Condvar::new(),
            noted: AtomicI64::new(stamp_ahead.0),
            stamp_ahead: AtomicI64::new(stamp_ahead.0),
            courier: Mutex::default(),
            gone: watch::Sender::new(false),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call in line; what it answers comes by the channel, [`StoreError::Closed`] if the channel is dropped.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Desk<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let mut waiting = self.waiting();
        if waiting.closing || waiting.abandoned || waiting.gone {
            return answer;
        }
        if waiting.calls.len() >= CALLS_WAITING_MAX {
            let full = StoreError::Failed(format!("{CALLS_WAITING_MAX} calls wait already; try again later"));
            drop(reply.send(Err(full)));
            return answer;
        }
        waiting.calls.push_back(Box::new(Asked { work, answer: None, reply }));
        self.rouse(waiting);
        answer
    }

    /// Marks rows as delivered, some time soon.
    pub(crate) fn mark_delivered(&self, ids: Vec<RowId>) {
        let mut waiting = self.waiting();
        if ids.is_empty() || waiting.gone {
            return;
        }
        waiting.delivered.extend(ids);
        self.lag(waiting);
    }

    /// Takes note of a stamp. Costs no commit while it is within what the database allows for.
    pub(crate) fn note_stamp(&self, ts: Timestamp) {
        let before = self.noted.fetch_max(ts.0, Ordering::AcqRel);
        if ts.0 <= before || ts.0 <= self.stamp_ahead.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = self.waiting();
        if !waiting.stamp && !waiting.gone {
            waiting.stamp = true;
            self.lag(waiting);
        }
    }

    /// The latest stamp noted.
    pub(crate) fn noted(&self) -> Timestamp {
        Timestamp(self.noted.load(Ordering::Acquire))
    }

    /// The writer has written that no shown stamp is later than this.
    pub(crate) fn allow_stamps(&self, ahead: Timestamp) {
        self.stamp_ahead.store(ahead.0, Ordering::Release);
    }

    /// Takes back marks whose commit failed; they try again after a while.
    pub(crate) fn give_back(&self, ids: &[RowId]) {
        let mut waiting = self.waiting();
        waiting.delivered.extend_from_slice(ids);
        waiting.marks_due = Some(Instant::now() + LAG_AFTER_FAILURE);
    }

    fn lag(&self, mut waiting: MutexGuard<'_, Waiting>) {
        if waiting.marks_due.is_none() {
            waiting.marks_due = Some(Instant::now() + LAG);
            // One that sleeps without a time to wake has to learn of it.
            self.rouse(waiting);
        }
    }

    fn rouse(&self, waiting: MutexGuard<'_, Waiting>) {
        let asleep = waiting.asleep;
        drop(waiting);
        if asleep {
            self.wake.notify_one();
        }
    }

    /// Waits for something to do. Calls are taken at once; marks alone are taken when they have lagged long enough.
    pub(crate) fn next(&self) -> Turn {
        let mut waiting = self.waiting();
        loop {
            if !waiting.calls.is_empty() {
                return waiting.take();
            }
            let stopping = waiting.closing || waiting.abandoned;
            if waiting.has_marks() {
                let due = *waiting.marks_due.get_or_insert_with(|| Instant::now() + LAG);
                let left = due.saturating_duration_since(Instant::now());
                if stopping || left.is_zero() {
                    return waiting.take();
                }
                waiting.asleep = true;
                waiting = self.wake.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
            } else if stopping {
                return Turn::Stop(waiting.closing);
            } else {
                waiting.asleep = true;
                waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            waiting.asleep = false;
        }
    }

    /// No call from now on; what was asked before is still done. `closed` ends in good order.
    pub(crate) fn shut(&self, closed: bool) {
        let mut waiting = self.waiting();
        waiting.closing |= closed;
        waiting.abandoned |= !closed;
        self.rouse(waiting);
    }

    /// The writer is gone, in good order or not: whoever still waits is told.
    pub(crate) fn bury(&self) {
        let mut waiting = self.waiting();
        waiting.gone = true;
        let calls = std::mem::take(&mut waiting.calls);
        drop(waiting);
        drop(calls);
        // The courier often owns a handle of this journal; letting it go breaks the circle.
        self.set_courier(None);
        self.gone.send_replace(true);
    }

    /// Resolves when the writer is gone.
    pub(crate) fn wait_gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    pub(crate) fn set_courier(&self, courier: Option<Arc<dyn Courier>>) {
        let before = std::mem::replace(&mut *self.courier.lock().unwrap_or_else(PoisonError::into_inner), courier);
        drop(before);
    }

    pub(crate) fn courier(&self) -> Option<Arc<dyn Courier>> {
        self.courier.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

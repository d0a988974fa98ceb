//! A journal in memory that keeps every promise of the port, and can be held, made to fail, or crashed at any step.
//!
//! Owns the order of calls and the crash steps; the rules of the tables are in `ledger`. It must not know any file.

mod ledger;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::channel::oneshot;
use job::BoxFuture;
use job::clock::Timestamp;
use job::courier::Courier;
use job::ids::{AgentId, JobKey};
use job::outcome::Outcome;
use job::store::{Admitted, Arrival, CancelOrder, Cancelled, JobStore, Outbox, OutboxRow, RowId, StoreError, Unfinished};
use ledger::{Ledger, Tell};
use tokio::sync::watch;

/// Crash steps of one call: before its commit, after the commit but before the courier hears of it, and after the courier
/// heard but before the caller does.
pub const STEPS_PER_CALL: u64 = 3;

/// What callers see once the journal has crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// Every call, those under way included, answers [`StoreError::Closed`].
    Closed,
    /// No call is ever answered again, as in a process that was killed.
    Hang,
}

type Answer = Box<dyn FnOnce() + Send>;
type Call = Box<dyn FnOnce(Result<&mut Ledger, StoreError>) -> (Vec<Tell>, Answer) + Send>;

/// What never resolves: kept, so that its caller waits for ever.
enum Limbo {
    Call(#[expect(dead_code, reason = "kept only so that its caller hangs")] Call),
    Answer(#[expect(dead_code, reason = "kept only so that its caller hangs")] Answer),
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    courier: Option<Arc<dyn Courier>>,
    calls: VecDeque<Call>,
    /// Marks that ride along with the next commit, and are lost in a crash before it.
    delivered: Vec<RowId>,
    held: bool,
    draining: bool,
    closed: bool,
    failing: Option<StoreError>,
    steps: u64,
    crash_at: Option<(u64, CrashMode)>,
    dead: Option<CrashMode>,
    limbo: Vec<Limbo>,
}

impl State {
    /// Passes one crash step; true when the journal is dead, now or before.
    fn step(&mut self) -> bool {
        if self.dead.is_none()
            && let Some((at, mode)) = self.crash_at
            && self.steps == at
        {
            self.dead = Some(mode);
        }
        self.steps += 1;
        self.dead.is_some()
    }

    fn bury(&mut self, remains: Limbo) {
        // In the other mode dropping the caller's channel answers Closed.
        if self.dead == Some(CrashMode::Hang) {
            self.limbo.push(remains);
        }
    }
}

/// The journal in memory. Clones are the same journal.
#[derive(Clone)]
pub struct MemoryJournal {
    state: Arc<Mutex<State>>,
    crashed: watch::Sender<bool>,
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self { state: Arc::default(), crashed: watch::Sender::new(false) }
    }
}

impl std::fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("MemoryJournal").field("ledger", &state.ledger).field("dead", &state.dead).finish_non_exhaustive()
    }
}

impl MemoryJournal {
    /// Arms a crash: it dies at the step of this number, counted from now (see [`STEPS_PER_CALL`]).
    pub fn crash_at(&self, step: u64, mode: CrashMode) {
        let mut state = self.state();
        state.crash_at = Some((state.steps + step, mode));
    }

    /// Arms a crash at a step below `within` that the seed picks, and returns that step.
    pub fn crash_somewhere(&self, seed: u64, within: u64, mode: CrashMode) -> u64 {
        // One round of splitmix64 spreads neighbouring seeds over all steps.
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let step = (mixed ^ (mixed >> 31)) % within.max(1);
        self.crash_at(step, mode);
        step
    }

    /// Whether it has crashed.
    pub fn is_crashed(&self) -> bool {
        self.state().dead.is_some()
    }

    /// Waits until it has crashed.
    pub async fn crashed(&self) {
        self.crashed.subscribe().wait_for(|crashed| *crashed).await.expect("the journal lives");
    }

    /// Crash steps passed so far: how many a crash can hit.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Kills this journal, if it lives, and opens what had been committed as a new one.
    pub fn reopen(&self) -> Self {
        let mut state = self.state();
        state.dead.get_or_insert(CrashMode::Closed);
        let mut ledger = state.ledger.clone();
        ledger.recover();
        drop(state);
        self.mourn();
        Self { state: Arc::new(Mutex::new(State { ledger, ..State::default() })), ..Self::default() }
    }

    /// From now on calls wait uncommitted, as behind a slow disk, until [`Self::resume`].
    pub fn hold(&self) {
        self.state().held = true;
    }

    /// Commits what waited, in order, and what follows.
    pub fn resume(&self) {
        self.state().held = false;
        self.drain();
    }

    /// Calls that wait because of [`Self::hold`].
    pub fn waiting(&self) -> usize {
        self.state().calls.len()
    }

    /// While set, every call fails so and changes nothing (a full disk, say).
    pub fn fail_with(&self, error: Option<StoreError>) {
        self.state().failing = error;
    }

    /// The undelivered rows of every agent, in order.
    pub fn outbox(&self) -> Vec<OutboxRow> {
        let mut state = self.state();
        let marks = std::mem::take(&mut state.delivered);
        state.ledger.delivered(&marks);
        state.ledger.outbox()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn mourn(&self) {
        self.crashed.send_replace(true);
    }

    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Ledger, &mut Vec<Tell>) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let call: Call = Box::new(move |ledger| {
            let mut tells = Vec::new();
            let result = ledger.and_then(|ledger| work(ledger, &mut tells));
            (tells, Box::new(move || drop(reply.send(result))))
        });
        let mut state = self.state();
        match state.dead {
            Some(_) => state.bury(Limbo::Call(call)),
            // Dropping the call answers Closed.
            None if state.closed => drop(call),
            None => state.calls.push_back(call),
        }
        drop(state);
        self.drain();
        Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
    }

    /// Works the calls off. The courier and the callers are told outside the lock, so that they may call again; such a call
    /// joins the queue and is worked off here.
    fn drain(&self) {
        loop {
            let mut state = self.state();
            if state.draining || state.held {
                return;
            }
            let Some(call) = state.calls.pop_front() else { return };
            state.draining = true;
            drop(state);
            self.work_off(call);
            self.state().draining = false;
        }
    }

    fn work_off(&self, call: Call) {
        let mut state = self.state();
        if state.step() {
            state.bury(Limbo::Call(call));
            return self.die(state);
        }
        let marks = std::mem::take(&mut state.delivered);
        state.ledger.delivered(&marks);
        let (tells, answer) = match state.failing.clone() {
            Some(error) => call(Err(error)),
            None => call(Ok(&mut state.ledger)),
        };
        if state.step() {
            state.bury(Limbo::Answer(answer));
            return self.die(state);
        }
        let courier = state.courier.clone();
        drop(state);
        for tell in tells {
            match (&courier, tell) {
                (Some(courier), Tell::Deliver(row)) => courier.deliver(row),
                (Some(courier), Tell::Withdraw(id, key)) => courier.withdraw(id, &key),
                (None, Tell::Deliver(_) | Tell::Withdraw(..)) => {}
            }
        }
        let mut state = self.state();
        if state.step() {
            state.bury(Limbo::Answer(answer));
            return self.die(state);
        }
        drop(state);
        answer();
    }

    fn die(&self, mut state: MutexGuard<'_, State>) {
        while let Some(call) = state.calls.pop_front() {
            state.bury(Limbo::Call(call));
        }
        // A killed process tells nobody anything any more.
        state.courier = None;
        drop(state);
        self.mourn();
    }
}

impl Outbox for MemoryJournal {
    fn attach(&self, courier: Arc<dyn Courier>) {
        let mut state = self.state();
        if state.dead.is_none() {
            state.courier = Some(courier);
        }
    }

    fn due(&self, agent: AgentId, after: RowId, limit: usize) -> BoxFuture<'static, Result<Vec<OutboxRow>, StoreError>> {
        self.call(move |ledger, _| Ok(ledger.due(&agent, after, limit)))
    }

    fn delivered(&self, ids: Vec<RowId>) {
        self.state().delivered.extend(ids);
    }
}

impl JobStore for MemoryJournal {
    fn admit(&self, arrival: Arrival) -> BoxFuture<'static, Result<Admitted, StoreError>> {
        self.call(move |ledger, tells| ledger.admit(arrival, tells))
    }

    fn start(&self, key: JobKey) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.call(move |ledger, _| ledger.start(&key))
    }

    fn release(&self, keys: Vec<JobKey>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.call(move |ledger, _| ledger.release(&keys))
    }

    fn finish(&self, key: JobKey, outcome: Outcome) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.call(move |ledger, tells| ledger.finish(&key, outcome, tells))
    }

    fn cancel(&self, order: CancelOrder) -> BoxFuture<'static, Result<Cancelled, StoreError>> {
        self.call(move |ledger, tells| ledger.cancel(order, tells))
    }

    fn unfinished(&self, agent: AgentId) -> BoxFuture<'static, Result<Vec<Unfinished>, StoreError>> {
        self.call(move |ledger, _| Ok(ledger.unfinished(&agent)))
    }

    fn note_stamp(&self, ts: Timestamp) {
        self.state().ledger.note_stamp(ts);
    }

    fn forget(&self, now: Timestamp, ended_before: Timestamp, max_bytes: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.call(move |ledger, _| Ok(ledger.forget(now, ended_before, max_bytes)))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let last = self.call(|_, _| Ok(()));
        let journal = self.clone();
        // Calls made from now on are too late; those before, held ones included, are still worked off.
        self.state().closed = true;
        Box::pin(async move {
            drop(last.await);
            journal.state().courier = None;
        })
    }
}

#[cfg(test)]
mod tests;

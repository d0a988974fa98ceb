//! The tables of the memory journal and the rules that change them.
//!
//! Owns jobs, outbox and tombstones as plain maps, written for clarity: it is the model the real store is compared with. It
//! must not know calls, crashes or couriers.

use std::collections::BTreeMap;

use job::admission::{Known, PayloadHash, Verdict, verdict};
use job::clock::Timestamp;
use job::ids::{AgentId, JobKey};
use job::lifecycle::{Illegal, State, Step};
use job::outcome::{Ending, Outcome};
use job::reason::Reserved;
use job::store::{
    Admitted, Arrival, CancelOrder, Cancelled, Intent, Item, NewJob, OutboxRow, Route, RowId, StoreError, Unfinished,
};

/// What a commit has to say to the courier.
#[derive(Debug, Clone)]
pub(super) enum Tell {
    /// A row became due.
    Deliver(OutboxRow),
    /// A row is due no more.
    Withdraw(RowId, JobKey),
}

#[derive(Debug, Clone)]
struct Row {
    /// Order of acceptance.
    place: u64,
    job: NewJob,
    hash: PayloadHash,
    accepted: Timestamp,
    attempts: u32,
    state: State,
    /// The outcome and its newest outbox row, once it has ended.
    ended: Option<(Outcome, RowId)>,
}

#[derive(Debug, Clone)]
struct Tombstone {
    until: Timestamp,
    notice_ts: Timestamp,
}

/// All that is committed.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    jobs: BTreeMap<JobKey, Row>,
    outbox: BTreeMap<RowId, (JobKey, Item)>,
    tombstones: BTreeMap<JobKey, Tombstone>,
    last_row: RowId,
    last_place: u64,
    stamp: Option<Timestamp>,
}

fn illegal(error: Illegal) -> StoreError {
    StoreError::Failed(error.to_string())
}

impl Ledger {
    /// What opening a journal does: whatever ran goes back to be run again.
    pub(super) fn recover(&mut self) {
        for row in self.jobs.values_mut() {
            if let Ok(state) = row.state.next(Step::Requeue) {
                row.state = state;
            }
        }
    }

    pub(super) fn note_stamp(&mut self, ts: Timestamp) {
        self.stamp = self.stamp.max(Some(ts));
    }

    fn put_out(&mut self, key: &JobKey, item: Item, tells: &mut Vec<Tell>) -> RowId {
        self.last_row += 1;
        self.outbox.insert(self.last_row, (key.clone(), item.clone()));
        tells.push(Tell::Deliver(OutboxRow { id: self.last_row, route: Route::Mesh(key.clone()), item }));
        self.last_row
    }

    pub(super) fn admit(&mut self, arrival: Arrival, tells: &mut Vec<Tell>) -> Result<Admitted, StoreError> {
        let Arrival { key, request, memory, intent } = arrival;
        let at = request.at;
        let known = self.jobs.get(&key).map(|row| Known { hash: row.hash, ended: row.ended.as_ref().map(|(o, _)| o.ts) });
        let tombstone = self.tombstones.get(&key).filter(|stone| at < stone.until).cloned();
        let verdict = verdict(known, tombstone.is_some(), request, memory);
        let admitted = match (verdict, intent) {
            (Verdict::Redelivery, _) => Admitted::Redelivered,
            (Verdict::Resend, _) => {
                self.resend(&key, tells);
                Admitted::Resent
            }
            (Verdict::Fresh | Verdict::Duplicate | Verdict::CancelledAhead, Intent::Refuse(outcome)) => {
                State::Arriving.next(Step::of(&outcome)).map_err(illegal)?;
                self.note_stamp(outcome.ts);
                self.put_out(&key, Item::Rejection(outcome), tells);
                Admitted::Refused
            }
            (Verdict::Duplicate, Intent::Run(_)) => {
                State::Arriving.next(Step::End(Reserved::Duplicate)).map_err(illegal)?;
                let accepted = self.jobs.get(&key).map_or(at, |row| row.accepted);
                let ts = at.max(accepted.plus_ms(1));
                self.note_stamp(ts);
                self.put_out(&key, Item::Duplicate(Outcome::duplicate(ts)), tells);
                Admitted::Duplicate
            }
            (Verdict::Fresh, Intent::Run(job)) => {
                let mut state = State::Arriving.next(Step::Accept).map_err(illegal)?;
                if job.starts_now {
                    state = state.next(Step::Start).map_err(illegal)?;
                }
                self.insert(&key, job, request.hash, at, state);
                Admitted::Accepted
            }
            (Verdict::CancelledAhead, Intent::Run(job)) => {
                let notice_ts = tombstone.map_or(at, |stone| at.max(stone.notice_ts.plus_ms(1)));
                let outcome = Outcome::cancelled_ahead(notice_ts.plus_ms(1));
                let state = State::Arriving.next(Step::of(&outcome)).map_err(illegal)?;
                self.insert(&key, job, request.hash, at, state);
                self.put_out(&key, Item::CancelAcknowledged(notice_ts), tells);
                self.end(&key, state, outcome, tells);
                Admitted::CancelledAhead
            }
        };
        self.note_stamp(at);
        Ok(admitted)
    }

    /// A finished job under this key gives way; what of it is undelivered stays in the outbox.
    fn insert(&mut self, key: &JobKey, job: NewJob, hash: PayloadHash, accepted: Timestamp, state: State) {
        self.last_place += 1;
        let attempts = u32::from(state == State::Started);
        let row = Row { place: self.last_place, job, hash, accepted, attempts, state, ended: None };
        self.jobs.insert(key.clone(), row);
        self.tombstones.remove(key);
    }

    fn resend(&mut self, key: &JobKey, tells: &mut Vec<Tell>) {
        let Some((outcome, sent)) = self.jobs.get(key).and_then(|row| row.ended.clone()) else { return };
        if self.outbox.remove(&sent).is_some() {
            tells.push(Tell::Withdraw(sent, key.clone()));
        }
        let id = self.put_out(key, Item::Outcome(outcome.clone()), tells);
        if let Some(row) = self.jobs.get_mut(key) {
            row.ended = Some((outcome, id));
        }
    }

    /// Writes a terminal state that the table has allowed, and puts the outcome out in place of notices not yet delivered.
    fn end(&mut self, key: &JobKey, state: State, outcome: Outcome, tells: &mut Vec<Tell>) {
        let moot = |item: &Item| matches!(item, Item::Duplicate(_) | Item::Rejection(_));
        let ids: Vec<RowId> = self.outbox.iter().filter(|(_, (of, item))| of == key && moot(item)).map(|(id, _)| *id).collect();
        for id in ids {
            self.outbox.remove(&id);
            tells.push(Tell::Withdraw(id, key.clone()));
        }
        self.note_stamp(outcome.ts);
        let id = self.put_out(key, Item::Outcome(outcome.clone()), tells);
        if let Some(row) = self.jobs.get_mut(key) {
            row.state = state;
            row.ended = Some((outcome, id));
        }
    }

    pub(super) fn start(&mut self, key: &JobKey) -> Result<bool, StoreError> {
        let Some(row) = self.jobs.get_mut(key).filter(|row| !row.state.is_terminal()) else { return Ok(false) };
        // One that runs again passes through the journal.
        let waiting = if row.state == State::Started { row.state.next(Step::Requeue).map_err(illegal)? } else { row.state };
        row.state = waiting.next(Step::Start).map_err(illegal)?;
        row.attempts = row.attempts.saturating_add(1);
        Ok(true)
    }

    pub(super) fn release(&mut self, keys: &[JobKey]) -> Result<(), StoreError> {
        for key in keys {
            let Some(row) = self.jobs.get_mut(key).filter(|row| row.state == State::Started) else { continue };
            row.state = row.state.next(Step::Requeue).map_err(illegal)?;
            row.attempts = row.attempts.saturating_sub(1);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, key: &JobKey, outcome: Outcome, tells: &mut Vec<Tell>) -> Result<bool, StoreError> {
        let Some(row) = self.jobs.get(key).filter(|row| !row.state.is_terminal()) else { return Ok(false) };
        let state = row.state.next(Step::of(&outcome)).map_err(illegal)?;
        self.end(key, state, outcome, tells);
        Ok(true)
    }

    pub(super) fn cancel(&mut self, order: CancelOrder, tells: &mut Vec<Tell>) -> Result<Cancelled, StoreError> {
        let CancelOrder { key, notice_ts, outcome, tombstone_until } = order;
        let state = self.jobs.get(&key).map(|row| row.state);
        let became = match state {
            Some(State::Cancelled) => return Ok(Cancelled::Again),
            Some(state) if !state.is_terminal() => {
                let state = state.next(Step::of(&outcome)).map_err(illegal)?;
                self.put_out(&key, Item::CancelAcknowledged(notice_ts), tells);
                self.end(&key, state, outcome, tells);
                Cancelled::Won
            }
            Some(_) => {
                self.put_out(&key, Item::CancelRejected(notice_ts), tells);
                Cancelled::TooLate
            }
            None => {
                self.put_out(&key, Item::CancelRejected(notice_ts), tells);
                self.tombstones.insert(key, Tombstone { until: tombstone_until, notice_ts });
                Cancelled::Unknown
            }
        };
        self.note_stamp(notice_ts);
        Ok(became)
    }

    pub(super) fn unfinished(&self, agent: &AgentId) -> Vec<Unfinished> {
        let stamp_floor = self.stamp.unwrap_or(Timestamp(0));
        let mut rows: Vec<(&JobKey, &Row)> =
            self.jobs.iter().filter(|(key, row)| key.agent == *agent && !row.state.is_terminal()).collect();
        rows.sort_by_key(|(_, row)| row.place);
        let unfinished = rows.into_iter().map(|(key, row)| Unfinished {
            key: key.clone(),
            // It has to be started again, whatever it did before.
            job: NewJob { starts_now: false, ..row.job.clone() },
            hash: row.hash,
            accepted: row.accepted,
            attempts: row.attempts,
            stamp_floor,
        });
        unfinished.collect()
    }

    pub(super) fn forget(&mut self, now: Timestamp, ended_before: Timestamp, max_bytes: u64) -> u64 {
        self.tombstones.retain(|_, stone| now < stone.until);
        let mut ended: Vec<(Timestamp, u64, JobKey, u64, bool)> = Vec::new();
        for (key, row) in &self.jobs {
            if let Some((outcome, sent)) = &row.ended {
                ended.push((outcome.ts, row.place, key.clone(), bytes(key, outcome), self.outbox.contains_key(sent)));
            }
        }
        ended.sort();
        let mut held: u64 = ended.iter().map(|(_, _, _, bytes, _)| bytes).sum();
        let mut forgotten = 0;
        for (ts, _, key, bytes, undelivered) in ended {
            if !undelivered && (ts < ended_before || held > max_bytes) {
                self.jobs.remove(&key);
                held -= bytes;
                forgotten += 1;
            }
        }
        forgotten
    }

    pub(super) fn delivered(&mut self, ids: &[RowId]) {
        for id in ids {
            self.outbox.remove(id);
        }
    }

    pub(super) fn due(&self, agent: &AgentId, after: RowId, limit: usize) -> Vec<OutboxRow> {
        self.outbox().into_iter().filter(|row| row.id > after && row.route.agent() == agent).take(limit).collect()
    }

    pub(super) fn outbox(&self) -> Vec<OutboxRow> {
        let row = |(id, (key, item)): (&RowId, &(JobKey, Item))| OutboxRow {
            id: *id,
            route: Route::Mesh(key.clone()),
            item: item.clone(),
        };
        self.outbox.iter().map(row).collect()
    }
}

/// About what a finished job takes: the texts that vary in length.
fn bytes(key: &JobKey, outcome: &Outcome) -> u64 {
    let said = match &outcome.ending {
        Ending::Done { kind, body } => kind.len() + body.as_str().len(),
        Ending::Ended { message, extra, .. } => message.len() + extra.as_str().len(),
    };
    (key.agent.as_str().len() + key.owner.as_str().len() + key.job.as_str().len() + said) as u64
}

//! Admitting a request: lookup, verdict, and what follows from it, in one transaction.
//!
//! Owns the steps of `JobStore::admit`. It must not decide what a request means: that is `job::admission`.

use job::admission::{Known, Request, Verdict, verdict};
use job::clock::Timestamp;
use job::ids::JobKey;
use job::lifecycle::{State, Step};
use job::outcome::Outcome;
use job::reason::Reserved;
use job::store::{Admitted, Arrival, Intent, Item, NewJob};

use crate::desk::{Desk, Found, Tell};
use crate::ending::Tombstone;
use crate::fault::Fault;
use crate::rows::{OUTCOME_CELLS, bind_key, read_outcome, state_code};

impl Desk<'_> {
    /// See [`job::store::JobStore::admit`].
    pub(crate) fn admit(&mut self, arrival: &Arrival) -> Result<Admitted, Fault> {
        let Arrival { key, request, memory, intent } = arrival;
        let found = self.find(key)?;
        let known = found.as_ref().map(|job| Known { hash: job.hash, ended: job.ended });
        // Only an unknown key can have a tombstone that counts, so a known one costs no second lookup.
        let raised = if found.is_none() { self.tombstone(key)? } else { None };
        let tombstone = raised.filter(|stone| request.at < stone.until);
        let verdict = verdict(known, tombstone.is_some(), *request, *memory);
        self.books.see(request.at);
        match (verdict, intent) {
            (Verdict::Redelivery, _) => Ok(Admitted::Redelivered),
            (Verdict::Resend, _) => self.resend(key, found),
            (Verdict::Fresh | Verdict::Duplicate | Verdict::CancelledAhead, Intent::Refuse(outcome)) => {
                State::Arriving.next(Step::of(outcome))?;
                self.put_out(key, Item::Rejection(outcome.clone()))?;
                Ok(Admitted::Refused)
            }
            (Verdict::Duplicate, Intent::Run(_)) => {
                State::Arriving.next(Step::End(Reserved::Duplicate))?;
                // Later than the job's first stamp even if the clock jumped back (G1-38).
                let ts = found.map_or(request.at, |job| request.at.max(job.accepted.plus_ms(1)));
                self.put_out(key, Item::Duplicate(Outcome::duplicate(ts)))?;
                Ok(Admitted::Duplicate)
            }
            (Verdict::Fresh, Intent::Run(job)) => {
                let accepted = State::Arriving.next(Step::Accept)?;
                let state = if job.starts_now { accepted.next(Step::Start)? } else { accepted };
                self.make_room(key, found, raised)?;
                self.insert(key, request, job, state)?;
                Ok(Admitted::Accepted)
            }
            (Verdict::CancelledAhead, Intent::Run(job)) => {
                let notice_ts = tombstone.map_or(request.at, |stone| request.at.max(stone.notice_ts.plus_ms(1)));
                let outcome = Outcome::cancelled_ahead(notice_ts.plus_ms(1));
                let state = State::Arriving.next(Step::of(&outcome))?;
                self.make_room(key, found, raised)?;
                let id = self.insert(key, request, job, state)?;
                self.put_out(key, Item::CancelAcknowledged(notice_ts))?;
                self.end(id, key, state, &outcome)?;
                Ok(Admitted::CancelledAhead)
            }
        }
    }

    /// A finished job gives way to a new one of its key, and a tombstone is used up.
    fn make_room(&mut self, key: &JobKey, before: Option<Found>, raised: Option<Tombstone>) -> Result<(), Fault> {
        if let Some(before) = before {
            self.give_way(before)?;
        }
        if raised.is_some() {
            self.use_up_tombstone(key)?;
        }
        Ok(())
    }

    fn insert(&self, key: &JobKey, request: &Request, job: &NewJob, state: State) -> Result<i64, Fault> {
        let mut statement = self.db.prepare_cached(
            "INSERT INTO jobs (job, owner, agent, door, state, hash, accepted, attempts, depth, expires, parent, root, service, \
             requested_by, args) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?;
        bind_key(&mut statement, 1, key)?;
        statement.raw_bind_parameter(5, state_code(state)?)?;
        statement.raw_bind_parameter(6, &request.hash[..])?;
        statement.raw_bind_parameter(7, request.at.0)?;
        statement.raw_bind_parameter(8, u32::from(state == State::Started))?;
        statement.raw_bind_parameter(9, job.lineage.depth)?;
        statement.raw_bind_parameter(10, job.expires.map(|ts| ts.0))?;
        statement.raw_bind_parameter(11, job.lineage.parent.as_ref().map(|id| id.as_str()))?;
        statement.raw_bind_parameter(12, job.lineage.root.as_str())?;
        statement.raw_bind_parameter(13, job.service.as_str())?;
        statement.raw_bind_parameter(14, job.requested_by.as_str())?;
        statement.raw_bind_parameter(15, job.args.as_str())?;
        statement.raw_execute()?;
        Ok(self.db.last_insert_rowid())
    }

    /// Removes a finished job. What of its outcome is undelivered moves into the outbox row, which then stands alone.
    fn give_way(&mut self, before: Found) -> Result<(), Fault> {
        if let Some(sent) = before.sent {
            self.db
                .prepare_cached(
                    "UPDATE outbox SET (fuel, wall_ms, peak_bytes, run, guest, redacted, word, message, body) = \
                     (SELECT fuel, wall_ms, peak_bytes, run, guest, redacted, word, message, body FROM jobs WHERE id = ?1) \
                     WHERE id = ?2",
                )?
                .execute([before.id, sent])?;
        }
        self.db.prepare_cached("DELETE FROM jobs WHERE id = ?1")?.execute([before.id])?;
        self.books.shrank(before.bytes);
        Ok(())
    }

    /// Puts the stored outcome out again, in place of a row that is not noted as delivered yet: that one may be on its way, and
    /// whoever asks now would hear nothing more of it.
    fn resend(&mut self, key: &JobKey, found: Option<Found>) -> Result<Admitted, Fault> {
        let Some(Found { id, ended: Some(ended), sent, .. }) = found else {
            return Err(Fault::Row(format!("{key} has no outcome to send again")));
        };
        if let Some(sent) = sent
            && self.is_due(sent)?
        {
            self.take_off(sent)?;
            self.tells.push(Tell::Withdraw(sent, key.clone()));
        }
        let outcome = self.outcome_of(id, ended)?;
        let sent = self.put_out(key, Item::Outcome(outcome))?;
        self.db.prepare_cached("UPDATE jobs SET sent = ?1 WHERE id = ?2")?.execute([sent, id])?;
        Ok(Admitted::Resent)
    }

    fn outcome_of(&self, id: i64, ended: Timestamp) -> Result<Outcome, Fault> {
        const _: () = assert!(OUTCOME_CELLS == 9, "the statement below names as many columns");
        let mut statement = self.db.prepare_cached(
            "SELECT fuel, wall_ms, peak_bytes, run, guest, redacted, word, message, body FROM jobs WHERE id = ?1",
        )?;
        let mut rows = statement.query([id])?;
        let row = rows.next()?.ok_or_else(|| Fault::Row(format!("job {id} is gone")))?;
        read_outcome(row, 0, ended)
    }
}

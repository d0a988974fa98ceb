//! Starting, releasing, finishing and cancelling: every change of a job that is in the journal.
//!
//! Owns these calls and the tombstones. It must not decide which step is legal: that is `job::lifecycle`.

use job::clock::Timestamp;
use job::ids::JobKey;
use job::lifecycle::{State, Step};
use job::outcome::Outcome;
use job::store::{CancelOrder, Cancelled, Item};

use crate::desk::Desk;
use crate::fault::Fault;
use crate::rows::{bind_key, state_code};

/// A cancel that found no job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tombstone {
    pub(crate) until: Timestamp,
    /// Stamp of the cancel_rejected that was shown for it.
    pub(crate) notice_ts: Timestamp,
}

impl Desk<'_> {
    /// See [`job::store::JobStore::start`].
    pub(crate) fn start(&mut self, key: &JobKey) -> Result<bool, Fault> {
        let Some(job) = self.find(key)?.filter(|job| !job.state.is_terminal()) else { return Ok(false) };
        // One that runs again passes through the journal.
        let waiting = if job.state == State::Started { job.state.next(Step::Requeue)? } else { job.state };
        self.set_active(job.id, waiting.next(Step::Start)?, 1)?;
        Ok(true)
    }

    /// See [`job::store::JobStore::release`].
    pub(crate) fn release(&mut self, keys: &[JobKey]) -> Result<(), Fault> {
        for key in keys {
            // One that waits has begun no attempt that could be taken back.
            if let Some(job) = self.find(key)?.filter(|job| job.state == State::Started) {
                self.set_active(job.id, job.state.next(Step::Requeue)?, -1)?;
            }
        }
        Ok(())
    }

    fn set_active(&self, id: i64, state: State, attempts: i64) -> Result<(), Fault> {
        let mut statement = self
            .db
            .prepare_cached("UPDATE jobs SET state = ?1, attempts = max(0, attempts + ?2) WHERE id = ?3 AND ended IS NULL")?;
        statement.execute([state_code(state)?, attempts, id])?;
        Ok(())
    }

    /// See [`job::store::JobStore::finish`].
    pub(crate) fn finish(&mut self, key: &JobKey, outcome: &Outcome) -> Result<bool, Fault> {
        let Some(job) = self.find(key)?.filter(|job| !job.state.is_terminal()) else { return Ok(false) };
        let state = job.state.next(Step::of(outcome))?;
        self.end(job.id, key, state, outcome)?;
        Ok(true)
    }

    /// See [`job::store::JobStore::cancel`].
    pub(crate) fn cancel(&mut self, order: &CancelOrder) -> Result<Cancelled, Fault> {
        let CancelOrder { key, notice_ts, outcome, tombstone_until } = order;
        match self.find(key)? {
            Some(job) if job.state == State::Cancelled => Ok(Cancelled::Again),
            Some(job) if job.state.is_terminal() => {
                self.put_out(key, Item::CancelRejected(*notice_ts))?;
                Ok(Cancelled::TooLate)
            }
            Some(job) => {
                let state = job.state.next(Step::of(outcome))?;
                self.put_out(key, Item::CancelAcknowledged(*notice_ts))?;
                self.end(job.id, key, state, outcome)?;
                Ok(Cancelled::Won)
            }
            None => {
                self.raise_tombstone(key, Tombstone { until: *tombstone_until, notice_ts: *notice_ts })?;
                self.put_out(key, Item::CancelRejected(*notice_ts))?;
                Ok(Cancelled::Unknown)
            }
        }
    }

    /// The tombstone of this key, standing or past its time.
    pub(crate) fn tombstone(&self, key: &JobKey) -> Result<Option<Tombstone>, Fault> {
        let mut statement = self
            .db
            .prepare_cached("SELECT until, notice FROM tombstones WHERE job = ?1 AND owner = ?2 AND agent = ?3 AND door = ?4")?;
        bind_key(&mut statement, 1, key)?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(Tombstone { until: Timestamp(row.get(0)?), notice_ts: Timestamp(row.get(1)?) }))
    }

    fn raise_tombstone(&self, key: &JobKey, stone: Tombstone) -> Result<(), Fault> {
        let mut statement = self.db.prepare_cached(
            "INSERT INTO tombstones (job, owner, agent, door, until, notice) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (job, owner, agent, door) DO UPDATE SET until = excluded.until, notice = excluded.notice",
        )?;
        bind_key(&mut statement, 1, key)?;
        statement.raw_bind_parameter(5, stone.until.0)?;
        statement.raw_bind_parameter(6, stone.notice_ts.0)?;
        statement.raw_execute()?;
        Ok(())
    }

    /// Removes the tombstone of this key, so that a clock that jumps back cannot raise it again.
    pub(crate) fn use_up_tombstone(&self, key: &JobKey) -> Result<(), Fault> {
        let mut statement =
            self.db.prepare_cached("DELETE FROM tombstones WHERE job = ?1 AND owner = ?2 AND agent = ?3 AND door = ?4")?;
        bind_key(&mut statement, 1, key)?;
        statement.raw_execute()?;
        Ok(())
    }
}

//! What is read back and what is let go: due rows, unfinished jobs, delivery marks, forgetting.
//!
//! Owns these calls. It must not change the state of a job.

use job::clock::Timestamp;
use job::ids::{AgentId, JobId};
use job::json::JsonText;
use job::lineage::Lineage;
use job::store::{NewJob, OutboxRow, Route, RowId, Unfinished};
use rusqlite::{Row, params};

use crate::desk::Desk;
use crate::fault::Fault;
use crate::rows::{OUTCOME_CELLS, item_from, read_key, read_outcome};

/// Finished jobs looked at, and tombstones removed, in one slice of forgetting: a few milliseconds of the writer.
const FORGET_SLICE_ROWS: i64 = 250;

/// Where the next slice of forgetting goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    ended: i64,
    bytes: i64,
    id: i64,
}

impl Cursor {
    /// Before the oldest finished job.
    pub(crate) const START: Self = Self { ended: i64::MIN, bytes: i64::MIN, id: i64::MIN };
}

/// What a slice of forgetting did.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Jobs that went.
    pub(crate) forgotten: u64,
    /// Where to go on, none when there is nothing left to do.
    pub(crate) next: Option<Cursor>,
}

/// What is to be forgotten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) now: Timestamp,
    pub(crate) ended_before: Timestamp,
    pub(crate) max_bytes: u64,
}

/// A finished job that may be forgotten.
struct Candidate {
    at: Cursor,
    undelivered: bool,
}

impl Desk<'_> {
    /// See [`job::store::Outbox::due`].
    pub(crate) fn due(&self, agent: &AgentId, after: RowId, limit: usize) -> Result<Vec<OutboxRow>, Fault> {
        const OWN: usize = 7;
        const OF_JOB: usize = OWN + OUTCOME_CELLS;
        let mut statement = self.db.prepare_cached(
            "SELECT o.job, o.owner, o.agent, o.door, o.id, o.item, o.ts, \
             o.fuel, o.wall_ms, o.peak_bytes, o.run, o.guest, o.redacted, o.word, o.message, o.body, \
             j.fuel, j.wall_ms, j.peak_bytes, j.run, j.guest, j.redacted, j.word, j.message, j.body, o.word IS NULL \
             FROM outbox o LEFT JOIN jobs j ON o.item = 1 AND o.word IS NULL AND j.job = o.job AND j.owner = o.owner \
             AND j.agent = o.agent AND j.door = o.door AND j.sent = o.id \
             WHERE o.id > ?1 AND o.agent = ?2 ORDER BY o.id LIMIT ?3",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![after, agent.as_str(), limit])?;
        let mut due = Vec::new();
        while let Some(row) = rows.next()? {
            let ts = Timestamp(row.get(6)?);
            let first = if row.get(OF_JOB + OUTCOME_CELLS)? { OF_JOB } else { OWN };
            let item = item_from(row.get(5)?, ts, || read_outcome(row, first, ts))?;
            due.push(OutboxRow { id: row.get(4)?, route: Route::Mesh(read_key(row, 0)?), item });
        }
        Ok(due)
    }

    /// See [`job::store::Outbox::delivered`].
    pub(crate) fn delivered(&self, ids: &[RowId]) -> Result<(), Fault> {
        ids.iter().try_for_each(|id| self.take_off(*id))
    }

    /// See [`job::store::JobStore::unfinished`].
    pub(crate) fn unfinished(&self, agent: &AgentId) -> Result<Vec<Unfinished>, Fault> {
        let mut statement = self.db.prepare_cached(
            "SELECT job, owner, agent, door, hash, accepted, attempts, depth, expires, parent, root, service, requested_by, args, \
             state FROM jobs WHERE agent = ?1 AND ended IS NULL ORDER BY id",
        )?;
        let mut rows = statement.query([agent.as_str()])?;
        let mut unfinished = Vec::new();
        while let Some(row) = rows.next()? {
            unfinished.push(Unfinished {
                key: read_key(row, 0)?,
                job: read_job(row)?,
                hash: row.get(4)?,
                accepted: Timestamp(row.get(5)?),
                attempts: row.get(6)?,
                stamp_floor: self.books.stamp,
            });
        }
        Ok(unfinished)
    }

    /// One slice of [`job::store::JobStore::forget`], from `from` on.
    pub(crate) fn forget(&mut self, limits: Limits, from: Cursor) -> Result<Slice, Fault> {
        let stones = self.db.prepare_cached(
            "DELETE FROM tombstones WHERE id IN (SELECT id FROM tombstones WHERE until <= ?1 ORDER BY until LIMIT ?2)",
        )?;
        let stones = { stones }.execute([limits.now.0, FORGET_SLICE_ROWS])?;
        let mut held = self.held()?;
        let candidates = self.finished_after(from)?;
        let whole = candidates.len() as i64 == FORGET_SLICE_ROWS;
        let mut slice = Slice { forgotten: 0, next: None };
        let mut reached = from;
        let mut all_looked_at = true;
        for Candidate { at, undelivered } in candidates {
            if at.ended >= limits.ended_before.0 && held <= limits.max_bytes {
                all_looked_at = false;
                break;
            }
            reached = at;
            if undelivered {
                continue;
            }
            self.db.prepare_cached("DELETE FROM jobs WHERE id = ?1")?.execute([at.id])?;
            held = held.saturating_sub(at.bytes.cast_unsigned());
            self.books.shrank(at.bytes.cast_unsigned());
            slice.forgotten += 1;
        }
        if (whole && all_looked_at) || stones as i64 == FORGET_SLICE_ROWS {
            slice.next = Some(reached);
        }
        Ok(slice)
    }

    /// Bytes the finished jobs take.
    fn held(&mut self) -> Result<u64, Fault> {
        if let Some(held) = self.books.held {
            return Ok(held);
        }
        let held: i64 =
            self.db.query_row("SELECT coalesce(sum(bytes), 0) FROM jobs WHERE ended IS NOT NULL", [], |row| row.get(0))?;
        self.books.held = Some(held.cast_unsigned());
        Ok(held.cast_unsigned())
    }

    fn finished_after(&self, from: Cursor) -> Result<Vec<Candidate>, Fault> {
        let mut statement = self.db.prepare_cached(
            "SELECT ended, bytes, id, EXISTS (SELECT 1 FROM outbox WHERE outbox.id = jobs.sent) FROM jobs \
             WHERE ended IS NOT NULL AND (ended, bytes, id) > (?1, ?2, ?3) ORDER BY ended, bytes, id LIMIT ?4",
        )?;
        let rows = statement.query_map(params![from.ended, from.bytes, from.id, FORGET_SLICE_ROWS], |row| {
            let at = Cursor { ended: row.get(0)?, bytes: row.get(1)?, id: row.get(2)? };
            Ok(Candidate { at, undelivered: row.get(3)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Reads the request of a row of [`Desk::unfinished`].
fn read_job(row: &Row<'_>) -> Result<NewJob, Fault> {
    let id = |text: String| JobId::parse(&text).map_err(|error| Fault::Row(error.to_string()));
    let parent = row.get::<_, Option<String>>(9)?.map(id).transpose()?;
    let lineage = Lineage { parent, root: id(row.get(10)?)?, depth: row.get(7)? };
    Ok(NewJob {
        requested_by: row.get(12)?,
        service: row.get(11)?,
        args: JsonText::trusted(row.get::<_, String>(13)?),
        lineage,
        expires: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        // It has to be started again, whatever it did before.
        starts_now: false,
    })
}

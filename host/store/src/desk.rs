//! The desk a call works at: one open transaction, the running books, and what is to be told once it is committed.
//!
//! Owns the primitives that several calls share. It must not know batching, threads or files.

use job::clock::Timestamp;
use job::ids::JobKey;
use job::lifecycle::State;
use job::outcome::Outcome;
use job::store::{Item, OutboxRow, Route, RowId};
use rusqlite::{Connection, Row};

use crate::fault::Fault;
use crate::rows::{bind_key, bind_outcome, item_code, item_ts, row_bytes, state_code, state_from};

/// How far ahead of the latest stamp the stored one is written, in milliseconds: so the books are written about once a second,
/// not at each commit, and a crash loses no stamp that was shown.
const STAMP_LEAD_MS: i64 = 1000;

/// How far ahead of the last outbox id the stored one is written, in ids.
const ROW_LEAD: i64 = 1 << 20;

/// What a commit has to say to the courier.
#[derive(Debug)]
pub(crate) enum Tell {
    /// A row became due.
    Deliver(OutboxRow),
    /// A row is due no more.
    Withdraw(RowId, JobKey),
}

/// Running figures. A batch works on a copy, which counts only once it is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Books {
    /// The latest stamp shown or about to be.
    pub(crate) stamp: Timestamp,
    /// What the database says no shown stamp is later than.
    pub(crate) stamp_ahead: Timestamp,
    /// The last outbox id used.
    last_row: RowId,
    /// What the database says no used outbox id is above.
    row_ahead: RowId,
    /// Bytes the finished jobs take; counted when it is first asked for, since that reads a whole index.
    pub(crate) held: Option<u64>,
}

impl Books {
    /// The books as a database shows them when it is opened.
    pub(crate) fn read(db: &Connection) -> rusqlite::Result<Self> {
        db.query_row("SELECT stamp_ahead, row_ahead FROM books", [], |row| {
            let (stamp, last_row) = (Timestamp(row.get(0)?), row.get(1)?);
            Ok(Self { stamp, stamp_ahead: stamp, last_row, row_ahead: last_row, held: None })
        })
    }

    /// Takes note of a stamp.
    pub(crate) fn see(&mut self, ts: Timestamp) {
        self.stamp = self.stamp.max(ts);
    }

    fn grew(&mut self, bytes: u64) {
        self.held = self.held.map(|held| held.saturating_add(bytes));
    }

    pub(crate) fn shrank(&mut self, bytes: u64) {
        self.held = self.held.map(|held| held.saturating_sub(bytes));
    }

    /// Whether the database has to be told of them.
    pub(crate) fn are_behind(&self) -> bool {
        self.stamp > self.stamp_ahead || self.last_row > self.row_ahead
    }
}

/// A job as a lookup by its key shows it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) state: State,
    pub(crate) hash: [u8; 32],
    pub(crate) accepted: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) sent: Option<RowId>,
    pub(crate) bytes: u64,
}

impl Found {
    fn read(row: &Row<'_>) -> Result<Self, Fault> {
        Ok(Self {
            id: row.get(0)?,
            state: state_from(row.get(1)?)?,
            hash: row.get(2)?,
            accepted: Timestamp(row.get(3)?),
            ended: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            sent: row.get(5)?,
            bytes: row.get::<_, i64>(6)?.cast_unsigned(),
        })
    }
}

/// The desk of one batch.
pub(crate) struct Desk<'c> {
    pub(crate) db: &'c Connection,
    pub(crate) books: Books,
    pub(crate) tells: Vec<Tell>,
}

impl Desk<'_> {
    /// The job with this key.
    pub(crate) fn find(&self, key: &JobKey) -> Result<Option<Found>, Fault> {
        let mut statement = self.db.prepare_cached(
            "SELECT id, state, hash, accepted, ended, sent, bytes FROM jobs WHERE job = ?1 AND owner = ?2 AND agent = ?3 AND door = ?4",
        )?;
        bind_key(&mut statement, 1, key)?;
        let mut rows = statement.raw_query();
        rows.next()?.map(Found::read).transpose()
    }

    /// Puts an item out. An outcome that stands in the row of its job is not written twice.
    pub(crate) fn put_out(&mut self, key: &JobKey, item: Item) -> Result<RowId, Fault> {
        self.books.last_row += 1;
        let id = self.books.last_row;
        let ts = item_ts(&item);
        self.books.see(ts);
        let mut statement = self.db.prepare_cached(
            "INSERT INTO outbox (job, owner, agent, door, fuel, wall_ms, peak_bytes, run, guest, redacted, word, message, body, \
             id, item, ts) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?;
        bind_key(&mut statement, 1, key)?;
        let own = if matches!(item, Item::Outcome(_)) { None } else { item.outcome() };
        bind_outcome(&mut statement, 5, own)?;
        statement.raw_bind_parameter(14, id)?;
        statement.raw_bind_parameter(15, item_code(&item))?;
        statement.raw_bind_parameter(16, ts.0)?;
        statement.raw_execute()?;
        self.tells.push(Tell::Deliver(OutboxRow { id, route: Route::Mesh(key.clone()), item }));
        Ok(id)
    }

    /// Writes the end of an active job, in a state the lifecycle has allowed, and puts its outcome out in place of the notices
    /// of its topic that are not delivered yet (G1-16).
    pub(crate) fn end(&mut self, id: i64, key: &JobKey, state: State, outcome: &Outcome) -> Result<(), Fault> {
        self.withdraw_notices(key)?;
        let sent = self.put_out(key, Item::Outcome(outcome.clone()))?;
        let bytes = row_bytes(key, outcome);
        let mut statement = self.db.prepare_cached(
            "UPDATE jobs SET fuel = ?1, wall_ms = ?2, peak_bytes = ?3, run = ?4, guest = ?5, redacted = ?6, word = ?7, \
             message = ?8, body = ?9, state = ?10, ended = ?11, sent = ?12, bytes = ?13, depth = NULL, expires = NULL, \
             parent = NULL, root = NULL, service = NULL, requested_by = NULL, args = NULL WHERE id = ?14 AND ended IS NULL",
        )?;
        bind_outcome(&mut statement, 1, Some(outcome))?;
        statement.raw_bind_parameter(10, state_code(state)?)?;
        statement.raw_bind_parameter(11, outcome.ts.0)?;
        statement.raw_bind_parameter(12, sent)?;
        statement.raw_bind_parameter(13, bytes.cast_signed())?;
        statement.raw_bind_parameter(14, id)?;
        // The lifecycle refused a second end before; should anything ever get past it, the row does not.
        if statement.raw_execute()? != 1 {
            return Err(Fault::Sql(rusqlite::Error::StatementChangedRows(0)));
        }
        self.books.grew(bytes);
        Ok(())
    }

    fn withdraw_notices(&mut self, key: &JobKey) -> Result<(), Fault> {
        let mut statement = self.db.prepare_cached(
            "SELECT id FROM outbox WHERE job = ?1 AND owner = ?2 AND agent = ?3 AND door = ?4 AND item IN (2, 3) ORDER BY id",
        )?;
        bind_key(&mut statement, 1, key)?;
        let mut moot: Vec<RowId> = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            moot.push(row.get(0)?);
        }
        for id in moot {
            self.take_off(id)?;
            self.tells.push(Tell::Withdraw(id, key.clone()));
        }
        Ok(())
    }

    /// Takes a row off the outbox; one that is gone already is no fault.
    pub(crate) fn take_off(&self, id: RowId) -> Result<(), Fault> {
        self.db.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([id])?;
        Ok(())
    }

    /// Whether a row is still on the outbox.
    pub(crate) fn is_due(&self, id: RowId) -> Result<bool, Fault> {
        Ok(self.db.prepare_cached("SELECT 1 FROM outbox WHERE id = ?1")?.exists([id])?)
    }

    /// Writes the books if the database is behind them.
    pub(crate) fn keep_books(&mut self) -> Result<(), Fault> {
        if self.books.stamp > self.books.stamp_ahead {
            self.books.stamp_ahead = self.books.stamp.plus_ms(STAMP_LEAD_MS);
        }
        if self.books.last_row > self.books.row_ahead {
            self.books.row_ahead = self.books.last_row.saturating_add(ROW_LEAD);
        }
        self.write_books(self.books.stamp_ahead)
    }

    /// Writes the books with this stamp, at the end even the exact one.
    pub(crate) fn write_books(&self, stamp: Timestamp) -> Result<(), Fault> {
        let mut statement = self.db.prepare_cached("UPDATE books SET stamp_ahead = ?1, row_ahead = ?2")?;
        statement.execute([stamp.0, self.books.row_ahead])?;
        Ok(())
    }
}

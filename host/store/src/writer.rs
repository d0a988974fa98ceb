//! The writer: the one thread that owns the connection, and the order of commit, courier, answers.
//!
//! Owns batches and their transactions. It must not know what a call does.

use std::fs::File;
use std::sync::Arc;

use job::store::{RowId, StoreError};
use rusqlite::Connection;

use crate::desk::{Books, Desk, Tell};
use crate::fault::{Fault, told};
use crate::queue::{Call, Queue, Turn};

/// The writer's belongings.
pub(crate) struct Writer {
    pub(crate) db: Connection,
    pub(crate) books: Books,
    pub(crate) queue: Arc<Queue>,
    /// Held while the database is open; the next opener waits for nothing else.
    pub(crate) lock: File,
}

/// Why a batch did not become durable.
enum Spoilt {
    /// A statement of one call failed, so the transaction was rolled back; the other calls may still go through.
    ByACall(Fault),
    /// The transaction as a whole failed.
    AsAWhole(StoreError),
}

/// Tells everybody that the writer is gone, however it went.
struct Farewell(Arc<Queue>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.bury();
    }
}

impl Writer {
    /// Works until the queue says stop.
    pub(crate) fn run(mut self) {
        // Dropped last: by then the connection is closed and the lock let go, so that whoever waits can open it again.
        let _farewell = Farewell(self.queue.clone());
        loop {
            match self.queue.next() {
                Turn::Commit(mut calls, marks) => {
                    if !marks.is_empty() {
                        calls.insert(0, Box::new(Marks { ids: marks, queue: self.queue.clone() }));
                    }
                    self.commit(calls);
                }
                Turn::Stop(closed) => {
                    self.finish(closed);
                    return;
                }
            }
        }
    }

    fn commit(&mut self, mut calls: Vec<Box<dyn Call>>) {
        match self.attempt(&mut calls) {
            Ok(tells) => {
                self.tell(tells);
                for call in calls {
                    call.answer(Ok(()));
                }
            }
            // One call must not spoil the others: each gets a transaction of its own, in the same order.
            Err(Spoilt::ByACall(_)) if calls.len() > 1 => {
                for call in calls {
                    self.commit(vec![call]);
                }
            }
            Err(Spoilt::ByACall(fault)) => fail(calls, &StoreError::from(&fault)),
            Err(Spoilt::AsAWhole(error)) => fail(calls, &error),
        }
    }

    /// One transaction. Nothing of a failed one remains, in the database or in the books.
    fn attempt(&mut self, calls: &mut [Box<dyn Call>]) -> Result<Vec<Tell>, Spoilt> {
        self.roll_back();
        self.execute("BEGIN IMMEDIATE").map_err(|error| Spoilt::AsAWhole(told(&error)))?;
        let mut desk = Desk { db: &self.db, books: self.books, tells: Vec::new() };
        desk.books.see(self.queue.noted());
        let worked = calls.iter_mut().try_for_each(|call| call.run(&mut desk));
        let kept = worked.and_then(|()| if desk.books.are_behind() { desk.keep_books() } else { Ok(()) });
        let Desk { books, tells, .. } = desk;
        if let Err(fault) = kept {
            self.roll_back();
            return Err(Spoilt::ByACall(fault));
        }
        if let Err(error) = self.execute("COMMIT") {
            self.roll_back();
            return Err(Spoilt::AsAWhole(told(&error)));
        }
        self.books = books;
        self.queue.allow_stamps(books.stamp_ahead);
        Ok(tells)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// SQLite rolls some failures back by itself; a transaction that is still open would block every later one. Tried again
    /// before each batch, should it fail.
    fn roll_back(&self) {
        if !self.db.is_autocommit()
            && let Err(error) = self.db.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the journal could not roll a failed transaction back");
        }
    }

    fn tell(&self, tells: Vec<Tell>) {
        if tells.is_empty() {
            return;
        }
        // Asked for after the commit: who attached before it is told, who attaches later finds the rows by asking.
        let Some(courier) = self.queue.courier() else { return };
        for tell in tells {
            match tell {
                Tell::Deliver(row) => courier.deliver(row),
                Tell::Withdraw(id, key) => courier.withdraw(id, &key),
            }
        }
    }

    /// Ends in good order: the exact stamp is kept and the log is worked into the database, so that the next start is quick.
    fn finish(self, closed: bool) {
        let Self { db, books, queue, lock } = self;
        if closed {
            // Whatever a commit survived so far, a closed journal survives a loss of power.
            if let Err(error) = db.pragma_update(None, "synchronous", "FULL") {
                tracing::warn!(%error, "the journal closes without a sync");
            }
            let desk = Desk { db: &db, books, tells: Vec::new() };
            let stamp = books.stamp.max(queue.noted());
            if let Err(error) = desk.write_books(stamp) {
                // What stands there is later, which is safe.
                tracing::warn!(%error, "the journal could not note its last stamp");
            }
        }
        if let Err((_, error)) = db.close() {
            tracing::warn!(%error, "the journal did not close cleanly; its log is read at the next start");
        }
        // Said aloud, because a child process that was just forked may hold a copy of the file for a moment.
        if let Err(error) = lock.unlock() {
            tracing::warn!(%error, "the lock of the journal is let go only with this process");
        }
    }
}

fn fail(calls: Vec<Box<dyn Call>>, error: &StoreError) {
    for call in calls {
        call.answer(Err(error.clone()));
    }
}

/// Delivery marks, as a call that nobody waits for.
struct Marks {
    ids: Vec<RowId>,
    queue: Arc<Queue>,
}

impl Call for Marks {
    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), Fault> {
        desk.delivered(&self.ids)
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        if let Err(error) = committed {
            tracing::warn!(%error, rows = self.ids.len(), "delivery marks wait for the journal");
            self.queue.give_back(&self.ids);
        }
    }
}

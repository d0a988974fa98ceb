//! The ports of `job::store` over the queue.
//!
//! Owns the handle: each call is put in line when it is made, and its future is only its answer. It must not know SQL.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use job::BoxFuture;
use job::clock::Timestamp;
use job::courier::Courier;
use job::ids::{AgentId, JobKey};
use job::outcome::Outcome;
use job::store::{Admitted, Arrival, CancelOrder, Cancelled, JobStore, Outbox, OutboxRow, RowId, StoreError, Unfinished};
use tokio::sync::oneshot;

use crate::desk::Desk;
use crate::fault::Fault;
use crate::open::{OpenError, Opened, Settings, open};
use crate::queue::Queue;
use crate::recall::{Cursor, Limits};
use crate::writer::Writer;

/// The journal in an SQLite file. One process opens it at a time.
///
/// Dropping it without [`JobStore::close`] still commits what was asked, and waits for that.
pub struct SqliteJournal {
    queue: Arc<Queue>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteJournal").finish_non_exhaustive()
    }
}

impl SqliteJournal {
    /// Opens the journal at this path, creating it (mode 0600) and its folder (mode 0700) where missing, and puts jobs that ran
    /// when the last process ended back to waiting. Reads files, so call it where blocking is fine.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let Opened { db, books, lock } = open(path, settings)?;
        let queue = Arc::new(Queue::new(books.stamp));
        let writer = Writer { db, books, queue: queue.clone(), lock };
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::File { path: path.into(), what: "could not start the writer thread of", source })?;
        Ok(Self { queue, writer: Mutex::new(Some(thread)) })
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Desk<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let answer = self.queue.ask(work);
        Box::pin(wait_for(answer))
    }
}

async fn wait_for<T>(answer: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    answer.await.unwrap_or(Err(StoreError::Closed))
}

impl Outbox for SqliteJournal {
    fn attach(&self, courier: Arc<dyn Courier>) {
        self.queue.set_courier(Some(courier));
    }

    fn due(&self, agent: AgentId, after: RowId, limit: usize) -> BoxFuture<'static, Result<Vec<OutboxRow>, StoreError>> {
        self.ask(move |desk| desk.due(&agent, after, limit))
    }

    fn delivered(&self, ids: Vec<RowId>) {
        self.queue.mark_delivered(ids);
    }
}

impl JobStore for SqliteJournal {
    fn admit(&self, arrival: Arrival) -> BoxFuture<'static, Result<Admitted, StoreError>> {
        self.ask(move |desk| desk.admit(&arrival))
    }

    fn start(&self, key: JobKey) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.ask(move |desk| desk.start(&key))
    }

    fn release(&self, keys: Vec<JobKey>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(move |desk| desk.release(&keys))
    }

    fn finish(&self, key: JobKey, outcome: Outcome) -> BoxFuture<'static, Result<bool, StoreError>> {
        self.ask(move |desk| desk.finish(&key, &outcome))
    }

    fn cancel(&self, order: CancelOrder) -> BoxFuture<'static, Result<Cancelled, StoreError>> {
        self.ask(move |desk| desk.cancel(&order))
    }

    fn unfinished(&self, agent: AgentId) -> BoxFuture<'static, Result<Vec<Unfinished>, StoreError>> {
        self.ask(move |desk| desk.unfinished(&agent))
    }

    fn note_stamp(&self, ts: Timestamp) {
        self.queue.note_stamp(ts);
    }

    fn forget(&self, now: Timestamp, ended_before: Timestamp, max_bytes: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        let limits = Limits { now, ended_before, max_bytes };
        let mut slice = self.queue.ask(move |desk| desk.forget(limits, Cursor::START));
        let queue = self.queue.clone();
        // Slice by slice, each in line behind the calls that came meanwhile, so that no job waits for all of it.
        Box::pin(async move {
            let mut forgotten = 0;
            loop {
                let done = wait_for(slice).await?;
                forgotten += done.forgotten;
                let Some(next) = done.next else { return Ok(forgotten) };
                slice = queue.ask(move |desk| desk.forget(limits, next));
            }
        })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let mut gone = self.queue.wait_gone();
        self.queue.shut(true);
        // The sender lives in the queue, which the future holds, so waiting cannot fail.
        let queue = self.queue.clone();
        Box::pin(async move {
            drop(gone.wait_for(|gone| *gone).await);
            drop(queue);
        })
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        self.queue.shut(false);
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A courier that held the last handle is dropped by the writer itself, which cannot wait for its own end.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the writer of the journal panicked");
        }
    }
}

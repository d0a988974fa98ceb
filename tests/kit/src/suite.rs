//! The conformance suite of journals: every promise of `job::store`, as cases any implementation runs.
//!
//! Owns the cases and the short words they are written in. It must not know any one implementation.

mod admission;
mod endings;
mod forgetting;
mod outbox;
mod recovery;

use std::collections::HashMap;
use std::sync::Arc;

use job::store::{Item, JobStore, OutboxRow, Route, RowId};

use crate::samples::agent;
use crate::{MemoryJournal, RecordingCourier, Told};

pub use outbox::outbox_suite;

/// A journal under test.
pub trait Subject: Send {
    /// The journal.
    fn store(&self) -> Arc<dyn JobStore>;

    /// Ends it as a killed process would, and opens what it left.
    fn reopen(self: Box<Self>) -> Box<dyn Subject>;
}

impl Subject for MemoryJournal {
    fn store(&self) -> Arc<dyn JobStore> {
        Arc::new(self.clone())
    }

    fn reopen(self: Box<Self>) -> Box<dyn Subject> {
        Box::new(MemoryJournal::reopen(&self))
    }
}

/// Runs every case on a fresh journal of its own. Panics at the first broken promise.
pub fn journal_suite(make: impl Fn() -> Box<dyn Subject>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        admission::cases(&make).await;
        endings::cases(&make).await;
        recovery::cases(&make).await;
        forgetting::cases(&make).await;
    });
}

/// A journal with a courier attached.
struct Bench {
    subject: Option<Box<dyn Subject>>,
    store: Arc<dyn JobStore>,
    courier: Arc<RecordingCourier>,
    /// What each row said, to name it when it is withdrawn.
    said: HashMap<RowId, String>,
}

impl Bench {
    fn over(subject: Box<dyn Subject>) -> Self {
        let store = subject.store();
        let courier = Arc::new(RecordingCourier::default());
        store.attach(courier.clone());
        Self { subject: Some(subject), store, courier, said: HashMap::new() }
    }

    /// Kills the journal and opens it again.
    fn reopened(self) -> Self {
        let Self { subject, store, courier, said } = self;
        drop((store, courier, said));
        Self::over(subject.expect("held until now").reopen())
    }

    /// What the courier was told since the last call, a line an entry. It must have been told before the call that caused it
    /// was answered, so nothing is waited for.
    fn told(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for told in self.courier.take() {
            match told {
                Told::Deliver(row) => {
                    let line = line(&row);
                    self.said.insert(row.id, line.clone());
                    lines.push(line);
                }
                Told::Withdraw(id, key) => {
                    let said = self.said.get(&id).cloned().unwrap_or_else(|| format!("{id} of {key}"));
                    lines.push(format!("withdraw {said}"));
                }
                Told::Announce(..) => panic!("a store announces nothing"),
            }
        }
        lines
    }

    /// The undelivered rows of the sample agent.
    async fn due(&self) -> Vec<OutboxRow> {
        self.store.due(agent(), 0, 1000).await.unwrap()
    }

    /// The same, a line each.
    async fn due_lines(&self) -> Vec<String> {
        self.due().await.iter().map(line).collect()
    }

    /// Marks all that is due as delivered.
    async fn deliver_all(&self) {
        self.store.delivered(self.due().await.iter().map(|row| row.id).collect());
    }
}

/// `duplicate j1 @30`: what a row says, about which job, stamped when.
fn line(row: &OutboxRow) -> String {
    let Route::Mesh(key) = &row.route;
    let (what, ts) = match &row.item {
        Item::Outcome(outcome) => (format!("outcome {}", outcome.kind()), outcome.ts),
        Item::Duplicate(outcome) => (outcome.kind().to_owned(), outcome.ts),
        Item::Rejection(outcome) => (outcome.kind().to_owned(), outcome.ts),
        Item::CancelAcknowledged(ts) => ("cancel_acknowledged".to_owned(), *ts),
        Item::CancelRejected(ts) => ("cancel_rejected".to_owned(), *ts),
    };
    format!("{what} {} @{}", key.job, ts.0)
}

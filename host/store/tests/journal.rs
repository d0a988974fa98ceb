//! The journal on SQLite: the suite every journal passes, and what only a file can show.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use job::store::JobStore;
use kit::{Subject, journal_suite, outbox_suite};
use store::{Settings, SqliteJournal, Sync};
use tempfile::TempDir;

struct OnDisk {
    folder: TempDir,
    journal: Arc<SqliteJournal>,
    settings: Settings,
}

fn on_disk(folder: TempDir, settings: Settings) -> Box<dyn Subject> {
    let journal = SqliteJournal::open(&folder.path().join("journal.db"), settings).unwrap();
    Box::new(OnDisk { folder, journal: Arc::new(journal), settings })
}

impl Subject for OnDisk {
    fn store(&self) -> Arc<dyn JobStore> {
        self.journal.clone()
    }

    fn reopen(self: Box<Self>) -> Box<dyn Subject> {
        let Self { folder, journal, settings } = *self;
        drop(Arc::into_inner(journal).expect("the test holds no other handle"));
        on_disk(folder, settings)
    }
}

/// Every promise of the port, with each durability.
#[test]
fn the_journal_passes_the_suite() {
    for sync in [Sync::Os, Sync::Full] {
        journal_suite(|| on_disk(tempfile::tempdir().unwrap(), Settings { sync, ..Settings::default() }));
    }
}

/// G1-16, on the real tables.
#[test]
fn the_journal_leaves_the_outcome_in_the_end() {
    outbox_suite(|| on_disk(tempfile::tempdir().unwrap(), Settings { sync: Sync::Os, ..Settings::default() }));
}

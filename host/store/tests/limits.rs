//! The journal at its limits: a full file, a full disk, a full queue.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use futures::executor::block_on;
use job::courier::{Courier, Event};
use job::ids::JobKey;
use job::json::JsonText;
use job::store::{Admitted, Arrival, Intent, JobStore, NewJob, Outbox, OutboxRow, RowId, StoreError};
use kit::samples::{agent, done, invoke, key, new_job, refused};
use store::{CALLS_WAITING_MAX, Settings, SqliteJournal, Sync};

const OS: Settings = Settings { sync: Sync::Os, file_bytes_max: None };

fn open(folder: &Path) -> SqliteJournal {
    SqliteJournal::open(&folder.join("journal.db"), OS).unwrap()
}

/// An invoke whose arguments take about this many bytes.
fn large(key: &JobKey, bytes: usize) -> Arrival {
    let args = JsonText::trusted(format!("{{\"a\":\"{}\"}}", "x".repeat(bytes)));
    Arrival { intent: Intent::Run(NewJob { args, ..new_job(key) }), ..invoke(key, 1, 10) }
}

/// A courier that holds the writer until told to go on, so that calls pile up into one batch.
struct Holding(Mutex<mpsc::Receiver<()>>, mpsc::Sender<()>);

impl Courier for Holding {
    fn deliver(&self, _: OutboxRow) {
        self.1.send(()).unwrap();
        self.0.lock().unwrap().recv().unwrap();
    }
    fn withdraw(&self, _: RowId, _: &JobKey) {}
    fn announce(&self, _: Event) {}
    fn result_bytes_max(&self, _: &JobKey) -> Option<usize> {
        None
    }
}

/// G1-51: what does not fit fails by itself; others of its batch are stored, and later ones again when there is room.
#[test]
fn a_full_file_fails_only_what_does_not_fit() {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings { file_bytes_max: Some(512 * 1024), ..OS };
    let journal = SqliteJournal::open(&home.path().join("journal.db"), settings).unwrap();
    let ((go_on, gate), (held, holding)) = (mpsc::channel(), mpsc::channel());
    journal.attach(Arc::new(Holding(Mutex::new(gate), held)));
    let first = journal.admit(refused(&key("j0"), 1, 10));
    holding.recv().unwrap();
    // The writer is busy telling, so these come to it as one batch.
    let before = journal.admit(invoke(&key("before"), 1, 10));
    let huge = journal.admit(large(&key("huge"), 1024 * 1024));
    let after = journal.admit(invoke(&key("after"), 1, 10));
    let illegal = journal.admit(Arrival { intent: Intent::Refuse(done(10)), ..invoke(&key("illegal"), 1, 10) });
    let last = journal.admit(invoke(&key("last"), 1, 10));
    go_on.send(()).unwrap();
    assert_eq!(block_on(first), Ok(Admitted::Refused));
    assert_eq!(block_on(before), Ok(Admitted::Accepted));
    assert!(matches!(block_on(huge), Err(StoreError::Full(_))));
    assert_eq!(block_on(after), Ok(Admitted::Accepted));
    assert!(matches!(block_on(illegal), Err(StoreError::Failed(_))));
    assert_eq!(block_on(last), Ok(Admitted::Accepted));
    let kept: Vec<String> = block_on(journal.unfinished(agent())).unwrap().iter().map(|job| job.key.job.to_string()).collect();
    assert_eq!(kept, ["before", "after", "last"]);

    // Fill it up, free some, and go on.
    let mut filled = 0;
    while block_on(journal.admit(large(&key(&format!("f{filled}")), 20_000))) == Ok(Admitted::Accepted) {
        filled += 1;
    }
    assert!(filled > 5);
    for n in 0..filled {
        let finished = journal.finish(key(&format!("f{n}")), done(20));
        holding.recv().unwrap();
        go_on.send(()).unwrap();
        assert_eq!(block_on(finished), Ok(true), "ending a job frees its arguments");
    }
    assert_eq!(block_on(journal.admit(large(&key("again"), 20_000))), Ok(Admitted::Accepted));
}

/// No queue is unbounded: the call beyond the limit fails at once, the others are done once the writer comes to them.
#[test]
fn the_queue_has_an_end() {
    let home = tempfile::tempdir().unwrap();
    let journal = open(home.path());
    let ((go_on, gate), (held, holding)) = (mpsc::channel(), mpsc::channel());
    journal.attach(Arc::new(Holding(Mutex::new(gate), held)));
    let first = journal.admit(refused(&key("j0"), 1, 10));
    holding.recv().unwrap();
    let waiting: Vec<_> = (0..CALLS_WAITING_MAX).map(|_| journal.start(key("none"))).collect();
    assert!(matches!(block_on(journal.start(key("none"))), Err(StoreError::Failed(_))));
    go_on.send(()).unwrap();
    assert_eq!(block_on(first), Ok(Admitted::Refused));
    for call in waiting {
        assert_eq!(block_on(call), Ok(false));
    }
    assert_eq!(block_on(journal.start(key("none"))), Ok(false));
}

/// G1-51: on a disk that is really full the commit itself fails; nothing of it is told or kept, and work goes on once there
/// is room. Needs the right to mount a file system, and proves nothing without it.
#[test]
fn a_full_disk_loses_nothing_and_recovers() {
    let home = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(home.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let unmount = Unmount(home.path().into());
    let journal = open(home.path());
    let courier = Arc::new(kit::RecordingCourier::default());
    journal.attach(courier.clone());
    block_on(journal.admit(invoke(&key("first"), 1, 10))).unwrap();
    fs::write(home.path().join("ballast"), vec![0_u8; 1024 * 1024]).unwrap();
    let mut stored = 0;
    let error = loop {
        match block_on(journal.admit(large(&key(&format!("f{stored}")), 30_000))) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    // Small things fail too when not a page is left.
    let mut small = 0;
    while block_on(journal.admit(refused(&key(&format!("s{small}")), 1, 10))).is_ok() {
        small += 1;
    }
    assert_eq!(courier.told().len(), small, "nothing that failed was told");
    // Marks that could not be written are not lost either: they go with a later commit.
    let due = block_on(journal.due(agent(), 0, usize::MAX)).unwrap();
    journal.delivered(vec![due[0].id]);
    assert!(block_on(journal.admit(large(&key("late"), 30_000))).is_err());
    fs::remove_file(home.path().join("ballast")).unwrap();
    assert_eq!(block_on(journal.finish(key("first"), done(20))), Ok(true));
    assert_eq!(courier.outcomes(&key("first")), [done(20)]);
    let photo = tempfile::tempdir().unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(home.path().join(name), photo.path().join(name)).unwrap();
    }
    let after = open(photo.path());
    assert_eq!(block_on(after.unfinished(agent())).unwrap().len(), stored);
    assert_eq!(block_on(after.due(agent(), 0, usize::MAX)).unwrap().len(), small, "one was marked, one came");
    drop(journal);
    drop(unmount);
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

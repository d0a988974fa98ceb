//! What only a file can show: modes, locks, versions, damage, and what a killed process leaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use job::clock::Timestamp;
use job::courier::{Courier, Event};
use job::ids::JobKey;
use job::store::{Admitted, JobStore, Outbox, OutboxRow, RowId, StoreError};
use kit::samples::{agent, done, invoke, key, queued, redelivered, refused};
use rusqlite::Connection;
use store::{OpenError, Settings, SqliteJournal, Sync};
use tempfile::TempDir;

const OS: Settings = Settings { sync: Sync::Os, file_bytes_max: None };

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &Path) -> SqliteJournal {
    SqliteJournal::open(&folder.join("journal.db"), OS).unwrap()
}

fn refusal(path: &Path) -> OpenError {
    SqliteJournal::open(path, OS).expect_err("refused")
}

/// Copies the journal as a killed process would leave it: what the operating system has, no clean end.
fn wreck(from: &Path) -> TempDir {
    let to = folder();
    for name in ["journal.db", "journal.db-wal"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.path().join(name)).unwrap();
        }
    }
    to
}

/// Secrets may stand in arguments and answers, so nobody else may read them, whatever the mask or the mode found.
#[test]
fn files_are_private() {
    let folder = folder();
    let home = folder.path().join("deep").join("data");
    let journal = open(&home);
    block_on(journal.admit(invoke(&key("j1"), 1, 10))).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home), 0o700);
    for entry in fs::read_dir(&home).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
    assert!(home.join("journal.db-wal").exists());
    drop(journal);
    fs::set_permissions(home.join("journal.db"), PermissionsExt::from_mode(0o644)).unwrap();
    drop(open(&home));
    assert_eq!(mode(&home.join("journal.db")), 0o600);
}

#[test]
fn one_process_at_a_time_has_it_open() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let first = open(folder.path());
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Held { .. }), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    block_on(first.close());
    // Closed is closed, though the handle lives on.
    drop(open(folder.path()));
}

/// A newer journal is left as it is, and so is a file that is none.
#[test]
fn what_is_no_journal_of_ours_is_refused() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    drop(open(folder.path()));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("newer amp-node"), "{error}");

    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a); PRAGMA user_version = 1").unwrap();
    assert!(refusal(&other).to_string().contains("another program"));

    let text = folder.path().join("text.db");
    fs::write(&text, "this is a letter, not a database. ".repeat(100)).unwrap();
    let error = refusal(&text);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(fs::read(&text).unwrap().starts_with(b"this is a letter"));

    let error = refusal(&folder.path().join("text.db").join("below.db"));
    assert!(matches!(error, OpenError::File { .. }), "{error}");
}

#[test]
fn a_damaged_page_is_found_at_the_start() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let journal = open(folder.path());
    for n in 0..200 {
        block_on(journal.admit(invoke(&key(&format!("j{n}")), 1, 10))).unwrap();
    }
    block_on(journal.close());
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 512].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("journal.db"), "{error}");
}

/// Invariant 2: whatever was answered, or told to the courier, is in the files at that moment.
#[test]
fn what_was_answered_or_told_survives_a_kill() {
    struct Photographer(PathBuf, Mutex<Vec<(OutboxRow, TempDir)>>);
    impl Courier for Photographer {
        fn deliver(&self, row: OutboxRow) {
            self.1.lock().unwrap().push((row, wreck(&self.0)));
        }
        fn withdraw(&self, _: RowId, _: &JobKey) {}
        fn announce(&self, _: Event) {}
        fn result_bytes_max(&self, _: &JobKey) -> Option<usize> {
            None
        }
    }
    let home = folder();
    let journal = open(home.path());
    let photographer = Arc::new(Photographer(home.path().into(), Mutex::default()));
    journal.attach(photographer.clone());
    for n in 0..12 {
        let key = key(&format!("j{n}"));
        assert_eq!(block_on(journal.admit(queued(&key, 1, 10))), Ok(Admitted::Accepted));
        if n % 2 == 0 {
            assert_eq!(block_on(journal.start(key.clone())), Ok(true));
        }
        let photo = wreck(home.path());
        let after = open(photo.path());
        let found = block_on(after.unfinished(agent())).unwrap();
        let last = found.last().expect("the job just answered");
        assert_eq!((&last.key, last.attempts), (&key, u32::from(n % 2 == 0)));
        if n % 2 == 0 {
            assert_eq!(block_on(journal.finish(key, done(20 + n))), Ok(true));
        }
    }
    let photos = photographer.1.lock().unwrap();
    assert_eq!(photos.len(), 6);
    for (row, photo) in photos.iter() {
        let after = open(photo.path());
        assert_eq!(
            block_on(after.due(agent(), row.id - 1, 10)).unwrap(),
            std::slice::from_ref(row),
            "told before it was committed"
        );
    }
}

/// S1-58: kill -9 at any moment, while hundreds of calls are under way, loses nothing that was answered.
#[test]
fn kill_nine_loses_nothing_that_was_answered() {
    for (round, lines) in [1, 40, 400, 3000].into_iter().enumerate() {
        let home = folder();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child_that_is_killed", "--ignored", "--nocapture"])
            .env(CHILD_HOME, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answered: Vec<String> = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap)
            .filter_map(|line| line.split_once("done ").map(|(_, job)| job.to_owned()))
            .take(lines)
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(answered.len(), lines, "round {round}");
        let journal = open(home.path());
        for job in answered {
            let admitted = block_on(journal.admit(redelivered(&key(&job), 1, 30)));
            assert_eq!(admitted, Ok(Admitted::Resent), "round {round}: the outcome of {job} was answered");
        }
        let last = block_on(journal.due(agent(), 0, usize::MAX)).unwrap();
        assert!(last.iter().all(|row| row.item.outcome() == Some(&done(20))));
    }
}

const CHILD_HOME: &str = "STORE_TEST_CHILD_HOME";

/// Not a test: the process that [`kill_nine_loses_nothing_that_was_answered`] kills.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn the_child_that_is_killed() {
    let Some(home) = std::env::var_os(CHILD_HOME) else { return };
    let journal = open(Path::new(&home));
    for round in 0.. {
        let calls = (0..64).map(|n| {
            let job = format!("j{round}-{n}");
            drop(journal.admit(invoke(&key(&job), 1, 10)));
            (journal.finish(key(&job), done(20)), job)
        });
        for (finished, job) in calls.collect::<Vec<_>>() {
            assert_eq!(block_on(finished), Ok(true));
            // The parent reads as far as it wants and then kills; a closed pipe ends this process too.
            use std::io::Write;
            writeln!(std::io::stdout(), "done {job}").unwrap();
        }
    }
}

/// Marks and stamps that nobody waits for reach the files by themselves, soon after, though nothing else is asked.
#[test]
fn lagging_marks_are_flushed_when_idle() {
    let home = folder();
    let journal = open(home.path());
    block_on(journal.admit(refused(&key("j1"), 1, 10))).unwrap();
    block_on(journal.admit(invoke(&key("j2"), 1, 10))).unwrap();
    let due = block_on(journal.due(agent(), 0, 10)).unwrap();
    journal.delivered(vec![due[0].id]);
    journal.note_stamp(Timestamp(5_000_000));
    // Each look is at the files alone; asking the journal would make it commit.
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "nothing was flushed");
        let photo = wreck(home.path());
        let after = open(photo.path());
        let stamp = block_on(after.unfinished(agent())).unwrap()[0].stamp_floor;
        if block_on(after.due(agent(), 0, 10)).unwrap().is_empty() && stamp >= Timestamp(5_000_000) {
            break;
        }
        std::thread::yield_now();
    }
}

/// How long a loaded machine may take for what needs a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A courier may own the journal and still everything ends.
#[test]
fn a_courier_that_owns_the_journal_is_let_go() {
    struct Owner(#[expect(dead_code, reason = "it only has to own it")] Arc<SqliteJournal>);
    impl Courier for Owner {
        fn deliver(&self, _: OutboxRow) {}
        fn withdraw(&self, _: RowId, _: &JobKey) {}
        fn announce(&self, _: Event) {}
        fn result_bytes_max(&self, _: &JobKey) -> Option<usize> {
            None
        }
    }
    let home = folder();
    let journal = Arc::new(open(home.path()));
    journal.attach(Arc::new(Owner(journal.clone())));
    block_on(journal.close());
    assert_eq!(Arc::strong_count(&journal), 1);
}

/// A courier that panics takes the writer with it; callers are told instead of waiting for ever.
#[test]
fn a_writer_that_dies_leaves_nobody_waiting() {
    struct Bad;
    impl Courier for Bad {
        fn deliver(&self, _: OutboxRow) {
            panic!("a broken courier");
        }
        fn withdraw(&self, _: RowId, _: &JobKey) {}
        fn announce(&self, _: Event) {}
        fn result_bytes_max(&self, _: &JobKey) -> Option<usize> {
            None
        }
    }
    let home = folder();
    let journal = open(home.path());
    journal.attach(Arc::new(Bad));
    let told = journal.admit(refused(&key("j1"), 1, 10));
    let behind = journal.admit(invoke(&key("j2"), 1, 10));
    assert_eq!(block_on(told), Err(StoreError::Closed));
    assert_eq!(block_on(behind), Err(StoreError::Closed));
    assert_eq!(block_on(journal.admit(invoke(&key("j3"), 1, 10))), Err(StoreError::Closed));
    block_on(journal.close());
}

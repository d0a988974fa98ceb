//! Measures the journal alone: cycles of admit, finish and delivered, one at a time and many in flight.
//!
//! `cargo run --release -p store --example cycles [FOLDER] [CYCLES]`; the folder decides which disk is measured.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a measuring program prints, and stops at the first surprise")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use job::courier::{Courier, Event};
use job::ids::JobKey;
use job::json::JsonText;
use job::outcome::{Ending, Outcome};
use job::store::{Admitted, JobStore, Outbox, OutboxRow, RowId};
use kit::samples::{done, invoke, key};
use store::{Settings, SqliteJournal, Sync};

/// Cycles under way at once in the crowded runs.
const CROWD: usize = 256;
/// Bytes of each answer.
const BODY_BYTES: usize = 300;

/// Marks every outcome as delivered as soon as it hears of it, as a broker would a little later.
struct Postman(std::sync::Weak<SqliteJournal>);

impl Courier for Postman {
    fn deliver(&self, row: OutboxRow) {
        if let Some(journal) = self.0.upgrade() {
            journal.delivered(vec![row.id]);
        }
    }
    fn withdraw(&self, _: RowId, _: &JobKey) {}
    fn announce(&self, _: Event) {}
    fn result_bytes_max(&self, _: &JobKey) -> Option<usize> {
        None
    }
}

fn outcome(ts: i64) -> Outcome {
    let body = JsonText::trusted(format!("{{\"answer\":\"{}\"}}", "x".repeat(BODY_BYTES)));
    Outcome { ending: Ending::Done { kind: "result".into(), body }, ..done(ts) }
}

async fn cycle(journal: &SqliteJournal, job: usize) -> [Duration; 2] {
    let key = key(&format!("job-{job:08x}{}", job.wrapping_mul(0x9e37_79b9) % 100_000));
    let ts = 1_700_000_000_000 + job as i64;
    let begun = Instant::now();
    assert_eq!(journal.admit(invoke(&key, 1, ts)).await, Ok(Admitted::Accepted));
    let admitted = begun.elapsed();
    let outcome = outcome(ts + 1);
    let begun = Instant::now();
    assert_eq!(journal.finish(key, outcome).await, Ok(true));
    [admitted, begun.elapsed()]
}

fn show(name: &str, cycles: usize, took: Duration, mut commits: Vec<Duration>) {
    commits.sort();
    let at = |share: f64| commits[((commits.len() - 1) as f64 * share) as usize];
    let rate = cycles as f64 / took.as_secs_f64();
    println!(
        "{name:28} {rate:9.0} cycles/s   a call: p50 {:?}  p99 {:?}  p99.9 {:?}  max {:?}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let cycles: usize = args.next().map_or(100_000, |text| text.parse().expect("a number of cycles"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for (name, sync, share) in [("os", Sync::Os, 1), ("full", Sync::Full, 2)] {
        let home = tempfile::tempdir_in(&folder).expect("a folder");
        let journal = Arc::new(
            SqliteJournal::open(&home.path().join("journal.db"), Settings { sync, ..Settings::default() }).expect("a journal"),
        );
        journal.attach(Arc::new(Postman(Arc::downgrade(&journal))));
        let alone = cycles / 50;
        runtime.block_on(async {
            let begun = Instant::now();
            let mut commits = Vec::new();
            for job in 0..alone {
                commits.extend(cycle(&journal, job).await);
            }
            show(&format!("{name}, one at a time"), alone, begun.elapsed(), commits);
            let crowded = cycles / share;
            let begun = Instant::now();
            let clerks = (0..CROWD).map(|clerk| {
                let journal = journal.clone();
                tokio::spawn(async move {
                    let mut commits = Vec::new();
                    for job in (alone + clerk..alone + crowded).step_by(CROWD) {
                        commits.extend(cycle(&journal, job).await);
                    }
                    commits
                })
            });
            let mut commits = Vec::new();
            for clerk in clerks.collect::<Vec<_>>() {
                commits.extend(clerk.await.expect("no panic"));
            }
            show(&format!("{name}, {CROWD} in flight"), crowded, begun.elapsed(), commits);
            journal.close().await;
        });
        drop(journal);
        let path = home.path().join("journal.db");
        let bytes = std::fs::metadata(&path).expect("a file").len();
        let begun = Instant::now();
        drop(SqliteJournal::open(&path, Settings { sync, ..Settings::default() }).expect("a journal"));
        println!(
            "{:28} {:9.1} MiB opened and closed in {:?}",
            format!("{name}, restart"),
            bytes as f64 / 1_048_576.0,
            begun.elapsed()
        );
    }
}

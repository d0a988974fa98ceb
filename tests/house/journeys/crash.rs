//! kill -9 at any instant: every accepted job still has its one terminal result.
//!
//! Owns crashes of the real process; the seeded crashes of the store are the engine's own tests.

use house::catalog::{Catalog, mischief};
use house::lab::{Lab, OWNER};
use serde_json::json;

const JOBS: usize = 30;

fn rounds() -> usize {
    std::env::var("HOUSE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

/// A small generator of numbers, so that every run kills at the same places.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// S1-04, S1-43, S1-47, S1-86, S1-88b, G1-24, invariants 1 to 3: 50 rounds of kill -9 under load. Every invoke the broker took
/// gets exactly one result, nobody sees a duplicate or a second end, and no restart is taken for a collision.
#[test]
fn kill_9_under_load_loses_and_doubles_nothing() {
    let mut lab = Lab::start();
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let mut interrupted = 0;
    for round in 0..rounds() {
        let mark = lab.client.mark();
        let job = |at: usize| format!("k{round}-{at}");
        let args = |at: usize| match at % 3 {
            0 => json!({"do": "work", "n": 20_000}),
            1 => json!({"do": "sleep", "n": 20}),
            _ => json!({"do": "progress", "n": 3}),
        };
        let orders = (0..JOBS).map(|at| lab.order(OWNER, &job(at), "test.mischief", args(at))).collect();
        lab.client.send_all(orders);
        // Somewhere between the first accepted event and the last result.
        let messages = usize::try_from(dice.roll(4 * JOBS as u64)).unwrap();
        lab.client.collect(mark, messages.max(1), "messages before the kill", |m| m.topic.contains(&format!("/k{round}-")));
        lab.kill();
        lab.up();
        for at in 0..JOBS {
            let result = lab.result_as(OWNER, &job(at), mark);
            assert_eq!(result["type"], "result", "{} in round {round}: {result}", job(at));
            interrupted += usize::from(result["usage"]["attempt"] != 1);
        }
    }
    lab.settle("end");
    assert!(
        interrupted >= rounds() / 4,
        "only {interrupted} jobs were interrupted, so the kills came too late to prove anything"
    );
    let duplicate = lab.client.all().into_iter().find(|m| m.json["type"] == "duplicate");
    assert!(duplicate.is_none(), "{duplicate:?}");
    let log = lab.node().log().to_lowercase();
    assert!(!log.contains("collision"), "a restart was taken for a collision");
    // What stays for who comes later is each job's own result.
    let late = lab.late("agents/jobs/alice/+/result");
    assert_eq!(late.len(), rounds() * JOBS);
    assert!(late.iter().all(|m| m.json["type"] == "result"));
}

/// G1-24, S1-47: a job cut off by a crash runs again and says which attempt answered.
#[test]
fn an_interrupted_job_runs_again() {
    let mut lab = Lab::start();
    lab.invoke("again", "test.mischief", json!({"do": "sleep", "n": 1500}));
    lab.event(OWNER, "again", "started");
    lab.kill();
    lab.up();
    let result = lab.result("again");
    assert_eq!((&result["result"], &result["usage"]["attempt"]), (&json!("slept"), &json!(2)), "{result}");
}

/// G1-24, G1-49: a job that may not run twice ends interrupted after a crash, and never runs again.
#[test]
fn what_may_not_run_twice_ends_interrupted() {
    let catalog = Catalog::usual();
    catalog.file("once.json", &mischief("test.once", json!({"idempotent": false})));
    let mut lab = Lab::with(catalog, |_| {});
    lab.invoke("once", "test.once", json!({"do": "sleep", "n": 30_000}));
    lab.event(OWNER, "once", "started");
    lab.kill();
    lab.up();
    let result = lab.result("once");
    assert_eq!((&result["type"], &result["reason"]), (&json!("error"), &json!("interrupted")));
    lab.settle("end");
    assert_eq!(lab.event_types("once").iter().filter(|kind| *kind == "started").count(), 1);
}

/// G1-24: a job that takes the node down with it each time ends after three attempts.
#[test]
fn three_interrupted_attempts_are_the_end() {
    let mut lab = Lab::start();
    lab.invoke("doom", "test.mischief", json!({"do": "sleep", "n": 30_000}));
    let topic = lab.topic(OWNER, "doom", "events");
    let mut mark = 0;
    for _ in 0..3 {
        lab.client.next(mark, "the job to start", |m| m.topic == topic && m.json["type"] == "started");
        mark = lab.client.mark();
        lab.kill();
        lab.up();
    }
    let result = lab.result("doom");
    assert_eq!(
        (&result["type"], &result["reason"], &result["usage"]["attempt"]),
        (&json!("error"), &json!("interrupted"), &json!(3))
    );
}

/// G1-38: each timestamp of a job is later than the one before, also over a restart.
#[test]
fn timestamps_rise_over_a_restart() {
    let mut lab = Lab::start();
    lab.invoke("ts", "test.mischief", json!({"do": "sleep", "n": 1200}));
    lab.event(OWNER, "ts", "started");
    lab.kill();
    lab.up();
    let result = lab.result("ts");
    lab.settle("end");
    house::audit::check_order(&lab.events(OWNER, "ts"), &result);
}

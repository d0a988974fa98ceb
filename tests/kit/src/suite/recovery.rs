//! What a restart finds: every word of what was accepted, every outcome, every attempt.

use job::clock::Timestamp;
use job::ids::JobId;
use job::json::JsonText;
use job::lineage::Lineage;
use job::outcome::{Ending, Outcome, Redacted, Usage};
use job::reason::Reason;
use job::store::{Admitted, Arrival, Intent, Item, NewJob, StoreError, Unfinished};

use super::{Bench, Subject};
use crate::samples::{agent, cancel, done, failed, invoke, key, key_of, queued, refused};

pub(super) async fn cases(make: &impl Fn() -> Box<dyn Subject>) {
    let bench = || Bench::over(make());
    attempts_are_counted_and_taken_back(bench()).await;
    every_word_of_a_job_survives(bench()).await;
    every_word_of_an_outcome_survives(bench()).await;
    unfinished_jobs_come_oldest_first(bench()).await;
    stamps_are_remembered(bench()).await;
    late_couriers_find_earlier_rows(bench()).await;
    a_closed_journal_says_so(bench()).await;
}

async fn attempts(bench: &Bench) -> Vec<u32> {
    bench.store.unfinished(agent()).await.unwrap().iter().map(|job| job.attempts).collect()
}

/// G1-24, G1-42: a start counts, a restart keeps the count, a polite stop takes the last one back and no other.
async fn attempts_are_counted_and_taken_back(bench: Bench) {
    bench.store.admit(queued(&key("j1"), 1, 10)).await.unwrap();
    bench.store.admit(invoke(&key("j2"), 1, 11)).await.unwrap();
    assert_eq!(bench.store.start(key("none")).await, Ok(false));
    assert_eq!(bench.store.start(key("j1")).await, Ok(true));
    assert_eq!(attempts(&bench).await, [1, 1]);
    // It runs again within the process.
    assert_eq!(bench.store.start(key("j1")).await, Ok(true));
    assert_eq!(attempts(&bench).await, [2, 1]);
    let bench = bench.reopened();
    assert_eq!(attempts(&bench).await, [2, 1], "a crash takes nothing back");
    assert_eq!(bench.store.start(key("j2")).await, Ok(true));
    // j1 has not begun since the restart, so it has nothing to give back; of the others only j2 is known.
    bench.store.release(vec![key("j1"), key("j2"), key("none")]).await.unwrap();
    assert_eq!(attempts(&bench).await, [2, 1]);
    bench.store.release(vec![key("j2")]).await.unwrap();
    assert_eq!(attempts(&bench).await, [2, 1], "a second release finds nothing begun");
    assert!(matches!(bench.store.finish(key("j2"), done(30)).await, Err(StoreError::Failed(_))), "it waits again");
}

async fn every_word_of_a_job_survives(bench: Bench) {
    let odd = key_of("A.b_c-9", "x_y-9", "ä b \u{1F600} 'q\" %_");
    let arrival = Arrival {
        intent: Intent::Run(NewJob {
            requested_by: "Ä 'Quote\" \u{0}; --".into(),
            service: "a.b".into(),
            args: JsonText::trusted("  {\"big\":123456789012345678901234567890,\n\t\"s\":\"\\u0000\"} "),
            lineage: Lineage { parent: Some(JobId::parse("p").unwrap()), root: JobId::parse("r").unwrap(), depth: u32::MAX },
            expires: Some(Timestamp(i64::MAX)),
            starts_now: false,
        }),
        ..invoke(&odd, 0xfe, -5)
    };
    let Intent::Run(job) = arrival.intent.clone() else { unreachable!() };
    bench.store.admit(arrival).await.unwrap();
    let bench = bench.reopened();
    let found = bench.store.unfinished(odd.agent.clone()).await.unwrap();
    let stamp_floor = found[0].stamp_floor;
    let expected = Unfinished { key: odd, job, hash: [0xfe; 32], accepted: Timestamp(-5), attempts: 0, stamp_floor };
    assert_eq!(found, [expected]);
}

/// G1-37: the outcome that is sent after a crash is the one that was committed, to the last digit.
async fn every_word_of_an_outcome_survives(bench: Bench) {
    let redacted = vec![
        Redacted { name: "DB \"PASS\"".into(), source: "store".into() },
        Redacted { name: "T".into(), source: "environment".into() },
    ];
    let full = Usage {
        fuel: u64::MAX,
        wall_ms: u64::MAX,
        peak_memory_bytes: 1 << 63,
        guest: Some("sha256:00".into()),
        attempt: u32::MAX,
        redacted,
    };
    let mut outcomes = vec![
        done(20),
        Outcome {
            ending: Ending::Done { kind: "".into(), body: JsonText::trusted(" [1.10, 1e3]\n") },
            usage: full.clone(),
            ts: Timestamp(i64::MAX),
        },
        Outcome {
            ending: Ending::Done { kind: "é\u{1F600}".into(), body: JsonText::trusted("null") },
            usage: Usage::default(),
            ts: Timestamp(-9),
        },
    ];
    for reason in Reason::ALL.iter().filter(|r| Outcome::ended(**r, "", Usage::default(), Timestamp(0)).reserved().is_some()) {
        let extra = JsonText::trusted(r#"{ "retryAfterMs" : 7 }"#);
        let ending = Ending::Ended { reason: *reason, message: format!("because {reason}\n"), extra };
        outcomes.push(Outcome { ending, usage: full.clone(), ts: Timestamp(30) });
    }
    let mut expected = Vec::new();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let key = key(&format!("j{n}"));
        bench.store.admit(invoke(&key, 1, 10)).await.unwrap();
        // Those that no running job can end with are answers to requests.
        if bench.store.finish(key.clone(), outcome.clone()).await == Ok(true) {
            expected.push(Item::Outcome(outcome));
        } else {
            let arrival = Arrival { intent: Intent::Refuse(outcome.clone()), ..invoke(&key, 2, 11) };
            assert_eq!(bench.store.admit(arrival).await, Ok(Admitted::Refused));
            expected.push(Item::Rejection(outcome));
        }
    }
    let told: Vec<Item> = bench.courier.due().into_iter().map(|row| row.item).collect();
    assert_eq!(told, expected);
    let bench = bench.reopened();
    let found: Vec<Item> = bench.due().await.into_iter().map(|row| row.item).collect();
    assert_eq!(found, expected);
}

async fn unfinished_jobs_come_oldest_first(bench: Bench) {
    for job in ["z", "m", "a"] {
        bench.store.admit(queued(&key(job), 1, 10)).await.unwrap();
        bench.store.admit(queued(&key_of("linter", "alice", job), 1, 10)).await.unwrap();
    }
    bench.store.finish(key("m"), failed(20)).await.unwrap();
    bench.store.admit(queued(&key("b"), 1, 5)).await.unwrap();
    bench.store.admit(queued(&key("m"), 2, 30)).await.unwrap();
    let bench = bench.reopened();
    let found: Vec<String> = bench.store.unfinished(agent()).await.unwrap().iter().map(|job| job.key.job.to_string()).collect();
    assert_eq!(found, ["z", "a", "b", "m"]);
}

/// G1-38: after a restart no job is stamped earlier than anything shown before it.
async fn stamps_are_remembered(bench: Bench) {
    let floor = |found: Vec<Unfinished>| found[0].stamp_floor.0;
    bench.store.admit(invoke(&key("j1"), 1, 1000)).await.unwrap();
    let mut bench = bench;
    let mut ts = 1000;
    for round in 0..5 {
        ts += 100_000;
        match round {
            0 => bench.store.note_stamp(Timestamp(ts)),
            1 => drop(bench.store.cancel(cancel(&key("none"), ts)).await),
            2 => drop(bench.store.admit(refused(&key("k"), 1, ts)).await),
            3 => {
                bench.store.admit(invoke(&key("k2"), 1, 1000)).await.unwrap();
                bench.store.finish(key("k2"), done(ts)).await.unwrap();
            }
            _ => drop(bench.store.admit(queued(&key("k3"), 1, ts)).await),
        }
        assert!(floor(bench.store.unfinished(agent()).await.unwrap()) >= ts, "round {round}");
        bench = bench.reopened();
        let found = floor(bench.store.unfinished(agent()).await.unwrap());
        assert!(found >= ts, "round {round}");
        assert!(found < ts + 60_000, "the floor is not far ahead of the clock: {found} after {ts}");
    }
}

async fn late_couriers_find_earlier_rows(bench: Bench) {
    bench.store.admit(refused(&key("j1"), 1, 10)).await.unwrap();
    let second = std::sync::Arc::new(crate::RecordingCourier::default());
    bench.store.attach(second.clone());
    bench.store.admit(refused(&key("j2"), 1, 20)).await.unwrap();
    assert_eq!((bench.courier.due().len(), second.due().len()), (1, 1), "the newest courier is told");
    assert_eq!(bench.due_lines().await, ["rejected j1 @10", "rejected j2 @20"]);
}

/// What was asked before the close is committed; later calls are told.
async fn a_closed_journal_says_so(bench: Bench) {
    let admitted = bench.store.admit(invoke(&key("j1"), 1, 10));
    bench.store.note_stamp(Timestamp(500_000));
    let closed = bench.store.close();
    let late = bench.store.admit(invoke(&key("j2"), 1, 10));
    closed.await;
    assert_eq!(admitted.await, Ok(Admitted::Accepted));
    assert_eq!(late.await, Err(StoreError::Closed));
    assert_eq!(bench.store.finish(key("j1"), done(20)).await, Err(StoreError::Closed));
    assert_eq!(bench.store.unfinished(agent()).await, Err(StoreError::Closed));
    bench.store.delivered(vec![1]);
    bench.store.close().await;
    let bench = bench.reopened();
    let found = bench.store.unfinished(agent()).await.unwrap();
    assert_eq!((found.len(), found[0].attempts), (1, 1));
    assert!(found[0].stamp_floor.0 >= 500_000);
}

//! What the journal lets go, and what it must not.

use job::clock::Timestamp;
use job::json::JsonText;
use job::outcome::{Ending, Outcome};
use job::store::Admitted;

use super::{Bench, Subject};
use crate::samples::{agent, cancel, done, invoke, key, redelivered};

/// More rows than any implementation forgets at one go.
const MANY: i64 = 3000;

pub(super) async fn cases(make: &impl Fn() -> Box<dyn Subject>) {
    let bench = || Bench::over(make());
    old_jobs_are_forgotten_once_delivered(bench()).await;
    the_oldest_give_way_to_the_size_limit(bench()).await;
    tombstones_are_forgotten_in_time(bench()).await;
    many_jobs_are_forgotten_in_one_call(bench()).await;
}

const NO_LIMIT: u64 = u64::MAX;

/// G1-17: ended before the limit and delivered: gone. Undelivered, active or younger: kept.
async fn old_jobs_are_forgotten_once_delivered(bench: Bench) {
    for (job, ends) in [("old", Some(100)), ("due", Some(101)), ("young", Some(200)), ("active", None)] {
        bench.store.admit(invoke(&key(job), 1, 10)).await.unwrap();
        if let Some(ts) = ends {
            bench.store.finish(key(job), done(ts)).await.unwrap();
        }
    }
    let due = bench.due().await;
    bench.store.delivered(vec![due[0].id, due[2].id]);
    assert_eq!(bench.store.forget(Timestamp(300), Timestamp(200), NO_LIMIT).await, Ok(1));
    assert_eq!(bench.store.forget(Timestamp(300), Timestamp(200), NO_LIMIT).await, Ok(0));
    assert_eq!(bench.store.admit(redelivered(&key("young"), 1, 300)).await, Ok(Admitted::Resent));
    assert_eq!(bench.store.admit(redelivered(&key("due"), 1, 300)).await, Ok(Admitted::Resent));
    assert_eq!(bench.store.admit(redelivered(&key("active"), 1, 300)).await, Ok(Admitted::Redelivered));
    assert_eq!(bench.store.admit(redelivered(&key("old"), 1, 300)).await, Ok(Admitted::Accepted), "forgotten, so it is new");
    bench.deliver_all().await;
    assert_eq!(bench.store.forget(Timestamp(300), Timestamp(200), NO_LIMIT).await, Ok(1), "delivered now");
}

/// G1-17: over the size limit the oldest finished jobs go first.
async fn the_oldest_give_way_to_the_size_limit(bench: Bench) {
    const KIB: usize = 1024;
    let large = |ts| {
        let body = JsonText::trusted(format!("\"{}\"", "x".repeat(100 * KIB)));
        Outcome { ending: Ending::Done { kind: "result".into(), body }, ..done(ts) }
    };
    for (job, ts) in [("second", 200), ("first", 100), ("third", 300), ("due", 50)] {
        bench.store.admit(invoke(&key(job), 1, 10)).await.unwrap();
        if job == "due" {
            bench.deliver_all().await;
        }
        bench.store.finish(key(job), large(ts)).await.unwrap();
    }
    let limit = 350 * KIB as u64;
    assert_eq!(bench.store.forget(Timestamp(400), Timestamp(0), limit).await, Ok(1));
    assert_eq!(bench.store.forget(Timestamp(400), Timestamp(0), limit).await, Ok(0));
    let mut kept = Vec::new();
    for job in ["first", "second", "third", "due"] {
        let admitted = bench.store.admit(redelivered(&key(job), 1, 400)).await.unwrap();
        kept.push(admitted == Admitted::Resent);
    }
    assert_eq!(kept, [false, true, true, true], "the undelivered one is older, and stays");
    let bench = bench.reopened();
    bench.deliver_all().await;
    assert_eq!(bench.store.forget(Timestamp(400), Timestamp(0), 0).await, Ok(3), "the size is known after a restart too");
    assert_eq!(bench.store.unfinished(agent()).await.unwrap().len(), 1, "active jobs are never forgotten");
}

async fn tombstones_are_forgotten_in_time(bench: Bench) {
    let until = 10 + 300_000;
    for job in ["j1", "j2"] {
        bench.store.cancel(cancel(&key(job), 10)).await.unwrap();
    }
    assert_eq!(bench.store.forget(Timestamp(until - 1), Timestamp(0), NO_LIMIT).await, Ok(0));
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 20)).await, Ok(Admitted::CancelledAhead));
    assert_eq!(bench.store.forget(Timestamp(until), Timestamp(0), NO_LIMIT).await, Ok(0), "tombstones are not counted");
    assert_eq!(bench.store.admit(invoke(&key("j2"), 1, 20)).await, Ok(Admitted::Accepted));
}

/// One call forgets all there is, however many slices it takes, and other calls are served meanwhile.
async fn many_jobs_are_forgotten_in_one_call(bench: Bench) {
    for n in 0..MANY {
        drop(bench.store.admit(invoke(&key(&format!("j{n}")), 1, n)));
        drop(bench.store.finish(key(&format!("j{n}")), done(n + 1)));
    }
    let due = bench.store.due(agent(), 0, usize::MAX).await.unwrap();
    // Some rows at the old end stay due, so that a slice can find nothing to do and still has to go on.
    let stay: usize = 2500;
    bench.store.delivered(due[stay..].iter().map(|row| row.id).collect());
    let all = Timestamp(MANY + 10);
    let forgotten = bench.store.forget(all, all, NO_LIMIT);
    let between = bench.store.admit(invoke(&key("between"), 1, MANY));
    assert_eq!(between.await, Ok(Admitted::Accepted));
    assert_eq!(forgotten.await, Ok(MANY as u64 - stay as u64));
    assert_eq!(bench.due().await.len(), 1000, "a page of those that stayed");
}

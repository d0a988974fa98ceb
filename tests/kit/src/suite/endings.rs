//! How jobs end: once, with the outbox in order.

use job::clock::Timestamp;
use job::outcome::{Outcome, Usage};
use job::reason::Reason;
use job::store::{CancelOrder, Cancelled, StoreError};

use super::{Bench, Subject};
use crate::samples::{agent, cancel, cancelled, done, failed, invoke, key, key_of, queued, refused};

/// Rounds of the race; each has its own job.
const RACES: i64 = 64;

pub(super) async fn cases(make: &impl Fn() -> Box<dyn Subject>) {
    let bench = || Bench::over(make());
    a_job_ends_once(bench()).await;
    a_job_that_never_started_has_no_answer(bench()).await;
    a_cancel_that_wins_is_acknowledged_first(bench()).await;
    a_cancel_that_loses_changes_nothing(bench()).await;
    a_cancel_ends_only_as_cancelled(bench()).await;
    an_outcome_takes_the_place_of_notices(bench()).await;
    exactly_one_wins_the_race(bench()).await;
    the_courier_hears_in_the_order_of_the_calls(bench()).await;
    due_rows_come_in_pages(bench()).await;
    calls_take_effect_in_the_order_they_were_made(bench()).await;
}

/// S1-04, S1-43: the first end stands; every later one is told no, and nothing changes.
async fn a_job_ends_once(mut bench: Bench) {
    assert_eq!(bench.store.finish(key("j1"), done(5)).await, Ok(false), "no such job");
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    assert_eq!(bench.store.finish(key("j1"), done(20)).await, Ok(true));
    assert_eq!(bench.store.finish(key("j1"), failed(30)).await, Ok(false));
    assert_eq!(bench.store.finish(key("j1"), done(20)).await, Ok(false));
    assert_eq!(bench.store.start(key("j1")).await, Ok(false));
    assert_eq!(bench.courier.outcomes(&key("j1")), [done(20)]);
    assert_eq!(bench.told(), ["outcome review j1 @20"]);
    assert_eq!(bench.due_lines().await, ["outcome review j1 @20"]);
    let bench = bench.reopened();
    assert_eq!(bench.store.finish(key("j1"), failed(40)).await, Ok(false), "not after a restart either");
    assert_eq!(bench.due_lines().await, ["outcome review j1 @20"]);
}

/// The lifecycle table decides, in the store as in the engine.
async fn a_job_that_never_started_has_no_answer(mut bench: Bench) {
    bench.store.admit(queued(&key("j1"), 1, 10)).await.unwrap();
    assert!(matches!(bench.store.finish(key("j1"), done(20)).await, Err(StoreError::Failed(_))));
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.store.finish(key("j1"), failed(30)).await, Ok(true));
    // A job that runs is not refused any more.
    bench.store.admit(invoke(&key("j2"), 1, 40)).await.unwrap();
    let late = Outcome::ended(Reason::UnknownService, "gone", Usage::default(), Timestamp(50));
    assert!(matches!(bench.store.finish(key("j2"), late.clone()).await, Err(StoreError::Failed(_))));
    // After a restart it waits again, so it may be.
    let bench = bench.reopened();
    assert_eq!(bench.store.finish(key("j2"), late).await, Ok(true));
}

/// S1-45, S1-67: acknowledged first, then the outcome; the job's own end comes too late.
async fn a_cancel_that_wins_is_acknowledged_first(mut bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    bench.store.admit(queued(&key("j2"), 1, 10)).await.unwrap();
    for job in ["j1", "j2"] {
        assert_eq!(bench.store.cancel(cancel(&key(job), 20)).await, Ok(Cancelled::Won));
        assert_eq!(bench.told(), [format!("cancel_acknowledged {job} @20"), format!("outcome cancelled {job} @21")]);
        assert_eq!(bench.store.finish(key(job), done(30)).await, Ok(false));
        assert_eq!(bench.store.cancel(cancel(&key(job), 40)).await, Ok(Cancelled::Again));
        assert_eq!(bench.told(), [""; 0]);
    }
    let due = bench.due_lines().await;
    assert_eq!(
        due,
        ["cancel_acknowledged j1 @20", "outcome cancelled j1 @21", "cancel_acknowledged j2 @20", "outcome cancelled j2 @21"]
    );
}

/// G1-26, G1-27: a losing cancel leaves its event and nothing else.
async fn a_cancel_that_loses_changes_nothing(mut bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    bench.store.finish(key("j1"), done(20)).await.unwrap();
    assert_eq!(bench.store.cancel(cancel(&key("j1"), 30)).await, Ok(Cancelled::TooLate));
    assert_eq!(bench.store.cancel(cancel(&key("j1"), 40)).await, Ok(Cancelled::TooLate));
    assert_eq!(bench.told(), ["outcome review j1 @20", "cancel_rejected j1 @30", "cancel_rejected j1 @40"]);
    bench.deliver_all().await;
    // It left no tombstone: another request of that id is an ordinary one.
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 50)).await, Ok(job::store::Admitted::Resent));
    assert_eq!(bench.courier.outcomes(&key("j1")), [done(20)]);
}

async fn a_cancel_ends_only_as_cancelled(mut bench: Bench) {
    bench.store.admit(queued(&key("j1"), 1, 10)).await.unwrap();
    let order = CancelOrder { outcome: done(21), ..cancel(&key("j1"), 20) };
    assert!(matches!(bench.store.cancel(order).await, Err(StoreError::Failed(_))));
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.store.unfinished(agent()).await.unwrap().len(), 1);
}

/// G1-16: undelivered duplicate and rejection rows of the topic go with the outcome's commit, those of other topics stay.
async fn an_outcome_takes_the_place_of_notices(mut bench: Bench) {
    let ends = ["finish", "cancel"];
    for how in ends {
        let (mine, other) = (key(how), key_of("dba", "bob", how));
        for key in [&mine, &other] {
            bench.store.admit(invoke(key, 1, 10)).await.unwrap();
            bench.store.admit(invoke(key, 2, 20)).await.unwrap();
        }
        bench.store.admit(refused(&mine, 3, 30)).await.unwrap();
        bench.store.admit(invoke(&mine, 4, 40)).await.unwrap();
        // The first notice is delivered, so it is not to be withdrawn.
        let first = bench.due().await[0].id;
        bench.store.delivered(vec![first]);
        bench.told();
        match how {
            "finish" => assert_eq!(bench.store.finish(mine.clone(), done(50)).await, Ok(true)),
            _ => assert_eq!(bench.store.cancel(cancel(&mine, 50)).await, Ok(Cancelled::Won)),
        }
        let mut told = bench.told();
        told.retain(|line| line.starts_with("withdraw"));
        assert_eq!(told, [format!("withdraw rejected {how} @30"), format!("withdraw duplicate {how} @40")]);
        let due = bench.due_lines().await;
        assert_eq!(due[0], format!("duplicate {how} @20"), "bob's stays");
        assert!(due.last().unwrap().starts_with("outcome"), "{due:?}");
        assert_eq!(due.len(), if how == "finish" { 2 } else { 3 }, "{due:?}");
        bench.deliver_all().await;
    }
}

/// S1-45, G1-27: of a finish and a cancel at the same moment exactly one wins, and only its outcome is ever shown.
async fn exactly_one_wins_the_race(mut bench: Bench) {
    for round in 0..RACES {
        let key = key(&format!("race-{round}"));
        bench.store.admit(invoke(&key, 1, 10)).await.unwrap();
        // Both calls are under way at once from two threads; who starts alternates.
        let gate = std::sync::Barrier::new(2);
        let (finished, became) = std::thread::scope(|scope| {
            let finisher = scope.spawn(|| {
                gate.wait();
                bench.store.finish(key.clone(), done(20))
            });
            let canceller = scope.spawn(|| {
                gate.wait();
                bench.store.cancel(cancel(&key, 30))
            });
            (finisher.join().unwrap(), canceller.join().unwrap())
        });
        let (finished, became) = (finished.await.unwrap(), became.await.unwrap());
        let expected = if finished { (Cancelled::TooLate, done(20)) } else { (Cancelled::Won, cancelled(31)) };
        assert_eq!(became, expected.0);
        assert_eq!(bench.courier.outcomes(&key), [expected.1]);
        bench.told();
    }
}

/// Rows are told in commit order, and ids rise with it, over all jobs and over a restart.
async fn the_courier_hears_in_the_order_of_the_calls(bench: Bench) {
    let mut futures = Vec::new();
    for n in 0..300 {
        let key = key(&format!("j{n}"));
        drop(bench.store.admit(invoke(&key, 1, 10)));
        // A future that nobody waits for does its work all the same.
        if n % 3 == 0 {
            drop(bench.store.finish(key, done(20 + n)));
        } else {
            futures.push(bench.store.finish(key, done(20 + n)));
        }
    }
    for finished in futures {
        assert_eq!(finished.await, Ok(true));
    }
    let rows = bench.courier.due();
    let stamps: Vec<i64> = rows.iter().map(|row| row.item.outcome().unwrap().ts.0).collect();
    assert_eq!(stamps, (20..320).collect::<Vec<_>>());
    assert!(rows.windows(2).all(|pair| pair[0].id < pair[1].id));
    let last = rows.last().unwrap().id;
    let due = bench.due().await;
    assert_eq!(due, rows, "what was told is what is due");
    bench.deliver_all().await;
    let bench = bench.reopened();
    bench.store.admit(refused(&key("k1"), 1, 400)).await.unwrap();
    assert!(bench.courier.due()[0].id > last, "ids rise over a restart");
}

async fn due_rows_come_in_pages(bench: Bench) {
    for n in 0..5 {
        bench.store.admit(refused(&key(&format!("j{n}")), 1, n)).await.unwrap();
        bench.store.admit(refused(&key_of("linter", "alice", &format!("k{n}")), 1, n)).await.unwrap();
    }
    let mut after = 0;
    let mut seen = Vec::new();
    loop {
        let page = bench.store.due(agent(), after, 2).await.unwrap();
        assert!(page.len() <= 2 && page.iter().all(|row| *row.route.agent() == agent()));
        let Some(last) = page.last() else { break };
        after = last.id;
        seen.extend(page.iter().map(|row| row.item.outcome().unwrap().ts.0));
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    // Marks of unknown or repeated ids harm nobody.
    bench.store.delivered(vec![after, after, 1_000_000_000]);
    assert_eq!(bench.due().await.len(), 4);
}

/// Calls take effect in the order they were made, however their futures are awaited.
async fn calls_take_effect_in_the_order_they_were_made(bench: Bench) {
    let admitted = bench.store.admit(queued(&key("j1"), 1, 10));
    let started = bench.store.start(key("j1"));
    let duplicate = bench.store.admit(invoke(&key("j1"), 1, 11));
    let finished = bench.store.finish(key("j1"), done(20));
    let late = bench.store.cancel(cancel(&key("j1"), 30));
    let due = bench.store.due(agent(), 0, 10);
    assert_eq!(due.await.unwrap().len(), 2);
    assert_eq!(late.await, Ok(Cancelled::TooLate));
    assert_eq!(finished.await, Ok(true));
    assert_eq!(duplicate.await, Ok(job::store::Admitted::Duplicate));
    assert_eq!(started.await, Ok(true));
    assert_eq!(admitted.await, Ok(job::store::Admitted::Accepted));
}

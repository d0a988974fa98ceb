//! What each verdict stores and says.

use job::admission::Memory;
use job::clock::Timestamp;
use job::store::{Admitted, Arrival, Cancelled, Intent, StoreError};

use super::{Bench, Subject};
use crate::samples::{MEMORY, agent, cancel, done, failed, invoke, key, key_of, queued, redelivered, refused};

pub(super) async fn cases(make: &impl Fn() -> Box<dyn Subject>) {
    let bench = || Bench::over(make());
    a_fresh_request_becomes_a_job(bench()).await;
    a_refused_request_is_answered_and_not_remembered(bench()).await;
    another_request_for_an_active_job_is_a_duplicate(bench()).await;
    a_redelivery_of_an_active_job_says_nothing(bench()).await;
    an_ended_job_answers_again(bench()).await;
    an_undelivered_outcome_is_put_out_anew(bench()).await;
    memory_has_two_windows(bench()).await;
    a_new_job_takes_the_place_of_an_ended_one(bench()).await;
    undelivered_outcomes_outlive_several_successors(bench()).await;
    a_cancel_that_came_first_wins(bench()).await;
    a_refusal_leaves_the_tombstone(bench()).await;
    a_tombstone_stands_for_its_time_only(bench()).await;
    a_tombstone_serves_once(bench()).await;
    keys_are_separate_in_every_part(bench()).await;
    an_answer_is_no_refusal(bench()).await;
}

/// S1-58: what is admitted is in the journal, whether it starts at once or waits.
async fn a_fresh_request_becomes_a_job(mut bench: Bench) {
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 10)).await, Ok(Admitted::Accepted));
    assert_eq!(bench.store.admit(queued(&key("j2"), 1, 11)).await, Ok(Admitted::Accepted));
    assert_eq!(bench.told(), [""; 0], "an accepted job has no row in the outbox");
    let held = bench.store.unfinished(agent()).await.unwrap();
    let shown: Vec<(&str, u32)> = held.iter().map(|job| (job.key.job.as_str(), job.attempts)).collect();
    assert_eq!(shown, [("j1", 1), ("j2", 0)]);
    assert_eq!((held[0].hash, held[0].accepted.0), ([1; 32], 10));
}

/// G1-17: a rejection is not remembered, so an obedient retry runs.
async fn a_refused_request_is_answered_and_not_remembered(mut bench: Bench) {
    assert_eq!(bench.store.admit(refused(&key("j1"), 1, 10)).await, Ok(Admitted::Refused));
    assert_eq!(bench.told(), ["rejected j1 @10"]);
    assert!(bench.store.unfinished(agent()).await.unwrap().is_empty());
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 20)).await, Ok(Admitted::Accepted));
}

/// S1-44: same bytes or other bytes, a second invoke of an active job is a duplicate, later than the first.
async fn another_request_for_an_active_job_is_a_duplicate(mut bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 20)).await, Ok(Admitted::Duplicate));
    assert_eq!(bench.store.admit(redelivered(&key("j1"), 2, 21)).await, Ok(Admitted::Duplicate));
    // Its stamp is later than the job's first even when the clock jumped back.
    assert_eq!(bench.store.admit(invoke(&key("j1"), 3, 5)).await, Ok(Admitted::Duplicate));
    assert_eq!(bench.store.admit(refused(&key("j1"), 3, 30)).await, Ok(Admitted::Refused));
    assert_eq!(bench.told(), ["duplicate j1 @20", "duplicate j1 @21", "duplicate j1 @11", "rejected j1 @30"]);
    assert_eq!(bench.store.unfinished(agent()).await.unwrap().len(), 1);
}

/// G1-45: a redelivery is no duplicate, whatever the engine would have done with it.
async fn a_redelivery_of_an_active_job_says_nothing(mut bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    assert_eq!(bench.store.admit(redelivered(&key("j1"), 1, 20)).await, Ok(Admitted::Redelivered));
    let refused = Arrival { intent: refused(&key("j1"), 1, 21).intent, ..redelivered(&key("j1"), 1, 21) };
    assert_eq!(bench.store.admit(refused).await, Ok(Admitted::Redelivered));
    assert_eq!(bench.told(), [""; 0]);
}

/// G1-17, G1-37: the stored outcome goes out again, the same in every word, as often as it is asked for.
async fn an_ended_job_answers_again(mut bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    bench.store.finish(key("j1"), done(20)).await.unwrap();
    for at in [30, 40] {
        bench.deliver_all().await;
        bench.told();
        assert_eq!(bench.store.admit(invoke(&key("j1"), 1, at)).await, Ok(Admitted::Resent));
        assert_eq!(bench.courier.outcomes(&key("j1")), [done(20)]);
    }
    // A redelivered request is answered from memory even if the engine would refuse it now.
    bench.deliver_all().await;
    bench.told();
    assert_eq!(bench.store.admit(refused(&key("j1"), 1, 50)).await, Ok(Admitted::Resent));
    assert_eq!(bench.told(), ["outcome review j1 @20"]);
}

/// G1-16, G1-17: whoever asks again is answered even if the first answer's delivery is not noted yet, and one row stands.
async fn an_undelivered_outcome_is_put_out_anew(mut bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    bench.store.finish(key("j1"), done(20)).await.unwrap();
    bench.told();
    assert_eq!(bench.store.admit(redelivered(&key("j1"), 1, 30)).await, Ok(Admitted::Resent));
    assert_eq!(bench.told(), ["withdraw outcome review j1 @20", "outcome review j1 @20"]);
    assert_eq!(bench.due_lines().await, ["outcome review j1 @20"]);
}

/// G1-17: a redelivery finds its result for the longer window, equal bytes for the shorter.
async fn memory_has_two_windows(bench: Bench) {
    let memory = Memory { remember_ms: 1000, resend_window_ms: 100 };
    let with = |arrival: Arrival| Arrival { memory, ..arrival };
    bench.store.admit(invoke(&key("j1"), 1, 0)).await.unwrap();
    bench.store.finish(key("j1"), done(10)).await.unwrap();
    for (arrival, expected) in [
        (invoke(&key("j1"), 1, 110), Admitted::Resent),
        (redelivered(&key("j1"), 1, 1010), Admitted::Resent),
        (invoke(&key("j1"), 1, 111), Admitted::Accepted),
    ] {
        assert_eq!(bench.store.admit(with(arrival)).await, Ok(expected));
    }
}

/// G1-17: other bytes are a new job; what the old one has not delivered still goes out, before the new one's outcome.
async fn a_new_job_takes_the_place_of_an_ended_one(bench: Bench) {
    bench.store.admit(invoke(&key("j1"), 1, 10)).await.unwrap();
    bench.store.finish(key("j1"), done(20)).await.unwrap();
    assert_eq!(bench.store.admit(invoke(&key("j1"), 2, 30)).await, Ok(Admitted::Accepted));
    assert_eq!(bench.store.unfinished(agent()).await.unwrap()[0].accepted.0, 30);
    let mut bench = bench.reopened();
    assert_eq!(bench.due_lines().await, ["outcome review j1 @20"]);
    assert_eq!(bench.store.start(key("j1")).await, Ok(true));
    assert_eq!(bench.store.finish(key("j1"), failed(40)).await, Ok(true));
    assert_eq!(bench.told(), ["outcome error j1 @40"]);
    let due = bench.due().await;
    assert_eq!(due.iter().map(|row| row.item.outcome().cloned().unwrap()).collect::<Vec<_>>(), [done(20), failed(40)]);
}

async fn undelivered_outcomes_outlive_several_successors(bench: Bench) {
    for n in 1..=3 {
        bench.store.admit(invoke(&key("j1"), n, i64::from(n) * 10)).await.unwrap();
        bench.store.finish(key("j1"), done(i64::from(n) * 10 + 5)).await.unwrap();
    }
    assert_eq!(bench.due_lines().await, ["outcome review j1 @15", "outcome review j1 @25", "outcome review j1 @35"]);
    let due = bench.due().await;
    bench.store.delivered(vec![due[2].id]);
    assert_eq!(bench.due_lines().await, ["outcome review j1 @15", "outcome review j1 @25"]);
    // The delivered one is the newest job's, so it is what a redelivery gets.
    assert_eq!(bench.store.admit(redelivered(&key("j1"), 3, 60)).await, Ok(Admitted::Resent));
    assert_eq!(bench.due_lines().await.last().unwrap(), "outcome review j1 @35");
}

/// S1-46, G1-25: acknowledged, cancelled, in this order, with rising stamps, and no work; once.
async fn a_cancel_that_came_first_wins(mut bench: Bench) {
    assert_eq!(bench.store.cancel(cancel(&key("j1"), 10)).await, Ok(Cancelled::Unknown));
    // The clock stands still, or jumped back: stamps rise all the same.
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 10)).await, Ok(Admitted::CancelledAhead));
    assert_eq!(bench.told(), ["cancel_rejected j1 @10", "cancel_acknowledged j1 @11", "outcome cancelled j1 @12"]);
    assert!(bench.store.unfinished(agent()).await.unwrap().is_empty());
    assert_eq!(bench.store.finish(key("j1"), done(20)).await, Ok(false));
    assert_eq!(bench.store.cancel(cancel(&key("j1"), 30)).await, Ok(Cancelled::Again));
    assert_eq!(bench.told(), [""; 0]);
    // It is an ended job like any other now, and the tombstone is used up.
    assert_eq!(bench.store.admit(redelivered(&key("j1"), 1, 40)).await, Ok(Admitted::Resent));
    assert_eq!(bench.store.admit(invoke(&key("j1"), 2, 50)).await, Ok(Admitted::Accepted));
}

async fn a_refusal_leaves_the_tombstone(mut bench: Bench) {
    bench.store.cancel(cancel(&key("j1"), 10)).await.unwrap();
    bench.told();
    assert_eq!(bench.store.admit(refused(&key("j1"), 1, 20)).await, Ok(Admitted::Refused));
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, 30)).await, Ok(Admitted::CancelledAhead));
    assert!(bench.told().contains(&"withdraw rejected j1 @20".to_owned()), "undelivered, so the outcome takes its place");
    assert_eq!(bench.due_lines().await, ["cancel_rejected j1 @10", "cancel_acknowledged j1 @30", "outcome cancelled j1 @31"]);
}

/// G1-25: a tombstone stands until its time, survives a restart, and another cancel prolongs it.
async fn a_tombstone_stands_for_its_time_only(bench: Bench) {
    let until = 10 + 300_000;
    for job in ["j1", "j2", "j3"] {
        bench.store.cancel(cancel(&key(job), 10)).await.unwrap();
    }
    assert_eq!(bench.store.cancel(cancel(&key("j3"), 1000)).await, Ok(Cancelled::Unknown));
    let bench = bench.reopened();
    assert_eq!(bench.store.admit(invoke(&key("j1"), 1, until - 1)).await, Ok(Admitted::CancelledAhead));
    assert_eq!(bench.store.admit(invoke(&key("j2"), 1, until)).await, Ok(Admitted::Accepted));
    assert_eq!(bench.store.admit(invoke(&key("j3"), 1, until)).await, Ok(Admitted::CancelledAhead));
}

/// A tombstone serves one invoke, or none if it came too late; a clock that jumps back does not raise it again.
async fn a_tombstone_serves_once(bench: Bench) {
    let after = Timestamp(1_000_000);
    for (job, at, admitted) in [("j1", 20, Admitted::CancelledAhead), ("j2", 400_000, Admitted::Accepted)] {
        bench.store.cancel(cancel(&key(job), 10)).await.unwrap();
        assert_eq!(bench.store.admit(invoke(&key(job), 1, at)).await, Ok(admitted));
        bench.store.finish(key(job), done(at + 1)).await.unwrap();
        bench.deliver_all().await;
        assert_eq!(bench.store.forget(Timestamp(0), after, u64::MAX).await, Ok(1), "the job is unknown again");
        assert_eq!(bench.store.admit(invoke(&key(job), 1, 30)).await, Ok(Admitted::Accepted), "{job}");
    }
}

/// G1-18: the same job id under two owners, or at two agents, is two jobs.
async fn keys_are_separate_in_every_part(mut bench: Bench) {
    let keys =
        [key_of("dba", "alice", "j1"), key_of("dba", "bob", "j1"), key_of("linter", "alice", "j1"), key_of("dba", "alice", "J1")];
    for key in &keys {
        assert_eq!(bench.store.admit(invoke(key, 1, 10)).await, Ok(Admitted::Accepted), "{key}");
    }
    assert_eq!(bench.store.cancel(cancel(&key_of("dba", "carol", "j1"), 20)).await, Ok(Cancelled::Unknown));
    assert_eq!(bench.store.finish(keys[0].clone(), done(30)).await, Ok(true));
    assert_eq!(bench.store.unfinished(agent()).await.unwrap().len(), 2);
    assert_eq!(bench.told(), ["cancel_rejected j1 @20", "outcome review j1 @30"]);
}

/// The lifecycle has no way from arriving to done, so the store refuses it and stores nothing.
async fn an_answer_is_no_refusal(mut bench: Bench) {
    let arrival = Arrival { intent: Intent::Refuse(done(10)), memory: MEMORY, ..invoke(&key("j1"), 1, 10) };
    assert!(matches!(bench.store.admit(arrival).await, Err(StoreError::Failed(_))));
    assert_eq!(bench.told(), [""; 0]);
    assert!(bench.due().await.is_empty());
}

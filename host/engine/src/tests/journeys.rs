//! One job at a time: every way in, every way to end.

use super::*;
use job::executor::End;
use job::outcome::Ending;
use job::status::Severity;
use job::store::{Cancelled, StoreError};
use kit::Act;

fn message_of(outcome: &job::outcome::Outcome) -> (&str, &str) {
    match &outcome.ending {
        Ending::Ended { message, extra, .. } => (message, extra.as_str()),
        Ending::Done { .. } => panic!("the guest answered"),
    }
}

/// S1-35, S1-04, S1-74: accepted, then started, then one terminal; the guest gets the rendered prompt and the arguments.
#[tokio::test(start_paused = true)]
async fn a_job_is_accepted_started_and_answered_once() {
    let rig = Rig::new(ScriptedGuest::playing(vec![
        Act::Say("looking".into()),
        Act::End(End::Answered { kind: Some("review".into()), body: r#"{"verdict":"OK"}"#.into() }),
    ]));
    let key = rig.accepted(request("j")).await;
    let outcome = rig.courier.outcome_of(&key).await;
    assert_eq!(outcome.kind(), "review");
    assert_eq!(outcome.usage.attempt, 1);
    assert_eq!(kinds(&rig.courier.events(&key)), ["accepted", "started", "progress looking"]);
    let work = &rig.guest.runs()[0];
    assert_eq!(&*work.prompt, "Review ALTER.");
    assert_eq!(work.args.as_str(), r#"{"migration":"ALTER"}"#);
    assert_eq!(rig.courier.outcomes(&key).len(), 1);
}

/// S1-33, G1-38: within a job every stamp is later than the one before, and the result's is the latest.
#[tokio::test(start_paused = true)]
async fn stamps_rise_while_the_clock_falls() {
    let rig = Rig::new(ScriptedGuest::playing(vec![Act::Hold, Act::Say("a".into()), Act::Say("b".into())]));
    let key = rig.accepted(request("j")).await;
    rig.guest.wait_runs(1).await;
    rig.clock.set(NOW - 7_200_000);
    rig.guest.go_on(1);
    let outcome = rig.courier.outcome_of(&key).await;
    let told = rig.courier.told();
    let stamps: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            kit::Told::Announce(event, _) => Some(event.ts),
            kit::Told::Deliver(_) | kit::Told::Withdraw(..) => None,
        })
        .chain([outcome.ts])
        .collect();
    assert!(stamps.len() == 5 && stamps.windows(2).all(|pair| pair[0] < pair[1]), "{stamps:?}");
}

/// S1-39, S1-40, S1-44, S1-44b, S1-58, G1-8, G1-29: refused before any work, with its reason, and nothing ran or was said.
#[tokio::test(start_paused = true)]
async fn refusals_name_their_reason_and_start_nothing() {
    let rig = Rig::new(ScriptedGuest::answering("{}"));
    let deep = |depth| Submission { lineage: Lineage { depth, ..request("d").lineage }, ..request("d") };
    let rows = [
        (request_of("no.such", "a"), "unknown_service"),
        (deep(5), "depth_exceeded"),
        (Submission { args: JsonText::trusted(r#"{"pr":"seven"}"#), ..request_of("strict.one", "c") }, "schema"),
    ];
    for (submission, reason) in rows {
        let key = submission.key.clone();
        assert_eq!(rig.submit(submission).await, Ok(Admitted::Refused));
        let due = rig.due(&key);
        let [Item::Rejection(outcome)] = due.as_slice() else { panic!("{due:?}") };
        assert_eq!(outcome.reason().map(|reason| reason.word()), Some(reason));
        assert!(rig.courier.events(&key).is_empty());
        if reason == "depth_exceeded" {
            assert!(message_of(outcome).1.contains(r#""maxDepth":4"#));
        }
    }
    assert!(rig.guest.runs().is_empty());
    let key = rig.accepted(deep(4)).await;
    rig.courier.outcome_of(&key).await;
}

/// S1-42, S1-45, S1-46, G1-45: a second invoke of an active job is a duplicate unless it is the same message again.
#[tokio::test(start_paused = true)]
async fn an_active_job_is_not_run_twice() {
    let rig = Rig::new(ScriptedGuest::holding());
    let key = rig.accepted(request("j")).await;
    rig.guest.wait_runs(1).await;
    assert_eq!(rig.submit(request("j")).await, Ok(Admitted::Duplicate));
    let again = Submission { redelivered: true, ..request("j") };
    assert_eq!(rig.submit(again).await, Ok(Admitted::Redelivered));
    assert_eq!(rig.due(&key).len(), 1, "one duplicate notice, nothing for the redelivery");
    rig.guest.go_on(1);
    assert_eq!(rig.courier.outcome_of(&key).await.kind(), "result");
    assert!(matches!(rig.due(&key).as_slice(), [Item::Outcome(_)]), "the notice gave way to the outcome");
    assert_eq!(rig.guest.runs().len(), 1);
}

/// S1-42d, S1-42e, S1-41, G1-17: a finished job answers for itself, other bytes run anew, other owners are other jobs.
#[tokio::test(start_paused = true)]
async fn a_finished_id_answers_or_runs_by_its_bytes() {
    let rig = Rig::new(ScriptedGuest::answering("{}"));
    let key = rig.accepted(request("j")).await;
    rig.courier.outcome_of(&key).await;
    assert_eq!(rig.submit(request("j")).await, Ok(Admitted::Resent));
    assert_eq!(rig.guest.runs().len(), 1);
    rig.accepted(Submission { hash: [2; 32], ..request("j") }).await;
    rig.guest.wait_runs(2).await;
    let other = rig.accepted(owned("bob", request("j"))).await;
    rig.courier.outcome_of(&other).await;
    assert_eq!(rig.guest.runs().len(), 3);
}

/// S1-37, S1-65, S1-65b, S1-66, S1-67, S1-69, S1-70: a cancel is acknowledged, then cancelled, then there is silence.
#[tokio::test(start_paused = true)]
async fn a_cancel_stops_the_guest_and_silences_the_job() {
    let rig = Rig::new(ScriptedGuest::playing(vec![Act::Hold, Act::Say("late".into())]));
    let key = rig.accepted(request("j")).await;
    rig.guest.wait_runs(1).await;
    assert_eq!(rig.engine.cancel(key.clone()).await, Ok(Cancelled::Won));
    let due = rig.due(&key);
    let [Item::CancelAcknowledged(acknowledged), Item::Outcome(outcome)] = due.as_slice() else { panic!("{due:?}") };
    assert!(*acknowledged < outcome.ts);
    assert_eq!(outcome.reason().map(|reason| reason.word()), Some("requested"));
    assert_eq!(outcome.usage.attempt, 1);
    assert!(matches!(rig.guest.wait_ends(1).await[0].1, End::Stopped));
    assert_eq!(rig.engine.cancel(key.clone()).await, Ok(Cancelled::Again));
    assert_eq!(rig.due(&key).len(), 2, "a second cancel publishes nothing");
    for told in rig.courier.told() {
        if let kit::Told::Announce(event, _) = told {
            assert!(!event.gate.is_open(), "events still queued at a door are silenced");
        }
    }
    assert_eq!(rig.engine.counts(), (0, 0, 0));
}

/// S1-37b: a job that waits is cancelled without ever starting.
#[tokio::test(start_paused = true)]
async fn a_queued_job_is_cancelled_without_work() {
    let rig = Rig::new(ScriptedGuest::holding());
    rig.accepted(request_of("narrow.one", "first")).await;
    rig.guest.wait_runs(1).await;
    let key = rig.accepted(request_of("narrow.one", "second")).await;
    assert_eq!(rig.engine.cancel(key.clone()).await, Ok(Cancelled::Won));
    assert_eq!(kinds(&rig.courier.events(&key)), ["accepted"]);
    assert_eq!(rig.courier.outcome_of(&key).await.usage.attempt, 0);
    rig.guest.go_on(8);
    rig.courier.outcome_of(&samples::key("first")).await;
    assert_eq!(rig.guest.runs().len(), 1);
}

/// G1-25, G1-26: a cancel ahead of its invoke leaves a tombstone; a cancel after the end changes nothing.
#[tokio::test(start_paused = true)]
async fn cancels_of_unknown_and_finished_jobs_change_no_result() {
    for sync_full in [false, true] {
        cancels_change_no_result(Settings { sync_full, ..settings() }).await;
    }
}

async fn cancels_change_no_result(settings: Settings) {
    let rig = Rig::with(ScriptedGuest::answering("{}"), settings, MemoryJournal::default(), CATALOG);
    let key = samples::key("j");
    assert_eq!(rig.engine.cancel(key.clone()).await, Ok(Cancelled::Unknown));
    assert_eq!(rig.submit(request("j")).await, Ok(Admitted::CancelledAhead));
    assert_eq!(rig.reason_of(&key).await, "requested");
    assert!(rig.guest.runs().is_empty() && rig.courier.events(&key).is_empty());

    let done = rig.accepted(request("done")).await;
    rig.courier.outcome_of(&done).await;
    assert_eq!(rig.engine.cancel(done.clone()).await, Ok(Cancelled::TooLate));
    assert!(matches!(rig.due(&done).as_slice(), [Item::Outcome(_), Item::CancelRejected(_)]));
}

/// S1-36, DC-04: the watchdog ends a job that does not end, by the clock or by fuel.
#[tokio::test(start_paused = true)]
async fn the_watchdog_ends_what_does_not_end() {
    let rig = Rig::new(ScriptedGuest::holding());
    let key = rig.accepted(request("slow")).await;
    let outcome = rig.courier.outcome_of(&key).await;
    assert_eq!(outcome.reason().map(|reason| reason.word()), Some("deadline"));
    assert_eq!(outcome.usage.wall_ms, LIMITS.timeout_ms);
    rig.guest.always(vec![Act::End(End::OutOfFuel)]);
    let key = rig.accepted(request("hungry")).await;
    assert_eq!(rig.reason_of(&key).await, "fuel");
}

/// G1-52: the publisher's own expiry passes while the job waits for its turn.
#[tokio::test(start_paused = true)]
async fn a_request_may_expire_in_the_queue() {
    let rig = Rig::new(ScriptedGuest::holding());
    rig.accepted(request_of("narrow.one", "first")).await;
    let waiting = Submission { expires: Some(at(NOW + 200)), ..request_of("narrow.one", "second") };
    let key = rig.accepted(waiting).await;
    assert_eq!(rig.reason_of(&key).await, "deadline");
    assert_eq!(rig.courier.outcome_of(&key).await.usage.attempt, 0);
}

/// G1-43: past the queue's limit a request is told when to come again, and an obedient retry runs.
#[tokio::test(start_paused = true)]
async fn an_overloaded_node_says_when_to_come_again() {
    let rig = Rig::new(ScriptedGuest::holding());
    for nth in 0..24 {
        rig.accepted(request(&format!("j{nth}"))).await;
    }
    let key = samples::key("over");
    assert_eq!(rig.submit(request("over")).await, Ok(Admitted::Refused));
    let due = rig.due(&key);
    let [Item::Rejection(outcome)] = due.as_slice() else { panic!("{due:?}") };
    assert_eq!(outcome.reason().map(|reason| reason.word()), Some("overloaded"));
    assert!(message_of(outcome).1.contains("retryAfterMs"));
    rig.guest.go_on(100);
    rig.courier.outcome_of(&samples::key("j23")).await;
    rig.accepted(request("over")).await;
    rig.courier.outcome_of(&key).await;
}

/// G1-5, S1-83, S1-83b, invariant 7: a missing variable is an error by name; a resolved secret leaves by no way.
#[tokio::test(start_paused = true)]
async fn secrets_reach_the_guest_and_nobody_else() {
    let rig = Rig::new(ScriptedGuest::playing(vec![
        Act::Say("the token is hunter2-hunter2".into()),
        Act::End(End::Answered { kind: None, body: r#"{"token":"hunter2-hunter2"}"#.into() }),
    ]));
    let key = rig.accepted(request_of("with.secret", "j")).await;
    let outcome = rig.courier.outcome_of(&key).await;
    assert_eq!(&*rig.guest.runs()[0].prompt, "use hunter2-hunter2 for ");
    assert!(!format!("{outcome:?} {:?}", rig.courier.events(&key)).contains("hunter2"));
    let Ending::Done { body, .. } = &outcome.ending else { panic!("{outcome:?}") };
    assert_eq!(body.as_str(), r#"{"token":"[redacted TOKEN]"}"#);
    assert_eq!(outcome.usage.redacted[0].name, "TOKEN");
    assert!(kinds(&rig.courier.events(&key)).iter().any(|event| event.contains("what")), "the missing argument is named");
}

/// S1-34: a hundred progress events arrive in order.
#[tokio::test(start_paused = true)]
async fn progress_keeps_its_order() {
    let rig = Rig::new(ScriptedGuest::playing((0..100).map(|nth| Act::Say(nth.to_string())).collect()));
    let key = rig.accepted(request("j")).await;
    rig.courier.outcome_of(&key).await;
    let said: Vec<String> = (0..100).map(|nth| format!("progress {nth}")).collect();
    assert_eq!(kinds(&rig.courier.events(&key))[2..], said);
}

/// G1-49: with a slow disk an idempotent job runs while its row waits, unheard, and shares the commit; another one waits.
#[tokio::test(start_paused = true)]
async fn only_idempotent_jobs_run_ahead_of_their_commit() {
    let settings = Settings { sync_full: true, ..settings() };
    let rig = Rig::with(ScriptedGuest::answering("{}"), settings, MemoryJournal::default(), CATALOG);
    rig.journal.hold();
    let ahead = tokio::spawn(rig.engine.submit(request("ahead")));
    let patient = tokio::spawn(rig.engine.submit(request_of("once.only", "patient")));
    rig.guest.wait_runs(1).await;
    while rig.journal.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.guest.runs().len(), 1, "the job that may not run twice waits for its commit");
    assert!(rig.courier.told().is_empty() && !ahead.is_finished() && !patient.is_finished());
    rig.journal.resume();
    assert_eq!(ahead.await.expect("join"), Ok(Admitted::Accepted));
    assert_eq!(patient.await.expect("join"), Ok(Admitted::Accepted));
    rig.courier.outcome_of(&samples::key("patient")).await;
    assert_eq!(kinds(&rig.courier.events(&samples::key("ahead"))), ["accepted", "started"]);
    let is_ahead = |told: &kit::Told| match told {
        kit::Told::Announce(event, _) => event.key == samples::key("ahead"),
        kit::Told::Deliver(row) => row.route == job::store::Route::Mesh(samples::key("ahead")),
        kit::Told::Withdraw(..) => false,
    };
    let told: Vec<_> = rig.courier.told().into_iter().filter(is_ahead).collect();
    assert!(matches!(told.last(), Some(kit::Told::Deliver(_))), "the outcome came before a milestone: {told:?}");
}

/// G1-51: a full disk leaves requests unacknowledged, lets running jobs wait with their outcome, and says so.
#[tokio::test(start_paused = true)]
async fn a_full_disk_loses_nothing() {
    let rig = Rig::new(ScriptedGuest::holding());
    let running = rig.accepted(request("running")).await;
    rig.guest.wait_runs(1).await;
    rig.journal.fail_with(Some(StoreError::Full("no space".into())));
    assert!(matches!(rig.submit(request("new")).await, Err(Unavailable::Store(StoreError::Full(_)))));
    assert_eq!(rig.board.worst(), Some(Severity::Down));
    rig.guest.go_on(1);
    rig.guest.wait_ends(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(rig.courier.outcomes(&running).is_empty());
    rig.journal.fail_with(None);
    rig.courier.outcome_of(&running).await;
    assert_eq!(rig.board.worst(), None);
    rig.guest.go_on(1);
    rig.accepted(request("new")).await;
}

/// U23, G1-23: a prompt that goes round for long ends at the job's deadline, and others do not wait for it.
#[tokio::test]
async fn a_prompt_that_loops_keeps_to_the_deadline() {
    let catalog = r##"[
      { "service": "loop.er", "description": "d", "executor": "g.wasm", "limits": { "timeoutMs": 50 },
        "prompt": "{{#each xs}}{{#each ../xs}}{{#each ../../xs}}{{#each ../../../xs}}{{/each}}{{/each}}{{/each}}{{/each}}" },
      { "service": "schema.review", "description": "d", "prompt": "x", "executor": "g.wasm" }
    ]"##;
    let rig = Rig::with(ScriptedGuest::answering("{}"), settings(), MemoryJournal::default(), catalog);
    let xs = format!(r#"{{"xs":[{}1]}}"#, "1,".repeat(999));
    let looping = Submission { args: JsonText::trusted(xs), ..request_of("loop.er", "slow") };
    let slow = rig.accepted(looping).await;
    let quick = rig.accepted(request("quick")).await;
    rig.courier.outcome_of(&quick).await;
    assert!(rig.courier.outcomes(&slow).is_empty(), "the quick one did not wait");
    assert!(["deadline", "template"].contains(&rig.reason_of(&slow).await));
}

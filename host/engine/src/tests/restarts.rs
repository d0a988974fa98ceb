//! Stops and restarts: what waits is kept, what ran runs again or says why not.

use std::time::Duration;

use super::*;

const GRACE: Duration = Duration::from_secs(20);

/// S1-87b, G1-42: a polite stop keeps the queue and the unfinished in the journal, and counts no attempt.
#[tokio::test(start_paused = true)]
async fn a_polite_stop_keeps_what_a_crash_would_keep() {
    let rig = Rig::new(ScriptedGuest::holding());
    let limits = r#"[{ "service": "schema.review", "description": "d", "prompt": "x", "executor": "g.wasm",
        "limits": { "timeoutMs": 1000 } }]"#;
    drop(rig);
    let rig = Rig::with(ScriptedGuest::holding(), settings(), MemoryJournal::default(), limits);
    for nth in 0..12 {
        rig.accepted(request(&format!("j{nth}"))).await;
    }
    rig.guest.wait_runs(8).await;
    let report = rig.engine.stop(Duration::from_millis(100)).await;
    assert_eq!((report.running, report.waiting, report.in_time), (8, 4, false));
    assert_eq!(rig.submit(request("late")).await, Err(Unavailable::Stopping));

    let next = rig.restarted();
    assert_eq!(next.engine.recover().await, Ok(12));
    for nth in 0..12 {
        let outcome = next.courier.outcome_of(&samples::key(&format!("j{nth}"))).await;
        assert_eq!((outcome.kind(), outcome.usage.attempt), ("result", 1));
    }
}

/// G1-42: jobs that end within the grace time end by themselves; one that may not run twice says shutdown.
#[tokio::test(start_paused = true)]
async fn running_jobs_have_their_grace() {
    let rig = Rig::new(ScriptedGuest::holding());
    let key = rig.accepted(request("quick")).await;
    rig.guest.wait_runs(1).await;
    let engine = rig.engine.clone();
    let stopping = tokio::spawn(async move { engine.stop(GRACE).await });
    tokio::task::yield_now().await;
    rig.guest.go_on(1);
    assert!(stopping.await.expect("join").in_time);
    assert_eq!(rig.reason_of(&key).await, "done");

    let rig = Rig::new(ScriptedGuest::holding());
    let key = rig.accepted(request_of("once.only", "once")).await;
    rig.guest.wait_runs(1).await;
    rig.engine.stop(Duration::from_millis(10)).await;
    assert_eq!(rig.reason_of(&key).await, "shutdown");
}

/// `run --retire`: every unfinished job ends with reason shutdown.
#[tokio::test(start_paused = true)]
async fn a_retired_node_ends_everything() {
    let rig = Rig::new(ScriptedGuest::holding());
    let key = rig.accepted(request("j")).await;
    rig.guest.wait_runs(1).await;
    let next = rig.restarted();
    next.engine.retire();
    assert_eq!(next.engine.recover().await, Ok(1));
    assert_eq!(next.reason_of(&key).await, "shutdown");
}

/// S1-47, G1-24: an interrupted job runs again, three times at most; one that may not run twice says interrupted at once.
#[tokio::test(start_paused = true)]
async fn an_interrupted_job_runs_again_at_most_three_times() {
    let first = Rig::new(ScriptedGuest::holding());
    let again = first.accepted(request("again")).await;
    let once = first.accepted(request_of("once.only", "once")).await;
    first.guest.wait_runs(2).await;

    let second = Rig::with(ScriptedGuest::holding(), settings(), first.journal.reopen(), CATALOG);
    assert_eq!(second.engine.recover().await, Ok(2));
    assert_eq!(second.reason_of(&once).await, "interrupted");
    assert_eq!(second.guest.wait_runs(1).await[0].attempt, 2);

    let third = Rig::with(ScriptedGuest::holding(), settings(), second.journal.reopen(), CATALOG);
    assert_eq!(third.engine.recover().await, Ok(1));
    assert_eq!(third.guest.wait_runs(1).await[0].attempt, 3);

    let fourth = third.restarted();
    assert_eq!(fourth.engine.recover().await, Ok(1));
    assert_eq!(fourth.reason_of(&again).await, "interrupted");
    assert!(fourth.guest.runs().is_empty());
}

/// G1-55 and its kind: a capability that is gone ends its waiting jobs with a word, not with silence.
#[tokio::test(start_paused = true)]
async fn a_job_whose_capability_is_gone_still_ends() {
    let rig = Rig::new(ScriptedGuest::holding());
    rig.accepted(request_of("narrow.one", "ran")).await;
    rig.guest.wait_runs(1).await;
    rig.accepted(request_of("narrow.one", "waited")).await;
    let empty = r#"[{ "service": "other.one", "description": "d", "prompt": "x", "executor": "g.wasm" }]"#;
    let next = Rig::with(ScriptedGuest::answering("{}"), settings(), rig.journal.reopen(), empty);
    assert_eq!(next.engine.recover().await, Ok(2));
    assert_eq!(next.reason_of(&samples::key("ran")).await, "interrupted");
    assert_eq!(next.reason_of(&samples::key("waited")).await, "unknown_service");
}

/// G1-38: after a restart with a clock that jumped back, the result's stamp is still the latest of its job.
#[tokio::test(start_paused = true)]
async fn stamps_rise_over_a_restart_with_an_earlier_clock() {
    let rig = Rig::new(ScriptedGuest::playing(vec![kit::Act::Hold, kit::Act::Say("late".into()), kit::Act::Hold]));
    let key = rig.accepted(request("j")).await;
    rig.guest.wait_runs(1).await;
    rig.clock.set(NOW + 60_000);
    rig.guest.go_on(1);
    let said = rig.courier.wait_until(|told| told.len() == 3).await;
    let Some(kit::Told::Announce(event, _)) = said.last() else { panic!("{said:?}") };
    let next = rig.restarted();
    next.clock.set(NOW - 7_200_000);
    next.engine.recover().await.expect("recovered");
    assert!(next.courier.outcome_of(&key).await.ts > event.ts);
}

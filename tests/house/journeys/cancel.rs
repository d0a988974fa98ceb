//! Cancelling: before, during and after, by the right owner and by a wrong one.
//!
//! Owns section 10 of the protocol document for a job without children.

use house::catalog::{Catalog, mischief};
use house::lab::{AGENT, Lab, OWNER};
use serde_json::json;

fn one_place() -> Lab {
    let catalog = Catalog::usual();
    catalog.file("long.json", &mischief("test.long", json!({"limits": {"timeoutMs": 60_000, "fuel": 1_000_000_000_000_u64}})));
    Lab::with(catalog, |config| {
        config.set("limits.max_running", 1).set("limits.max.fuel", 2_000_000_000_000_i64);
    })
}

/// S1-25, S1-37, S1-65, S1-65b, S1-66, S1-70: a running job is acknowledged, then cancelled, and its place is free at once.
#[test]
fn a_running_job_is_cancelled() {
    let lab = one_place();
    lab.invoke("run", "test.long", json!({"do": "loop"}));
    lab.event(OWNER, "run", "started");
    lab.cancel(OWNER, "run");
    let result = lab.result("run");
    assert_eq!((&result["type"], &result["reason"]), (&json!("cancelled"), &json!("requested")));
    lab.event(OWNER, "run", "cancel_acknowledged");
    let order: Vec<String> = lab.client.all().iter().filter_map(|m| m.json["type"].as_str().map(String::from)).collect();
    let place = |kind: &str| order.iter().position(|seen| seen == kind).unwrap();
    assert!(place("cancel_acknowledged") < place("cancelled"), "{order:?}");
    // The only place is free again, so the loop is over.
    assert_eq!(lab.ask("next", "test.echo", json!({"text": "my turn"}))["prompt"], "my turn");
    assert_eq!(lab.late("agents/jobs/alice/run/result")[0].json, result);
}

/// S1-37b: a job that waits for its turn is cancelled without ever starting.
#[test]
fn a_queued_job_is_cancelled_unstarted() {
    let lab = one_place();
    lab.invoke("busy", "test.long", json!({"do": "loop"}));
    lab.event(OWNER, "busy", "started");
    lab.invoke("wait", "test.echo", json!({"text": "x"}));
    lab.event(OWNER, "wait", "accepted");
    lab.cancel(OWNER, "wait");
    let result = lab.result("wait");
    assert_eq!((&result["type"], &result["usage"]["attempt"]), (&json!("cancelled"), &json!(0)), "{result}");
    lab.cancel(OWNER, "busy");
    lab.settle("end");
    assert_eq!(lab.event_types("wait"), ["accepted", "cancel_acknowledged"]);
}

/// S1-67, S1-69, G1-26: after `cancelled` nothing of the job is published any more, and a second cancel is silent.
#[test]
fn after_cancelled_there_is_silence() {
    let lab = one_place();
    lab.invoke("talk", "test.long", json!({"do": "progress_forever", "n": 10}));
    let events = lab.topic(OWNER, "talk", "events");
    lab.client.collect(0, 20, "some milestones", |m| m.topic == events && m.json["type"] == "progress");
    lab.cancel(OWNER, "talk");
    let result = lab.result("talk");
    assert_eq!(result["type"], "cancelled");
    lab.cancel(OWNER, "talk");
    lab.settle("end");
    let all = lab.client.all();
    let end = all.iter().position(|m| m.json["type"] == "cancelled").unwrap();
    let after: Vec<_> =
        all.iter().skip(end + 1).filter(|m| m.topic == events && m.json["type"] != "cancel_acknowledged").collect();
    assert!(after.is_empty(), "{after:?}");
    assert_eq!(lab.results(OWNER, "talk").len(), 1);
    assert_eq!(lab.event_types("talk").iter().filter(|kind| kind.starts_with("cancel_")).count(), 1);
}

/// G1-25, G1-26, S1-65: a cancel that overtakes its invoke is remembered; the invoke ends cancelled without work.
#[test]
fn a_cancel_may_overtake_its_invoke() {
    let lab = Lab::start();
    lab.cancel(OWNER, "early");
    let event = lab.event(OWNER, "early", "cancel_rejected");
    assert_eq!(event.json["reason"], "not_active");
    lab.invoke("early", "test.echo", json!({"text": "too late"}));
    let result = lab.result("early");
    assert_eq!((&result["type"], &result["reason"]), (&json!("cancelled"), &json!("requested")));
    lab.event(OWNER, "early", "cancel_acknowledged");
    lab.settle("end");
    assert_eq!(lab.event_types("early"), ["cancel_rejected", "cancel_acknowledged"]);
}

/// G1-25, G1-42: the tombstone outlives kill -9.
#[test]
fn a_tombstone_survives_a_crash() {
    let mut lab = Lab::start();
    lab.cancel(OWNER, "grave");
    lab.event(OWNER, "grave", "cancel_rejected");
    lab.kill();
    lab.up();
    assert_eq!(lab.ask("grave", "test.echo", json!({"text": "x"}))["type"], "cancelled");
}

/// G1-26: cancelling what has finished changes no result and says so in an event.
#[test]
fn a_finished_job_stays_as_it_is() {
    let lab = Lab::start();
    let result = lab.ask("done", "test.echo", json!({"text": "x"}));
    lab.cancel(OWNER, "done");
    assert_eq!(lab.event(OWNER, "done", "cancel_rejected").json["reason"], "not_active");
    lab.settle("end");
    assert_eq!(lab.results(OWNER, "done"), [result]);
}

/// G1-18, S1-41: a cancel names only its own owner's job: another's target is untouched, the answer goes to the claimant.
#[test]
fn nobody_cancels_for_another() {
    let lab = Lab::start();
    lab.invoke("mine", "test.mischief", json!({"do": "sleep", "n": 1000}));
    lab.event(OWNER, "mine", "started");
    lab.cancel("mallory", "mine");
    assert_eq!(lab.event("mallory", "mine", "cancel_rejected").json["reason"], "not_active");
    assert_eq!(lab.result("mine")["result"], "slept");
    lab.settle("end");
    assert_eq!(lab.event_types("mine"), ["accepted", "started"]);
}

/// G1-13, G1-20: a cancel without a requester or a job id, or no JSON at all, publishes nothing and harms nothing.
#[test]
fn a_malformed_cancel_is_only_counted() {
    let lab = Lab::start();
    let topic = format!("agents/commands/{AGENT}/cancel");
    for body in
        ["{}", r#"{"jobId":"x"}"#, r#"{"requestedBy":"alice"}"#, r#"{"jobId":7,"requestedBy":"alice"}"#, "not json", "", "[]"]
    {
        lab.client.publish(house::client::Outgoing::new(&topic, body));
    }
    lab.settle("end");
    assert!(lab.client.all().iter().all(|m| !m.topic.contains("/jobs/") || m.topic.contains("/settler/")));
    lab.cancel("", "nobody");
    assert_eq!(lab.event("public", "nobody", "cancel_rejected").json["reason"], "not_active");
}

/// G1-27, S1-69: cancel and completion race many times: exactly one wins, and the events agree with the result.
#[test]
fn cancel_and_completion_have_one_winner() {
    let lab = Lab::start();
    let jobs: Vec<String> = (0..80).map(|at| format!("race{at}")).collect();
    for (at, job) in jobs.iter().enumerate() {
        let order = lab.order(OWNER, job, "test.mischief", json!({"do": "work", "n": at * 3000}));
        let cancel = lab.command("cancel", &json!({"jobId": job, "requestedBy": OWNER}));
        lab.client.publish_all(vec![order, cancel]);
    }
    let results: Vec<_> = jobs.iter().map(|job| lab.result(job)).collect();
    lab.settle("end");
    for (job, result) in jobs.iter().zip(results) {
        let kinds = lab.event_types(job);
        let acknowledged = kinds.iter().any(|kind| kind == "cancel_acknowledged");
        match result["type"].as_str() {
            Some("cancelled") => assert!(acknowledged, "{job}: {kinds:?}"),
            Some("result") => assert!(!acknowledged && kinds.iter().any(|kind| kind == "cancel_rejected"), "{job}: {kinds:?}"),
            _ => panic!("{job} ended as {result}"),
        }
        assert_eq!(lab.results(OWNER, job).len(), 1, "{job}");
    }
}

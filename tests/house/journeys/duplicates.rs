//! The same job id again: duplicates, resends, redeliveries, reuse.
//!
//! Owns G1-16, G1-17 and G1-45 as a requester sees them.

use house::broker::{Broker, Style};
use house::catalog::Catalog;
use house::lab::{Lab, OWNER};
use house::proxy::Proxy;
use serde_json::json;

/// S1-42, S1-44b, G1-16: another invoke for an active id is a duplicate, the first run is undisturbed and has the last word.
#[test]
fn an_active_id_gives_duplicate_and_the_first_run_wins() {
    let lab = Lab::start();
    lab.invoke("dup", "test.mischief", json!({"do": "sleep", "n": 1500}));
    lab.event(OWNER, "dup", "started");
    lab.invoke("dup", "test.echo", json!({"text": "second"}));
    let topic = lab.topic(OWNER, "dup", "result");
    let notice = lab.client.next(0, "the duplicate notice", |m| m.topic == topic && m.json["type"] == "duplicate");
    assert_eq!((&notice.json["reason"], &notice.json["of"]), (&json!("active"), &json!("active")), "{}", notice.json);
    assert_eq!(lab.result("dup")["result"], "slept");
    lab.settle("end");
    assert_eq!(lab.event_types("dup"), ["accepted", "started"]);
    let late = lab.late(&topic);
    assert_eq!((late.len(), &late[0].json["result"]), (1, &json!("slept")));
}

/// S1-42c, S1-46, G1-16, G1-17: the same bytes twice in one burst, many times over: one run, and its result is what stays.
#[test]
fn racing_duplicates_leave_the_real_result() {
    let lab = Lab::start();
    let jobs: Vec<String> = (0..150).map(|at| format!("race{at}")).collect();
    let args = |at: usize| if at.is_multiple_of(3) { json!({"do": "sleep", "n": 30}) } else { json!({"do": "work", "n": 2000}) };
    let twice = |(at, job): (usize, &String)| {
        let order = lab.order(OWNER, job, "test.mischief", args(at));
        [order.clone(), order]
    };
    lab.client.publish_all(jobs.iter().enumerate().flat_map(twice).collect());
    for job in &jobs {
        assert_eq!(lab.result(job)["type"], "result");
    }
    lab.settle("end");
    let late = lab.late("agents/jobs/alice/+/result");
    assert_eq!(late.len(), jobs.len());
    for message in late {
        assert_eq!(message.json["type"], "result", "{} ended as {}", message.topic, message.json);
    }
    for job in &jobs {
        assert_eq!(lab.event_types(job).iter().filter(|kind| *kind == "started").count(), 1, "{job} ran twice");
    }
}

/// G1-17: the same bytes within the resend window bring the stored result again, without another run.
#[test]
fn the_same_bytes_bring_the_stored_result() {
    let lab = Lab::start();
    let first = lab.ask("again", "test.mischief", json!({"do": "work", "n": 10}));
    let mark = lab.client.mark();
    lab.invoke("again", "test.mischief", json!({"do": "work", "n": 10}));
    assert_eq!(lab.result_as(OWNER, "again", mark), first);
    lab.settle("end");
    assert_eq!(lab.event_types("again").iter().filter(|kind| *kind == "started").count(), 1);
}

/// S1-42d, S1-42e, G1-17: other bytes under a finished id run again, and so does another owner's invoke.
#[test]
fn a_finished_id_may_be_used_again() {
    let mut lab = Lab::start();
    lab.rules.reuses_ids = true;
    assert_eq!(lab.ask("id", "test.echo", json!({"text": "one"}))["prompt"], "one");
    let mark = lab.client.mark();
    lab.invoke("id", "test.echo", json!({"text": "two"}));
    assert_eq!(lab.result_as(OWNER, "id", mark)["prompt"], "two");
    lab.invoke_as("bob", "id", "test.echo", json!({"text": "three"}));
    assert_eq!(lab.result_as("bob", "id", 0)["prompt"], "three");
    assert_eq!(lab.late("agents/jobs/alice/id/result")[0].json["prompt"], "two");
    // A service that does not exist overwrites too: a rejection is that invoke's result.
    let mark = lab.client.mark();
    lab.invoke("id", "no.such", json!({}));
    assert_eq!(lab.result_as(OWNER, "id", mark)["reason"], "unknown_service");
}

/// G1-17: past the resend window the same bytes are a new request.
#[test]
fn past_the_window_the_same_bytes_run_again() {
    let mut lab = Lab::with(Catalog::usual(), |config| {
        config.set("mesh.resend_window", "0s");
    });
    lab.rules.reuses_ids = true;
    lab.ask("again", "test.echo", json!({"text": "x"}));
    let topic = lab.topic(OWNER, "again", "events");
    // Within the millisecond the job ended in, even a window of nothing is not over.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let mark = lab.client.mark();
    lab.invoke("again", "test.echo", json!({"text": "x"}));
    lab.result_as(OWNER, "again", mark);
    lab.client.next(mark, "a second start", |m| m.topic == topic && m.json["type"] == "started");
}

/// S1-42b, S1-46, G1-45, invariant 2: killed after the commit and before the broker had the acknowledgement, the invoke comes
/// again marked as a redelivery; nobody sees a duplicate and the job runs to one result.
#[test]
fn a_redelivery_is_not_a_duplicate() {
    let broker = Broker::start(Style::Bench);
    let proxy = Proxy::start(broker.port());
    let url = proxy.url();
    let mut lab = Lab::prepared(broker, Catalog::usual(), |config| {
        config.set("mesh.broker", url);
    });
    lab.up();
    for (job, args) in [("short", json!({"do": "work", "n": 10})), ("long", json!({"do": "sleep", "n": 2500}))] {
        // The broker hears nothing any more, while the node commits, acknowledges and says so.
        proxy.swallow();
        lab.invoke(job, "test.mischief", args);
        proxy.wait_swallowed(&format!("{job}/events"));
        lab.kill();
        proxy.release();
        lab.up();
        assert_eq!(lab.result(job)["type"], "result");
    }
    lab.settle("end");
    for job in ["short", "long"] {
        let results = lab.results(OWNER, job);
        assert!(results.iter().all(|result| result["type"] == "result"), "{results:?}");
    }
}

/// G1-45: a redelivery of a job that ended brings its stored result, however it ended, and runs nothing.
#[test]
fn a_redelivery_of_a_finished_job_brings_its_result() {
    let broker = Broker::start(Style::Bench);
    let proxy = Proxy::start(broker.port());
    let url = proxy.url();
    let mut lab = Lab::prepared(broker, Catalog::usual(), |config| {
        config.set("mesh.broker", url);
    });
    lab.up();
    proxy.swallow();
    lab.invoke("lost", "test.mischief", json!({"do": "fail", "text": "as it must"}));
    proxy.wait_swallowed("lost/result");
    lab.kill();
    proxy.release();
    lab.up();
    let result = lab.result("lost");
    assert_eq!((&result["reason"], &result["usage"]["attempt"]), (&json!("guest"), &json!(1)));
    lab.settle("end");
    assert!(lab.results(OWNER, "lost").iter().all(|again| *again == result));
}

//! Polite stops: what is finished, what is kept, what is cleared, and in which order.
//!
//! Owns G1-12 and G1-42 as an outsider sees them.

use house::broker::{Broker, Style};
use house::catalog::{Catalog, mischief};
use house::lab::{AGENT, Lab, OWNER};
use house::node::Node;
use serde_json::json;

/// Waits until the witness has seen the last thing a leaving node publishes.
fn wait_left(lab: &Lab, mark: usize) {
    let topic = format!("agents/registry/{AGENT}/status");
    lab.client.next(mark, "an empty status", |m| m.topic == topic && m.payload.is_empty());
}

/// S1-17, S1-C1, G1-12, U08: SIGTERM clears profile and status, then disconnects, so that no will fires; exit code 0.
#[test]
fn a_clean_stop_clears_the_registry() {
    let mut lab = Lab::start();
    let mark = lab.client.mark();
    assert_eq!(lab.stop().code(), Some(0));
    for leaf in ["profile", "status"] {
        let topic = format!("agents/registry/{AGENT}/{leaf}");
        lab.client.next(mark, &format!("an empty {leaf}"), |m| m.topic == topic && m.payload.is_empty());
    }
    assert!(lab.late("agents/registry/#").is_empty());
    let offline = lab.client.since(mark).into_iter().find(|m| m.json["status"] == "offline");
    assert!(offline.is_none(), "a will fired: {offline:?}");
    assert!(lab.broker.log().contains(&format!("Received DISCONNECT from amp:agents:{AGENT}")));
}

/// U08, G1-42: SIGTERM while a job finishes: its result is out and acknowledged before the node leaves.
#[test]
fn a_job_that_finishes_in_the_grace_time_is_delivered() {
    let mut lab = Lab::start();
    lab.invoke("last", "test.mischief", json!({"do": "sleep", "n": 900}));
    lab.event(OWNER, "last", "started");
    let mark = lab.client.mark();
    assert_eq!(lab.stop().code(), Some(0));
    wait_left(&lab, mark);
    let since = lab.client.since(mark);
    let result = since.iter().position(|m| m.topic == lab.topic(OWNER, "last", "result")).expect("no result before the end");
    let status = since.iter().position(|m| m.topic.ends_with("/status") && m.payload.is_empty()).expect("no empty status");
    assert_eq!(since[result].json["result"], "slept");
    assert!(result < status, "the registry was cleared before the result went out");
    assert_eq!(lab.late("agents/jobs/alice/last/result").len(), 1);
}

/// S1-87b, S1-86b, G1-42: 50 queued, SIGTERM, start: 50 results, none of them about the stop.
#[test]
fn queued_jobs_survive_a_polite_stop() {
    let mut lab = Lab::with(Catalog::usual(), |config| {
        config.set("limits.max_running", 1).set("node.grace", "1s");
    });
    lab.invoke("busy", "test.mischief", json!({"do": "sleep", "n": 6000}));
    lab.event(OWNER, "busy", "started");
    lab.client.publish_all((0..50).map(|at| lab.order(OWNER, &format!("q{at}"), "test.echo", json!({"text": "x"}))).collect());
    lab.client.collect(0, 51, "accepted events", |m| m.json["type"] == "accepted");
    let mark = lab.client.mark();
    assert_eq!(lab.stop().code(), Some(0));
    wait_left(&lab, mark);
    let told = lab.client.since(mark).into_iter().find(|m| m.json["reason"] == "shutdown");
    assert!(told.is_none(), "{told:?}");
    lab.up();
    for at in 0..50 {
        assert_eq!(lab.result(&format!("q{at}"))["prompt"], "x");
    }
    // The running one was idempotent: it starts over, and the stop is not counted as a failed attempt.
    let busy = lab.result("busy");
    assert_eq!((&busy["result"], &busy["type"]), (&json!("slept"), &json!("result")), "{busy}");
}

/// G1-42: a running job that may not run twice ends with reason shutdown when the grace time is over.
#[test]
fn what_may_not_run_twice_ends_at_the_stop() {
    let catalog = Catalog::usual();
    catalog.file("once.json", &mischief("test.once", json!({"idempotent": false})));
    let mut lab = Lab::with(catalog, |config| {
        config.set("node.grace", "1s");
    });
    lab.invoke("once", "test.once", json!({"do": "sleep", "n": 30_000}));
    lab.event(OWNER, "once", "started");
    assert_eq!(lab.stop().code(), Some(0));
    let result = lab.result("once");
    assert_eq!((&result["type"], &result["reason"]), (&json!("error"), &json!("shutdown")));
    lab.up();
    lab.settle("end");
    assert_eq!(lab.results(OWNER, "once").len(), 1);
}

/// G1-42, DESIGN section 4: `run --retire` ends everything in the journal, clears the registry and exits.
#[test]
fn retire_ends_everything() {
    let mut lab = Lab::with(Catalog::usual(), |config| {
        config.set("limits.max_running", 1);
    });
    lab.invoke("busy", "test.mischief", json!({"do": "sleep", "n": 30_000}));
    lab.event(OWNER, "busy", "started");
    lab.client.publish_all((0..5).map(|at| lab.order(OWNER, &format!("q{at}"), "test.echo", json!({"text": "x"}))).collect());
    lab.client.collect(0, 6, "accepted events", |m| m.json["type"] == "accepted");
    lab.kill();
    let mut retiring = Node::start_with(&lab.config, &["--retire"], &[]);
    assert_eq!(retiring.end().code(), Some(0), "{}", retiring.log());
    for job in ["busy", "q0", "q1", "q2", "q3", "q4"] {
        let result = lab.result(job);
        assert_eq!((&result["type"], &result["reason"]), (&json!("error"), &json!("shutdown")), "{job}");
    }
    assert!(lab.late("agents/registry/#").is_empty(), "{:?}", lab.late("agents/registry/#"));
}

/// G1-42: while it stops, the node takes no more work; what comes then waits at the broker and runs after the next start.
#[test]
fn a_stopping_node_takes_no_more_work() {
    let broker = Broker::start(Style::Stock);
    let mut lab = Lab::prepared(broker, Catalog::usual(), |_| {});
    lab.up();
    lab.invoke("slow", "test.mischief", json!({"do": "sleep", "n": 2000}));
    lab.event(OWNER, "slow", "started");
    lab.node().terminate();
    lab.node().wait_log("stop");
    lab.invoke("after", "test.echo", json!({"text": "later"}));
    let mut stopping = lab.node.take().unwrap();
    assert_eq!(stopping.end().code(), Some(0));
    assert_eq!(lab.result("slow")["result"], "slept");
    lab.up();
    assert_eq!(lab.result("after")["prompt"], "later");
}

//! Thousands of jobs and results that pile up: in the queue, in the journal, behind a dead network.
//!
//! Owns the promise that what does not fit in memory waits in the journal and loses neither place nor order.

use std::collections::BTreeSet;

use house::broker::{Broker, Style};
use house::catalog::{Catalog, mischief};
use house::lab::{Lab, OWNER};
use house::proxy::Proxy;
use serde_json::json;

/// More than the door keeps in memory, so that the rest has to be fetched from the journal.
const PILED_UP: usize = 11_000;
const QUEUED: usize = 2_000;

/// One place, taken by a job that runs until it is cancelled.
fn gated(url: Option<String>, broker: Broker) -> Lab {
    let catalog = Catalog::usual();
    let limits = json!({"timeoutMs": 600_000, "fuel": 100_000_000_000_000_u64});
    catalog.file("gate.json", &mischief("test.gate", json!({"limits": limits})));
    let mut lab = Lab::prepared(broker, catalog, |config| {
        config.set("limits.max_running", 1).set("limits.max_queued", 50_000).set("limits.max.fuel", 1_000_000_000_000_000_i64);
        config.set("journal.sync", "os");
        if let Some(url) = url {
            config.set("mesh.broker", url);
        }
    });
    lab.up();
    lab.invoke_as("keeper", "gate", "test.gate", json!({"do": "loop"}));
    lab.event("keeper", "gate", "started");
    lab
}

fn fill(lab: &Lab, count: usize) -> BTreeSet<String> {
    let jobs: BTreeSet<String> = (0..count).map(|at| format!("p{at}")).collect();
    lab.client.send_all(jobs.iter().map(|job| lab.order(OWNER, job, "test.echo", json!({"text": job}))).collect());
    lab.client.collect(0, count + 1, "accepted events", |m| m.json["type"] == "accepted");
    jobs
}

fn results(lab: &Lab, jobs: &BTreeSet<String>) {
    let prefix = format!("agents/jobs/{OWNER}/");
    let seen = lab.client.collect(0, jobs.len(), "results", |m| m.topic.starts_with(&prefix) && m.topic.ends_with("/result"));
    let prompts: BTreeSet<String> = seen.iter().filter_map(|m| m.json["prompt"].as_str().map(String::from)).collect();
    assert_eq!(prompts.len(), jobs.len(), "some results came twice and others not at all");
    assert_eq!(prompts, *jobs);
}

/// U01's kind, invariant 5, G1-16: more results than the door keeps in memory come free while the network is gone; when it is
/// back, every one arrives.
#[test]
fn results_that_pile_up_all_arrive() {
    let broker = Broker::start(Style::Bench);
    let proxy = Proxy::start(broker.port());
    let mut lab = gated(Some(proxy.url()), broker);
    let jobs = fill(&lab, PILED_UP);
    lab.cancel("keeper", "gate");
    lab.event("keeper", "gate", "cancel_acknowledged");
    proxy.block();
    let node = lab.node();
    house::until("all jobs to end while the network is gone", || {
        let ended = node.metric("amp_engine_jobs_ended_total", "done");
        #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
        let all = PILED_UP as f64;
        (ended >= all).then_some(())
    });
    proxy.release();
    results(&lab, &jobs);
}

/// S1-04, S1-86, G1-24: a long queue outlives kill -9, and every job of it runs afterwards.
#[test]
fn a_long_queue_survives_a_crash() {
    let mut lab = gated(None, Broker::start(Style::Bench));
    let jobs = fill(&lab, QUEUED);
    lab.kill();
    lab.up();
    lab.cancel("keeper", "gate");
    results(&lab, &jobs);
}

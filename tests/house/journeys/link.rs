//! The link between node and broker: cut, lost, refused, flooded.
//!
//! Owns what the outbox promises an outsider: every result arrives, whatever the network does.

use std::collections::BTreeSet;

use house::broker::{Broker, Style};
use house::catalog::{Catalog, mischief};
use house::client::{Client, Login};
use house::lab::{AGENT, Lab, OWNER};
use house::node::Node;
use house::proxy::Proxy;
use serde_json::json;

const RESULTS: usize = 200;

/// A lab whose node reaches the broker through a proxy, with one place for running jobs.
fn behind_proxy(style: Style) -> (Lab, Proxy) {
    let broker = Broker::start(style);
    let proxy = Proxy::start(broker.port());
    let url = proxy.url();
    let catalog = Catalog::usual();
    catalog.file("gate.json", &mischief("test.gate", json!({"limits": {"timeoutMs": 60_000}})));
    let mut lab = Lab::prepared(broker, catalog, |config| {
        config.set("mesh.broker", url).set("limits.max_running", 1);
    });
    lab.up();
    (lab, proxy)
}

/// 200 results come free at once while the link is cut again and again; with `lose_session` the broker forgets the node each
/// time. All 200 must arrive, and what stays retained must be each job's own result.
fn cut_with_results_in_flight(style: Style, lose_session: bool) {
    let (lab, proxy) = behind_proxy(style);
    lab.invoke("gate", "test.gate", json!({"do": "sleep", "n": 3000}));
    lab.event(OWNER, "gate", "started");
    let jobs: BTreeSet<String> = (0..RESULTS).map(|at| format!("f{at}")).collect();
    lab.client.publish_all(jobs.iter().map(|job| lab.order(OWNER, job, "test.echo", json!({"text": job}))).collect());
    lab.client.collect(0, RESULTS + 1, "accepted events", |m| m.json["type"] == "accepted");
    for (cut, after) in [20, 45, 70].into_iter().enumerate() {
        proxy.block_after("/result", after);
        proxy.wait_cuts(cut + 1);
        if lose_session {
            // Whoever connects with the node's id and a clean start takes its session away.
            let login = Login { id: format!("amp:agents:{AGENT}"), clean: true, ..Login::default() };
            Client::login(lab.broker.port(), &login).disconnect();
        }
        proxy.release();
    }
    for job in &jobs {
        assert_eq!(lab.result(job)["prompt"], *job);
    }
    assert_eq!(proxy.cuts(), 3);
    let late = lab.late("agents/jobs/alice/+/result");
    let kept: BTreeSet<String> = late.iter().filter_map(|m| m.json["prompt"].as_str().map(String::from)).collect();
    assert_eq!(kept, jobs);
}

/// 200 of 200 results arrive: bench configuration, session kept.
#[test]
fn results_survive_cuts_on_the_bench_broker() {
    cut_with_results_in_flight(Style::Bench, false);
}

/// 200 of 200 results arrive: bench configuration, session lost.
#[test]
fn results_survive_lost_sessions_on_the_bench_broker() {
    cut_with_results_in_flight(Style::Bench, true);
}

/// 200 of 200 results arrive: stock configuration, session kept.
#[test]
fn results_survive_cuts_on_the_stock_broker() {
    cut_with_results_in_flight(Style::Stock, false);
}

/// 200 of 200 results arrive: stock configuration, session lost.
#[test]
fn results_survive_lost_sessions_on_the_stock_broker() {
    cut_with_results_in_flight(Style::Stock, true);
}

/// U07, S1-89: the broker comes back with empty storage: the node subscribes again, says who it is, and the next invoke runs.
#[test]
fn an_emptied_broker_is_told_everything_again() {
    let mut lab = Lab::start();
    lab.ask("before", "test.echo", json!({"text": "x"}));
    let mark = lab.client.mark();
    lab.broker.kill();
    lab.broker.up();
    lab.client.wait_ups(2);
    lab.wait_online(mark);
    let profile = lab.late("agents/registry/dba/profile");
    assert_eq!(profile.len(), 1);
    assert_eq!(lab.ask("after", "test.echo", json!({"text": "y"}))["prompt"], "y");
}

/// S1-89, G1-37: results the broker had not acknowledged when it died are published to the new one.
#[test]
fn results_outlive_a_dying_broker() {
    let mut lab = Lab::start();
    lab.invoke("over", "test.mischief", json!({"do": "sleep", "n": 1200}));
    lab.event(OWNER, "over", "started");
    lab.broker.kill();
    let state = house::until("/readyz to tell of the lost broker", || {
        lab.node.as_ref().and_then(|node| node.page("/readyz")).filter(|(status, _)| *status == 503)
    });
    assert!(state.1.contains("broker"), "{}", state.1);
    lab.broker.up();
    lab.client.wait_ups(2);
    assert_eq!(lab.result("over")["result"], "slept");
}

/// U01: 300 invokes in one burst, five milestones each: all 300 results, and the connection never drops.
#[test]
fn a_burst_does_not_block_the_connection() {
    let lab = Lab::start();
    let orders = (0..300).map(|at| lab.order(OWNER, &format!("b{at}"), "test.mischief", json!({"do": "progress", "n": 5})));
    lab.client.send_all(orders.collect());
    let results = lab.client.collect(0, 300, "results", |m| m.topic.ends_with("/result"));
    assert!(results.iter().all(|m| m.json["type"] == "result"));
    lab.client.collect(0, 1500, "milestones", |m| m.json["type"] == "progress");
    assert_eq!(lab.broker.log().matches(&format!("as amp:agents:{AGENT}")).count(), 1, "the connection dropped");
}

/// U01's kind: a broker that takes nothing for a while does not stop jobs, and gets everything afterwards.
#[test]
fn a_deaf_broker_gets_everything_later() {
    let (lab, proxy) = behind_proxy(Style::Bench);
    proxy.swallow();
    lab.client.publish_all((0..50).map(|at| lab.order(OWNER, &format!("deaf{at}"), "test.echo", json!({"text": "x"}))).collect());
    proxy.wait_swallowed("deaf49/result");
    proxy.cut();
    proxy.release();
    for at in 0..50 {
        assert_eq!(lab.result(&format!("deaf{at}"))["prompt"], "x");
    }
}

/// DESIGN "run keeps trying the broker with a visible state": no broker at the start is no end; the state says what to mend.
#[test]
fn no_broker_at_the_start_is_waited_for() {
    let mut broker = Broker::start(Style::Bench);
    broker.kill();
    let catalog = Catalog::usual();
    let dir = tempfile::TempDir::new().unwrap();
    let mut config = house::config::Config::new(dir.path(), &broker.url(), AGENT, catalog.path());
    config.default_prompt();
    let mut node = Node::start(&config);
    let (status, body) =
        house::until("/readyz", || node.page("/readyz").filter(|(_, body)| body.contains(&broker.port().to_string())));
    assert_eq!(status, 503, "{body}");
    assert_eq!(node.page("/healthz").map(|(status, _)| status), Some(200), "it lives, it only waits");
    node.assert_alive();
    broker.up();
    node.wait_ready();
    assert_eq!(node.stop().code(), Some(0));
}

/// G1-46: a result larger than the broker's own limit becomes output_limit and does not come again for ever.
#[test]
fn a_result_over_the_brokers_limit_becomes_an_error() {
    let options = house::broker::Options { lines: vec!["max_packet_size 20000".into()], ..Default::default() };
    let mut lab = Lab::prepared(Broker::with(Style::Bench, &options), Catalog::usual(), |_| {});
    lab.up();
    lab.invoke("big", "test.mischief", json!({"do": "huge_answer", "n": 60_000}));
    let result = lab.result("big");
    assert_eq!((&result["type"], &result["reason"]), (&json!("error"), &json!("output_limit")), "{result}");
    assert_eq!(lab.ask("small", "test.echo", json!({"text": "fits"}))["prompt"], "fits");
}

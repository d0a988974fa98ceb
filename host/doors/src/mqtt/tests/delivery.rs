//! Results reach the broker whatever happens to the connection.

use std::collections::HashMap;
use std::time::Duration;

use job::ids::JobKey;
use job::json::JsonText;
use job::outcome::{Ending, Outcome, Usage};
use job::status::Severity;
use job::store::JobStore;
use kit::MemoryJournal;
use kit::samples::{invoke, key, key_of};
use wire::mqtt::outgoing::outcome_payload;

use super::broker::{BENCH, Mosquitto, STOCK};
use super::house::House;
use super::observer::{Observer, retained};
use super::proxy::Proxy;
use crate::mqtt::link::{Link, LinkEvent, Plan};
use crate::mqtt::settings::BrokerAddress;
use crate::mqtt::v5::V5Link;

const RESULTS: usize = 200;

pub(super) fn outcome(number: usize, body: &str) -> Outcome {
    let body = JsonText::check(format!(r#"{{"n":{number},"body":"{body}"}}"#).as_bytes()).expect("JSON");
    let ts = job::clock::Timestamp(1_787_688_849_000 + i64::try_from(number).expect("small"));
    Outcome { ending: Ending::Done { kind: "result".into(), body }, usage: Usage::default(), ts }
}

/// Puts a finished job into the journal; its outcome is due then.
pub(super) async fn finish(journal: &MemoryJournal, key: &JobKey, outcome: Outcome) {
    journal.admit(invoke(key, 1, 0)).await.expect("admitted");
    assert!(journal.finish(key.clone(), outcome).await.expect("finished"));
}

/// Ends the session under this client id, as a broker that forgets would.
async fn lose_session(broker: &BrokerAddress, client_id: &str) {
    let mut link = V5Link::new(&Plan {
        broker: broker.clone(),
        login: None,
        client_id: client_id.into(),
        session: false,
        will: None,
        manual_acks: false,
        packet_bytes_max: 1024,
        receive_max: 10,
        keep_alive: Duration::from_secs(30),
    });
    assert!(matches!(std::future::poll_fn(|cx| link.poll_event(cx)).await, LinkEvent::Open { .. }));
    link.disconnect().expect("a place");
    while !matches!(std::future::poll_fn(|cx| link.poll_event(cx)).await, LinkEvent::Closed(_)) {}
}

/// 200 results in flight, three cuts while acknowledgements are slow: all arrive, and what is kept is right.
async fn survive_cuts(lines: &str, session_kept: bool) {
    let Some(broker) = Mosquitto::start(lines).await else { return };
    let proxy = Proxy::start(broker.port, Duration::from_millis(5)).await;
    let house = House::open(&proxy.address()).await;
    let observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    let mut expected = HashMap::new();
    for number in 0..RESULTS {
        let key = key(&format!("j{number}"));
        let outcome = outcome(number, "x");
        expected.insert(format!("agents/jobs/alice/j{number}/result"), outcome_payload(&key, &outcome));
        finish(&house.journal, &key, outcome).await;
    }
    let seen = |all: &[super::observer::Got]| {
        let topics: std::collections::HashSet<&str> = all.iter().map(|got| got.topic.as_str()).collect();
        topics.len()
    };
    for threshold in [20, 90, 150] {
        observer.wait(&format!("{threshold} results"), |all| seen(all) >= threshold).await;
        proxy.set_open(false);
        proxy.cut();
        if !session_kept {
            lose_session(&broker.address(), "amp:agents:dba").await;
        }
        proxy.set_open(true);
    }
    observer.wait("200 results", |all| seen(all) >= RESULTS).await;
    house.delivered().await;
    let kept = retained(&broker.address(), "agents/jobs/alice/+/result", RESULTS).await;
    assert_eq!(kept.len(), RESULTS);
    for got in kept {
        assert_eq!(got.payload.as_bytes(), expected[&got.topic], "{}", got.topic);
    }
    assert!(house.close().await.delivered);
}

/// S1-04, S1-28, S1-85: on the configuration that Mosquitto is shipped with, the session kept.
#[tokio::test]
async fn all_results_survive_cuts_on_stock_mosquitto() {
    // A new subscriber gets at most max_queued_messages + inflight of the retained ones; 200 are within the default.
    survive_cuts(STOCK, true).await;
}

/// S1-89: likewise with the session lost at each cut.
#[tokio::test]
async fn all_results_survive_lost_sessions_on_stock_mosquitto() {
    survive_cuts(STOCK, false).await;
}

/// S1-04, S1-28, S1-85: on the configuration of the measurements.
#[tokio::test]
async fn all_results_survive_cuts_on_bench_mosquitto() {
    survive_cuts(BENCH, true).await;
}

/// S1-89: likewise with the session lost at each cut.
#[tokio::test]
async fn all_results_survive_lost_sessions_on_bench_mosquitto() {
    survive_cuts(BENCH, false).await;
}

/// S1-47, S1-86: what the journal held before the door opened is delivered, more than one page of it, in order per topic.
#[tokio::test]
async fn what_waited_in_the_journal_is_delivered_at_start() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    let journal = MemoryJournal::default();
    for number in 0..2500 {
        finish(&journal, &key(&format!("j{number}")), outcome(number, "x")).await;
    }
    let house = House::begin(&broker.address(), journal, None);
    house.online().await;
    // Rows that are committed while pages are on their way.
    for number in 2500..2600 {
        finish(&house.journal, &key(&format!("j{number}")), outcome(number, "x")).await;
    }
    house.delivered().await;
    assert_eq!(retained(&broker.address(), "agents/jobs/alice/+/result", 2600).await.len(), 2600);
    assert!(house.close().await.delivered);
}

/// G1-46: a result over the broker's limit becomes error output_limit, and holds up nothing behind it.
#[tokio::test]
async fn an_oversize_result_is_no_poison() {
    let Some(broker) = Mosquitto::start("max_packet_size 20000\n").await else { return };
    let house = House::open(&broker.address()).await;
    finish(&house.journal, &key("big"), outcome(1, &"x".repeat(50_000))).await;
    finish(&house.journal, &key("small"), outcome(2, "x")).await;
    house.delivered().await;
    let kept = retained(&broker.address(), "agents/jobs/alice/+/result", 2).await;
    let of = |job: &str| kept.iter().find(|got| got.topic.contains(job)).expect("kept").payload.clone();
    assert!(of("big").contains(r#""type":"error","reason":"output_limit""#), "{}", of("big"));
    assert!(of("small").contains(r#""type":"result""#));
    let max = house.mesh.courier().result_bytes_max(&key("big")).expect("a limit");
    assert!((10_000..20_000).contains(&max), "{max}");
}

/// A publish that the broker's rules forbid is never taken for delivered: it is named, waits, and goes out once it may.
#[tokio::test]
async fn a_forbidden_topic_is_named_and_tried_again() {
    let rules = "topic readwrite agents/registry/#\ntopic readwrite agents/jobs/alice/#\ntopic read agents/#\n";
    let Some(broker) = Mosquitto::start_with("acl_file FOLDER/acl\n", &[("acl", rules)]).await else { return };
    let house = House::open(&broker.address()).await;
    let (allowed, forbidden) = (key("ok"), key_of("dba", "bob", "no"));
    finish(&house.journal, &forbidden, outcome(1, "x")).await;
    finish(&house.journal, &allowed, outcome(2, "x")).await;
    retained(&broker.address(), "agents/jobs/alice/ok/result", 1).await;
    let condition = house.condition("broker.dba.publish", |_| true).await;
    assert_eq!(condition.severity, Severity::Down);
    assert!(condition.what.contains("agents/jobs/bob/no/result"), "{}", condition.what);
    assert!(condition.mend.contains("topic write agents/jobs/#"), "{}", condition.mend);
    house.left(1).await;
    broker.write("acl", "topic readwrite #\n");
    broker.reload();
    house.delivered().await;
    assert_eq!(retained(&broker.address(), "agents/jobs/bob/no/result", 1).await.len(), 1);
    assert!(!house.board.conditions().contains_key("broker.dba.publish"));
}

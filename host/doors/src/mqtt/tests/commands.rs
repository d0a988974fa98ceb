//! Commands reach the engine, once each, and are acknowledged when the engine says so.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use job::jobs::Submission;
use job::store::StoreError;

use super::broker::{BENCH, Mosquitto, STOCK, address};
use super::fake::{Asked, invoke};
use super::house::House;
use super::observer::{Got, Observer};
use super::proxy::Proxy;
use crate::mqtt::embedded::EmbeddedBroker;
use crate::mqtt::settings::BrokerAddress;

const INVOKE: &str = "agents/commands/dba/invoke";
const CANCEL: &str = "agents/commands/dba/cancel";

fn results(all: &[Got]) -> usize {
    all.iter().filter(|got| got.topic.ends_with("/result")).count()
}

fn submissions(asked: &[Asked]) -> Vec<&Submission> {
    asked.iter().filter_map(|asked| if let Asked::Submit(submission) = asked { Some(&**submission) } else { None }).collect()
}

/// 300 invokes in one burst, each with five milestones.
async fn burst(broker: &BrokerAddress) {
    let house = House::open(broker).await;
    house.echo.progress.store(5, std::sync::atomic::Ordering::Relaxed);
    let mut observer = Observer::start(broker, "agents/jobs/alice/#").await;
    for number in 0..300 {
        observer.publish(INVOKE, invoke("alice", &format!("j{number}"), &format!(r#"{{"n":{number}}}"#)), false).await;
    }
    let all = observer.wait("300 results", |all| results(all) >= 300).await;
    assert_eq!(results(&all), 300, "one result each");
    let mut events: HashMap<&str, Vec<&str>> = HashMap::new();
    for got in all.iter().filter(|got| got.topic.ends_with("/events")) {
        assert!(!got.retained);
        events.entry(&got.topic).or_default().push(&got.payload);
    }
    for (topic, payloads) in events {
        let words = ["accepted", "started", "step 0", "step 1", "step 2", "step 3", "step 4"];
        assert_eq!(payloads.len(), words.len(), "{topic}: {payloads:?}");
        assert!(payloads.iter().zip(words).all(|(payload, word)| payload.contains(word)), "{topic}: {payloads:?}");
    }
    assert!(house.close().await.delivered);
}

/// U01, S1-34: the burst is served whole, events in order, on Mosquitto as it is shipped, with its window of 20.
#[tokio::test]
async fn a_burst_is_served_on_stock_mosquitto() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    burst(&broker.address()).await;
}

/// U01: likewise with an open window.
#[tokio::test]
async fn a_burst_is_served_on_bench_mosquitto() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    burst(&broker.address()).await;
}

/// U01: likewise on the broker in this process.
#[tokio::test]
async fn a_burst_is_served_on_the_embedded_broker() {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let broker = EmbeddedBroker::start(any, 16 * 1024 * 1024).await.expect("starts");
    burst(&address(broker.address().port())).await;
    broker.stop().await;
}

/// U11, U05, G1-20, G1-35, S1-22: garbage and kept commands are acknowledged and forgotten, refusals are answered, and the
/// next good invoke runs.
#[tokio::test]
async fn garbage_is_dropped_and_the_next_invoke_runs() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    observer.publish(INVOKE, invoke("alice", "kept-for-days", "{}"), true).await;
    observer.settled().await;
    let house = House::open(&broker.address()).await;
    observer.publish(INVOKE, vec![0xff, 0xfe, 0x00], false).await;
    observer.publish(CANCEL, "[]", false).await;
    observer.publish(INVOKE, r#"{"service":"echo","jobId":"nobody"}"#, false).await;
    observer.publish(INVOKE, invoke("alice", "good", r#"{"x":1}"#), false).await;
    let good = observer.wait_for("agents/jobs/alice/good/result", |_| true).await;
    assert!(good.payload.contains(r#""x":1"#), "{}", good.payload);
    let refused = observer.wait_for("agents/jobs/public/nobody/result", |_| true).await;
    assert!(refused.payload.contains("missing_requested_by"), "{}", refused.payload);
    // A live invoke that its publisher also asks to keep is live, and runs (G1-35).
    observer.publish(INVOKE, invoke("alice", "live", "{}"), true).await;
    observer.wait_for("agents/jobs/alice/live/result", |_| true).await;
    let asked = house.echo.asked();
    assert_eq!(submissions(&asked).len(), 2, "{asked:?}");
    assert!(!observer.got().iter().any(|got| got.topic.contains("kept-for-days")));
    assert!(house.close().await.delivered);
}

/// G1-51, S1-46: while the journal takes nothing an invoke stays unacknowledged; once it does, the invoke runs, once.
#[tokio::test]
async fn a_full_journal_delays_and_loses_nothing() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    house.journal.fail_with(Some(StoreError::Full("no space".into())));
    observer.publish(INVOKE, invoke("alice", "j", "{}"), false).await;
    house.echo.wait(|asked| !asked.is_empty()).await;
    house.journal.fail_with(None);
    observer.wait_for("agents/jobs/alice/j/result", |payload| payload.contains(r#""type":"result""#)).await;
    assert!(house.close().await.delivered);
}

/// S1-42b, S1-46: a cut between the commit and the acknowledgement brings the invoke again, marked; nobody sees a duplicate.
#[tokio::test]
async fn a_redelivered_invoke_is_no_duplicate() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    let house = House::open(&proxy.address()).await;
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    house.journal.hold();
    observer.publish(INVOKE, invoke("alice", "j", "{}"), false).await;
    house.echo.wait(|asked| submissions(asked).len() == 1).await;
    proxy.cut();
    let asked = house.echo.wait(|asked| submissions(asked).len() == 2).await;
    let marks: Vec<bool> = submissions(&asked).iter().map(|submission| submission.redelivered).collect();
    assert_eq!(marks, [false, true]);
    house.journal.resume();
    observer.wait_for("agents/jobs/alice/j/result", |_| true).await;
    house.delivered().await;
    let words: Vec<String> =
        observer.got().into_iter().filter(|got| got.payload.contains("duplicate")).map(|g| g.payload).collect();
    assert!(words.is_empty(), "{words:?}");
    // Both deliveries are acknowledged now: a new connection brings neither again.
    proxy.cut();
    house.connection("down", |state| matches!(state, crate::mqtt::mesh::Connection::Down(_))).await;
    house.online().await;
    observer.publish(INVOKE, invoke("alice", "next", "{}"), false).await;
    observer.wait_for("agents/jobs/alice/next/result", |_| true).await;
    assert_eq!(submissions(&house.echo.asked()).len(), 3);
}

/// S1-37: a cancel gets through while hundreds of invokes wait for a slow journal.
#[tokio::test]
async fn a_cancel_does_not_wait_behind_invokes() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    let house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    house.journal.hold();
    for number in 0..500 {
        observer.publish(INVOKE, invoke("alice", &format!("j{number}"), "{}"), false).await;
    }
    observer.settled().await;
    observer.publish(CANCEL, r#"{"jobId":"j1","requestedBy":"alice"}"#, false).await;
    house.echo.wait(|asked| asked.iter().any(|asked| matches!(asked, Asked::Cancel))).await;
    house.journal.resume();
    observer.wait("a result each", |all| results(all) >= 500).await;
}

/// G1-52, S1-53b: the publisher's expiry reaches the engine; a response topic gets nothing.
#[tokio::test]
async fn the_publishers_expiry_comes_through() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), "#").await;
    observer.publish_expiring(INVOKE, invoke("alice", "j", "{}"), 60).await;
    let asked = house.echo.wait(|asked| submissions(asked).len() == 1).await;
    assert!(submissions(&asked)[0].expires.is_some());
    observer.wait_for("agents/jobs/alice/j/result", |_| true).await;
    assert!(!observer.got().iter().any(|got| got.topic == "nowhere"));
}

/// S1-86, S1-86b: an invoke that is published while the agent is away is queued and runs when it is back.
#[tokio::test]
async fn an_invoke_for_an_absent_agent_waits_for_it() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let journal = house.journal.clone();
    house.mesh.drain();
    assert!(house.close().await.cleared);
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    observer.publish(INVOKE, invoke("alice", "j", "{}"), false).await;
    observer.settled().await;
    let house = House::begin(&broker.address(), journal, None);
    observer.wait_for("agents/jobs/alice/j/result", |payload| payload.contains(r#""type":"result""#)).await;
    assert!(house.close().await.delivered);
}

//! A polite end: everything is delivered, profile and status are cleared, and the will stays unread.

use std::time::Duration;

use job::store::JobStore;
use tokio::time::Instant;

use super::broker::{Mosquitto, STOCK};
use super::fake::{Asked, invoke};
use super::house::{House, agent};
use super::observer::Observer;
use kit::MemoryJournal;
use kit::samples::{done, invoke as samples_invoke, key};

/// U08, S1-17, G1-12: results that are committed when the door closes are acknowledged, then profile and status are cleared
/// and acknowledged, then goodbye; no will is published.
#[tokio::test]
async fn closing_delivers_clears_and_says_goodbye() {
    const RESULTS: usize = 50;
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), "agents/#").await;
    for number in 0..RESULTS {
        let key = key(&format!("j{number}"));
        house.journal.admit(samples_invoke(&key, 1, 0)).await.expect("admitted");
        assert!(house.journal.finish(key, done(1)).await.expect("finished"));
    }
    let journal = house.journal.clone();
    let closed = house.close().await;
    assert!(closed.delivered && closed.cleared, "{closed:?}");
    let all = observer
        .wait("both cleared", |all| {
            all.iter().filter(|got| got.topic.contains("registry") && got.payload.is_empty()).count() == 2
        })
        .await;
    let result = all.iter().rposition(|got| got.topic.ends_with("/result")).expect("results");
    let cleared = all.iter().position(|got| got.topic.ends_with("/profile") && got.payload.is_empty()).expect("cleared");
    assert!(result < cleared, "{all:?}");
    assert_eq!(all.iter().filter(|got| got.topic.ends_with("/result")).count(), RESULTS);
    assert!(journal.outbox().is_empty());
    // The broker publishes a will as soon as it sees the end of the connection, so before this answer.
    observer.publish("agents/x", "x", false).await;
    observer.wait_for("agents/x", |_| true).await;
    assert!(!observer.got().iter().any(|got| got.payload.contains("offline")), "{:?}", observer.got());
}

/// G1-42: while draining, an invoke stays with the broker and is not lost: the next start runs it. Cancels still count.
#[tokio::test]
async fn draining_leaves_invokes_with_the_broker() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    house.mesh.drain();
    observer.publish("agents/commands/dba/invoke", invoke("alice", "j", "{}"), false).await;
    observer.publish("agents/commands/dba/cancel", r#"{"jobId":"x","requestedBy":"alice"}"#, false).await;
    let asked = house.echo.wait(|asked| !asked.is_empty()).await;
    assert!(matches!(asked[..], [Asked::Cancel]), "{asked:?}");
    let journal = house.journal.clone();
    house.close().await;
    let _house = House::begin(&broker.address(), journal, None);
    observer.wait_for("agents/jobs/alice/j/result", |_| true).await;
}

/// A broker that is away does not keep the node from ending.
#[tokio::test]
async fn an_absent_broker_does_not_hold_up_the_end() {
    let house = House::begin(&super::broker::address(super::broker::free_port()), MemoryJournal::default(), None);
    let started = Instant::now();
    let closed = house.mesh.close(Instant::now() + Duration::from_secs(20)).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(!closed[&agent()].cleared);
}

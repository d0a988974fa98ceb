//! Profile and status, the last will, and two processes with one client id.

use std::time::Duration;

use job::ids::AgentId;
use tokio::time::Instant;

use super::broker::{Mosquitto, STOCK, address, free_port};
use super::fake::invoke;
use super::house::{House, profile};
use super::observer::{Observer, PATIENCE, retained};
use super::proxy::Proxy;
use crate::mqtt::mesh::Connection;
use crate::mqtt::settings::Login;
use kit::MemoryJournal;

const PROFILE: &str = "agents/registry/dba/profile";
const STATUS: &str = "agents/registry/dba/status";

/// S1-12, S1-14, S1-36, G1-36: profile and status are kept at once, and a new profile replaces the old one.
#[tokio::test]
async fn profile_and_status_are_kept() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let kept = retained(&broker.address(), "agents/registry/dba/+", 2).await;
    let of = |topic: &str| kept.iter().find(|got| got.topic == topic).expect("kept").payload.clone();
    assert!(of(PROFILE).contains(r#""description":"Answers.""#), "{}", of(PROFILE));
    assert!(of(STATUS).contains(r#""status":"online""#), "{}", of(STATUS));
    let observer = Observer::start(&broker.address(), PROFILE).await;
    house.mesh.advertise(profile("Answers better."));
    observer.wait_for(PROFILE, |payload| payload.contains("Answers better.")).await;
    assert!(house.board.conditions().is_empty(), "{:?}", house.board.conditions());
}

/// S1-19, S1-20: when the process dies the broker publishes offline, kept.
#[tokio::test]
async fn a_death_is_announced_by_the_broker() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    let house = House::open(&proxy.address()).await;
    retained(&broker.address(), STATUS, 1).await;
    let observer = Observer::start(&broker.address(), STATUS).await;
    proxy.set_open(false);
    proxy.cut();
    observer.wait_for(STATUS, |payload| payload.contains(r#""status":"offline""#) && payload.contains("connectedAt")).await;
    let down = house.connection("down", |state| matches!(state, Connection::Down(_))).await;
    let Connection::Down(what) = down else { unreachable!("just matched") };
    assert!(what.contains("agent dba") && what.contains("mqtt://127.0.0.1"), "{what}");
    proxy.set_open(true);
    observer.wait("online again", |all| all.last().is_some_and(|got| got.payload.contains(r#""status":"online""#))).await;
}

/// U07, S1-89: a broker that comes back empty is subscribed to anew, gets profile and status within 5 s, and the next invoke
/// runs.
#[tokio::test]
async fn a_broker_that_forgot_everything_is_told_again() {
    let Some(mut broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    broker.restart().await;
    let back = Instant::now();
    let mut observer = Observer::start(&broker.address(), "agents/#").await;
    for topic in [PROFILE, STATUS] {
        observer.wait_for(topic, |payload| payload.contains(r#""status":"online""#)).await;
    }
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    house.online().await;
    observer.publish("agents/commands/dba/invoke", invoke("alice", "j", "{}"), false).await;
    observer.wait_for("agents/jobs/alice/j/result", |_| true).await;
}

/// G1-15: what an old will or a stranger says about us while we are here is corrected.
#[tokio::test]
async fn a_false_offline_is_corrected() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let _house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), STATUS).await;
    observer.wait("online", |all| !all.is_empty()).await;
    observer.publish(STATUS, r#"{"agentId":"dba","status":"offline"}"#, true).await;
    let all = observer.wait("online again", |all| all.len() >= 3).await;
    assert!(all[2].payload.contains(r#""status":"online""#), "{all:?}");
    assert!(retained(&broker.address(), STATUS, 1).await[0].payload.contains("online"));
}

/// U03, S1-88: of two processes with one client id the later one leaves with both named, the earlier one goes on.
#[tokio::test]
async fn the_later_of_two_instances_leaves() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let first = House::open(&broker.address()).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let second = House::begin(&broker.address(), MemoryJournal::default(), None);
    let started = Instant::now();
    let collision = tokio::time::timeout(PATIENCE, second.mesh.all_collided()).await.expect("it leaves");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(collision.agent, AgentId::parse("dba").expect("an agent"));
    assert!(collision.what.contains("client id") && collision.what.contains(&collision.other), "{}", collision.what);
    assert!(second.board.conditions().contains_key("broker.dba.collision"));
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    first.online().await;
    observer.publish("agents/commands/dba/invoke", invoke("alice", "j", "{}"), false).await;
    observer.wait_for("agents/jobs/alice/j/result", |_| true).await;
    assert_eq!(second.echo.asked().len(), 0);
}

/// S1-88b: killed and started again at once, twenty times over, no collision is reported.
#[tokio::test]
async fn a_quick_restart_is_no_collision() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let mut house = House::open(&broker.address()).await;
    for _ in 0..20 {
        // Dropping the mesh lets the door's task end without a word, as a kill would.
        let journal = house.journal.clone();
        drop(house);
        house = House::begin(&broker.address(), journal, None);
        house.online().await;
        assert!(!house.board.conditions().contains_key("broker.dba.collision"));
    }
    let observer = Observer::start(&broker.address(), STATUS).await;
    observer.wait("online", |all| all.last().is_some_and(|got| got.payload.contains("online"))).await;
    assert!(!house.board.conditions().contains_key("broker.dba.collision"));
}

/// A broker that is away or refuses is named with its place and a mend, and the node keeps trying without haste.
#[tokio::test]
async fn an_absent_or_refusing_broker_is_named() {
    let port = free_port();
    let house = House::begin(&address(port), MemoryJournal::default(), None);
    house.connection("down", |state| matches!(state, Connection::Down(_))).await;
    let condition = house.board.conditions()["broker.dba"].clone();
    assert!(condition.what.contains(&format!("mqtt://127.0.0.1:{port}")), "{}", condition.what);
    assert!(condition.mend.contains("mesh.broker"), "{}", condition.mend);

    let Some(broker) = Mosquitto::start("allow_anonymous false\n").await else { return };
    let login = Login { username: "u".into(), password: "p".into() };
    let house = House::begin(&broker.address(), MemoryJournal::default(), Some(login));
    let refused = house.connection("refused", |state| matches!(state, Connection::Down(_))).await;
    let Connection::Down(what) = refused else { unreachable!("just matched") };
    assert!(what.contains("refused the login"), "{what}");
    assert!(house.board.conditions()["broker.dba"].mend.contains("mesh.username and mesh.password"));
}

//! The requester's client against a door.

use std::net::SocketAddr;
use std::time::Duration;

use job::ids::{AgentId, JobId};
use job::json::JsonText;
use tokio::time::Instant;
use wire::mqtt::client::InvokeRequest;
use wire::mqtt::topics::Root;

use super::broker::{Mosquitto, STOCK, address, free_port};
use super::fake::invoke;
use super::house::{House, agent};
use super::observer::{Observer, PATIENCE};
use super::proxy::Proxy;
use crate::mqtt::embedded::EmbeddedBroker;
use crate::mqtt::requester::{Heard, Requester, RequesterError, RequesterSettings};
use crate::mqtt::settings::BrokerAddress;

fn settings(broker: &BrokerAddress) -> RequesterSettings {
    let root = Root::parse("agents").expect("a root");
    RequesterSettings { broker: broker.clone(), login: None, root, packet_bytes_max: 16 * 1024 * 1024 }
}

fn request(job: &str, args: &str) -> InvokeRequest {
    InvokeRequest {
        service: "echo".into(),
        args: JsonText::trusted(args),
        requested_by: "Alice".into(),
        job: JobId::parse(job).expect("a job"),
    }
}

async fn result(requester: &mut Requester) -> String {
    loop {
        match requester.hear(Instant::now() + PATIENCE).await.expect("it is answered") {
            Heard::Result(seen) => return seen.payload.as_str().to_owned(),
            Heard::Event(_) => {}
            Heard::Unreadable { topic, why } => panic!("{topic}: {why}"),
        }
    }
}

async fn ask(broker: &BrokerAddress) {
    let house = House::open(broker).await;
    house.echo.progress.store(2, std::sync::atomic::Ordering::Relaxed);
    let until = Instant::now() + PATIENCE;
    let mut requester = Requester::connect(settings(broker), PATIENCE).await.expect("connects");
    let agents = requester.agents(Some("echo"), until).await.expect("the registry");
    let found = agents.iter().find(|seen| seen.online && seen.offers("echo")).expect("it offers echo");
    assert_eq!(found.agent, agent());
    requester.invoke(&found.agent, &request("j", r#"{"x":1.10}"#), until).await.expect("taken");
    let mut kinds = Vec::new();
    loop {
        match requester.hear(until).await.expect("it is answered") {
            Heard::Event(seen) => kinds.push(seen.kind),
            Heard::Result(seen) => {
                assert!(seen.payload.as_str().contains(r#""x":1.10"#));
                break;
            }
            Heard::Unreadable { topic, why } => panic!("{topic}: {why}"),
        }
    }
    assert_eq!(kinds, ["accepted", "started", "progress", "progress"]);
    requester.close().await;
    house.close().await;
}

/// S1-10, S1-18b: who offers a service is found, asked, followed and answered, on Mosquitto.
#[tokio::test]
async fn a_service_is_found_and_answers_on_mosquitto() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    ask(&broker.address()).await;
}

/// Likewise on the broker in this process.
#[tokio::test]
async fn a_service_is_found_and_answers_on_the_embedded_broker() {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let broker = EmbeddedBroker::start(any, 16 * 1024 * 1024).await.expect("starts");
    ask(&address(broker.address().port())).await;
    broker.stop().await;
}

/// The kept result of an earlier job with the same id is not taken for the answer.
#[tokio::test]
async fn an_old_result_is_no_answer() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let house = House::open(&broker.address()).await;
    let mut observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    observer.publish("agents/commands/dba/invoke", invoke("alice", "j", r#"{"old":1}"#), false).await;
    observer.wait_for("agents/jobs/alice/j/result", |_| true).await;
    let mut requester = Requester::connect(settings(&broker.address()), PATIENCE).await.expect("connects");
    requester.invoke(&agent(), &request("j", r#"{"new":1}"#), Instant::now() + PATIENCE).await.expect("taken");
    let answer = result(&mut requester).await;
    assert!(answer.contains(r#""new":1"#), "{answer}");
    house.close().await;
}

/// A requester whose connection breaks while it waits still gets its answer, from what is kept.
#[tokio::test]
async fn a_broken_wait_goes_on() {
    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    let house = House::open(&broker.address()).await;
    let mut requester = Requester::connect(settings(&proxy.address()), PATIENCE).await.expect("connects");
    house.journal.hold();
    requester.invoke(&agent(), &request("j", r#"{"x":1}"#), Instant::now() + PATIENCE).await.expect("taken");
    house.echo.wait(|asked| !asked.is_empty()).await;
    proxy.set_open(false);
    proxy.cut();
    house.journal.resume();
    house.delivered().await;
    proxy.set_open(true);
    assert!(result(&mut requester).await.contains(r#""x":1"#));
    house.close().await;
}

/// Each way to get nowhere is told apart.
#[tokio::test]
async fn every_failure_has_its_name() {
    let nowhere = address(free_port());
    let error = Requester::connect(settings(&nowhere), PATIENCE).await.err().expect("nobody there");
    assert!(matches!(error, RequesterError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&nowhere.to_string()), "{error}");

    let Some(broker) = Mosquitto::start(STOCK).await else { return };
    let soon = || Instant::now() + PATIENCE;
    let mut requester = Requester::connect(settings(&broker.address()), PATIENCE).await.expect("connects");
    let stranger = AgentId::parse("stranger").expect("an agent");
    let error = requester.invoke(&stranger, &request("j", "{}"), soon()).await.expect_err("nobody listens");
    assert!(matches!(error, RequesterError::NobodyListens { .. }), "{error}");
    let error = requester.hear(Instant::now() + Duration::from_millis(50)).await.expect_err("silence");
    assert!(matches!(error, RequesterError::NoAnswer { .. }), "{error}");
    assert_eq!(requester.agents(None, soon()).await.expect("the registry"), []);

    let locked = Mosquitto::start("allow_anonymous false\n").await.expect("just started one");
    let error = Requester::connect(settings(&locked.address()), PATIENCE).await.err().expect("refused");
    assert!(matches!(error, RequesterError::LoginRefused { .. }), "{error}");
}

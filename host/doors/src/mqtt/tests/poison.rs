//! A row that the broker answers by cutting the connection holds up nothing else.

use std::time::Duration;

use job::status::Severity;
use kit::MemoryJournal;
use kit::samples::{key, key_of};

use super::broker::{BENCH, Mosquitto, STOCK};
use super::delivery::{finish, outcome};
use super::house::House;
use super::observer::{Observer, retained};
use super::proxy::Proxy;

const SMALL: usize = 20;

async fn finish_small(house: &House, from: usize) {
    for number in from..from + SMALL {
        finish(&house.journal, &key(&format!("small{number}")), outcome(number, "x")).await;
    }
}

/// G1-46: Mosquitto's message_size_limit is said in no CONNACK; the result over it becomes error output_limit, what was sent with
/// it arrives, and the limit is remembered.
#[tokio::test]
async fn a_result_over_a_silent_size_limit_becomes_an_error() {
    let Some(broker) = Mosquitto::start("message_size_limit 2000\n").await else { return };
    let house = House::open(&broker.address()).await;
    assert_eq!(house.mesh.courier().result_bytes_max(&key("big")), None);
    finish_small(&house, 0).await;
    finish(&house.journal, &key("big"), outcome(1, &"x".repeat(100_000))).await;
    finish_small(&house, SMALL).await;
    house.delivered().await;
    let kept = retained(&broker.address(), "agents/jobs/alice/+/result", 2 * SMALL + 1).await;
    let of = |job: &str| kept.iter().find(|got| got.topic.contains(job)).expect("kept").payload.clone();
    assert!(of("big").contains(r#""type":"error","reason":"output_limit""#), "{}", of("big"));
    assert!(of("small39").contains(r#""type":"result""#));
    let learned = house.mesh.courier().result_bytes_max(&key("big")).expect("learned");
    assert!((2000..100_000).contains(&learned), "{learned}");
    // A second one is replaced before it is sent: no connection is lost for it.
    let open = house.mesh.connection(&super::house::agent()).expect("its connection");
    finish(&house.journal, &key("big2"), outcome(2, &"x".repeat(100_000))).await;
    house.delivered().await;
    assert!(!open.has_changed().expect("it lives"));
}

/// This Mosquitto answers a forbidden publish and cuts the connection besides where its queue has no limit.
async fn forbid(rules: &str, lines: &str) -> Option<(Mosquitto, House)> {
    let lines = format!("{lines}acl_file FOLDER/acl\n");
    let broker = Mosquitto::start_with(&lines, &[("acl", rules)]).await?;
    let house = House::begin(&broker.address(), MemoryJournal::default(), None);
    house.online().await;
    Some((broker, house))
}

/// A forbidden row is a refusal, cut or not: it is named with the line that mends it, waits, and goes out once it may.
#[tokio::test]
async fn a_forbidden_row_is_no_lost_connection() {
    let rules = "topic readwrite agents/registry/#\ntopic readwrite agents/jobs/alice/#\ntopic read agents/#\n";
    let Some((broker, house)) = forbid(rules, BENCH).await else { return };
    finish(&house.journal, &key_of("dba", "bob", "no"), outcome(1, "x")).await;
    finish_small(&house, 0).await;
    house.left(1).await;
    assert_eq!(retained(&broker.address(), "agents/jobs/alice/+/result", SMALL).await.len(), SMALL);
    let condition = house.condition("broker.dba.publish", |_| true).await;
    assert!(condition.what.contains("agents/jobs/bob/no/result"), "{}", condition.what);
    assert!(condition.mend.contains("topic write agents/jobs/#"), "{}", condition.mend);
    broker.write("acl", "topic readwrite #\n");
    broker.reload();
    house.delivered().await;
    assert_eq!(retained(&broker.address(), "agents/jobs/bob/no/result", 1).await.len(), 1);
    house.online().await;
    assert!(!house.board.conditions().contains_key("broker.dba.publish"));
}

/// Where every result is forbidden, the board says which topic and what to write into the access rules; nothing is lost.
#[tokio::test]
async fn forbidden_jobs_are_named_on_the_board() {
    for lines in [STOCK, BENCH] {
        let rules = "topic readwrite agents/registry/#\ntopic read agents/#\n";
        let Some((broker, house)) = forbid(rules, lines).await else { return };
        for job in ["a", "b", "c"] {
            finish(&house.journal, &key(job), outcome(1, "x")).await;
        }
        let condition = house.condition("broker.dba.publish", |_| true).await;
        assert!(condition.what.contains("agents/jobs/alice/"), "{}", condition.what);
        assert!(condition.mend.contains("topic write agents/jobs/#"), "{}", condition.mend);
        broker.write("acl", "topic readwrite #\n");
        broker.reload();
        house.delivered().await;
        assert_eq!(retained(&broker.address(), "agents/jobs/alice/+/result", 3).await.len(), 3);
    }
}

/// A broker that only cuts, at one topic: all other rows arrive, the board names topic and job, and the row is kept and sent
/// once the broker takes it.
#[tokio::test]
async fn a_row_that_cuts_the_connection_is_set_aside() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    let house = House::open(&proxy.address()).await;
    proxy.dislike("agents/jobs/alice/poison/result");
    finish_small(&house, 0).await;
    finish(&house.journal, &key("poison"), outcome(1, &"x".repeat(5000))).await;
    finish_small(&house, SMALL).await;
    house.left(1).await;
    assert_eq!(retained(&broker.address(), "agents/jobs/alice/+/result", 2 * SMALL).await.len(), 2 * SMALL);
    let condition = house.condition("broker.dba.publish", |_| true).await;
    assert_eq!(condition.severity, Severity::Degraded);
    assert!(condition.what.contains("agents/jobs/alice/poison/result"), "{}", condition.what);
    assert!(condition.what.contains("job "), "{}", condition.what);
    let before = proxy.connections();
    assert!(before <= 7, "{before} connections");
    house.online().await;
    // Set aside, it costs no more connections, and rows that come now pass at once.
    finish_small(&house, 2 * SMALL).await;
    house.left(1).await;
    assert_eq!(proxy.connections(), before);
    proxy.dislike("");
    house.delivered().await;
    let kept = retained(&broker.address(), "agents/jobs/alice/poison/result", 1).await;
    assert!(kept[0].payload.contains(r#""type":"result""#));
    assert!(!house.board.conditions().contains_key("broker.dba.publish"));
}

/// G1-46: a broker that only cuts, at one large result and at nothing else, gets an error in its place, and the size is remembered.
#[tokio::test]
async fn a_result_that_only_its_size_can_explain_becomes_an_error() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    let house = House::open(&proxy.address()).await;
    proxy.dislike(&"x".repeat(500));
    finish_small(&house, 0).await;
    finish(&house.journal, &key("big"), outcome(1, &"x".repeat(5000))).await;
    house.delivered().await;
    let kept = retained(&broker.address(), "agents/jobs/alice/big/result", 1).await;
    assert!(kept[0].payload.contains(r#""reason":"output_limit""#), "{}", kept[0].payload);
    assert!(house.mesh.courier().result_bytes_max(&key("big")).is_some_and(|max| max < 5000));
}

/// A broker that cuts at the short error as well has another reason than size: the result is kept whole, and no limit learned.
#[tokio::test]
async fn a_disliked_topic_is_not_taken_for_a_size_limit() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    let house = House::open(&proxy.address()).await;
    proxy.dislike("agents/jobs/alice/big/result");
    finish(&house.journal, &key("big"), outcome(1, &"x".repeat(5000))).await;
    // Two cuts together with others, three alone, one after it was set aside, and one for the error in its place.
    let until = tokio::time::Instant::now() + super::observer::PATIENCE;
    while proxy.connections() < 8 {
        assert!(tokio::time::Instant::now() < until, "{} connections", proxy.connections());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    house.online().await;
    finish_small(&house, 0).await;
    house.left(1).await;
    assert_eq!(house.mesh.courier().result_bytes_max(&key("big")), None);
    assert_eq!(house.board.conditions()["broker.dba.publish"].severity, Severity::Degraded);
}

/// Likewise at the profile, which is published at each connection: results arrive without it.
#[tokio::test]
async fn a_profile_that_cuts_the_connection_is_set_aside() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    let proxy = Proxy::start(broker.port, Duration::ZERO).await;
    proxy.dislike("agents/registry/dba/profile");
    let house = House::begin(&proxy.address(), MemoryJournal::default(), None);
    finish_small(&house, 0).await;
    house.delivered().await;
    assert_eq!(retained(&broker.address(), "agents/jobs/alice/+/result", SMALL).await.len(), SMALL);
    let condition = house.condition("broker.dba.publish", |_| true).await;
    assert!(condition.what.contains("agents/registry/dba/profile"), "{}", condition.what);
    house.online().await;
    assert!(house.board.conditions().contains_key("broker.dba.publish"));
}

/// Four cuts in a row, each with the same row in flight and unanswered, park nothing: it is sent again at once and arrives as the
/// job made it.
#[tokio::test]
async fn cuts_of_the_network_lose_nothing_and_park_nothing() {
    let Some(broker) = Mosquitto::start(BENCH).await else { return };
    // Answers come so late that the row is still in flight at each cut.
    let proxy = Proxy::start(broker.port, Duration::from_millis(200)).await;
    let house = House::open(&proxy.address()).await;
    let observer = Observer::start(&broker.address(), "agents/jobs/#").await;
    finish(&house.journal, &key("big"), outcome(1, &"x".repeat(50_000))).await;
    for seen in 1..=4 {
        observer.wait("the row again", |all| all.len() >= seen).await;
        proxy.cut();
    }
    observer.wait("the row at last", |all| all.len() >= 5).await;
    house.delivered().await;
    assert!(!house.board.conditions().contains_key("broker.dba.publish"));
    assert!(
        observer.got().iter().all(|got| got.payload == observer.got()[0].payload && got.payload.contains(r#""type":"result""#))
    );
}

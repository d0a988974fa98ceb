//! The registry: profile, status, last will, identity of the connection.
//!
//! Owns sections 3 and 13 of the protocol document for one agent.

use house::audit;
use house::broker::{Broker, Options, Style};
use house::catalog::Catalog;
use house::lab::{AGENT, Lab, late};
use serde_json::json;

/// S1-12, S1-13, S1-14, S1-15, S1-80: who comes later gets the profile at once, with what this deployment enforces, and no prompt.
#[test]
fn the_profile_is_retained_and_complete() {
    let lab = Lab::start();
    let profiles = lab.late("agents/registry/+/profile");
    assert_eq!(profiles.len(), 1);
    let profile = &profiles[0].json;
    assert_eq!(
        (&profile["agentId"], &profile["status"], &profile["protocolVersion"]),
        (&json!(AGENT), &json!("online"), &json!("1.3"))
    );
    assert!(profile["displayName"].is_string());
    assert_eq!((&profile["ownerPolicy"]["required"], &profile["ownerPolicy"]["verified"]), (&json!(true), &json!(false)));
    assert!(audit::is_timestamp(profile["ts"].as_str().unwrap()));
    let echo = profile["capabilities"].as_array().unwrap().iter().find(|c| c["service"] == "test.echo").unwrap();
    let expected =
        json!({"service": "test.echo", "description": "Answers with its prompt.", "requestSchema": {"text": "string"}});
    assert_eq!(*echo, expected);
    let status = &lab.late("agents/registry/+/status")[0].json;
    assert_eq!((&status["agentId"], &status["status"]), (&json!(AGENT), &json!("online")));
    assert!(status["instanceId"].is_string() && audit::is_timestamp(status["ts"].as_str().unwrap()), "{status}");
}

/// S1-16, G1-55: only what loaded is advertised; an entry that failed is absent and the others are there.
#[test]
fn only_loaded_capabilities_are_advertised() {
    let catalog = Catalog::usual();
    catalog.file("bad.json", &json!([
        {"service": "test.partial", "description": "Names a partial.", "prompt": "{{> self}}"},
        {"service": "test.fine", "description": "Fine.", "prompt": "fine"},
        {"service": "test.noguest", "description": "Names a file that is not there.", "prompt": "", "executor": "absent.wasm"},
    ]));
    catalog.text("broken.json", "{ not json");
    let lab = Lab::with(catalog, |_| {});
    let profile = lab.late("agents/registry/dba/profile")[0].json.clone();
    let mut services: Vec<&str> =
        profile["capabilities"].as_array().unwrap().iter().map(|c| c["service"].as_str().unwrap()).collect();
    services.sort_unstable();
    assert_eq!(services, ["test.echo", "test.fine", "test.mischief"]);
    lab.invoke("absent", "test.partial", json!({}));
    assert_eq!(lab.result("absent")["reason"], "unknown_service");
}

/// S1-19, S1-C2, G1-11: killed, the broker itself says offline, retained, on the status topic.
#[test]
fn a_killed_node_is_marked_offline_by_the_broker() {
    let mut lab = Lab::start();
    let mark = lab.client.mark();
    lab.kill();
    let will = lab.client.next(mark, "the will", |m| m.topic == "agents/registry/dba/status");
    assert_eq!((&will.json["status"], &will.json["agentId"]), (&json!("offline"), &json!(AGENT)), "{will:?}");
    assert!(will.json["instanceId"].is_string(), "{will:?}");
    assert_eq!(lab.late("agents/registry/dba/status")[0].json, will.json);
}

/// S1-01, S1-07, S1-11, S1-85, G1-14: what the broker saw: one connection with the stable id, a kept session, keepalive 30 s, a
/// retained QoS 1 will, QoS 1 throughout, and no subscription to everyone's jobs.
#[test]
fn the_broker_saw_one_proper_connection() {
    let mut lab = Lab::start();
    lab.settle("one");
    lab.kill();
    lab.up();
    lab.settle("two");
    let log = lab.broker.log();
    let ours: Vec<&str> = log.lines().filter(|line| line.contains(&format!("amp:agents:{AGENT}"))).collect();
    let connects: Vec<&&str> = ours.iter().filter(|line| line.contains("New client connected")).collect();
    assert_eq!(connects.len(), 2, "{connects:?}");
    assert!(connects.iter().all(|line| line.contains("(p5, c0, k30")), "{connects:?}");
    assert!(log.contains("Will message specified") && log.contains("(r1, q1)"), "no retained QoS 1 will");
    let published: Vec<&&str> = ours.iter().filter(|line| line.contains("Received PUBLISH from")).collect();
    assert!(!published.is_empty() && published.iter().all(|line| line.contains(", q1, ")), "{published:?}");
    // Mosquitto logs each filter on a line of its own after the SUBSCRIBE it came in.
    let filters: Vec<&str> = log.lines().filter(|line| line.contains("\tagents/") && line.contains("(QoS ")).collect();
    assert!(!filters.is_empty(), "no subscription in the broker's log");
    for filter in filters {
        assert!(!filter.contains("agents/jobs/#") && !filter.contains("agents/jobs/+"), "{filter}");
        assert!(filter.contains("(QoS 1)"), "{filter}");
    }
}

/// S1-05, S1-05b, S1-06, S1-06b, G1-14: a configured root moves every topic, and roots on one broker do not see each other.
#[test]
fn roots_are_apart() {
    let mut first = Lab::prepared(Broker::start(Style::Bench), Catalog::usual(), |config| {
        config.set("mesh.root", "a");
    });
    first.rules.roots = vec!["a".into(), "a-b".into()];
    let mark = first.client.mark();
    first.node = Some(house::node::Node::start(&first.config));
    first.client.next(mark, "a/dba", |m| m.topic == "a/registry/dba/status" && m.json["status"] == "online");
    let dir = tempfile::TempDir::new().unwrap();
    let mut config = house::config::Config::new(dir.path(), &first.broker.url(), "dba", first.catalog.path());
    config.default_prompt().set("mesh.root", "a-b");
    let mut second = house::node::Node::start(&config);
    first.client.next(mark, "a-b/dba", |m| m.topic == "a-b/registry/dba/status" && m.json["status"] == "online");
    for root in ["a", "a-b"] {
        let body = json!({"service": "test.echo", "args": {"text": root}, "requestedBy": "alice", "jobId": "j"}).to_string();
        first.client.publish(house::client::Outgoing::new(format!("{root}/commands/dba/invoke"), body));
        let result = first.client.next(mark, "the result", |m| m.topic == format!("{root}/jobs/alice/j/result"));
        assert_eq!(result.json["prompt"], root);
    }
    assert_eq!(late(first.broker.port(), "+/jobs/alice/j/result").len(), 2);
    second.stop();
    second.log();
}

/// S1-85: user name and password, the latter by a variable; a wrong one is named and the node keeps trying.
#[test]
fn login_with_user_name_and_password() {
    let options = Options { users: vec![("dba".into(), "s3cret word".into())], ..Options::default() };
    let broker = Broker::with(Style::Bench, &options);
    let catalog = Catalog::usual();
    let dir = tempfile::TempDir::new().unwrap();
    let mut config = house::config::Config::new(dir.path(), &broker.url(), "dba", catalog.path());
    config.default_prompt().set("mesh.username", "dba").set("mesh.password", "${MESH_WORD}").set("vars.MESH_WORD", "wrong");
    let mut node = house::node::Node::start(&config);
    let page = house::until("/readyz to tell of the refused login", || {
        node.page("/readyz").filter(|(status, body)| *status == 503 && body.to_lowercase().contains("refused"))
    });
    assert!(page.1.contains(&broker.port().to_string()), "{}", page.1);
    node.assert_alive();
    node.stop();
    config.set("vars.MESH_WORD", "s3cret word");
    let mut node = house::node::Node::start(&config);
    node.wait_ready();
    assert!(!node.log().contains("s3cret word"), "the password stands in the log");
}

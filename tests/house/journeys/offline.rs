//! Work that arrives while the agent is away is queued by the broker and runs when it is back.
//!
//! Owns the property the protocol document calls the one worth testing (section 13).

use house::broker::{Broker, Options, Style};
use house::catalog::Catalog;
use house::lab::{Lab, OWNER};
use house::proxy::Proxy;
use serde_json::json;

/// S1-86, S1-C3, S1-01: published while the node is dead, run after its restart, on the stock broker.
#[test]
fn an_invoke_waits_for_a_killed_node() {
    let mut lab = Lab::prepared(Broker::start(Style::Stock), Catalog::usual(), |_| {});
    lab.up();
    lab.kill();
    for at in 0..20 {
        lab.invoke(&format!("wait{at}"), "test.echo", json!({"text": "patience"}));
    }
    lab.up();
    for at in 0..20 {
        assert_eq!(lab.result(&format!("wait{at}"))["prompt"], "patience");
    }
}

/// S1-86b: after a clean stop, with the profile gone, an invoke is queued and run at the next start.
#[test]
fn an_invoke_waits_for_a_stopped_node() {
    let mut lab = Lab::start();
    lab.stop();
    lab.invoke("wait", "test.echo", json!({"text": "patience"}));
    assert!(lab.late("agents/registry/#").is_empty());
    lab.up();
    assert_eq!(lab.result("wait")["prompt"], "patience");
}

/// S1-86: the same over a cut network.
#[test]
fn an_invoke_waits_for_a_cut_network() {
    let broker = Broker::start(Style::Bench);
    let proxy = Proxy::start(broker.port());
    let url = proxy.url();
    let mut lab = Lab::prepared(broker, Catalog::usual(), |config| {
        config.set("mesh.broker", url);
    });
    lab.up();
    let mark = lab.client.mark();
    proxy.block();
    lab.invoke("wait", "test.echo", json!({"text": "patience"}));
    // The broker noticed the cut, so the invoke was queued for the session, not sent into the void.
    lab.client.next(mark, "the will", |m| m.json["status"] == "offline");
    proxy.release();
    lab.wait_online(mark);
    assert_eq!(lab.result("wait")["prompt"], "patience");
}

/// S1-87, S1-73: the same while the node came back with another catalog, which needs no build.
#[test]
fn an_invoke_waits_for_a_node_with_a_new_catalog() {
    let mut lab = Lab::start();
    lab.stop();
    lab.invoke("new", "test.fresh", json!({"name": "Ada"}));
    lab.catalog.file("fresh.json", &json!({"service": "test.fresh", "description": "New.", "prompt": "Hello {{name}}."}));
    lab.up();
    assert_eq!(lab.result("new")["prompt"], "Hello Ada.");
    let profile = lab.late("agents/registry/dba/profile")[0].json.clone();
    assert!(profile["capabilities"].as_array().unwrap().iter().any(|c| c["service"] == "test.fresh"));
}

/// S1-86, G1-24: a broker with persistence restarts; session and queued invokes are still there, and so are retained results.
#[test]
fn a_broker_restart_with_persistence_loses_nothing() {
    let options = Options { persistence: true, ..Options::default() };
    let mut lab = Lab::prepared(Broker::with(Style::Stock, &options), Catalog::usual(), |_| {});
    lab.up();
    let before = lab.ask("before", "test.echo", json!({"text": "x"}));
    lab.kill();
    lab.invoke("queued", "test.echo", json!({"text": "y"}));
    lab.broker.stop();
    lab.broker.up();
    lab.client.wait_ups(2);
    lab.up();
    assert_eq!(lab.result("queued")["prompt"], "y");
    assert_eq!(lab.late("agents/jobs/alice/before/result")[0].json, before);
}

/// G1-35, U05's kind: a retained command is never executed, whoever left it there; the true result stays.
#[test]
fn a_retained_command_is_never_executed() {
    let mut lab = Lab::start();
    let order = lab.order(OWNER, "r1", "test.echo", json!({"text": "once"}));
    lab.client.publish(order.retained());
    let result = lab.result("r1");
    for _ in 0..3 {
        lab.kill();
        lab.up();
    }
    lab.settle("end");
    assert_eq!(lab.event_types("r1").iter().filter(|kind| *kind == "started").count(), 1);
    assert_eq!(lab.late("agents/jobs/alice/r1/result")[0].json, result);
    lab.client.publish(house::client::Outgoing::new("agents/commands/dba/invoke", "").retained());
}

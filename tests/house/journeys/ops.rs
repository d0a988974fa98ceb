//! The ops pages and the log: how an operator learns how the node is.
//!
//! Owns /healthz, /readyz and /metrics from the outside.

use house::broker::{Broker, Style};
use house::catalog::Catalog;
use house::http;
use house::lab::{AGENT, Lab};
use serde_json::json;

/// Ops from the first day: alive, ready, and counted.
#[test]
fn pages_answer() {
    let mut lab = Lab::start();
    lab.ask("one", "test.echo", json!({"text": "x"}));
    let node = lab.node();
    assert_eq!(node.page("/healthz").map(|(status, _)| status), Some(200));
    assert_eq!(node.page("/readyz").map(|(status, _)| status), Some(200));
    let (status, metrics) = node.page("/metrics").unwrap();
    assert_eq!(status, 200);
    for line in metrics.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        assert!(line.rsplit(' ').next().is_some_and(|value| value.parse::<f64>().is_ok()), "not a sample: {line}");
    }
    assert!(metrics.contains("# TYPE"), "{metrics}");
    assert_eq!(node.page("/no-such-page").map(|(status, _)| status), Some(404));
}

/// G1-20, G1-35: what is dropped is counted, so that an operator can see it.
#[test]
fn dropped_commands_are_counted() {
    let mut lab = Lab::start();
    let before = lab.node().page("/metrics").unwrap().1;
    lab.raw("not json");
    lab.settle("end");
    let after = lab.node().page("/metrics").unwrap().1;
    let samples = |page: &str| -> Vec<String> { page.lines().filter(|line| !line.starts_with('#')).map(String::from).collect() };
    let old = samples(&before);
    let fresh: Vec<String> = samples(&after).into_iter().filter(|line| !old.contains(line)).collect();
    let words = ["garbage", "dropped", "not_a_job", "malformed", "ignored", "unreadable"];
    let counted = fresh.iter().any(|line| words.iter().any(|word| line.contains(word)));
    assert!(counted, "no metric tells of the dropped payload: {fresh:?}");
}

/// Each failing thing is named with its mend: a bad entry degrades, a lost broker takes readiness away; both are named.
#[test]
fn what_fails_is_named_with_its_mend() {
    let catalog = Catalog::usual();
    catalog.text("broken.json", "{ not json");
    let mut lab = Lab::with(catalog, |_| {});
    let (_, page) = lab.node().page("/readyz").unwrap();
    assert!(page.contains("broken.json"), "{page}");
    lab.broker.kill();
    let ops = lab.config.ops();
    let (_, page) = house::until("readiness to end", || http::get(ops, "/readyz").filter(|(status, _)| *status == 503));
    assert!(page.contains(&lab.broker.port().to_string()) && page.contains(AGENT), "{page}");
    lab.broker.up();
    lab.client.wait_ups(2);
    lab.node().wait_ready();
}

/// DESIGN: a busy port is one sentence that says what, where and what to do, with exit code 2 or 1, not a panic.
#[test]
fn a_busy_port_is_said_in_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let broker = Broker::start(Style::Bench);
    let catalog = Catalog::usual();
    let dir = tempfile::TempDir::new().unwrap();
    let mut config = house::config::Config::new(dir.path(), &broker.url(), AGENT, catalog.path());
    config.default_prompt().set("ops.listen", format!("127.0.0.1:{port}"));
    let mut node = house::node::Node::start(&config);
    let code = node.end().code();
    let log = node.log();
    assert!(matches!(code, Some(1 | 2)), "{code:?}: {log}");
    assert!(log.contains(&port.to_string()) && log.contains("ops.listen"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

/// DESIGN `[ops]`: other addresses than loopback need a token.
#[test]
fn an_open_ops_door_needs_a_token() {
    let broker = Broker::start(Style::Bench);
    let catalog = Catalog::usual();
    let dir = tempfile::TempDir::new().unwrap();
    let mut config = house::config::Config::new(dir.path(), &broker.url(), AGENT, catalog.path());
    config.default_prompt().set("ops.listen", format!("0.0.0.0:{}", house::ports::free()));
    let mut node = house::node::Node::start(&config);
    assert_eq!(node.end().code(), Some(2), "{}", node.log());
    assert!(node.log().contains("ops"), "{}", node.log());
}

/// `run` begins with an aligned block that tells broker, ops pages, store and how many capabilities there are.
#[test]
fn the_start_says_what_runs_where() {
    let mut lab = Lab::start();
    // Ready may be seen a moment before the block's last row is written.
    lab.node().wait_log("  secrets ");
    let log = lab.node().log();
    for part in [lab.broker.port().to_string(), lab.config.ops().to_string(), "data".into(), "2".into()] {
        assert!(log.contains(&part), "{part} is not in the start-up block:\n{log}");
    }
    assert!(!log.contains('\u{1b}'), "colour codes in a log that is no terminal");
}

/// DESIGN `data_dir`: a folder serves one process; a second one says so and ends, and the first goes on.
#[test]
fn two_nodes_on_one_data_folder_are_refused() {
    let lab = Lab::start();
    let mut config = lab.config.clone();
    config.set("ops.listen", format!("127.0.0.1:{}", house::ports::free()));
    let dir = tempfile::TempDir::new().unwrap();
    let path = config.write();
    let copy = dir.path().join("amp-node.toml");
    std::fs::copy(path, &copy).unwrap();
    let run = house::node::command(&["run", "--config", copy.to_str().unwrap()]);
    let mut second = house::node::Node::spawn(run, dir.path(), 0);
    let code = second.end().code();
    assert!(matches!(code, Some(1..=3)), "{code:?}: {}", second.log());
    assert!(second.log().contains("data"), "{}", second.log());
    assert_eq!(lab.ask("still", "test.echo", json!({"text": "x"}))["prompt"], "x");
}

//! Flags that no real broker sends on demand: RETAIN on an old command, DUP on a redelivery.
//!
//! Owns G1-35 and G1-45 to the letter, against a stub broker that sends exactly these flags.

use house::catalog::Catalog;
use house::config::Config;
use house::lab::AGENT;
use house::node::Node;
use house::stub::{Published, StubBroker};
use serde_json::json;
use tempfile::TempDir;

struct Bench {
    node: Node,
    stub: StubBroker,
    _catalog: Catalog,
    _dir: TempDir,
}

/// A node on the stub, with no resend window, so that only the DUP flag can bring a stored result back.
fn bench() -> Bench {
    let stub = StubBroker::start();
    let (catalog, dir) = (Catalog::usual(), TempDir::with_prefix("house-node-").unwrap());
    let mut config = Config::new(dir.path(), &stub.url(), AGENT, catalog.path());
    config.default_prompt().set("mesh.resend_window", "0s");
    let node = Node::start(&config);
    stub.wait_subscribed();
    Bench { node, stub, _catalog: catalog, _dir: dir }
}

fn invoke(job: &str, args: &serde_json::Value) -> String {
    json!({"service": "test.mischief", "args": args, "requestedBy": "alice", "jobId": job}).to_string()
}

fn is(published: &Published, job: &str, kind: &str) -> bool {
    published.topic.contains(&format!("/jobs/alice/{job}/")) && published.json["type"] == kind
}

impl Bench {
    fn deliver(&self, payload: &str, dup: bool, retain: bool) {
        self.stub.deliver(&format!("agents/commands/{AGENT}/invoke"), payload, dup, retain);
    }

    fn count(&self, job: &str, kind: &str) -> usize {
        self.stub.published().iter().filter(|published| is(published, job, kind)).count()
    }
}

/// G1-35, U05: a command with the RETAIN flag is acknowledged and never executed, and nothing is published; the log names it.
#[test]
fn a_command_with_the_retain_flag_never_runs() {
    let mut bench = bench();
    bench.deliver(&invoke("old", &json!({"do": "work", "n": 1})), false, true);
    bench.deliver(&invoke("fresh", &json!({"do": "work", "n": 1})), false, false);
    bench.stub.nth(0, "the fresh job's result", |published| is(published, "fresh", "result"));
    assert!(bench.stub.published().iter().all(|published| !published.topic.contains("/old/")));
    bench.node.wait_log("retained_command");
    bench.node.assert_alive();
}

/// G1-45, S1-46: with the DUP flag and the same bytes, an active job's invoke is acknowledged in silence and a finished job's
/// brings the stored result, without another run.
#[test]
fn a_redelivery_is_silent_or_brings_the_stored_result() {
    let bench = bench();
    let payload = invoke("again", &json!({"do": "sleep", "n": 700}));
    bench.deliver(&payload, false, false);
    bench.stub.nth(0, "the start", |published| is(published, "again", "started"));
    bench.deliver(&payload, true, false);
    let first = bench.stub.nth(0, "the result", |published| is(published, "again", "result"));
    bench.deliver(&payload, true, false);
    let second = bench.stub.nth(1, "the result again", |published| is(published, "again", "result"));
    assert_eq!(first.json, second.json);
    assert_eq!((bench.count("again", "started"), bench.count("again", "duplicate")), (1, 0));
}

/// G1-45, S1-42: without the DUP flag, or with other bytes, the invoke of an active id is a duplicate all the same.
#[test]
fn what_is_no_redelivery_is_a_duplicate() {
    let bench = bench();
    bench.deliver(&invoke("dup", &json!({"do": "sleep", "n": 1200})), false, false);
    bench.stub.nth(0, "the start", |published| is(published, "dup", "started"));
    bench.deliver(&invoke("dup", &json!({"do": "sleep", "n": 1200})), false, false);
    bench.stub.nth(0, "the first notice", |published| is(published, "dup", "duplicate"));
    bench.deliver(&invoke("dup", &json!({"do": "sleep", "n": 1})), true, false);
    bench.stub.nth(1, "the second notice", |published| is(published, "dup", "duplicate"));
    let result = bench.stub.nth(0, "the result", |published| is(published, "dup", "result"));
    assert_eq!(result.json["result"], "slept");
    assert_eq!(bench.count("dup", "started"), 1);
}

/// G1-17: past the resend window the same bytes without the DUP flag are a new job.
#[test]
fn the_same_bytes_without_the_flag_run_again() {
    let bench = bench();
    let payload = invoke("twice", &json!({"do": "work", "n": 5}));
    bench.deliver(&payload, false, false);
    bench.stub.nth(0, "the result", |published| is(published, "twice", "result"));
    // Within the millisecond the job ended in, even a window of nothing is not over.
    std::thread::sleep(std::time::Duration::from_millis(20));
    bench.deliver(&payload, false, false);
    bench.stub.nth(1, "a second start", |published| is(published, "twice", "started"));
    bench.stub.nth(1, "a second result", |published| is(published, "twice", "result"));
}

//! Every way a running job can end, each with its reason (G1-48).
//!
//! Owns what a requester sees when a guest misbehaves.

use house::catalog::{Catalog, MISCHIEF, mischief};
use house::lab::{Lab, OWNER};
use serde_json::{Value, json};

const FUEL: u64 = 50_000_000;
const TIMEOUT_MS: u64 = 400;

/// The misbehaving guest with tight limits, one service a limit.
fn tight() -> Catalog {
    let catalog = Catalog::usual();
    catalog.guest(MISCHIEF).file(
        "tight.json",
        &json!([
            mischief("test.brief", json!({"limits": {"timeoutMs": TIMEOUT_MS, "fuel": 1_000_000_000_000_u64}})),
            mischief("test.frugal", json!({"limits": {"timeoutMs": 30_000, "fuel": FUEL}})),
            mischief("test.small", json!({"limits": {"timeoutMs": 20_000, "memoryMb": 16}})),
        ]),
    );
    catalog
}

fn lab() -> Lab {
    Lab::with(tight(), |config| {
        config.set("limits.max.fuel", 2_000_000_000_000_i64);
    })
}

fn ended(result: &Value) -> (&str, &str) {
    (result["type"].as_str().unwrap_or_default(), result["reason"].as_str().unwrap_or_default())
}

/// S1-36, S1-38, S1-43, DC-05: one row a way to end, and after all of them the node still works.
#[test]
fn every_misbehaviour_has_its_ending() {
    let lab = lab();
    let rows = [
        ("test.brief", json!({"do": "loop"}), ("timeout", "deadline")),
        ("test.frugal", json!({"do": "loop"}), ("timeout", "fuel")),
        ("test.small", json!({"do": "panic", "text": "what now"}), ("error", "trap")),
        ("test.small", json!({"do": "unreachable"}), ("error", "trap")),
        ("test.small", json!({"do": "recurse"}), ("error", "trap")),
        ("test.small", json!({"do": "recurse_natively"}), ("error", "trap")),
        ("test.small", json!({"do": "wild_read"}), ("error", "trap")),
        ("test.small", json!({"do": "grow_forever"}), ("error", "memory_limit")),
        ("test.small", json!({"do": "grow_then_trap"}), ("error", "memory_limit")),
        ("test.small", json!({"do": "allocate", "n": 200}), ("error", "memory_limit")),
        ("test.small", json!({"do": "fail", "text": "no such table"}), ("error", "guest")),
        ("test.small", json!({"do": "huge_answer", "n": 600 * 1024}), ("error", "output_limit")),
        ("test.small", json!({"do": "answer", "text": "not json"}), ("error", "bad_output")),
        ("test.small", json!({"do": "reserved_kind", "text": "cancelled"}), ("error", "bad_output")),
    ];
    for (at, (service, args, expected)) in rows.iter().enumerate() {
        let result = lab.ask(&format!("end{at}"), service, args.clone());
        assert_eq!(ended(&result), *expected, "{args} ended with {result}");
    }
    assert_eq!(lab.ask("after", "test.echo", json!({"text": "still here"}))["prompt"], "still here");
}

/// S1-38, S1-04: what the guest says of its failure reaches the requester, and so do the words of a panic.
#[test]
fn the_guests_own_words_reach_the_requester() {
    let lab = lab();
    let failed = lab.ask("fail", "test.small", json!({"do": "fail", "text": "no such table"}));
    assert!(failed["message"].as_str().unwrap().contains("no such table"), "{failed}");
    let trapped = lab.ask("trap", "test.small", json!({"do": "panic", "text": "what now"}));
    assert!(trapped["message"].as_str().unwrap().contains("what now"), "{trapped}");
}

/// DC-04: fuel is deterministic: a spent limit is reported to the unit, and the same work always costs the same.
#[test]
fn fuel_is_deterministic() {
    let lab = lab();
    for at in 0..2 {
        let result = lab.ask(&format!("spent{at}"), "test.frugal", json!({"do": "loop"}));
        assert_eq!((ended(&result), &result["usage"]["fuel"]), (("timeout", "fuel"), &json!(FUEL)), "{result}");
    }
    let costs: Vec<Value> =
        (0..3).map(|at| lab.ask(&format!("same{at}"), "test.frugal", json!({"do": "work", "n": 100_000}))).collect();
    assert!(costs[0]["usage"]["fuel"].as_u64().is_some_and(|fuel| fuel > 100_000 && fuel < FUEL), "{}", costs[0]);
    assert!(costs.iter().all(|cost| cost["usage"]["fuel"] == costs[0]["usage"]["fuel"]), "{costs:?}");
}

/// DC-03: each job has an instance of its own; nothing of the one before is left, in statics or in memory.
#[test]
fn no_state_leaks_between_jobs() {
    let lab = lab();
    for at in 0..12 {
        let result = lab.ask(&format!("fresh{at}"), "test.small", json!({"do": "remember", "n": 4}));
        assert_eq!(result["result"], json!([1, 0]), "job {at} found something of another");
    }
}

/// DC-06, invariant 6: a guest without grants sees no environment, no arguments, no folders, no stdin and no network.
#[test]
fn nothing_is_granted_by_default() {
    let mut lab = lab();
    let mark = lab.client.mark();
    lab.stop();
    lab.node = Some(house::node::Node::start_with(&lab.config, &[], &[("CANARY_ENV", "canary-value")]));
    lab.wait_online(mark);
    let seen = lab.ask("look", "test.small", json!({"do": "look_around"}));
    assert_eq!((&seen["env"], &seen["args"], &seen["folders"]), (&json!([]), &json!([]), &json!([])), "{seen}");
    assert_eq!(seen["stdin"], "closed", "{seen}");
    assert_ne!(seen["socket"], "made", "{seen}");
}

/// S1-36, DESIGN "a guest blocked in a host call ends at the deadline all the same".
#[test]
fn the_deadline_reaches_into_host_calls() {
    let lab = lab();
    for (job, args) in [("sleep", json!({"do": "sleep", "n": 60_000})), ("write", json!({"do": "complain_forever"}))] {
        let result = lab.ask(job, "test.brief", args);
        assert_eq!(ended(&result), ("timeout", "deadline"), "{result}");
        let wall = result["usage"]["wallMs"].as_u64().unwrap();
        assert!((TIMEOUT_MS..TIMEOUT_MS + 3_000).contains(&wall), "stopped after {wall} ms");
    }
}

/// G1-52: an invoke whose publisher's own expiry passes in our queue ends as a timeout and never starts.
#[test]
fn an_expired_invoke_never_starts() {
    let lab = Lab::with(tight(), |config| {
        config.set("limits.max_running", 1).set("limits.max.fuel", 2_000_000_000_000_i64);
    });
    lab.invoke("busy", "test.mischief", json!({"do": "loop"}));
    lab.event(OWNER, "busy", "started");
    lab.client.publish(lab.order(OWNER, "late", "test.echo", json!({"text": "x"})).expires(1));
    lab.event(OWNER, "late", "accepted");
    let result = lab.result("late");
    assert_eq!(ended(&result), ("timeout", "deadline"), "{result}");
    lab.cancel(OWNER, "busy");
    lab.result("busy");
    lab.settle("end");
    assert_eq!(lab.event_types("late"), ["accepted"]);
}

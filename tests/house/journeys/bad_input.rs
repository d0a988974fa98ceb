//! Bytes that are not a job: counted, logged, never a crash, never a message.
//!
//! Owns U11, U14 and their kind on the command topics.

use house::client::Outgoing;
use house::lab::{AGENT, Lab, OWNER};
use serde_json::json;

/// G1-20, U11: payloads that are no job are dropped, and a good invoke after them completes.
#[test]
fn garbage_is_dropped_and_work_goes_on() {
    let mut lab = Lab::start();
    let garbage: &[&[u8]] = &[
        b"\xff\xfe\x00",
        b"",
        b"not json",
        b"{",
        b"[]",
        b"\"text\"",
        b"7",
        b"null",
        b"{\"service\":\"test.echo\"",
        b"{\"service\":\"test.echo\",\"requestedBy\":\"alice\"} trailing",
        b"{\"requestedBy\":\"al\xffice\"}",
        b"\x00\x01\x02\x03",
        b"\xef\xbb\xbf{\"a\":",
    ];
    for payload in garbage {
        lab.raw(payload);
    }
    lab.raw(vec![b'['; 200_000]);
    lab.raw(vec![b'{'; 200_000]);
    assert_eq!(lab.ask("good", "test.echo", json!({"text": "x"}))["prompt"], "x");
    let jobs = lab.client.all().into_iter().find(|m| m.topic.starts_with("agents/jobs/") && !m.topic.contains("/good/"));
    assert!(jobs.is_none(), "garbage was answered: {jobs:?}");
    // Each one left a line that names the topic; the log is written beside the work, so it is waited for.
    let topic = format!("agents/commands/{AGENT}/invoke");
    house::until("a line for each piece of garbage", || {
        (lab.node().log().matches(&topic).count() >= garbage.len()).then_some(())
    });
}

/// G4-7: a member named twice is ambiguous: it is no job, or it is refused, but it never runs under one of the two readings.
#[test]
fn a_member_named_twice_never_runs() {
    let lab = Lab::start();
    lab.raw(br#"{"service":"test.echo","service":"test.mischief","args":{"text":"x"},"requestedBy":"alice","jobId":"twice"}"#);
    lab.raw(br#"{"service":"test.echo","args":{"text":"x"},"requestedBy":"alice","requestedBy":"bob","jobId":"twice"}"#);
    lab.settle("end");
    let ran = lab.client.all().into_iter().find(|m| m.topic.contains("/twice/") && m.json["type"] != "rejected");
    assert!(ran.is_none(), "{ran:?}");
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// U14, G1-53: 64 levels of nesting work, 100 levels from the message root are the limit, 100,000 do no harm.
#[test]
fn nesting_has_one_limit() {
    let lab = Lab::start();
    let raw = |job: &str, depth: usize| {
        lab.raw(format!(
            r#"{{"service":"test.echo","args":{{"text":{}}},"requestedBy":"alice","jobId":"{job}"}}"#,
            nested(depth)
        ));
    };
    raw("n64", 64);
    assert_eq!(lab.result("n64")["prompt"], nested(64));
    // The message and its args are two levels.
    raw("n98", 98);
    assert_eq!(lab.result("n98")["prompt"], nested(98));
    for (job, depth) in [("n99", 99), ("n128", 128), ("n100000", 100_000)] {
        raw(job, depth);
    }
    lab.settle("end");
    let ran = lab
        .client
        .all()
        .into_iter()
        .find(|m| m.topic.contains("/n99/") || m.topic.contains("/n128/") || m.topic.contains("/n100000/"));
    assert!(ran.is_none_or(|m| m.json["type"] == "rejected"), "deeper than the limit ran");
    // A prompt that a guest answers with is parsed on the way out too.
    let deep = lab.ask("out", "test.mischief", json!({"do": "answer", "text": nested(5000)}));
    assert_eq!(deep["reason"], "bad_output", "{deep}");
}

/// Invariant 5: a thousand payloads of mutated invokes; the node neither crashes nor stops serving.
#[test]
fn mutated_invokes_do_no_harm() {
    let mut lab = Lab::start();
    lab.rules.reuses_ids = true;
    let seed = json!({"service": "test.echo", "args": {"text": "hello ${X} {{y}}"}, "requestedBy": OWNER, "jobId": "mut",
        "parentJobId": null, "rootJobId": "mut", "depth": 0})
    .to_string()
    .into_bytes();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut roll = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % (below as u64)).unwrap()
    };
    let orders = (0..1000).map(|_| {
        let mut bytes = seed.clone();
        for _ in 0..=roll(3) {
            if bytes.is_empty() {
                break;
            }
            let at = roll(bytes.len());
            match roll(4) {
                0 => bytes[at] = u8::try_from(roll(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"\"{}[],:\\\x00\xff9e-"[roll(13)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        Outgoing::new(format!("agents/commands/{AGENT}/invoke"), bytes)
    });
    lab.client.publish_all(orders.collect());
    assert_eq!(lab.ask("after", "test.echo", json!({"text": "alive"}))["prompt"], "alive");
}

/// G1-1: what arrives on topics next to ours is not ours.
#[test]
fn other_command_topics_are_not_ours() {
    let lab = Lab::start();
    let body = json!({"service": "test.echo", "args": {"text": "x"}, "requestedBy": OWNER, "jobId": "other"}).to_string();
    for topic in ["agents/commands/dbb/invoke", "agents/commands/dba/run"] {
        lab.client.publish(Outgoing::new(topic, &body));
    }
    lab.settle("end");
    assert!(lab.client.all().iter().all(|m| !m.topic.contains("/jobs/alice/")));
}

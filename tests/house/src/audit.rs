//! The checks every capture of `#` must pass, whatever the test was about.
//!
//! Owns the topic map of the protocol as an outsider reads it (G1-1), the members every payload carries, and the rule of one
//! terminal result. It must not know the node's own code.

use std::collections::HashMap;

use serde_json::Value;

use crate::client::Message;

/// Topics the tests themselves use as barriers.
pub const PROBE: &str = "probe/";

/// The closed table of reasons (G1-48), by result type.
const REASONS: &[(&str, &[&str])] = &[
    (
        "rejected",
        &[
            "unknown_service",
            "missing_requested_by",
            "bad_request",
            "bad_lineage",
            "depth_exceeded",
            "owner_mismatch",
            "schema",
            "payload_too_large",
            "overloaded",
        ],
    ),
    ("timeout", &["deadline", "fuel"]),
    (
        "error",
        &[
            "unresolved_variable",
            "secret_store",
            "template",
            "dependency",
            "guest",
            "trap",
            "memory_limit",
            "output_limit",
            "bad_output",
            "interrupted",
            "shutdown",
        ],
    ),
    ("cancelled", &["requested", "parent_ended"]),
    ("duplicate", &["active"]),
];

/// What a capture is measured by.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The mesh roots in use.
    pub roots: Vec<String>,
    /// Whether the test runs one job id more than once on purpose.
    pub reuses_ids: bool,
}

/// Checks a capture (S1-05b, S1-07, S1-08, S1-26, S1-45, S1-54, S1-04, S1-27, S1-28).
pub fn check(messages: &[Message], rules: &Rules) {
    let mut results: HashMap<&str, &Message> = HashMap::new();
    for message in messages.iter().filter(|message| !message.topic.starts_with(PROBE)) {
        let Some(rest) = rules.roots.iter().find_map(|root| message.topic.strip_prefix(&format!("{root}/"))) else {
            panic!("a topic outside every root: {}", message.topic);
        };
        let levels: Vec<&str> = rest.split('/').collect();
        match levels.as_slice() {
            ["registry", _, "profile" | "status"] => publish_rules(message, true),
            // Commands are the test's own and may be anything.
            ["commands", _, _] => {}
            ["jobs", owner, job, "events"] => {
                publish_rules(message, false);
                members(message, owner, job);
            }
            ["jobs", owner, job, "result"] => {
                publish_rules(message, true);
                if !message.payload.is_empty() {
                    members(message, owner, job);
                    result(message);
                    if !rules.reuses_ids {
                        one_result(&mut results, message);
                    }
                }
            }
            _ => panic!("a topic that is not in the map: {}", message.topic),
        }
    }
}

fn publish_rules(message: &Message, retained: bool) {
    assert_eq!(message.qos, 1, "{} is not QoS 1", message.topic);
    assert_eq!(message.retain, retained, "{} has the wrong retain flag", message.topic);
}

fn members(message: &Message, owner: &str, job: &str) {
    let body = &message.json;
    let shown = String::from_utf8_lossy(&message.payload);
    assert_eq!(body["jobId"], *job, "{shown} on {}", message.topic);
    assert_eq!(body["owner"], *owner, "{shown} on {}", message.topic);
    assert!(body["type"].is_string(), "no type in {shown}");
    let ts = body["ts"].as_str().unwrap_or_default();
    assert!(is_timestamp(ts), "ts {ts:?} is not RFC 3339 UTC with milliseconds: {shown}");
}

/// Whether a text reads like `2026-08-25T20:14:03.123Z` (G1-38).
pub fn is_timestamp(text: &str) -> bool {
    let shape = b"0000-00-00T00:00:00.000Z";
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, kind)| if *kind == b'0' { byte.is_ascii_digit() } else { byte == *kind })
}

fn result(message: &Message) {
    let body = &message.json;
    let shown = String::from_utf8_lossy(&message.payload);
    let kind = body["type"].as_str().unwrap_or_default();
    if let Some((_, reasons)) = REASONS.iter().find(|(word, _)| *word == kind) {
        let reason = body["reason"].as_str().unwrap_or_default();
        assert!(reasons.contains(&reason), "reason {reason:?} is not in the table for {kind}: {shown}");
        assert!(body["message"].as_str().is_some_and(|text| !text.is_empty()), "no message for people: {shown}");
    }
    for member in ["fuel", "wallMs", "peakMemoryBytes", "attempt"] {
        assert!(body["usage"][member].is_number(), "no usage.{member}: {shown}");
    }
    assert!(body["usage"].get("guest").is_some(), "no usage.guest: {shown}");
}

/// One job, one terminal result: what is published again is the same bytes, but for the duplicate notice (G1-16, G1-37).
fn one_result<'a>(results: &mut HashMap<&'a str, &'a Message>, message: &'a Message) {
    if message.json["type"] == "duplicate" {
        return;
    }
    let first = results.entry(&message.topic).or_insert(message);
    assert_eq!(first.payload, message.payload, "a second terminal result on {}", message.topic);
}

/// The timestamps of a job's messages, which must rise within each topic, the result's being the latest (G1-38).
pub fn check_order(events: &[Value], result: &Value) {
    let mut last = "";
    for event in events.iter().chain([result]) {
        let ts = event["ts"].as_str().unwrap_or_default();
        assert!(ts > last, "ts {ts} does not come after {last} in {event}");
        last = ts;
    }
}

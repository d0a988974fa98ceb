//! What an agent publishes about its jobs: results, notices and events, each as topic and bytes (G1-21, G1-47).
//!
//! Owns their layout. The same row gives the same bytes, always. It must not know when or how often they are sent.

use job::clock::Timestamp;
use job::courier::EventKind;
use job::ids::JobKey;
use job::json::JsonText;
use job::outcome::{Ending, Outcome, Usage};
use job::reason::Reason;
use job::store::Item;

use super::topics::Root;
use crate::shallow::members;
use crate::text::{Object, list};

/// Something to publish, always at QoS 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where.
    pub topic: String,
    /// What.
    pub payload: Vec<u8>,
    /// Whether the broker keeps it for later subscribers.
    pub retain: bool,
}

/// Room for the members of ours that every payload has, in bytes: a guess that spares most payloads a second allocation.
const FRAME_BYTES: usize = 384;

/// The members that are ours on every result, whatever a guest writes there (G1-47).
const OURS: [&str; 5] = ["jobId", "owner", "type", "ts", "usage"];
/// The members that are ours besides on the five reserved types.
const OURS_RESERVED: [&str; 2] = ["reason", "message"];

/// The message of an outbox row.
pub fn row(root: &Root, key: &JobKey, item: &Item) -> Message {
    let (topic, payload) = match item {
        Item::Outcome(outcome) | Item::Duplicate(outcome) | Item::Rejection(outcome) => {
            (root.result(&key.owner, &key.job), outcome_payload(key, outcome))
        }
        Item::CancelAcknowledged(ts) => (root.events(&key.owner, &key.job), cancel_acknowledged_payload(key, *ts)),
        Item::CancelRejected(ts) => (root.events(&key.owner, &key.job), cancel_rejected_payload(key, *ts)),
    };
    Message { topic, payload, retain: item.is_retained() }
}

/// The message of a milestone.
pub fn event(root: &Root, key: &JobKey, kind: &EventKind, ts: Timestamp) -> Message {
    let payload = match kind {
        EventKind::Accepted => head(key, "accepted", 0).time("ts", ts).finish(),
        EventKind::Started => head(key, "started", 0).time("ts", ts).finish(),
        EventKind::Progress { message } => head(key, "progress", message.len()).text("message", message).time("ts", ts).finish(),
    };
    Message { topic: root.events(&key.owner, &key.job), payload: payload.into_bytes(), retain: false }
}

/// A result: our members, the guest's own spread beside them or under `result`, ours winning.
pub fn outcome_payload(key: &JobKey, outcome: &Outcome) -> Vec<u8> {
    let mut object = match &outcome.ending {
        Ending::Done { kind, body } => {
            let mut object = head(key, kind, body.as_str().len());
            spread(&mut object, body, &OURS, &[]);
            object
        }
        Ending::Ended { reason, message, extra } => {
            let mut object = head(key, reason.kind().word(), message.len() + extra.as_str().len());
            object.text("reason", reason.word()).text("message", message);
            spread(&mut object, extra, &OURS, &OURS_RESERVED);
            object
        }
    };
    object.time("ts", outcome.ts).raw("usage", &usage(&outcome.usage));
    object.finish().into_bytes()
}

/// The result that stands in for one that is larger than the broker takes (G1-46). Made from the row alone, so a second
/// sending gives the same bytes.
pub fn too_large(outcome: &Outcome, size_bytes: usize, max_bytes: usize) -> Outcome {
    let message = format!("the result has {size_bytes} bytes, the broker takes messages of {max_bytes}");
    Outcome::ended(Reason::OutputLimit, message, outcome.usage.clone(), outcome.ts)
}

fn head(key: &JobKey, kind: &str, body_bytes: usize) -> Object {
    let mut object = Object::with_capacity(FRAME_BYTES + body_bytes);
    object.text("jobId", key.job.as_str()).text("owner", key.owner.as_str()).text("type", kind);
    object
}

fn cancel_acknowledged_payload(key: &JobKey, ts: Timestamp) -> Vec<u8> {
    head(key, "cancel_acknowledged", 0).time("ts", ts).finish().into_bytes()
}

fn cancel_rejected_payload(key: &JobKey, ts: Timestamp) -> Vec<u8> {
    let mut object = head(key, "cancel_rejected", 0);
    object.text("reason", "not_active").text("message", "no job with this id is active in this scope");
    object.time("ts", ts).finish().into_bytes()
}

/// Adds a checked JSON value: an object's members at top level but for ours, any other value under `result`.
fn spread(object: &mut Object, body: &JsonText, ours: &[&str], more: &[&str]) {
    let text = body.as_str().trim();
    let is_ours = |name: &str| ours.contains(&name) || more.contains(&name);
    let mut collides = false;
    // One scan finds out whether the members can be taken over as they stand, which they nearly always can.
    match members(text, |name, _| collides |= is_ours(&name)) {
        Err(_) => {
            object.raw("result", text);
        }
        Ok(()) if !collides => {
            object.splice(text[1..text.len() - 1].trim());
        }
        Ok(()) => {
            let read = members(text, |name, json| {
                if !is_ours(&name) {
                    object.foreign(&name, json);
                }
            });
            debug_assert!(read.is_ok(), "the first scan read the same text");
        }
    }
}

fn usage(usage: &Usage) -> String {
    let mut object = Object::with_capacity(160);
    object.number("fuel", usage.fuel).number("wallMs", usage.wall_ms);
    object.number("peakMemoryBytes", usage.peak_memory_bytes);
    match &usage.guest {
        Some(hash) => object.text("guest", hash),
        None => object.raw("guest", "null"),
    };
    object.number("attempt", u64::from(usage.attempt));
    if !usage.redacted.is_empty() {
        let items = usage
            .redacted
            .iter()
            .map(|secret| Object::with_capacity(64).text("name", &secret.name).text("source", &secret.source).finish());
        object.raw("redacted", &list(items));
    }
    object.finish()
}

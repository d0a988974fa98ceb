//! The requester's side: invokes and cancels out, results and events in.
//!
//! Owns those layouts as a requester sees them. It must not know how answers are waited for.

use job::clock::Timestamp;
use job::ids::JobId;
use job::json::JsonText;
use job::reason::Reserved;

use crate::shallow::{NoObject, members, string};
use crate::text::Object;
use crate::time::parse_rfc3339;

/// An invoke to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvokeRequest {
    /// The capability.
    pub service: String,
    /// The arguments, a JSON object.
    pub args: JsonText,
    /// Who asks.
    pub requested_by: String,
    /// The job's id. Requesters should always send one: they learn a generated one only from events and results (G1-39).
    pub job: JobId,
}

/// The payload of an invoke that starts a chain of its own.
pub fn encode_invoke(request: &InvokeRequest) -> Vec<u8> {
    let mut object = Object::with_capacity(160 + request.args.as_str().len());
    object.text("service", &request.service).raw("args", request.args.as_str());
    object.text("requestedBy", &request.requested_by).text("jobId", request.job.as_str());
    object.raw("parentJobId", "null").text("rootJobId", request.job.as_str()).number("depth", 0);
    object.finish().into_bytes()
}

/// The payload of a cancel.
pub fn encode_cancel(job: &JobId, requested_by: &str) -> Vec<u8> {
    let mut object = Object::with_capacity(64 + requested_by.len());
    object.text("jobId", job.as_str()).text("requestedBy", requested_by);
    object.finish().into_bytes()
}

/// Something published on a job topic, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The job it speaks of, where it says so.
    pub job: Option<String>,
    /// The owner it speaks to, where it says so.
    pub owner: Option<String>,
    /// The type. On a result topic every type is terminal, a word we do not know included (S1-32).
    pub kind: String,
    /// When, the only order across topics (S1-33).
    pub ts: Option<Timestamp>,
    /// The machine-readable reason of the five reserved types.
    pub reason: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// The whole payload, as published.
    pub payload: JsonText,
}

impl Seen {
    /// The reserved type it has, none when it is the agent's own answer.
    pub fn reserved(&self) -> Option<Reserved> {
        Reserved::from_word(&self.kind)
    }
}

/// A payload on a job topic that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the payload cannot be read: {0}")]
pub struct Unreadable(pub String);

/// Reads a payload of a result or events topic.
pub fn decode_seen(bytes: &[u8]) -> Result<Seen, Unreadable> {
    let payload = JsonText::check(bytes).map_err(|fault| Unreadable(fault.to_string()))?;
    let (mut job, mut owner, mut kind, mut ts, mut reason, mut message) = (None, None, None, None, None, None);
    members(payload.as_str(), |name, json| {
        let place = match name.as_ref() {
            "jobId" => &mut job,
            "owner" => &mut owner,
            "type" => &mut kind,
            "ts" => &mut ts,
            "reason" => &mut reason,
            "message" => &mut message,
            _ => return,
        };
        *place = string(json);
    })
    .map_err(|fault| match fault {
        NoObject::NotJson(why) => Unreadable(why),
        NoObject::OtherValue => Unreadable("it is no JSON object".into()),
    })?;
    let kind = kind.ok_or_else(|| Unreadable("it has no type".into()))?;
    let ts = ts.and_then(|text: String| parse_rfc3339(&text));
    Ok(Seen { job, owner, kind, ts, reason, message, payload })
}

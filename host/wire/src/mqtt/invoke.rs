//! An invoke, read: a submission, a refusal that can be answered, or no job at all (G1-13, 19, 20, 29, 32, 46, 53).
//!
//! Owns the grammar of the payload and the order of its refusals: owner, size, form, job id, arguments, service, lineage. It
//! must not know which services exist, the hop limit or the load: those refusals are the engine's.

use std::borrow::Cow;
use std::fmt;

use job::admission::PayloadHash;
use job::clock::Timestamp;
use job::ids::{AgentId, Door, IdError, JobId, JobKey, Owner};
use job::jobs::{Refusal, Submission};
use job::json::{JsonFault, JsonText, check_text};
use job::lineage::Lineage;
use job::reason::Reason;
use sha2::{Digest, Sha256};

use crate::shallow::{NoObject, members, string};
use crate::text::{Object, push_string};

/// Most bytes of an invalid job id that are shown again as `requestedJobId`.
pub const REQUESTED_JOB_ID_ECHO_BYTES_MAX: usize = 1024;

/// What the transport knows about a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Whether it is marked as a redelivery.
    pub redelivered: bool,
    /// When the publisher's expiry passes (G1-52).
    pub expires: Option<Timestamp>,
    /// `mesh.max_payload_kb`, in bytes.
    pub payload_bytes_max: usize,
}

/// What an invoke payload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invoke {
    /// A well-formed request.
    Submission(Box<Submission>),
    /// A request that gets an answer, but no job.
    Refusal(Box<Refusal>),
    /// Nothing that could be answered: to be counted, logged and acknowledged (G1-20).
    NotAJob(NotAJob),
}

/// Why a payload is neither a job nor answerable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAJob {
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The text is not JSON.
    NotJson(String),
    /// The text is JSON, but no object.
    NotAnObject,
    /// The owner slug is longer than topics should carry (G1-32).
    OwnerTooLong,
    /// A cancel without a usable jobId or requestedBy (G1-13).
    CancelIncomplete(&'static str),
}

impl NotAJob {
    /// A word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotUtf8 => "not_utf8",
            Self::NotJson(_) => "not_json",
            Self::NotAnObject => "not_an_object",
            Self::OwnerTooLong => "owner_too_long",
            Self::CancelIncomplete(_) => "cancel_incomplete",
        }
    }
}

impl fmt::Display for NotAJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("the payload is not UTF-8"),
            Self::NotJson(why) => write!(f, "the payload is not JSON: {why}"),
            Self::NotAnObject => f.write_str("the payload is no JSON object"),
            Self::OwnerTooLong => f.write_str("requestedBy gives an owner slug that is too long"),
            Self::CancelIncomplete(what) => f.write_str(what),
        }
    }
}

/// The members of an invoke or a cancel, each as its text; `null` counts as absent. Of a member that stands twice the last
/// is kept, which is how most readers see it; the check of the whole text refuses it later.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) requested_by: Option<&'a str>,
    pub(super) job_id: Option<&'a str>,
    service: Option<&'a str>,
    args: Option<&'a str>,
    depth: Option<&'a str>,
    root: Option<&'a str>,
    parent: Option<&'a str>,
}

impl<'a> Fields<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<(Self, &'a str), NotAJob> {
        let text = std::str::from_utf8(bytes).map_err(|_| NotAJob::NotUtf8)?;
        let mut fields = Self::default();
        let take = |name: Cow<'_, str>, json: &'a str| {
            let place = match name.as_ref() {
                "requestedBy" => &mut fields.requested_by,
                "jobId" => &mut fields.job_id,
                "service" => &mut fields.service,
                "args" => &mut fields.args,
                "depth" => &mut fields.depth,
                "rootJobId" => &mut fields.root,
                "parentJobId" => &mut fields.parent,
                _ => return,
            };
            *place = (json != "null").then_some(json);
        };
        members(text, take).map_err(|fault| match fault {
            NoObject::NotJson(why) => NotAJob::NotJson(why),
            NoObject::OtherValue => NotAJob::NotAnObject,
        })?;
        Ok((fields, text))
    }
}

/// Reads an invoke for this agent. `fresh` makes a job id, asked for only where the payload has none to use (G1-39).
pub fn decode_invoke(agent: &AgentId, bytes: &[u8], meta: Meta, fresh: impl FnOnce() -> JobId) -> Invoke {
    let (fields, text) = match Fields::read(bytes) {
        Ok(read) => read,
        Err(why) => return Invoke::NotAJob(why),
    };
    let requested_by = fields.requested_by.and_then(string);
    let owner = match requested_by.as_deref().map_or_else(|| Ok(Owner::public()), Owner::from_requested_by) {
        Ok(owner) => owner,
        Err(_) => return Invoke::NotAJob(NotAJob::OwnerTooLong),
    };
    let given = fields.job_id.map(|json| string(json).and_then(|id| JobId::parse(&id).ok()).ok_or(json));
    let unusable = given.as_ref().and_then(|id| id.as_ref().err().copied());
    let job = given.and_then(Result::ok).unwrap_or_else(fresh);
    let key = JobKey { agent: agent.clone(), door: Door::Mesh, owner, job };
    let hash = hash_of(bytes);
    let checked = check(&fields, text, requested_by, meta, unusable).and_then(|checked| {
        let lineage = lineage_of(&fields, &key.job)?;
        Ok((checked, lineage))
    });
    match checked {
        Ok((Checked { requested_by, service, args }, lineage)) => Invoke::Submission(Box::new(Submission {
            key,
            requested_by,
            service,
            args,
            lineage,
            hash,
            redelivered: meta.redelivered,
            expires: meta.expires,
        })),
        Err(No { reason, message, limit }) => Invoke::Refusal(Box::new(Refusal {
            key,
            reason,
            message,
            extra: extra_of(unusable, limit),
            hash,
            redelivered: meta.redelivered,
        })),
    }
}

/// SHA-256 of a payload as it arrived.
pub fn hash_of(bytes: &[u8]) -> PayloadHash {
    Sha256::digest(bytes).into()
}

/// A refusal before its key is known.
struct No {
    reason: Reason,
    message: String,
    /// The limit that was passed, in bytes, for `maxPayloadBytes`.
    limit: Option<usize>,
}

impl No {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), limit: None }
    }
}

struct Checked {
    requested_by: String,
    service: String,
    args: JsonText,
}

fn check(fields: &Fields<'_>, text: &str, by: Option<String>, meta: Meta, unusable: Option<&str>) -> Result<Checked, No> {
    let Some(requested_by) = by else {
        return Err(No::new(Reason::MissingRequestedBy, "requestedBy is missing or is not a string"));
    };
    if text.len() > meta.payload_bytes_max {
        let (size, max) = (text.len(), meta.payload_bytes_max);
        let message = format!("the payload has {size} bytes, this agent takes {max}");
        return Err(No { reason: Reason::PayloadTooLarge, message, limit: Some(max) });
    }
    check_text(text).map_err(|JsonFault { what, line, column }| {
        No::new(Reason::BadRequest, format!("{what} (line {line}, column {column})"))
    })?;
    if unusable.is_some() {
        return Err(No::new(Reason::BadRequest, format!("jobId: {}", IdError::Job)));
    }
    let args = match fields.args {
        None => JsonText::empty_object(),
        Some(json) if is_plain_object(json) => JsonText::trusted(json),
        Some(_) => return Err(No::new(Reason::BadRequest, "args is not a JSON object")),
    };
    let service = match fields.service {
        None => return Err(No::new(Reason::UnknownService, "the invoke names no service")),
        Some(json) => string(json).ok_or_else(|| No::new(Reason::BadRequest, "service is not a string"))?,
    };
    Ok(Checked { requested_by, service, args })
}

/// Whether a checked text is an object that later readers see as one too. The parser shows a number as an object of one
/// private name, so an object that begins with such a name is not taken for arguments.
fn is_plain_object(json: &str) -> bool {
    let Some(inside) = json.strip_prefix('{') else { return false };
    if !inside.trim_start().starts_with("\"$") && !inside.trim_start().starts_with("\"\\") {
        return true;
    }
    let mut first = None;
    let read = members(json, |name, _| {
        first.get_or_insert_with(|| name.into_owned());
    });
    read.is_ok() && !first.is_some_and(|name| name.starts_with("$serde_json::private::"))
}

fn lineage_of(fields: &Fields<'_>, own: &JobId) -> Result<Lineage, No> {
    let bad = |what: &str| No::new(Reason::BadLineage, what);
    let id = |json: &str| string(json).and_then(|id| JobId::parse(&id).ok());
    let depth = match fields.depth {
        None => 0,
        // More digits than a u32 holds are deeper than any limit, which the engine then says.
        Some(json) if json.bytes().all(|b| b.is_ascii_digit()) => json.parse().unwrap_or(u32::MAX),
        Some(_) => return Err(bad("depth is not a whole number from 0")),
    };
    let root = match fields.root {
        None => own.clone(),
        Some(json) => id(json).ok_or_else(|| bad("rootJobId is not a job id"))?,
    };
    let parent = match fields.parent {
        None => None,
        Some(json) => Some(id(json).ok_or_else(|| bad("parentJobId is not a job id"))?),
    };
    Ok(Lineage { parent, root, depth })
}

fn extra_of(unusable: Option<&str>, limit: Option<usize>) -> JsonText {
    let mut extra = Object::with_capacity(64);
    if let Some(json) = unusable {
        let shown = string(json).unwrap_or_else(|| json.to_owned());
        let mut end = shown.len().min(REQUESTED_JOB_ID_ECHO_BYTES_MAX);
        while !shown.is_char_boundary(end) {
            end -= 1;
        }
        let mut echo = String::with_capacity(end + 2);
        push_string(&mut echo, &shown[..end]);
        extra.raw("requestedJobId", &echo);
    }
    if let Some(max) = limit {
        extra.number("maxPayloadBytes", max as u64);
    }
    JsonText::trusted(extra.finish())
}

//! The checks a request passes before it may become a job, in the document's order: depth, service, schema (G1-29, G1-8).
//!
//! Owns the refusals the engine itself gives; the door gave those that need no catalog. Pure. It must not know the journal.

use std::sync::Arc;

use catalog::{Capability, Snapshot};
use job::jobs::Submission;
use job::json::JsonText;
use job::outcome::{Ending, Outcome, Usage};
use job::reason::Reason;

/// Most schema faults a rejection names.
const SCHEMA_FAULTS_MAX: usize = 20;

/// A refusal in words.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// Further members, a JSON object.
    pub(crate) extra: JsonText,
}

impl Refused {
    /// The outcome of a job that never was one.
    pub(crate) fn outcome(self, ts: job::clock::Timestamp) -> Outcome {
        let ending = Ending::Ended { reason: self.reason, message: self.message, extra: self.extra };
        Outcome { ending, usage: Usage::default(), ts }
    }
}

/// The capability that will do it, or why none will.
pub(crate) fn check(submission: &Submission, snapshot: &Snapshot, max_depth: u32) -> Result<Arc<Capability>, Refused> {
    if submission.lineage.depth > max_depth {
        return Err(Refused {
            reason: Reason::DepthExceeded,
            message: format!("depth {} is beyond the limit of {max_depth} delegations", submission.lineage.depth),
            extra: object(&serde_json::json!({ "maxDepth": max_depth })),
        });
    }
    let Some(capability) = snapshot.get(&submission.service) else {
        return Err(Refused {
            reason: Reason::UnknownService,
            message: format!("this agent offers no capability named {:?}", clip(&submission.service)),
            extra: JsonText::empty_object(),
        });
    };
    if capability.entry.strict {
        let mut faults = capability.entry.check_args(&submission.args);
        if !faults.is_empty() {
            faults.truncate(SCHEMA_FAULTS_MAX);
            return Err(Refused {
                reason: Reason::Schema,
                message: format!("the arguments do not fit the schema: {}", faults.join("; ")),
                extra: object(&serde_json::json!({ "faults": faults })),
            });
        }
    }
    Ok(capability.clone())
}

/// The refusal of a full queue (G1-43).
pub(crate) fn overloaded(retry_after_ms: u64) -> Refused {
    Refused {
        reason: Reason::Overloaded,
        message: format!("the queue of this node is full; try again in {retry_after_ms} ms"),
        extra: object(&serde_json::json!({ "retryAfterMs": retry_after_ms })),
    }
}

/// The refusal where the node has no such agent.
pub(crate) fn no_agent(agent: &job::ids::AgentId) -> Refused {
    let message = format!("this node runs no agent named {agent}");
    Refused { reason: Reason::UnknownService, message, extra: JsonText::empty_object() }
}

fn object(value: &serde_json::Value) -> JsonText {
    JsonText::trusted(value.to_string())
}

/// As much of a requester's text as a message repeats.
fn clip(text: &str) -> String {
    text.chars().take(100).collect()
}

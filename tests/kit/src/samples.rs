//! Short ways to write the words of a journal test.
//!
//! Owns example keys, jobs, arrivals and outcomes. It must not know any store.

use job::admission::{Memory, Request};
use job::clock::Timestamp;
use job::ids::{AgentId, Door, JobId, JobKey, Owner};
use job::json::JsonText;
use job::lineage::Lineage;
use job::outcome::{Ending, Outcome, Usage};
use job::reason::Reason;
use job::store::{Arrival, CancelOrder, Intent, NewJob};

/// The memory of the samples: a redelivery finds its result for a day, equal bytes for ten minutes.
pub const MEMORY: Memory = Memory { remember_ms: 86_400_000, resend_window_ms: 600_000 };

/// The agent `dba`.
pub fn agent() -> AgentId {
    AgentId::parse("dba").unwrap()
}

/// The job of this id that alice asked `dba` for.
pub fn key(job: &str) -> JobKey {
    key_of("dba", "alice", job)
}

/// The key with these parts.
pub fn key_of(agent: &str, owner: &str, job: &str) -> JobKey {
    JobKey {
        agent: AgentId::parse(agent).unwrap(),
        door: Door::Mesh,
        owner: Owner::from_slug(owner).unwrap(),
        job: JobId::parse(job).unwrap(),
    }
}

/// A root job of the service `schema.review` under this key that starts at once.
pub fn new_job(key: &JobKey) -> NewJob {
    NewJob {
        requested_by: "Alice".into(),
        service: "schema.review".into(),
        args: JsonText::trusted(r#"{"migration":"ALTER TABLE a"}"#),
        lineage: Lineage::root(key.job.clone()),
        expires: None,
        starts_now: true,
    }
}

/// An invoke at this time whose bytes hash to `hash` repeated; it is to run at once.
pub fn invoke(key: &JobKey, hash: u8, at: i64) -> Arrival {
    Arrival {
        key: key.clone(),
        request: Request { hash: [hash; 32], redelivered: false, at: Timestamp(at) },
        memory: MEMORY,
        intent: Intent::Run(new_job(key)),
    }
}

/// The same invoke, to wait in the queue first.
pub fn queued(key: &JobKey, hash: u8, at: i64) -> Arrival {
    let job = NewJob { starts_now: false, ..new_job(key) };
    Arrival { intent: Intent::Run(job), ..invoke(key, hash, at) }
}

/// The same invoke, marked as a redelivery.
pub fn redelivered(key: &JobKey, hash: u8, at: i64) -> Arrival {
    let mut arrival = invoke(key, hash, at);
    arrival.request.redelivered = true;
    arrival
}

/// An invoke that the engine refuses.
pub fn refused(key: &JobKey, hash: u8, at: i64) -> Arrival {
    Arrival { intent: Intent::Refuse(rejection(at)), ..invoke(key, hash, at) }
}

/// A guest's answer at this time.
pub fn done(ts: i64) -> Outcome {
    let usage =
        Usage { fuel: 12, wall_ms: 3, peak_memory_bytes: 65_536, guest: Some("sha256:ab".into()), attempt: 1, redacted: vec![] };
    Outcome {
        ending: Ending::Done { kind: "review".into(), body: JsonText::trusted(r#"{"verdict":"OK"}"#) },
        usage,
        ts: Timestamp(ts),
    }
}

/// An error of the guest at this time.
pub fn failed(ts: i64) -> Outcome {
    Outcome::ended(Reason::Guest, "it would not", Usage { attempt: 1, ..Usage::default() }, Timestamp(ts))
}

/// A rejection for overload at this time.
pub fn rejection(ts: i64) -> Outcome {
    let ending = Ending::Ended {
        reason: Reason::Overloaded,
        message: "the queue is full".into(),
        extra: JsonText::trusted(r#"{"retryAfterMs":250}"#),
    };
    Outcome { ending, usage: Usage::default(), ts: Timestamp(ts) }
}

/// The outcome of a job its requester cancelled.
pub fn cancelled(ts: i64) -> Outcome {
    Outcome::ended(Reason::Requested, "cancelled by its requester", Usage::default(), Timestamp(ts))
}

/// A cancel at this time; its tombstone stands for five minutes.
pub fn cancel(key: &JobKey, at: i64) -> CancelOrder {
    CancelOrder {
        key: key.clone(),
        notice_ts: Timestamp(at),
        outcome: cancelled(at + 1),
        tombstone_until: Timestamp(at + 300_000),
    }
}

//! The one terminal result of a job, in words no protocol owns.
//!
//! Owns the outcome and its usage receipt (G1-22, G1-47, DESIGN "Results"). It must not know how a door lays it out.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::json::JsonText;
use crate::reason::{Reason, Reserved};

/// Longest domain type a guest may choose, in bytes.
pub const KIND_BYTES_MAX: usize = 64;

/// What a job used, on every result. A job that never ran shows zeros, no guest and attempt 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Fuel the guest consumed, in wasmtime's units; deterministic for the same guest and input.
    pub fuel: u64,
    /// Time from started to the end, in milliseconds.
    pub wall_ms: u64,
    /// Largest linear memory of the guest, in bytes.
    pub peak_memory_bytes: u64,
    /// Content hash of the guest that ran, `sha256:` and hex.
    pub guest: Option<Arc<str>>,
    /// Which run of the job this was, from 1.
    pub attempt: u32,
    /// Secrets whose values were taken out of what the guest returned.
    pub redacted: Vec<Redacted>,
}

/// A secret that was masked in a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The variable's name.
    pub name: String,
    /// The word of the source it came from.
    pub source: String,
}

/// How a job ended: its guest's own answer, or one of the reserved types with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The guest answered.
    Done {
        /// `result`, or a domain type the guest chose.
        kind: Arc<str>,
        /// The answer, any JSON value.
        body: JsonText,
    },
    /// The job ended with a reason of the table.
    Ended {
        /// Why.
        reason: Reason,
        /// For people.
        message: String,
        /// Further members, a JSON object: `retryAfterMs`, `maxDepth`, `of`, …
        extra: JsonText,
    },
}

/// The terminal result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What it used.
    pub usage: Usage,
    /// When, later than every other stamp of the job.
    pub ts: Timestamp,
}

impl Outcome {
    /// A job that ended with a reason, having nothing more to say.
    pub fn ended(reason: Reason, message: impl Into<String>, usage: Usage, ts: Timestamp) -> Self {
        let ending = Ending::Ended { reason, message: message.into(), extra: JsonText::empty_object() };
        Self { ending, usage, ts }
    }

    /// The answer to an invoke whose job id is active (G1-16).
    pub fn duplicate(ts: Timestamp) -> Self {
        let ending = Ending::Ended {
            reason: Reason::Active,
            message: "a job with this id is active in this scope; its own result follows on this topic".into(),
            extra: JsonText::trusted(r#"{"of":"active"}"#),
        };
        Self { ending, usage: Usage::default(), ts }
    }

    /// The end of a job whose cancel arrived before its invoke (G1-25).
    pub fn cancelled_ahead(ts: Timestamp) -> Self {
        Self::ended(Reason::Requested, "cancelled before it was invoked", Usage::default(), ts)
    }

    /// The result type, as every door spells it.
    pub fn kind(&self) -> &str {
        match &self.ending {
            Ending::Done { kind, .. } => kind,
            Ending::Ended { reason, .. } => reason.kind().word(),
        }
    }

    /// The reserved type, none when the guest answered.
    pub fn reserved(&self) -> Option<Reserved> {
        match &self.ending {
            Ending::Done { .. } => None,
            Ending::Ended { reason, .. } => Some(reason.kind()),
        }
    }

    /// The reason, none when the guest answered.
    pub fn reason(&self) -> Option<Reason> {
        match &self.ending {
            Ending::Done { .. } => None,
            Ending::Ended { reason, .. } => Some(*reason),
        }
    }
}

/// Whether a guest may use this word as its result type: not reserved, 1 to 64 bytes, no control characters (G1-22).
pub fn is_domain_kind(word: &str) -> bool {
    (1..=KIND_BYTES_MAX).contains(&word.len()) && Reserved::from_word(word).is_none() && !word.chars().any(char::is_control)
}

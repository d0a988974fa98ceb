//! What a request means when its job key may be known already (G1-16, G1-17, G1-25, G1-45).
//!
//! Owns the verdict, a pure function the store applies inside its transaction, so that no two requests race. It must not know
//! services, schemas or capacity: those are the engine's, decided before the transaction.

use crate::clock::Timestamp;

/// SHA-256 of a request's bytes as they arrived.
pub type PayloadHash = [u8; 32];

/// What the journal knows of the job with this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The bytes it was requested with.
    pub hash: PayloadHash,
    /// When it ended; none while it is active.
    pub ended: Option<Timestamp>,
}

/// The request at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its bytes.
    pub hash: PayloadHash,
    /// Whether the transport marked it as a redelivery.
    pub redelivered: bool,
    /// When it arrived.
    pub at: Timestamp,
}

/// How long finished jobs answer for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// A redelivery finds its result for this long, in milliseconds (`journal.remember`).
    pub remember_ms: i64,
    /// Equal bytes that are not marked as a redelivery find it for this long, in milliseconds (`mesh.resend_window`).
    pub resend_window_ms: i64,
}

/// What to do with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A new job. A finished job under the same key gives way to it.
    Fresh,
    /// The same request again while its job is active: nothing to say.
    Redelivery,
    /// The same request again after its job ended: the stored result is sent again.
    Resend,
    /// Another request for an active job.
    Duplicate,
    /// A cancel for this key is already here.
    CancelledAhead,
}

/// Decides what the request means.
pub fn verdict(known: Option<Known>, tombstone: bool, request: Request, memory: Memory) -> Verdict {
    let Some(known) = known else {
        return if tombstone { Verdict::CancelledAhead } else { Verdict::Fresh };
    };
    let same = known.hash == request.hash;
    match known.ended {
        None if same && request.redelivered => Verdict::Redelivery,
        None => Verdict::Duplicate,
        Some(ended) => {
            let window_ms = if request.redelivered { memory.remember_ms } else { memory.resend_window_ms };
            // A clock that jumped back makes the age negative: still within any window.
            let age_ms = request.at.0.saturating_sub(ended.0);
            if same && age_ms <= window_ms { Verdict::Resend } else { Verdict::Fresh }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-42, S1-42b, S1-42d, S1-46: one row a case of G1-16, G1-17, G1-25 and G1-45.
    #[test]
    fn every_case_has_its_verdict() {
        let memory = Memory { remember_ms: 1000, resend_window_ms: 10 };
        let active = Some(Known { hash: [1; 32], ended: None });
        let ended = Some(Known { hash: [1; 32], ended: Some(Timestamp(0)) });
        let rows = [
            (None, false, 1, false, 0, Verdict::Fresh),
            (None, true, 1, false, 0, Verdict::CancelledAhead),
            (active, false, 1, true, 0, Verdict::Redelivery),
            (active, false, 1, false, 0, Verdict::Duplicate),
            (active, false, 2, true, 0, Verdict::Duplicate),
            (ended, false, 1, true, 1000, Verdict::Resend),
            (ended, false, 1, true, 1001, Verdict::Fresh),
            (ended, false, 1, false, 10, Verdict::Resend),
            (ended, false, 1, false, 11, Verdict::Fresh),
            (ended, false, 2, true, 0, Verdict::Fresh),
            (ended, false, 1, false, -5000, Verdict::Resend),
        ];
        for (known, tombstone, hash, redelivered, at, expected) in rows {
            let request = Request { hash: [hash; 32], redelivered, at: Timestamp(at) };
            assert_eq!(verdict(known, tombstone, request, memory), expected, "{known:?} {request:?}");
        }
    }
}

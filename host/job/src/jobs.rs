//! The jobs port: what a door asks of the engine.
//!
//! Owns the submission, the refusal and the cancel request. It must not know which door asks, beyond the key's word for it.

use crate::BoxFuture;
use crate::admission::PayloadHash;
use crate::clock::Timestamp;
use crate::ids::JobKey;
use crate::json::JsonText;
use crate::lineage::Lineage;
use crate::reason::Reason;
use crate::store::{Admitted, Cancelled, StoreError};

/// A well-formed request for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The job it names, the id generated where the requester gave none.
    pub key: JobKey,
    /// requestedBy as written.
    pub requested_by: String,
    /// The capability.
    pub service: String,
    /// The arguments, a JSON object.
    pub args: JsonText,
    /// Parent, root and depth.
    pub lineage: Lineage,
    /// SHA-256 of the payload as it arrived.
    pub hash: PayloadHash,
    /// Whether the transport marked it as a redelivery.
    pub redelivered: bool,
    /// When the publisher's own expiry passes (G1-52).
    pub expires: Option<Timestamp>,
}

/// A request that is refused before any work, but well-formed enough to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Where the answer goes.
    pub key: JobKey,
    /// Why, one of the rejected reasons.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// Further members of the answer, a JSON object.
    pub extra: JsonText,
    /// SHA-256 of the payload as it arrived.
    pub hash: PayloadHash,
    /// Whether the transport marked it as a redelivery.
    pub redelivered: bool,
}

/// Why the engine could not take a request. The door leaves the message unacknowledged and tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The node is stopping and takes no more work.
    #[error("the node is stopping")]
    Stopping,
    /// The journal could not commit.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The engine, as a door sees it. A returned future resolves when the message may be acknowledged. Requests take effect in
/// the order of the calls, whether or not the futures are awaited in that order.
pub trait Jobs: Send + Sync + 'static {
    /// Asks for a job.
    fn submit(&self, submission: Submission) -> BoxFuture<'static, Result<Admitted, Unavailable>>;

    /// Answers a request that cannot become a job.
    fn refuse(&self, refusal: Refusal) -> BoxFuture<'static, Result<Admitted, Unavailable>>;

    /// Cancels a job of the same owner.
    fn cancel(&self, key: JobKey) -> BoxFuture<'static, Result<Cancelled, Unavailable>>;
}

//! A cancel, read (protocol document sections 4 and 10).
//!
//! Owns the grammar of the payload. It must not know whether such a job exists: what a cancel does is the engine's.

use job::ids::{AgentId, Door, JobId, JobKey, Owner};

use super::invoke::{Fields, NotAJob};
use crate::shallow::string;

/// Reads a cancel for this agent: the key it names, or why it names none. A cancel is never answered with a publish of its
/// own when it is incomplete (G1-13).
pub fn decode_cancel(agent: &AgentId, bytes: &[u8]) -> Result<JobKey, NotAJob> {
    let (fields, _) = Fields::read(bytes)?;
    let requested_by = fields.requested_by.and_then(string);
    let requested_by = requested_by.ok_or(NotAJob::CancelIncomplete("the cancel has no requestedBy that is a string"))?;
    let owner = Owner::from_requested_by(&requested_by).map_err(|_| NotAJob::OwnerTooLong)?;
    let job = fields.job_id.and_then(string).and_then(|id| JobId::parse(&id).ok());
    let job = job.ok_or(NotAJob::CancelIncomplete("the cancel has no jobId that is a job id"))?;
    Ok(JobKey { agent: agent.clone(), door: Door::Mesh, owner, job })
}

//! Where a job stands in a chain of delegation (protocol document section 9).
//!
//! Owns the three fields and their defaults (G1-29). It must not know the hop limit, which is the deployment's.

use crate::ids::JobId;

/// Parent, root and depth of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The job that asked for this one; none for a root job.
    pub parent: Option<JobId>,
    /// The first job of the chain; a root job names itself.
    pub root: JobId,
    /// Delegations so far, 0 for a root job.
    pub depth: u32,
}

impl Lineage {
    /// The lineage of a job nobody delegated.
    pub fn root(job: JobId) -> Self {
        Self { parent: None, root: job, depth: 0 }
    }
}

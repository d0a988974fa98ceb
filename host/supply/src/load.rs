//! What a catalog is loaded by: the deployment's rules for an agent's entries, the guests that come with the program, and the
//! loading of a folder once.
//!
//! Owns these words and the reasons why an agent has no catalog at all. How a folder is read again and again is the shelf's.

use std::sync::Arc;

use catalog::limits::DefaultExecutor;
use catalog::{Grants, Rules, Snapshot};
use job::executor::Executor;

use crate::config::{AgentConfig, LimitsConfig};
use crate::folder::FolderError;
use crate::shelf::Shelf;

/// A guest that comes with the program.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// Its name in `[agent.default_executor] guest`.
    pub name: &'static str,
    /// Its WebAssembly.
    pub bytes: Arc<[u8]>,
}

/// The rules of an agent of this configuration.
pub(crate) fn rules_of(agent: &AgentConfig, limits: &LimitsConfig) -> Rules {
    let default_executor = agent.default_executor.as_ref().map(|executor| DefaultExecutor {
        guest: executor.guest.as_str().into(),
        defaults: executor.limits,
        grants: Grants { env: executor.grants_env.clone() },
    });
    Rules { defaults: limits.defaults, ceilings: limits.max, default_executor }
}

/// Why an agent has no catalog at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The folder cannot be read.
    #[error("{0}; {mend}", mend = .0.mend)]
    Folder(#[from] FolderError),
    /// The folder holds no entry, not even a bad one.
    #[error("the catalog folder {folder} holds no capability; put a file such as review.json with one entry into it")]
    Empty {
        /// The folder.
        folder: String,
    },
}

/// Reads an agent's folder once and prepares its guests. Blocks on the file system while it reads.
pub async fn load_agent(
    agent: &AgentConfig,
    limits: &LimitsConfig,
    builtins: &[Builtin],
    executor: &dyn Executor,
) -> Result<Snapshot, LoadError> {
    let mut shelf = Shelf::new(agent, limits, builtins);
    let gathered = shelf.gather()?;
    shelf.settle(gathered, executor).await;
    shelf.check_filled()?;
    Ok(Snapshot::clone(shelf.live()))
}

#[cfg(test)]
mod tests;

//! Limits of a run: what an entry asks for, the deployment's defaults, and the ceilings nobody passes.
//!
//! Owns the merge and its refusals. It must not know where the numbers were written.

use std::sync::Arc;

use job::executor::Limits;

use crate::entry::Grants;

/// Bytes in a kilobyte of a limit.
const KB: u64 = 1024;
/// Bytes in a megabyte of a limit.
const MB: u64 = 1024 * 1024;

/// The four limits of a run in the units people write them in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSet {
    /// Wall clock from started to the end, in milliseconds.
    pub timeout_ms: u64,
    /// Fuel, in the executor's units.
    pub fuel: u64,
    /// Linear memory, in MiB.
    pub memory_mb: u64,
    /// The answer, in KiB of JSON text.
    pub output_kb: u64,
}

impl LimitSet {
    /// The same limits in the executor's units.
    pub fn to_limits(self) -> Limits {
        Limits {
            timeout_ms: self.timeout_ms,
            fuel: self.fuel,
            memory_bytes: self.memory_mb.saturating_mul(MB),
            output_bytes: self.output_kb.saturating_mul(KB),
        }
    }
}

/// What the deployment lays down for every entry of an agent.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Limits of an entry that sets none (`[limits]`).
    pub defaults: LimitSet,
    /// Limits no entry may exceed (`[limits.max]`).
    pub ceilings: LimitSet,
    /// What runs entries that name no executor; without it such an entry is refused (G1-56).
    pub default_executor: Option<DefaultExecutor>,
}

/// The agent's default executor (`[agent.default_executor]`).
#[derive(Debug, Clone)]
pub struct DefaultExecutor {
    /// The built-in guest's name, such as `prompt`, or a `.wasm` of the catalog folder.
    pub guest: Arc<str>,
    /// Limits of an entry it runs that sets none of its own.
    pub defaults: LimitSet,
    /// Its grants: an entry it runs has these and no others.
    pub grants: Grants,
}

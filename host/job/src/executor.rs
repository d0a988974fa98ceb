//! The executor port: how the engine prepares a guest and runs it on one job.
//!
//! Owns the work order, the limits, the host calls of a running guest, and the ways a run can end. It must not know
//! WebAssembly.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::BoxFuture;
use crate::ids::JobKey;
use crate::json::JsonText;
use crate::lineage::Lineage;
use crate::outcome::Usage;

/// The limits of one run, after defaults and ceilings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock from started to the end, in milliseconds.
    pub timeout_ms: u64,
    /// Fuel, in the executor's units.
    pub fuel: u64,
    /// Linear memory, in bytes.
    pub memory_bytes: u64,
    /// The answer, in bytes of JSON text.
    pub output_bytes: u64,
}

/// What a catalog entry lets its guest do beyond computing (DESIGN section 4). Everything not named is denied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// Environment variables the guest sees, resolved for this job.
    pub env: Vec<(String, String)>,
}

/// A guest to prepare.
#[derive(Debug, Clone)]
pub struct GuestSource {
    /// For messages: the file it came from, or its built-in name.
    pub name: String,
    /// The WebAssembly bytes, a component or something the executor can turn into one.
    pub bytes: Arc<[u8]>,
}

/// Why a guest cannot be prepared; the entry that names it is bad (G1-55).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PrepareError {
    /// What is wrong with it.
    pub what: String,
    /// What its author can do.
    pub mend: String,
}

/// One job for a guest.
pub struct Work {
    /// Which job.
    pub key: JobKey,
    /// The capability.
    pub service: Arc<str>,
    /// The arguments, a JSON object.
    pub args: JsonText,
    /// The rendered prompt; none when the entry has no template.
    pub prompt: Arc<str>,
    /// Parent, root and depth.
    pub lineage: Lineage,
    /// Which run of the job this is, from 1.
    pub attempt: u32,
    /// What it may use.
    pub limits: Limits,
    /// What it may do.
    pub grants: Grants,
    /// When the run is over, whatever it does. Armed when the job started, so earlier than now plus the timeout.
    pub deadline: Instant,
    /// Resolves when the run is to be stopped, at once and without an answer.
    pub stop: BoxFuture<'static, ()>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The guest answered, with a domain type if it chose one. Not checked yet: the text is the guest's.
    Answered {
        /// The result type, none for plain `result`.
        kind: Option<String>,
        /// The answer, said to be JSON.
        body: String,
    },
    /// The guest answered with a failure of its own.
    Failed {
        /// For people.
        message: String,
    },
    /// The guest trapped.
    Trapped {
        /// What the trap was, with the guest's own words where it left any.
        message: String,
    },
    /// The fuel limit was used up.
    OutOfFuel,
    /// The deadline passed.
    PastDeadline,
    /// The guest asked for more memory than its limit.
    OverMemory {
        /// What it asked for, in bytes.
        wanted_bytes: u64,
    },
    /// The answer is larger than its limit.
    OverOutput {
        /// What it wrote, in bytes.
        wrote_bytes: u64,
    },
    /// `stop` resolved.
    Stopped,
    /// The executor had no place or no system resource for an instance; nothing of the guest ran, and the job may run again.
    NoPlace {
        /// What was missing.
        message: String,
    },
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// What it used; `wall_ms` and `attempt` are the engine's to fill.
    pub usage: Usage,
}

/// How loud a guest's log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For tracing the guest.
    Debug,
    /// Ordinary news.
    Info,
    /// Something looks wrong.
    Warn,
    /// Something is wrong.
    Error,
}

/// What a running guest may say to its host. No call may block.
pub trait Host: Send + Sync + 'static {
    /// A milestone for the requester.
    fn progress(&self, message: &str);

    /// A line for the operator's log.
    fn log(&self, level: LogLevel, message: &str);
}

/// A guest that is ready to run: compiled, linked, checked.
pub trait Guest: Send + Sync + 'static {
    /// Content hash of its bytes, `sha256:` and hex.
    fn hash(&self) -> Arc<str>;

    /// Linear memory it has before it runs, in bytes: an entry that gives it less could never run a job. 0 when it is not known.
    fn memory_bytes_min(&self) -> u64 {
        0
    }

    /// Runs one job in a fresh instance. Always ends, at the latest at the work's deadline; dropping the future stops it too.
    fn run(&self, work: Work, host: Arc<dyn Host>) -> BoxFuture<'static, Ran>;
}

/// The sandbox.
pub trait Executor: Send + Sync + 'static {
    /// Makes a guest ready: from the cache of compiled code, or by compiling it off the caller's thread.
    fn prepare(&self, source: GuestSource) -> BoxFuture<'static, Result<Arc<dyn Guest>, PrepareError>>;
}

/// Settings of the sandbox that hold for the whole process.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Folder of compiled code, private to this user (mode 0700).
    pub cache_dir: PathBuf,
    /// Most instances alive at once (`limits.max_live`).
    pub max_live: u32,
    /// Largest linear memory any entry may be given, in bytes (`limits.max.memory_mb`).
    pub memory_bytes_max: u64,
}

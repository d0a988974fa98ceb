//! The variables port: what a `${NAME}` of a prompt stands for (protocol document section 12, G1-3 to G1-7).
//!
//! Owns the sources and their order. It must not know how a source is read.

use std::sync::Arc;

use crate::BoxFuture;

/// Shortest value that is treated as a secret, in bytes (G1-44): masking a shorter one would mask ordinary words.
pub const SECRET_BYTES_MIN: usize = 8;

/// Where a value came from, in the order of lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `[vars]` of the deployment's configuration.
    Config,
    /// The secret store of this machine.
    Store,
    /// The environment of the process.
    Environment,
}

impl Source {
    /// The word shown to people and in receipts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Store => "store",
            Self::Environment => "environment",
        }
    }
}

/// A value of a variable. Its text never shows in a debug line.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// The text.
    pub text: Arc<str>,
    /// Where it came from. A value of the store is plain text; one of the others is template text (G1-4).
    pub source: Source,
    /// Whether it must never leave the process except to the guest whose prompt or grant names it (G1-44).
    pub secret: bool,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Value").field("source", &self.source).field("secret", &self.secret).finish_non_exhaustive()
    }
}

/// Why a lookup stopped without going on to the next source: a stale value would be worse than none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret store failed on {name}: {why}")]
pub struct LookupError {
    /// The variable.
    pub name: String,
    /// What the store said, without any value.
    pub why: String,
}

/// The deployment's variables. Asked at dispatch, never earlier (S1-78).
pub trait Variables: Send + Sync + 'static {
    /// The value of a name, none when no source has it.
    fn lookup(&self, name: &str) -> BoxFuture<'_, Result<Option<Value>, LookupError>>;
}

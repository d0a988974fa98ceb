//! What can go wrong inside one call, and what its caller is told.
//!
//! Owns the mapping from SQLite's words to the port's. It must not know which call it was.

use job::lifecycle::Illegal;
use job::store::StoreError;
use rusqlite::ErrorCode;

/// Why a call could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A statement failed; the transaction is not to be trusted any more.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// The lifecycle refuses the step. Found before anything was written.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// A stored row says something this program never wrote. Found before anything was written.
    #[error("a row of the journal is damaged: {0}")]
    Row(String),
}

impl Fault {
    /// Whether the whole transaction must be rolled back.
    pub(crate) fn spoils_the_batch(&self) -> bool {
        matches!(self, Self::Sql(_))
    }
}

impl From<&Fault> for StoreError {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::Sql(error) => told(error),
            Fault::Illegal(_) | Fault::Row(_) => Self::Failed(fault.to_string()),
        }
    }
}

/// What a caller is told of an SQLite error.
pub(crate) fn told(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string()),
        _ => StoreError::Failed(error.to_string()),
    }
}

//! Exit codes: the same everywhere, an interface of their own.
//!
//! Owns the one table from how a command ended to its code. It must not know how a command works.

use std::process::ExitCode;

use job::reason::Reserved;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked.
    Success,
    /// A check found faults, or any failure that has no code of its own.
    Failure,
    /// The command line or the configuration is wrong.
    Usage,
    /// `invoke`: the job ended in error. `run`: another instance holds the client id.
    JobError,
    /// The job timed out.
    JobTimeout,
    /// The job was cancelled.
    Cancelled,
    /// The job was rejected.
    Rejected,
    /// The job id was active.
    Duplicate,
    /// No answer came before `--timeout`.
    NoAnswer,
    /// The broker or server could not be reached, or refused the login.
    Unreachable,
}

impl Exit {
    /// The code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::JobError => 3,
            Self::JobTimeout => 4,
            Self::Cancelled => 5,
            Self::Rejected => 6,
            Self::Duplicate => 7,
            Self::NoAnswer => 8,
            Self::Unreachable => 9,
        }
    }

    /// The exit of a job that ended with this result type. The list of types is open: any other is an answer.
    pub(crate) fn of_type(kind: &str) -> Self {
        match Reserved::from_word(kind) {
            None => Self::Success,
            Some(Reserved::Error) => Self::JobError,
            Some(Reserved::Timeout) => Self::JobTimeout,
            Some(Reserved::Cancelled) => Self::Cancelled,
            Some(Reserved::Rejected) => Self::Rejected,
            Some(Reserved::Duplicate) => Self::Duplicate,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A failure that ends a command: what, where, and the next step, with its exit.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The sentence: what is wrong, and where.
    pub(crate) what: String,
    /// What to do next.
    pub(crate) mend: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), mend: None }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Exit::Failure, what)
    }

    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-32: an unknown result type is terminal, and an answer.
    #[test]
    fn result_types_have_their_codes() {
        let rows =
            [("result", 0), ("review", 0), ("error", 3), ("timeout", 4), ("cancelled", 5), ("rejected", 6), ("duplicate", 7)];
        for (kind, code) in rows {
            assert_eq!(Exit::of_type(kind).code(), code, "{kind}");
        }
    }
}

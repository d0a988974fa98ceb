//! The closed table of reasons (G1-48): why a job ended other than by its guest's own answer.
//!
//! Owns the words and which result type each belongs to. It must not know how any door spells a state.

use std::fmt;

/// The result types the protocol reserves; a guest may not use one as a domain type (G1-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserved {
    /// The executor failed.
    Error,
    /// The watchdog ended the job.
    Timeout,
    /// The requester or its parent ended the job.
    Cancelled,
    /// The job was refused before any work.
    Rejected,
    /// The job id is already active.
    Duplicate,
}

impl Reserved {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
        }
    }

    /// The reserved type with this word, if it is one.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Error, Self::Timeout, Self::Cancelled, Self::Rejected, Self::Duplicate].into_iter().find(|r| r.word() == word)
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $kind:ident $word:literal;)*) => {
        /// Why a job ended. The table is closed; the README prints it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[doc = $doc])* $name,)* }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The machine-readable word.
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The result type this reason belongs to.
            pub fn kind(self) -> Reserved {
                match self { $(Self::$name => Reserved::$kind,)* }
            }
        }
    };
}

reasons! {
    /// No loaded capability has this service name.
    UnknownService = Rejected "unknown_service";
    /// requestedBy is absent or not a string.
    MissingRequestedBy = Rejected "missing_requested_by";
    /// A field breaks its grammar.
    BadRequest = Rejected "bad_request";
    /// depth, rootJobId or parentJobId is malformed.
    BadLineage = Rejected "bad_lineage";
    /// The chain of delegation is longer than the limit.
    DepthExceeded = Rejected "depth_exceeded";
    /// The verified identity differs from requestedBy.
    OwnerMismatch = Rejected "owner_mismatch";
    /// A strict capability refused the arguments.
    Schema = Rejected "schema";
    /// The payload is larger than the limit.
    PayloadTooLarge = Rejected "payload_too_large";
    /// The queue of accepted jobs is full.
    Overloaded = Rejected "overloaded";
    /// The wall-clock limit passed.
    Deadline = Timeout "deadline";
    /// The fuel limit was used up.
    Fuel = Timeout "fuel";
    /// A ${NAME} has no value in any source.
    UnresolvedVariable = Error "unresolved_variable";
    /// The secret store is locked, damaged or ambiguous.
    SecretStore = Error "secret_store";
    /// The prompt could not be rendered.
    Template = Error "template";
    /// A declared need failed.
    Dependency = Error "dependency";
    /// The guest answered with a failure of its own.
    Guest = Error "guest";
    /// The guest trapped.
    Trap = Error "trap";
    /// The guest asked for more memory than its limit.
    MemoryLimit = Error "memory_limit";
    /// The guest's answer is larger than its limit.
    OutputLimit = Error "output_limit";
    /// The guest's answer is not what the contract asks for.
    BadOutput = Error "bad_output";
    /// The node stopped while the job ran, and it may not run again.
    Interrupted = Error "interrupted";
    /// The node was told to stop while the job ran.
    Shutdown = Error "shutdown";
    /// The requester cancelled the job.
    Requested = Cancelled "requested";
    /// The host ended the job because its parent ended.
    ParentEnded = Cancelled "parent_ended";
    /// A job with this id is active in this scope.
    Active = Duplicate "active";
}

impl Reason {
    /// The reason with this word, if it is in the table.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.word() == word)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_one_reason() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_word(reason.word()), Some(*reason));
            assert_eq!(Reserved::from_word(reason.kind().word()), Some(reason.kind()));
        }
    }
}

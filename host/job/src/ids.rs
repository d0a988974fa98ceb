//! Ids that cannot be wrong once they exist: agents, jobs, owners, and the key that makes a job unique.
//!
//! Owns their grammar (G1-13, G1-32, G4-3). It must not know how an id is generated, since that needs randomness.

use std::fmt;
use std::sync::Arc;

/// Longest agent id, in bytes (G1-13).
pub const AGENT_ID_BYTES_MAX: usize = 64;
/// Longest job id, in bytes (G1-13).
pub const JOB_ID_BYTES_MAX: usize = 128;
/// Longest owner slug, in bytes (G1-32): a longer one is not a job at all.
pub const OWNER_BYTES_MAX: usize = 1024;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text breaks the grammar of an agent id.
    #[error("an agent id is 1 to 64 characters of A-Z a-z 0-9 . _ - and starts with a letter or a digit")]
    Agent,
    /// The text breaks the grammar of a job id.
    #[error("a job id is 1 to 128 bytes without / + # or control characters, and without Unicode noncharacters")]
    Job,
    /// The slug is longer than [`OWNER_BYTES_MAX`].
    #[error("an owner slug is at most {OWNER_BYTES_MAX} bytes")]
    Owner,
}

/// The stable id of an agent, `[A-Za-z0-9][A-Za-z0-9._-]{0,63}` (G1-13).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Arc<str>);

impl AgentId {
    /// Checks the grammar of an agent id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if first && rest && text.len() <= AGENT_ID_BYTES_MAX { Ok(Self(text.into())) } else { Err(IdError::Agent) }
    }

    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id of a job: any text of 1 to 128 bytes without `/`, `+`, `#` or control characters (G1-13), and without Unicode
/// noncharacters: brokers cut the connection of whoever names one in a topic, so such a job could never be answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(Arc<str>);

impl JobId {
    /// Checks the grammar of a job id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let clean = text.chars().all(|c| !matches!(c, '/' | '+' | '#') && !c.is_control() && !is_noncharacter(c));
        if clean && !text.is_empty() && text.len() <= JOB_ID_BYTES_MAX { Ok(Self(text.into())) } else { Err(IdError::Job) }
    }

    /// The id of a job whose requester gave none: `job-` and a ULID in lower case (G1-39).
    pub fn generated(ulid: u128) -> Self {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut text = String::from("job-");
        for place in (0..26).rev() {
            text.push(char::from(DIGITS[(ulid >> (5 * place)) as usize & 31]));
        }
        Self(text.into())
    }

    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The code points Unicode sets aside for ever: U+FDD0 to U+FDEF, and the last two of each plane.
fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// The slug results are scoped to (protocol document section 8, G1-32).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The owner of requests that name nobody.
    pub fn public() -> Self {
        Self("public".into())
    }

    /// Derives the slug: Unicode lower case, every code point outside `[a-z0-9_-]` becomes one `-`, `-` trimmed from the edges,
    /// an empty rest becomes `public`. Runs are not collapsed and nothing is cut, so a requester that slugs by the document
    /// finds its result.
    pub fn from_requested_by(requested_by: &str) -> Result<Self, IdError> {
        let slug: String = requested_by
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-') { c } else { '-' })
            .collect();
        let slug = slug.trim_matches('-');
        match slug.len() {
            0 => Ok(Self::public()),
            1..=OWNER_BYTES_MAX => Ok(Self(slug.into())),
            _ => Err(IdError::Owner),
        }
    }

    /// Takes a text that already is a slug, as it stands in a topic or a stored row.
    pub fn from_slug(slug: &str) -> Result<Self, IdError> {
        match Self::from_requested_by(slug)? {
            owner if owner.as_str() == slug => Ok(owner),
            _ => Err(IdError::Owner),
        }
    }

    /// The slug.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! shown_as_text {
    ($($id:ty),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
shown_as_text!(AgentId, JobId, Owner);

/// The door a job came in by. Requesters of two doors are never equal (G4-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// An agent's own connection to the mesh.
    Mesh,
}

impl Door {
    /// The word the journal keeps for this door.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
        }
    }

    /// The door with this word, if there is one.
    pub fn from_word(word: &str) -> Option<Self> {
        (word == "mesh").then_some(Self::Mesh)
    }
}

/// What makes a job unique: the same job id under two owners is two jobs (G1-18, G4-3).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// The agent that does the job.
    pub agent: AgentId,
    /// The door the request came in by.
    pub door: Door,
    /// Who asked, as that door identifies requesters.
    pub owner: Owner,
    /// The id within that owner's scope.
    pub job: JobId,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.agent, self.owner, self.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slug(text: &str) -> String {
        Owner::from_requested_by(text).map(|o| o.as_str().to_owned()).unwrap_or_else(|e| e.to_string())
    }

    /// S1-48, S1-49, S1-50, S1-51, S1-52: the document's examples and the ones that follow from its rule.
    #[test]
    fn owners_are_slugged_as_the_document_shows() {
        let rows = [
            ("Mohanad.Q!", "mohanad-q"),
            ("--ci--", "ci"),
            ("", "public"),
            ("!!!", "public"),
            ("...", "public"),
            ("a_b-C9", "a_b-c9"),
            ("a  b", "a--b"),
            ("_x_", "_x_"),
            ("ÄB", "b"),
            ("a😀b", "a-b"),
            ("日本", "public"),
        ];
        for (text, expected) in rows {
            assert_eq!(slug(text), expected, "requestedBy {text:?}");
        }
    }

    /// S1-52b: a long name keeps its full slug; only past the limit is it refused.
    #[test]
    fn long_owners_are_never_cut() {
        assert_eq!(slug(&"x".repeat(200)).len(), 200);
        assert_eq!(slug(&"x".repeat(1024)).len(), 1024);
        assert_eq!(Owner::from_requested_by(&"x".repeat(1025)), Err(IdError::Owner));
    }

    #[test]
    fn ids_keep_their_grammar() {
        for good in ["a", "A.b_c-9", &"x".repeat(64)] {
            assert!(AgentId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".a", "-a", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(AgentId::parse(bad).is_err(), "{bad}");
        }
        for good in ["rev-118", "ä b", &"x".repeat(128)] {
            assert!(JobId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a/b", "a+b", "a#", "a\nb", "\u{0}", "\u{85}", "\u{ffff}", "x\u{fdd0}", "\u{1fffe}", &"x".repeat(129)] {
            assert!(JobId::parse(bad).is_err(), "{bad}");
        }
    }

    /// S1-23, G1-39: a generated id is a job id, 30 characters long, and keeps all of its randomness.
    #[test]
    fn generated_ids_are_job_ids() {
        assert_eq!(JobId::generated(0).as_str(), "job-00000000000000000000000000");
        assert_eq!(JobId::generated(u128::MAX).as_str(), "job-7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(JobId::parse(JobId::generated(1 << 100 | 33).as_str()).expect("a job id"), JobId::generated(1 << 100 | 33));
    }

    proptest! {
        /// S1-51, S1-53: a slug holds only its alphabet, is its own slug, and is never empty.
        #[test]
        fn a_slug_is_a_fixed_point(text in "\\PC{0,80}") {
            let owner = slug(&text);
            let inside = owner.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-');
            prop_assert!(inside);
            prop_assert!(!owner.is_empty() && !owner.starts_with('-') && !owner.ends_with('-'));
            prop_assert_eq!(slug(&owner), owner);
        }
    }
}

//! The catalog entry: one capability as data (protocol document section 11, DESIGN section 4).
//!
//! Owns the checked form of an entry. It must not know the text it was read from, nor how its guest is compiled.

use std::sync::Arc;

use job::executor;
use job::json::JsonText;

use crate::fault::Place;
use crate::schema::Schema;
use crate::template::{RenderError, Template, Text, Values};

/// What runs the prompt of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExecutorRef {
    /// The agent's default executor, which must exist (G1-56).
    Default,
    /// A `.wasm` beside the entry, as a path within the catalog folder.
    File(Arc<str>),
}

/// A capability whose every field has been checked.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The dotted service name.
    pub service: Arc<str>,
    /// For people; shown in the profile.
    pub description: Arc<str>,
    /// The request schema as written, shown in the profile; `{}` when the entry has none.
    pub request_schema: JsonText,
    /// The prompt, compiled. Empty when the entry has none.
    pub template: Template,
    /// What runs it.
    pub executor: ExecutorRef,
    /// Whether arguments that break the schema are refused before any work (G1-8).
    pub strict: bool,
    /// Whether the job may run again after a crash (G1-24).
    pub idempotent: bool,
    /// Limits of a run, after defaults and ceilings.
    pub limits: executor::Limits,
    /// Most jobs of this entry running at once; none for no limit of its own.
    pub max_concurrent: Option<u32>,
    /// What its guest may do: the entry's own grants, or the default executor's when that runs it.
    pub grants: Grants,
    /// Where it stands.
    pub place: Place,
    /// Where its executor is named; where the entry stands when it names none.
    pub executor_place: Place,
    /// Content hash, `sha256:` and hex, over the entry's text and what the deployment adds to it: equal hash, equal entry.
    pub hash: Arc<str>,
    /// Hash of the entry's text alone, to find it again at a reload.
    pub(crate) text_hash: [u8; 32],
    /// Every variable of the prompt and of the grants, each once, in the order of first use.
    pub(crate) variables: Arc<[String]>,
    /// The compiled schema of a strict entry.
    pub(crate) schema: Option<Schema>,
}

impl Entry {
    /// Every `${NAME}` a job of this entry needs resolved before it runs: prompt first, then grants, each name once (G1-5).
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// What is wrong with these arguments by the request schema, one sentence each, without any value of theirs. Empty when the
    /// arguments are fine or the entry is not strict.
    pub fn check_args(&self, args: &JsonText) -> Vec<String> {
        self.schema.as_ref().map(|schema| schema.check(args)).unwrap_or_default()
    }
}

/// What an entry lets its guest do. Everything not named is denied.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// Environment variables the guest sees; values may hold `${NAME}`.
    pub env: Vec<(String, Text)>,
}

impl Grants {
    /// Every `${NAME}` of the grants.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.env.iter().flat_map(|(_, text)| text.variables()).map(String::as_str)
    }

    /// The grants with their variables filled in, in one pass: values are inserted as they are.
    pub fn resolve(&self, values: &Values) -> Result<executor::Grants, RenderError> {
        let fill = |(name, text): &(String, Text)| Ok((name.clone(), text.fill(values)?));
        Ok(executor::Grants { env: self.env.iter().map(fill).collect::<Result<_, _>>()? })
    }
}

//! Prompts and the two passes that fill them (G1-3, G1-4, G1-8, G1-9).
//!
//! Owns the public face of templates; the parts live in the files beside it.

mod compile;
mod json;
mod prompt;
mod render;
mod scan;
mod spelling;
mod tags;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use job::variables::Value;

pub use prompt::Template;
pub use render::{MISSING_MAX, OUTPUT_BYTES_MAX, STEPS_MAX};
pub(crate) use scan::snippet as quoted;
pub use scan::{BLOCK_DEPTH_MAX, SOURCE_BYTES_MAX, TAGS_MAX, TemplateFault};
pub use spelling::{Spelling, is_variable_name};
pub use text::Text;

/// Resolved variables by name.
pub type Values = BTreeMap<String, Value>;

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The prompt.
    pub text: String,
    /// Arguments the template prints and the invoke lacks, as the template writes them, each once (G1-8).
    pub missing: Vec<String>,
}

/// Why a prompt cannot be rendered. No message holds a value (G1-4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A variable has no value: reason `unresolved_variable` (G1-5).
    #[error("the variable {name} has no value in any source")]
    Unresolved {
        /// Its name.
        name: String,
    },
    /// A value from `[vars]` or the environment holds `{{`, so it is template text, but it is no valid template: reason `template`.
    #[error("the value of {name} holds template text that cannot be read (line {line}, column {column} of the value)")]
    Value {
        /// The variable.
        name: String,
        /// Line within the value, from 1.
        line: usize,
        /// Column within the value, from 1.
        column: usize,
    },
    /// The prompt would be longer than the limit: reason `template`.
    #[error("the prompt is longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// The loops of the template went round too often: reason `template`.
    #[error("the template took more than {limit} steps")]
    TooManySteps {
        /// The limit, in evaluated paths and rounds of loops.
        limit: usize,
    },
    /// Anything else the template engine refused at this place of the template: reason `template`.
    #[error("the template cannot be rendered (line {line}, column {column}): {what}")]
    Failed {
        /// Line within the template as written, from 1; 0 when unknown.
        line: usize,
        /// Column, from 1; 0 when unknown.
        column: usize,
        /// What happened.
        what: String,
    },
}

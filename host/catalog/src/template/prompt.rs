//! The prompt of an entry: compiled at load, rendered for each job.
//!
//! Owns the order of the two passes and the cache of variables whose values are template text. It must not know how a tree is
//! rendered.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use job::json::JsonText;
use job::variables::{Source, Value};
use sha2::{Digest, Sha256};

use super::compile::{Compiled, Kind, compile};
use super::render::render;
use super::spelling::Spelling;
use super::{RenderError, Rendered, TemplateFault, Values, json};

/// Compiled values a template keeps beyond one for each of its variables.
const VALUES_KEPT: usize = 8;

/// A prompt, compiled once and rendered for each job. Cheap to clone.
#[derive(Clone)]
pub struct Template(Arc<Inner>);

/// What a template that goes round writes.
const LOOP: &str = "#each";

struct Inner {
    compiled: Compiled,
    loops: bool,
    spelling: Spelling,
    /// Compiled values by their hash: the cache outlives a job, a value must not.
    values: Mutex<Vec<([u8; 32], Arc<Compiled>)>>,
}

impl Template {
    /// Compiles a prompt (G1-4). Nothing a template can say harms the process or is left for a job to find out.
    pub fn compile(source: &str, spelling: Spelling) -> Result<Self, TemplateFault> {
        let compiled = compile(source, spelling, Kind::Prompt)?;
        let loops = source.contains(LOOP);
        Ok(Self(Arc::new(Inner { compiled, loops, spelling, values: Mutex::new(Vec::new()) })))
    }

    /// Every `${NAME}` of the template, each once, in the order of first use.
    pub fn variables(&self) -> &[String] {
        &self.0.compiled.variables
    }

    /// Whether rendering with these values may go round: it then takes up to [`STEPS_MAX`](super::STEPS_MAX) steps, too long for a
    /// thread that others wait for.
    pub fn may_loop(&self, values: &Values) -> bool {
        self.0.loops || values.values().any(|value| value.text.contains(LOOP))
    }

    /// Fills variables, then arguments. `args` is the arguments object, `deps` the object of needs' answers, both as checked text.
    /// Every variable of the template needs a value, whichever branch it stands in (G1-5).
    pub fn render(&self, values: &Values, args: &JsonText, deps: &JsonText) -> Result<Rendered, RenderError> {
        let mut templates = Vec::new();
        for name in self.variables() {
            let value = values.get(name).ok_or_else(|| RenderError::Unresolved { name: name.clone() })?;
            if self.is_template_text(value) {
                templates.push((name.as_str(), self.compile_value(name, value)?));
            }
        }
        render(&self.0.compiled, &templates, values, json::exact(args), json::exact(deps))
    }

    /// Which compilation this is.
    #[cfg(test)]
    pub(crate) fn identity(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    /// Compiled values at hand.
    #[cfg(test)]
    pub(super) fn values_kept(&self) -> usize {
        self.kept().len()
    }

    /// A value of `[vars]` or the environment that opens a tag is template text; one of the secret store never is (G1-4).
    fn is_template_text(&self, value: &Value) -> bool {
        value.source != Source::Store && value.text.contains(self.0.spelling.open())
    }

    fn compile_value(&self, name: &str, value: &Value) -> Result<Arc<Compiled>, RenderError> {
        let key: [u8; 32] = Sha256::digest(value.text.as_bytes()).into();
        if let Some(compiled) = self.kept().iter().find(|(known, _)| *known == key).map(|(_, compiled)| compiled.clone()) {
            return Ok(compiled);
        }
        // Compiled without the lock: two jobs may do it twice, none waits for another's large value.
        let compiled = compile(&value.text, self.0.spelling, Kind::Value).map_err(|fault| RenderError::Value {
            name: name.to_owned(),
            line: fault.line,
            column: fault.column,
        })?;
        let compiled = Arc::new(compiled);
        let mut kept = self.kept();
        if kept.len() >= self.variables().len() + VALUES_KEPT {
            kept.remove(0);
        }
        kept.push((key, compiled.clone()));
        Ok(compiled)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<([u8; 32], Arc<Compiled>)>> {
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("spelling", &self.0.spelling)
            .field("variables", &self.variables())
            .finish_non_exhaustive()
    }
}

//! One rendering: the values and arguments of a job poured into a compiled template.
//!
//! Owns the helpers that print, look up and count, and the limits of a rendering. It must not know where values come from.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use handlebars::{
    Context, Handlebars, Helper, HelperDef, HelperResult, Output, RenderContext, RenderError as EngineError, RenderErrorReason,
    Renderable, ScopedJson,
};
use serde_json::Value as Json;

use super::compile::{Compiled, NEED, PEEK, PRINT, TICK, VARIABLE};
use super::{RenderError, Rendered, Values};

/// Longest rendered prompt, in bytes (G1-9).
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Most steps of one rendering, in evaluated paths and rounds of loops: loops that print nothing end too.
pub const STEPS_MAX: usize = 500_000;
/// Most missing arguments that are named.
pub const MISSING_MAX: usize = 32;

/// The engine with the four blocks and nothing else; templates are kept by their entries.
static ENGINE: LazyLock<Handlebars<'static>> = LazyLock::new(|| {
    let mut engine = Handlebars::new();
    engine.register_escape_fn(handlebars::no_escape);
    for helper in ["lookup", "raw", "log", "eq", "ne", "gt", "gte", "lt", "lte", "and", "or", "not", "len"] {
        engine.unregister_helper(helper);
    }
    engine
});

/// What one rendering counts and collects, and what its variables stand for.
struct Session<'a> {
    steps: AtomicUsize,
    missing: Mutex<Vec<String>>,
    values: &'a Values,
    /// Whether the root holds `args`, so that `this` at the root means that.
    has_args: bool,
}

impl Session<'_> {
    fn step(&self) -> Result<(), EngineError> {
        if self.steps.fetch_add(1, Ordering::Relaxed) < STEPS_MAX { Ok(()) } else { Err(stopped("too many steps")) }
    }

    fn report(&self, path: &str) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.len() < MISSING_MAX && !missing.iter().any(|known| known == path) {
            missing.push(path.to_owned());
        }
    }

    /// The value of the path that stands as the helper's text. A path that leads nowhere, be it for lack of the argument or
    /// because the argument is of another kind, is missing (G1-8).
    fn evaluate<'rc>(
        &self,
        helper: &Helper<'rc>,
        context: &'rc Context,
        rc: &RenderContext<'_, 'rc>,
    ) -> Result<ScopedJson<'rc>, EngineError> {
        self.step()?;
        let path = literal(helper);
        match rc.evaluate(context, path) {
            Ok(ScopedJson::Context(_, at)) if at.is_empty() && self.has_args => rc.evaluate(context, "@root.args"),
            Ok(value) => Ok(value),
            Err(error) if matches!(error.reason(), RenderErrorReason::InvalidJsonIndex(_)) => Ok(ScopedJson::Missing),
            Err(error) => Err(error),
        }
    }
}

fn literal<'h>(helper: &'h Helper<'_>) -> &'h str {
    helper.param(0).and_then(|param| param.value().as_str()).unwrap_or_default()
}

fn stopped(why: &'static str) -> EngineError {
    RenderErrorReason::Other(why.to_owned()).into()
}

/// [`PRINT`]: strings as they are, null as nothing, everything else as compact JSON with its digits.
struct Print<'a>(&'a Session<'a>);

impl HelperDef for Print<'_> {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        context: &'rc Context,
        rc: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let value = self.0.evaluate(helper, context, rc)?;
        if value.is_missing() {
            self.0.report(literal(helper));
            return Ok(());
        }
        match value.as_json() {
            Json::Null => Ok(()),
            Json::String(text) => Ok(out.write(text)?),
            Json::Number(number) => Ok(out.write(number.as_str())?),
            other => Ok(serde_json::to_writer(Writer(out), other).map_err(|_| stopped("the output is full"))?),
        }
    }
}

/// [`PEEK`] and [`NEED`]: the value for a block, with its place in the arguments, so that paths inside are relative to it.
struct Look<'a> {
    session: &'a Session<'a>,
    report: bool,
}

impl HelperDef for Look<'_> {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        context: &'rc Context,
        rc: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, EngineError> {
        let value = self.session.evaluate(helper, context, rc)?;
        if value.is_missing() && self.report {
            self.session.report(literal(helper));
        }
        Ok(value)
    }
}

/// [`TICK`]: a round of a loop.
struct Tick<'a>(&'a Session<'a>);

impl HelperDef for Tick<'_> {
    fn call<'reg: 'rc, 'rc>(
        &self,
        _: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
        _: &mut dyn Output,
    ) -> HelperResult {
        self.0.step()
    }
}

/// [`VARIABLE`]: template text is rendered where it stands, any other value is written as it is.
struct Variable<'a>(&'a Session<'a>);

impl HelperDef for Variable<'_> {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        engine: &'reg Handlebars<'reg>,
        context: &'rc Context,
        rc: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        self.0.step()?;
        let name = literal(helper);
        match (rc.get_partial(name), self.0.values.get(name)) {
            (Some(template), _) => template.render(engine, context, rc, out),
            (None, Some(value)) => Ok(out.write(&value.text)?),
            (None, None) => Err(stopped("a variable without a value")),
        }
    }
}

/// Output with an end.
struct Limited {
    text: String,
    full: bool,
}

impl Output for Limited {
    fn write(&mut self, piece: &str) -> Result<(), io::Error> {
        if self.text.len() + piece.len() > OUTPUT_BYTES_MAX {
            self.full = true;
            return Err(io::Error::other("the output is full"));
        }
        self.text.push_str(piece);
        Ok(())
    }
}

/// Lets the JSON serializer write to the engine's output. It writes whole characters, never half of one.
struct Writer<'o>(&'o mut dyn Output);

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write(text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Renders a compiled template. `templates` are the variables whose values are template text.
pub(super) fn render(
    compiled: &Compiled,
    templates: &[(&str, Arc<Compiled>)],
    values: &Values,
    args: Json,
    deps: Json,
) -> Result<Rendered, RenderError> {
    let uses = |used: fn(&Compiled) -> bool| used(compiled) || templates.iter().any(|(_, template)| used(template));
    let has_args = uses(|c| c.uses_args);
    let context = Context::from(root(args, has_args, uses(|c| c.uses_deps).then_some(deps)));
    let session = Session { steps: AtomicUsize::new(0), missing: Mutex::new(Vec::new()), values, has_args };
    let mut out = Limited { text: String::new(), full: false };
    let mut rc = RenderContext::new(None);
    rc.register_local_helper(PRINT, Box::new(Print(&session)));
    rc.register_local_helper(PEEK, Box::new(Look { session: &session, report: false }));
    rc.register_local_helper(NEED, Box::new(Look { session: &session, report: true }));
    rc.register_local_helper(TICK, Box::new(Tick(&session)));
    rc.register_local_helper(VARIABLE, Box::new(Variable(&session)));
    if let Some(block) = rc.block_mut() {
        for (name, template) in templates {
            block.set_local_partial((*name).to_owned(), &template.tree);
        }
    }
    let ended = compiled.tree.render(&ENGINE, &context, &mut rc, &mut out);
    drop(rc);
    if let Err(error) = ended {
        return Err(failure(&error, out.full, session.steps.load(Ordering::Relaxed) > STEPS_MAX));
    }
    let missing = session.missing.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Rendered { text: out.text, missing })
}

/// The root of the paths: the arguments, and the reserved names `args` and `deps` where the template looks at them (G1-54).
fn root(args: Json, has_args: bool, deps: Option<Json>) -> Json {
    let whole = has_args.then(|| args.clone());
    let Json::Object(mut root) = args else { return args };
    if let Some(whole) = whole {
        root.insert("args".into(), whole);
    }
    if let Some(deps) = deps {
        root.insert("deps".into(), deps);
    }
    Json::Object(root)
}

/// Our words for a failure; the engine's may quote values.
fn failure(error: &EngineError, full: bool, spent: bool) -> RenderError {
    if full {
        return RenderError::TooLong { limit_bytes: OUTPUT_BYTES_MAX };
    }
    if spent {
        return RenderError::TooManySteps { limit: STEPS_MAX };
    }
    let what = match error.reason() {
        RenderErrorReason::HelperNotFound(_) => "a helper is missing",
        RenderErrorReason::InvalidJsonPath(_) => "a path cannot be read",
        _ => "the template engine stopped",
    };
    RenderError::Failed { line: error.line_no.unwrap_or(0), column: error.column_no.unwrap_or(0), what: what.into() }
}

//! From a template's text to the tree the engine renders: parsed by handlebars, audited, and rewritten so that every value goes
//! through helpers of our own.
//!
//! Owns the rewriting. Paths become calls that print JSON, report what is missing and count steps; each `${NAME}` becomes a node
//! of its own, so that a value is never parsed with the text around it (G1-4). It must not know values.

use std::collections::HashMap;

use handlebars::template::{HelperTemplate, Parameter, Subexpression, TemplateElement};
use handlebars::{Path, PathSeg};
use serde_json::Value as Json;

use super::scan::{BLOCK_DEPTH_MAX, BLOCKS, HIDDEN_BRACE, HIDDEN_NOTHING, TemplateFault, scan};
use super::spelling::{Part, Spelling, parts};

/// Prints the value of a path.
pub(super) const PRINT: &str = "__print";
/// Gives the value of a path to a condition.
pub(super) const PEEK: &str = "__peek";
/// Gives the value of a path to a loop, and reports it when it is missing.
pub(super) const NEED: &str = "__need";
/// Counts a round of a loop.
pub(super) const TICK: &str = "__tick";
/// Prints a variable.
pub(super) const VARIABLE: &str = "__variable";

/// Most variables of a template.
const VARIABLES_MAX: usize = 256;

/// What stands behind a `${` in this text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A prompt: its variables are nodes.
    Prompt,
    /// A variable's value: it is not scanned for variables again (G1-4).
    Value,
}

/// A template ready to render.
pub(super) struct Compiled {
    pub(super) tree: handlebars::Template,
    /// Names of its variables, each once, in order.
    pub(super) variables: Vec<String>,
    /// Whether it may look at the arguments as a whole, by the name `args` or by `this`.
    pub(super) uses_args: bool,
    /// Whether it may look at `deps`.
    pub(super) uses_deps: bool,
}

/// Compiles a template, with every refusal before any damage.
pub(super) fn compile(source: &str, spelling: Spelling, kind: Kind) -> Result<Compiled, TemplateFault> {
    let text = scan(source, spelling, kind == Kind::Prompt)?;
    let parsed = handlebars::Template::compile(&text).map_err(|error| {
        let (line, column) = error.pos().unwrap_or((1, 1));
        refused(source, line, column, "the template cannot be read from here on")
    })?;
    let mut compiler = Compiler { spelling, kind, variables: Vec::new(), uses_args: false, uses_deps: false };
    let tree = compiler.tree(parsed, 0).map_err(|what| refused(source, 1, 1, what))?;
    let Compiler { variables, uses_args, uses_deps, .. } = compiler;
    if variables.len() > VARIABLES_MAX {
        let what = format!("the template has more than {VARIABLES_MAX} variables");
        return Err(TemplateFault::at(source, 0, what, "pass the values as arguments"));
    }
    Ok(Compiled { tree, variables, uses_args, uses_deps })
}

/// A refusal that the scan should have come to first; the second line of defence has fewer words.
fn refused(source: &str, line: usize, column: usize, what: impl Into<String>) -> TemplateFault {
    let start: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let within = source[start..].char_indices().nth(column.saturating_sub(1)).map_or(source.len() - start, |(at, _)| at);
    TemplateFault::at(source, start + within, what, "use paths, #if, #unless, #each and #with only")
}

struct Compiler {
    spelling: Spelling,
    kind: Kind,
    variables: Vec<String>,
    uses_args: bool,
    uses_deps: bool,
}

type Rewritten<T> = Result<T, String>;

impl Compiler {
    fn tree(&mut self, template: handlebars::Template, depth: usize) -> Rewritten<handlebars::Template> {
        if depth > BLOCK_DEPTH_MAX {
            return Err(format!("blocks are nested deeper than {BLOCK_DEPTH_MAX} levels"));
        }
        let mut rebuilt = handlebars::Template::new();
        let mut places = template.mapping.into_iter();
        for element in template.elements {
            let place = places.next();
            for element in self.element(element, depth)? {
                rebuilt.elements.push(element);
                // Several nodes may stand for one; each keeps the place of what it was made from.
                rebuilt.mapping.extend(place.clone());
            }
        }
        Ok(rebuilt)
    }

    fn element(&mut self, element: TemplateElement, depth: usize) -> Rewritten<Vec<TemplateElement>> {
        match element {
            TemplateElement::RawString(text) => Ok(self.text(&text)),
            TemplateElement::Comment(_) => Ok(Vec::new()),
            TemplateElement::Expression(helper) | TemplateElement::HtmlExpression(helper) => {
                if !helper.params.is_empty() || !helper.hash.is_empty() || helper.block {
                    return Err("there are no helpers with parameters".into());
                }
                let Parameter::Path(path) = &helper.name else {
                    return Err("a tag holds something other than a path".into());
                };
                Ok(vec![call(PRINT, &[self.path(path)])])
            }
            TemplateElement::HelperBlock(helper) => Ok(vec![TemplateElement::HelperBlock(self.block(helper, depth + 1)?)]),
            _ => Err("partials and decorators are not offered".into()),
        }
    }

    fn text(&mut self, text: &str) -> Vec<TemplateElement> {
        let restored = match self.spelling {
            Spelling::Braces => text.to_owned(),
            Spelling::Angles => text.replace(HIDDEN_BRACE, "{").replace(HIDDEN_NOTHING, ""),
        };
        if self.kind == Kind::Value {
            return vec![TemplateElement::RawString(restored)];
        }
        let node = |part: &Part<'_>| match part {
            Part::Text(text) => TemplateElement::RawString((*text).to_owned()),
            Part::Variable(name) => call(VARIABLE, &[(*name).to_owned()]),
        };
        let parts = parts(&restored, self.spelling);
        for name in super::spelling::names(&parts) {
            if !self.variables.contains(&name) {
                self.variables.push(name);
            }
        }
        parts.iter().map(node).collect()
    }

    fn block(&mut self, mut helper: Box<HelperTemplate>, depth: usize) -> Rewritten<Box<HelperTemplate>> {
        let name = helper.name.as_name().unwrap_or_default().to_owned();
        if !BLOCKS.contains(&name.as_str()) {
            return Err(format!("there is no helper #{name}"));
        }
        let condition = matches!(name.as_str(), "if" | "unless");
        let known_hash = |(key, value): (&String, &Parameter)| {
            condition && key == "includeZero" && matches!(value, Parameter::Literal(Json::Bool(_)))
        };
        let [Parameter::Path(path)] = helper.params.as_slice() else {
            return Err(format!("#{name} takes one path"));
        };
        if !helper.hash.iter().all(known_hash) {
            return Err(format!("#{name} takes one path"));
        }
        // A missing condition is false and a block with an else speaks for itself; any other block that finds nothing is
        // reported, as a printed path would be.
        let asks = if condition || helper.inverse.is_some() { PEEK } else { NEED };
        let path = self.path(path);
        helper.params = vec![Parameter::Subexpression(subexpression(asks, &[path]))];
        if let Some(body) = helper.template.take() {
            let mut body = self.tree(body, depth)?;
            if name == "each" {
                body.elements.insert(0, call(TICK, &[String::new()]));
                if let Some(first) = body.mapping.first().cloned() {
                    body.mapping.insert(0, first);
                }
            }
            helper.template = Some(body);
        }
        if let Some(inverse) = helper.inverse.take() {
            helper.inverse = Some(self.tree(inverse, depth)?);
        }
        Ok(helper)
    }

    /// The path as written; notes what it may look at.
    fn path(&mut self, path: &Path) -> String {
        match path {
            Path::Relative((segments, raw)) => {
                let mut named = segments.iter().filter_map(|segment| match segment {
                    PathSeg::Named(name) => Some(name.as_str()),
                    _ => None,
                });
                let first = named.next();
                self.uses_args |= first.is_none_or(|name| name == "args");
                self.uses_deps |= first == Some("deps");
                raw.clone()
            }
            Path::Local((_, _, raw)) => raw.clone(),
        }
    }
}

/// A call of one of our helpers with texts that stand in the template, not in anybody's data.
fn call(helper: &str, texts: &[String]) -> TemplateElement {
    *subexpression(helper, texts).element
}

fn subexpression(helper: &str, texts: &[String]) -> Subexpression {
    let params = texts.iter().map(|text| Parameter::Literal(Json::String(text.clone()))).collect();
    Subexpression::new(Parameter::Name(helper.to_owned()), params, HashMap::new())
}

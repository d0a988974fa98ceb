//! The rules of tags: `{{path}}`, `{{#if}}`, `{{#unless}}`, `{{#each}}`, `{{#with}}`, `{{else}}`, their closing, and nothing else
//! (G1-9).
//!
//! Owns what a tag may say and the sentence when it says something else. It must not know how a template is compiled.

use handlebars::Path;

use super::scan::{BLOCK_DEPTH_MAX, BLOCKS, TAGS_MAX, TemplateFault, depth, snippet};
use super::spelling::Spelling;

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 256;

/// An open block.
pub(super) struct Block<'a> {
    name: &'a str,
    opened_at: usize,
    /// `else if` links so far; each nests one level deeper in the compiled template.
    pub(super) links: usize,
    seen_else: bool,
}

/// The tags of one template, taken in order.
pub(super) struct Tags<'a> {
    source: &'a str,
    spelling: Spelling,
    open: Vec<Block<'a>>,
    count: usize,
    /// Where the tag in hand starts.
    at: usize,
}

type Checked = Result<(), TemplateFault>;

impl<'a> Tags<'a> {
    pub(super) fn new(source: &'a str, spelling: Spelling) -> Self {
        Self { source, spelling, open: Vec::new(), count: 0, at: 0 }
    }

    /// Takes the next tag: where it starts and what stands between its marks.
    pub(super) fn take(&mut self, at: usize, body: &'a str) -> Checked {
        self.at = at;
        self.count += 1;
        if self.count > TAGS_MAX {
            return Err(self.fault(format!("the template has more than {TAGS_MAX} tags"), "split the prompt, or loop with #each"));
        }
        let inner = body.strip_prefix('~').unwrap_or(body);
        let inner = inner.strip_suffix('~').unwrap_or(inner).trim_ascii();
        self.not_offered(inner)?;
        self.characters(body)?;
        let body = inner;
        match body.chars().next() {
            None => Err(self.fault("the tag is empty", "name an argument in it")),
            Some('#') => self.open_block(body[1..].trim_ascii()),
            Some('/') => self.close_block(body[1..].trim_ascii()),
            Some('^') => self.invert(body[1..].trim_ascii()),
            Some('&') => self.path(body[1..].trim_ascii()),
            Some(_) if body == "else" => self.invert(""),
            Some(_) if body.starts_with("else ") || body.starts_with("else\t") || body.starts_with("else\n") => {
                self.invert(body[4..].trim_ascii())
            }
            Some(_) => self.expression(body),
        }
    }

    /// What handlebars knows and we do not let in: both can include a template in itself.
    fn not_offered(&self, body: &str) -> Checked {
        match body.strip_prefix('#').unwrap_or(body).trim_ascii_start().chars().next() {
            Some('>') => Err(self.fault("partials are not offered", "write the text out here")),
            Some('*') => Err(self.fault("decorators are not offered", "take the tag out")),
            _ => Ok(()),
        }
    }

    /// The end of the template: every block must be closed.
    pub(super) fn end(&mut self) -> Checked {
        let Some(block) = self.open.pop() else { return Ok(()) };
        self.at = block.opened_at;
        let what = format!("the block #{} is never closed", block.name);
        let mend = format!("write {} where it ends", self.spelling.tag(&format!("/{}", block.name)));
        Err(self.fault(what, mend))
    }

    fn fault(&self, what: impl Into<String>, mend: impl Into<String>) -> TemplateFault {
        TemplateFault::at(self.source, self.at, what, mend)
    }

    /// The tag as written, for a message.
    fn shown(&self) -> String {
        let rest = &self.source[self.at..];
        let end = rest.find(self.spelling.close()).map_or(rest.len(), |at| at + self.spelling.close().len());
        snippet(&rest[..end])
    }

    /// Quotes and open brackets could hide a closing mark from this scan and not from the engine, so neither may stand in a tag.
    fn characters(&self, body: &str) -> Checked {
        if body.contains(self.spelling.variable_open()) {
            let what = format!("a variable cannot stand inside the tag {}", self.shown());
            return Err(self.fault(what, "put the variable beside the tag, or pass its value as an argument"));
        }
        if body.contains(['"', '\'', '`']) {
            let what = format!("the tag {} holds a quote", self.shown());
            return Err(self.fault(what, format!("take the quotes out, or write {}", self.spelling.literal())));
        }
        if body.contains(['{', '}']) {
            return Err(
                self.fault(format!("the tag {} holds a brace", self.shown()), format!("write {}", self.spelling.literal()))
            );
        }
        let mut inside = false;
        for c in body.chars() {
            match (c, inside) {
                ('[', false) => inside = true,
                (']', true) => inside = false,
                ('[' | ']', _) | ('(' | ')', false) => return Err(self.unreadable()),
                _ => {}
            }
        }
        if inside { Err(self.unreadable()) } else { Ok(()) }
    }

    fn unreadable(&self) -> TemplateFault {
        let example = [self.spelling.tag("name"), self.spelling.tag("list.[0].name")];
        let mend = format!("write a path such as {} or {}", example[0], example[1]);
        self.fault(format!("the tag {} cannot be read", self.shown()), mend)
    }

    fn expression(&self, body: &'a str) -> Checked {
        let words = words(body);
        match words.as_slice() {
            [path] if path.starts_with("else") => {
                let what = format!("a name that begins with else cannot stand alone: {}", self.shown());
                Err(self.fault(what, format!("write {}", self.spelling.tag(&format!("args.{path}")))))
            }
            [path] => self.path(path),
            [helper, ..] => Err(self.unknown_helper(helper)),
            [] => Err(self.unreadable()),
        }
    }

    fn unknown_helper(&self, helper: &str) -> TemplateFault {
        let mut what = format!("there is no helper {helper}");
        if let Some(near) = crate::nearest::nearest(helper.trim_start_matches('#'), BLOCKS) {
            what = format!("{what}; did you mean #{near}?");
        }
        self.fault(what, "the helpers are #if, #unless, #each and #with; everything else is an argument's path")
    }

    fn path(&self, path: &str) -> Checked {
        let local = path.strip_prefix('@').map(|rest| rest.trim_start_matches("../"));
        let local_known = match local {
            Some(name) => {
                name.starts_with("root.") || name.starts_with("root/") || ["index", "key", "first", "last"].contains(&name)
            }
            None => true,
        };
        if path.len() > PATH_BYTES_MAX || !local_known || Path::parse(path).is_err() { Err(self.unreadable()) } else { Ok(()) }
    }

    fn open_block(&mut self, body: &'a str) -> Checked {
        let name = self.block_head(body)?;
        self.open.push(Block { name, opened_at: self.at, links: 0, seen_else: false });
        self.check_depth()
    }

    fn check_depth(&self) -> Checked {
        if depth(&self.open) > BLOCK_DEPTH_MAX {
            let what = format!("blocks are nested deeper than {BLOCK_DEPTH_MAX} levels");
            return Err(self.fault(what, "split the prompt; each else if counts as a level too"));
        }
        Ok(())
    }

    /// `if path`, `each path as |item index|`, …; gives the helper's name.
    fn block_head(&self, body: &'a str) -> Result<&'a str, TemplateFault> {
        let words = words(body);
        let [name, rest @ ..] = words.as_slice() else { return Err(self.unreadable()) };
        if !BLOCKS.contains(name) {
            return Err(self.unknown_helper(&format!("#{name}")));
        }
        let [path, rest @ ..] = rest else {
            let example = self.spelling.tag(&format!("#{name} path"));
            return Err(self.fault(format!("#{name} needs an argument's path"), format!("write {example}")));
        };
        if ["as", "else"].contains(path) {
            let what = format!("#{name} cannot take the word {path} alone");
            return Err(self.fault(what, format!("write {}", self.spelling.tag(&format!("#{name} args.{path}")))));
        }
        if serde_json::from_str::<serde_json::Value>(path).is_ok() {
            let what = format!("#{name} takes an argument's path and no literal");
            return Err(self.fault(what, "name the argument"));
        }
        self.path(path)?;
        let fine = match *name {
            "if" | "unless" => matches!(rest, [] | ["includeZero=true" | "includeZero=false"]),
            _ => rest.is_empty() || is_block_params(&rest.join(" ")),
        };
        if fine {
            return Ok(name);
        }
        let what = format!("#{name} has more than it takes: {}", self.shown());
        Err(self.fault(what, format!("write one path{}", if *name == "each" { ", and as |item index| if you like" } else { "" })))
    }

    fn invert(&mut self, head: &'a str) -> Checked {
        if !head.is_empty() {
            self.block_head(head)?;
        }
        match self.open.last_mut() {
            Some(block) if block.seen_else => {}
            Some(block) => {
                block.seen_else = head.is_empty();
                block.links += usize::from(!head.is_empty());
                return self.check_depth();
            }
            None => return Err(self.fault("an else stands outside of every block", "put it between #if and /if, or take it out")),
        }
        Err(self.fault("the block has an else already", "take one of them out"))
    }

    fn close_block(&mut self, name: &'a str) -> Checked {
        match self.open.pop() {
            Some(block) if block.name == name => Ok(()),
            Some(block) => {
                let (line, column) = crate::fault::line_column(self.source, block.opened_at);
                let what = format!("{} closes #{}, opened on line {line}, column {column}", self.shown(), block.name);
                Err(self.fault(what, format!("close it with {}", self.spelling.tag(&format!("/{}", block.name)))))
            }
            None => Err(self.fault(format!("{} closes no block", self.shown()), "take it out, or open the block before it")),
        }
    }
}

/// The words of a tag, split at spaces outside of brackets.
fn words(body: &str) -> Vec<&str> {
    let mut inside = false;
    body.split(|c: char| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c.is_ascii_whitespace() && !inside
    })
    .filter(|word| !word.is_empty())
    .collect()
}

/// `as |item|` or `as |item index|`.
fn is_block_params(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("as |").and_then(|rest| rest.strip_suffix('|')) else { return false };
    let names: Vec<&str> = inner.split_ascii_whitespace().collect();
    (1..=2).contains(&names.len()) && names.iter().all(|name| super::spelling::is_variable_name(name))
}

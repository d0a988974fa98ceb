//! The look at a template before the template engine sees it: two known small templates overflow that engine's stack and would
//! take the process with them (U19), and its own messages are parser noise.
//!
//! Owns the division into text and tags, the rules of tags (G1-9) and their sentences. It must not know values or rendering.

use std::borrow::Cow;

use super::spelling::{Spelling, malformed};
use super::tags::{Block, Tags};

/// Longest template, in bytes; the engine's compile time is quadratic (G1-9).
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of blocks, links of an `else if` chain included (G1-9).
pub const BLOCK_DEPTH_MAX: usize = 32;
/// Most tags of a template, for the same reason as [`SOURCE_BYTES_MAX`].
pub const TAGS_MAX: usize = 2048;

/// Stands for `{` in text that the engine must not take for a tag.
pub(super) const HIDDEN_BRACE: char = '\u{E000}';
/// Stands for a character of an escape that the rendered text must not show.
pub(super) const HIDDEN_NOTHING: char = '\u{E001}';

/// Why a template is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}; {mend}")]
pub struct TemplateFault {
    /// Byte offset within the template as written.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, one sentence without a full stop.
    pub what: String,
    /// What to do about it, one sentence without a full stop.
    pub mend: String,
}

impl TemplateFault {
    pub(super) fn at(source: &str, offset: usize, what: impl Into<String>, mend: impl Into<String>) -> Self {
        let (line, column) = crate::fault::line_column(source, offset);
        Self { offset, line, column, what: what.into(), mend: mend.into() }
    }
}

/// Checks a template and gives the text for the engine: the same lines and columns, in braces. With `variables`, what opens a
/// variable has to be one.
pub(super) fn scan(source: &str, spelling: Spelling, variables: bool) -> Result<Cow<'_, str>, TemplateFault> {
    if source.len() > SOURCE_BYTES_MAX {
        let what = format!("the template is {} bytes long, the limit is {SOURCE_BYTES_MAX}", source.len());
        return Err(TemplateFault::at(source, 0, what, "shorten it, or pass the long part as an argument"));
    }
    if spelling == Spelling::Angles
        && let Some(at) = source.find([HIDDEN_BRACE, HIDDEN_NOTHING])
    {
        let what = "the private characters U+E000 and U+E001 cannot stand in a prompt with angle placeholders";
        return Err(TemplateFault::at(source, at, what, "take them out"));
    }
    let mut scanner = Scanner { source, spelling, variables, out: String::new(), tags: Tags::new(source, spelling) };
    scanner.run()?;
    Ok(match spelling {
        Spelling::Braces => Cow::Borrowed(source),
        Spelling::Angles => Cow::Owned(scanner.out),
    })
}

struct Scanner<'a> {
    source: &'a str,
    spelling: Spelling,
    variables: bool,
    /// The text for the engine, kept for angles only.
    out: String,
    tags: Tags<'a>,
}

impl<'a> Scanner<'a> {
    fn run(&mut self) -> Result<(), TemplateFault> {
        let mut at = 0;
        while let Some(found) = self.source[at..].find(self.spelling.open()) {
            let open = at + found;
            let text = &self.source[at..open];
            let backslashes = text.bytes().rev().take_while(|b| *b == b'\\').count();
            if backslashes == 1 {
                at = self.pass_escape(at, text, open)?;
            } else {
                self.pass_text(at, text)?;
                at = self.pass_tag(open)?;
            }
        }
        let rest = &self.source[at..];
        self.pass_text(at, rest)?;
        self.tags.end()
    }

    /// Text between tags, from this byte on.
    fn pass_text(&mut self, from: usize, text: &str) -> Result<(), TemplateFault> {
        if self.variables
            && let Some(at) = malformed(text, self.spelling)
        {
            let what = format!("{} opens a variable and no name follows", snippet(&text[at..]));
            let (name, dollars) = (self.spelling.variable("NAME"), self.spelling.variable_open());
            return Err(TemplateFault::at(
                self.source,
                from + at,
                what,
                format!("write {name}, or ${dollars} for the characters themselves"),
            ));
        }
        if self.spelling == Spelling::Angles {
            self.out.extend(text.chars().map(|c| if c == '{' { HIDDEN_BRACE } else { c }));
        }
        Ok(())
    }

    /// `\{{` is the text `{{`. The engine reads four braces after the backslash as one escape; so does this.
    fn pass_escape(&mut self, from: usize, text: &str, open: usize) -> Result<usize, TemplateFault> {
        let mark = self.spelling.open();
        let twice = self.source[open + mark.len()..].starts_with(mark);
        let end = open + mark.len() * (1 + usize::from(twice));
        self.pass_text(from, &text[..text.len() - 1])?;
        if self.spelling == Spelling::Angles {
            self.out.push(HIDDEN_NOTHING);
            self.out.push_str(&self.source[open..end]);
        }
        Ok(end)
    }

    /// A tag from its opening mark; gives the place after its closing mark.
    fn pass_tag(&mut self, open: usize) -> Result<usize, TemplateFault> {
        let mark = self.spelling.open().len();
        let body_from = open + mark;
        let rest = &self.source[body_from..];
        let (close, end_mark) = match comment_end(rest, self.spelling) {
            Some((close, end_mark)) => (body_from + close, end_mark),
            None => (body_from + self.find_close(open, rest)?, mark),
        };
        let mut end = close + end_mark;
        let body = &self.source[body_from..close];
        if !body.starts_with('!') {
            if self.spelling == Spelling::Braces && body.starts_with("{{") {
                let mend = format!("write {}", self.spelling.literal());
                return Err(TemplateFault::at(self.source, open, "raw blocks are not offered", mend));
            }
            let triple = self.spelling == Spelling::Braces && body.trim_start_matches('~').starts_with('{');
            let body = if triple { self.triple_body(open, body, close, &mut end)? } else { body };
            self.tags.take(open, body)?;
        }
        if self.spelling == Spelling::Angles {
            self.out.push_str("{{");
            if let Some(words) = body.strip_prefix('!') {
                // A comment's words might close a comment in the other spelling; only its size matters.
                self.out.push('!');
                self.out.extend(words.chars().map(|c| if c == '\n' { c } else { ' ' }));
            } else {
                self.out.push_str(body);
            }
            self.out.push_str("}}");
        }
        Ok(end)
    }

    fn find_close(&self, open: usize, rest: &str) -> Result<usize, TemplateFault> {
        rest.find(self.spelling.close()).ok_or_else(|| {
            let what = format!("the tag {} is never closed", snippet(&self.source[open..]));
            let mend = format!("close it with {}, or write {}", self.spelling.close(), self.spelling.literal());
            TemplateFault::at(self.source, open, what, mend)
        })
    }

    /// `{{{path}}}` prints like `{{path}}`, since nothing is escaped here.
    fn triple_body(&self, open: usize, body: &'a str, close: usize, end: &mut usize) -> Result<&'a str, TemplateFault> {
        let rest = &self.source[close + 2..];
        // `{{~{path}~}}` closes its inner brace before the tilde, `{{{path}}}` after the mark.
        if let Some(inner) = body.trim_start_matches('~').strip_prefix('{') {
            if let Some(inner) = inner.trim_end_matches('~').strip_suffix('}') {
                return Ok(inner);
            }
            if rest.starts_with('}') && !inner.contains(['{', '}']) {
                *end = close + 3;
                return Ok(inner);
            }
        }
        let what = format!("the tag {} opens with three braces and does not close with three", snippet(&self.source[open..]));
        Err(TemplateFault::at(self.source, open, what, format!("write {{{{name}}}}, or {}", self.spelling.literal())))
    }
}

/// Where a comment's body ends and how long its closing mark is, when the tag is a comment.
fn comment_end(rest: &str, spelling: Spelling) -> Option<(usize, usize)> {
    let inner = rest.strip_prefix('!')?;
    let dashed = inner.trim_start_matches([' ', '\t', '\r', '\n']);
    let long_close = format!("--{}", spelling.close());
    if let Some(words) = dashed.strip_prefix("--")
        && let Some(at) = words.find(&long_close)
    {
        // The dashes count as the comment's own words.
        return Some((rest.len() - words.len() + at + 2, spelling.close().len()));
    }
    rest.find(spelling.close()).map(|at| (at, spelling.close().len()))
}

/// The beginning of a tag, for a message: one line, at most 40 characters.
pub(crate) fn snippet(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("`{}…`", &line[..end]),
        None => format!("`{line}`"),
    }
}

/// The blocks a template may open.
pub(super) const BLOCKS: [&str; 4] = ["if", "unless", "each", "with"];

/// Depth of the open blocks with their `else if` links.
pub(super) fn depth(open: &[Block<'_>]) -> usize {
    open.iter().map(|block| 1 + block.links).sum()
}

//! The two spellings of placeholders (G1-3, G1-40) and the splitting of text at its variables.
//!
//! Owns the delimiters, the grammar of a variable's name, and the escape `$${NAME}`. It must not know arguments or tags.

/// How a prompt writes its placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Spelling {
    /// `${NAME}` and `{{path}}`.
    #[default]
    Braces,
    /// `$<NAME>` and `<<path>>`, for prompts that are full of braces; braces and `${}` are plain text then.
    Angles,
}

impl Spelling {
    /// The word of an entry's `placeholders`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Braces => "braces",
            Self::Angles => "angles",
        }
    }

    pub(crate) fn open(self) -> &'static str {
        match self {
            Self::Braces => "{{",
            Self::Angles => "<<",
        }
    }

    pub(crate) fn close(self) -> &'static str {
        match self {
            Self::Braces => "}}",
            Self::Angles => ">>",
        }
    }

    pub(crate) fn variable_open(self) -> &'static str {
        match self {
            Self::Braces => "${",
            Self::Angles => "$<",
        }
    }

    fn variable_close(self) -> char {
        match self {
            Self::Braces => '}',
            Self::Angles => '>',
        }
    }

    /// A tag in this spelling, for messages.
    pub(crate) fn tag(self, body: &str) -> String {
        format!("{}{body}{}", self.open(), self.close())
    }

    /// How to write the opening mark itself, for messages.
    pub(crate) fn literal(self) -> &'static str {
        match self {
            Self::Braces => "\\{{ for the characters themselves, or set \"placeholders\": \"angles\"",
            Self::Angles => "\\<< for the characters themselves",
        }
    }

    /// A variable in this spelling, for messages.
    pub(crate) fn variable(self, name: &str) -> String {
        format!("{}{name}{}", self.variable_open(), self.variable_close())
    }
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Plain text.
    Text(&'a str),
    /// The name of a variable.
    Variable(&'a str),
}

/// Whether a word is a variable's name: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_variable_name(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Splits a text at its variables. `$${` is the text `${`; an opening mark with no name behind it is text here, and refused by
/// [`malformed`] before anything is kept.
pub(crate) fn parts(text: &str, spelling: Spelling) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut plain_from = 0;
    for mark in marks(text, spelling) {
        match mark.name {
            // The first dollar goes, the rest of the mark stays.
            None if mark.escaped => {
                push_text(&mut parts, &text[plain_from..mark.at - 1]);
                plain_from = mark.at;
            }
            Some(name) => {
                push_text(&mut parts, &text[plain_from..mark.at]);
                parts.push(Part::Variable(name));
                plain_from = mark.at + spelling.variable_open().len() + name.len() + 1;
            }
            // No variable after all: text like the text around it.
            _ => {}
        }
    }
    push_text(&mut parts, &text[plain_from..]);
    parts
}

/// The byte where a variable opens that is none: a slip in a prompt must not go out as it stands (G1-5).
pub(crate) fn malformed(text: &str, spelling: Spelling) -> Option<usize> {
    marks(text, spelling).find(|mark| mark.name.is_none() && !mark.escaped).map(|mark| mark.at)
}

/// The opening of a variable in a text.
struct Mark<'a> {
    /// Byte of its dollar sign.
    at: usize,
    /// Whether a dollar sign before it makes it plain text.
    escaped: bool,
    /// The variable's name, when it is not escaped and has one.
    name: Option<&'a str>,
}

fn marks(text: &str, spelling: Spelling) -> impl Iterator<Item = Mark<'_>> {
    let open = spelling.variable_open();
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text[from..].find(open)?;
        let escaped = text[from..at].ends_with('$');
        let name = if escaped { None } else { name_at(&text[at + open.len()..], spelling) };
        from = at + open.len() + name.map_or(0, |name| name.len() + 1);
        Some(Mark { at, escaped, name })
    })
}

/// The variable names of a text, each once, in order.
pub(crate) fn names(parts: &[Part<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    for part in parts {
        if let Part::Variable(name) = part
            && !names.iter().any(|known| known == name)
        {
            names.push((*name).to_owned());
        }
    }
    names
}

fn name_at(rest: &str, spelling: Spelling) -> Option<&str> {
    let name = &rest[..rest.find(spelling.variable_close())?];
    is_variable_name(name).then_some(name)
}

fn push_text<'a>(parts: &mut Vec<Part<'a>>, text: &'a str) {
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, spelling: Spelling) -> String {
        let show = |part: &Part<'_>| match part {
            Part::Text(text) => format!("'{text}'"),
            Part::Variable(name) => format!("[{name}]"),
        };
        parts(text, spelling).iter().map(show).collect()
    }

    /// G1-3, G1-5, G1-40: what is a variable, what only looks like one, and the escape, in both spellings.
    #[test]
    fn variables_are_found_and_lookalikes_are_text() {
        let rows = [
            ("for ${TEAM}.", "'for '[TEAM]'.'", None),
            ("${A}${_b2}", "[A][_b2]", None),
            ("$${A} ${B}", "'${A} '[B]", None),
            ("$$${A}", "'$''${A}'", None),
            ("${A}$${A}$${", "[A]'${A}''${'", None),
            ("$A {A} $ {A} $", "'$A {A} $ {A} $'", None),
            ("a ${} ${A}", "'a ${} '[A]", Some(2)),
            ("${1a}", "'${1a}'", Some(0)),
            ("${A}${a-b}", "[A]'${a-b}'", Some(4)),
            ("${A B} ${ A}", "'${A B} ${ A}'", Some(0)),
            ("é${A", "'é${A'", Some(2)),
            ("${x ${A}", "'${x '[A]", Some(0)),
            ("$<A>", "'$<A>'", None),
        ];
        for (text, expected, wrong) in rows {
            assert_eq!(shown(text, Spelling::Braces), expected, "{text}");
            assert_eq!(malformed(text, Spelling::Braces), wrong, "{text}");
        }
        assert_eq!(shown("$<A> $$<B> ${C} <<d>>", Spelling::Angles), "[A]' ''$<B> ${C} <<d>>'");
    }
}

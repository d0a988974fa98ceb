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

/// Splits a text at its variables. `$${NAME}` is the text `${NAME}`; what only resembles a variable is text.
pub(crate) fn parts(text: &str, spelling: Spelling) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut plain_from = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find(spelling.variable_open()) {
        let dollar = at + found;
        let name_from = dollar + spelling.variable_open().len();
        let Some(name) = name_at(&text[name_from..], spelling) else {
            at = name_from;
            continue;
        };
        let end = name_from + name.len() + 1;
        let escaped = text[plain_from..dollar].ends_with('$');
        // An escape keeps the text from the second dollar on; a variable ends the text before it.
        let plain = if escaped { &text[plain_from..dollar - 1] } else { &text[plain_from..dollar] };
        push_text(&mut parts, plain);
        if escaped {
            push_text(&mut parts, &text[dollar..end]);
        } else {
            parts.push(Part::Variable(name));
        }
        plain_from = end;
        at = end;
    }
    push_text(&mut parts, &text[plain_from..]);
    parts
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
            ("for ${TEAM}.", "'for '[TEAM]'.'"),
            ("${A}${_b2}", "[A][_b2]"),
            ("$${A} ${B}", "'${A}'' '[B]"),
            ("$$${A}", "'$''${A}'"),
            ("${A}$${A}", "[A]'${A}'"),
            ("${} ${1a} ${a-b} ${A B} ${ A} $A {A} ${A", "'${} ${1a} ${a-b} ${A B} ${ A} $A {A} ${A'"),
            ("${x ${A}", "'${x '[A]"),
            ("$<A>", "'$<A>'"),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text, Spelling::Braces), expected, "{text}");
        }
        assert_eq!(shown("$<A> $$<B> ${C} <<d>>", Spelling::Angles), "[A]' ''$<B>'' ${C} <<d>>'");
    }
}

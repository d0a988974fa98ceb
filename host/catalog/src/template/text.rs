//! A text with variables and nothing else, as in the environment a grant gives its guest.
//!
//! Owns the one pass. It must not know arguments.

use std::sync::Arc;

use super::spelling::{Part, Spelling, malformed, names, parts};
use super::{RenderError, Values};

/// A text with `${NAME}` variables. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    source: Arc<str>,
    variables: Arc<[String]>,
}

impl Text {
    /// Reads a text; none when it opens a variable with `${` and no name follows. `$${` is the text `${`.
    pub fn parse(source: &str) -> Option<Self> {
        let variables = names(&parts(source, Spelling::Braces)).into();
        malformed(source, Spelling::Braces).is_none().then(|| Self { source: source.into(), variables })
    }

    /// Every `${NAME}` of the text, each once.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The text as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text with its variables filled in, in one pass: values are inserted as they are.
    pub fn fill(&self, values: &Values) -> Result<String, RenderError> {
        let mut filled = String::new();
        for part in parts(&self.source, Spelling::Braces) {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable(name) => match values.get(name) {
                    Some(value) => filled.push_str(&value.text),
                    None => return Err(RenderError::Unresolved { name: name.to_owned() }),
                },
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use job::variables::{Source, Value};

    fn text(source: &str) -> Text {
        Text::parse(source).expect("fine")
    }

    /// G1-4: one pass; what a value says is not looked at again.
    #[test]
    fn values_are_inserted_as_they_are() {
        let value = Value { text: "${B}{{x}}".into(), source: Source::Config, secret: false };
        let values = Values::from([("A".to_owned(), value)]);
        assert_eq!(text("<${A}> $${A} $${").fill(&values), Ok("<${B}{{x}}> ${A} ${".to_owned()));
        assert_eq!(text("${B}").fill(&values), Err(RenderError::Unresolved { name: "B".into() }));
        assert_eq!(text("${B} ${A} ${B}").variables(), ["B", "A"]);
        assert_eq!(Text::parse("${B"), None);
    }
}

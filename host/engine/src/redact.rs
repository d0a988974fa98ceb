//! The one point every outgoing payload of a job passes: secret values become `[redacted NAME]` (G1-44, invariant 7).
//!
//! Owns the forms a secret is found in: as it is, in base64, and either of them percent-encoded or JSON-escaped, up to twice.
//! Pure. It must not know where a payload goes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use job::json::JsonText;
use job::outcome::Redacted;
use job::variables::{SECRET_BYTES_MIN, Value};

use crate::views::View;

/// Masks the secrets that were resolved for one job.
#[derive(Default)]
pub(crate) enum Redactor {
    /// The job has no secrets.
    #[default]
    Clean,
    /// Masks these.
    Masks(Forms),
    /// The finder could not be built: everything is masked rather than nothing.
    Blind,
}

pub(crate) struct Forms {
    finder: AhoCorasick,
    /// For each pattern, the secret it belongs to.
    owners: Vec<usize>,
    secrets: Vec<Redacted>,
}

impl Redactor {
    /// A redactor for the secret ones of these values.
    pub(crate) fn new(values: &BTreeMap<String, Value>) -> Self {
        let mut patterns: Vec<String> = Vec::new();
        let mut owners = Vec::new();
        let mut secrets = Vec::new();
        for (name, value) in values.iter().filter(|(_, value)| value.secret && value.text.len() >= SECRET_BYTES_MIN) {
            for form in forms_of(&value.text) {
                patterns.push(form);
                owners.push(secrets.len());
            }
            secrets.push(Redacted { name: name.clone(), source: value.source.word().to_owned() });
        }
        if patterns.is_empty() {
            return Self::default();
        }
        match AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns) {
            Ok(finder) => Self::Masks(Forms { finder, owners, secrets }),
            Err(_) => Self::Blind,
        }
    }

    /// A text with every form of every secret masked.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found = Vec::new();
        self.mask(text, &mut found)
    }

    fn mask<'t>(&self, text: &'t str, found: &mut Vec<usize>) -> Cow<'t, str> {
        let forms = match self {
            Self::Clean => return Cow::Borrowed(text),
            Self::Blind => return Cow::Borrowed("[redacted]"),
            Self::Masks(forms) => forms,
        };
        let hits = forms.hits(text);
        if hits.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut reached = 0;
        for (start, end, owner) in hits {
            // A form found under two decodings, or within another, is masked once.
            if end <= reached {
                continue;
            }
            if start >= reached {
                masked.push_str(&text[reached..start]);
                masked.push_str("[redacted ");
                masked.push_str(&forms.secrets[owner].name);
                masked.push(']');
            }
            reached = end;
            if !found.contains(&owner) {
                found.push(owner);
            }
        }
        masked.push_str(&text[reached..]);
        Cow::Owned(masked)
    }

    /// A JSON text with secrets masked in its decoded strings and keys, so that no escape hides one, and which were found.
    pub(crate) fn json(&self, text: JsonText) -> (JsonText, Vec<Redacted>) {
        let forms = match self {
            Self::Clean => return (text, Vec::new()),
            Self::Blind => return (JsonText::trusted("\"[redacted]\""), Vec::new()),
            Self::Masks(forms) => forms,
        };
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(text.as_str()) else { return (text, Vec::new()) };
        let mut found = Vec::new();
        self.walk(&mut value, &mut found);
        if found.is_empty() {
            return (text, Vec::new());
        }
        found.sort_unstable();
        (JsonText::trusted(value.to_string()), found.into_iter().map(|owner| forms.secrets[owner].clone()).collect())
    }

    fn walk(&self, value: &mut serde_json::Value, found: &mut Vec<usize>) {
        match value {
            serde_json::Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text, found) {
                    *text = masked;
                }
            }
            serde_json::Value::Number(number) => {
                // A secret of digits alone may come back as a number.
                if let Cow::Owned(masked) = self.mask(&number.to_string(), found) {
                    *value = serde_json::Value::String(masked);
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, found)),
            serde_json::Value::Object(members) => {
                let taken = std::mem::take(members);
                for (key, mut member) in taken {
                    self.walk(&mut member, found);
                    members.insert(self.mask(&key, found).into_owned(), member);
                }
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        }
    }
}

impl Forms {
    /// Where secrets stand in the text, under any decoding: start, end, whose. In order of start, longer ones first.
    fn hits(&self, text: &str) -> Vec<(usize, usize, usize)> {
        let plain = View::plain(text);
        let once = plain.unescaped();
        let twice = once.as_ref().and_then(View::unescaped);
        let mut views = Vec::new();
        for view in std::iter::once(plain).chain(once).chain(twice) {
            views.extend(view.percent(false));
            views.extend(view.percent(true));
            views.push(view);
        }
        let mut hits = Vec::new();
        for view in &views {
            for hit in self.finder.find_iter(&view.bytes) {
                let (start, end) = view.origin(hit.start(), hit.end());
                hits.push((start, end, self.owners[hit.pattern().as_usize()]));
            }
        }
        hits.sort_unstable_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
        hits
    }
}

/// The secret itself, and the part of its base64 that does not depend on its neighbours, in each of the three alignments.
fn forms_of(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    for skip in 0..3usize {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let padded: Vec<u8> = std::iter::repeat_n(0, skip).chain(secret.bytes()).collect();
            let encoded = engine.encode(&padded);
            let start = (skip * 8).div_ceil(6);
            let end = padded.len() * 8 / 6;
            forms.push(encoded[start..end].to_owned());
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use job::variables::Source;

    const SECRET: &str = "pa\"ss\\wo\nrd-1.0";

    fn redactor(secret: &str) -> Redactor {
        let value = Value { text: secret.into(), source: Source::Environment, secret: true };
        Redactor::new(&BTreeMap::from([("DB_PASS".to_owned(), value)]))
    }

    /// S1-83, S1-83b: no form of a secret survives, however it is written.
    #[test]
    fn every_form_is_masked() {
        let percent = percent_encoding::utf8_percent_encode(SECRET, percent_encoding::NON_ALPHANUMERIC).to_string();
        let every_byte: String = SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let escaped = serde_json::Value::from(SECRET).to_string();
        let ascii: String = SECRET.chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect();
        let texts = [
            format!("<{SECRET}>"),
            format!("in json: {escaped}"),
            format!("in json in json: {}", serde_json::Value::from(escaped.as_str())),
            format!("q={percent}"),
            format!("q={}", percent.to_lowercase()),
            format!("q={}", percent.replace("%2D", "-")),
            format!("q={every_byte}&r=1"),
            format!("ascii {ascii}"),
        ];
        for text in texts {
            let masked = redactor(SECRET).text(&text).into_owned();
            assert!(masked.contains("[redacted DB_PASS]") && !masked.contains("rd-1"), "{text} gave {masked}");
        }
        for before in ["", "x", "xy", "user:"] {
            let encoded = STANDARD_NO_PAD.encode(format!("{before}{SECRET}:tail"));
            let masked = redactor(SECRET).text(&encoded).into_owned();
            assert!(masked.contains("[redacted DB_PASS]"), "{before:?}: {encoded} gave {masked}");
        }
    }

    /// S1-83b: quotes and newlines in a JSON answer hide nothing, keys included, and other digits stay as they are.
    #[test]
    fn decoded_strings_and_keys_are_masked() {
        let body = serde_json::json!({ "a": [format!("x{SECRET}y")], SECRET: 1.5, "n": 7 }).to_string();
        let (masked, found) = redactor(SECRET).json(JsonText::trusted(body));
        assert_eq!(masked.as_str(), r#"{"a":["x[redacted DB_PASS]y"],"[redacted DB_PASS]":1.5,"n":7}"#);
        assert_eq!(found, [Redacted { name: "DB_PASS".into(), source: "environment".into() }]);
        let (masked, _) = redactor("1234567890").json(JsonText::trusted(r#"{"pin":1234567890}"#));
        assert_eq!(masked.as_str(), r#"{"pin":"[redacted DB_PASS]"}"#);
    }

    #[test]
    fn short_or_public_values_mask_nothing() {
        assert_eq!(redactor("short").text("short story"), "short story");
        let value = Value { text: "a public value".into(), source: Source::Config, secret: false };
        let redactor = Redactor::new(&BTreeMap::from([("TEAM".to_owned(), value)]));
        assert_eq!(redactor.text("a public value"), "a public value");
    }
}

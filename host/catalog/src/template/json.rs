//! Checked JSON text to values with every number's digits as the sender wrote them (G1-8, S1-82b).
//!
//! Owns the one repair: serde_json spells `1e3` as `1e+3`. It must not know what the values mean.

use job::json::JsonText;
use serde_json::{Number, Value as Json};

/// The value of a checked text. Text that is none, which a checked text never is, gives null.
pub(super) fn exact(text: &JsonText) -> Json {
    let mut value: Json = serde_json::from_str(text.as_str()).unwrap_or_default();
    let written = exponents(text.as_str());
    if written.iter().any(|token| token.contains(['e', 'E'])) && count(&value) == written.len() {
        restore(&mut value, &mut written.into_iter());
    }
    value
}

/// The number tokens of a JSON text in order; none at all when no number has an exponent.
fn exponents(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let len = bytes[at..].iter().take_while(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).count();
                tokens.push(&text[at..at + len]);
                at += len;
            }
            _ => at += 1,
        }
    }
    tokens
}

/// The place after the string that starts here.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

fn count(value: &Json) -> usize {
    match value {
        Json::Number(_) => 1,
        Json::Array(items) => items.iter().map(count).sum(),
        Json::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Gives each number its own token back; both are in the order of the text.
fn restore<'t>(value: &mut Json, written: &mut impl Iterator<Item = &'t str>) {
    match value {
        Json::Number(number) => {
            if let Some(token) = written.next() {
                *number = Number::from_string_unchecked(token.to_owned());
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| restore(item, written)),
        Json::Object(members) => members.values_mut().for_each(|member| restore(member, written)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-82b, U13: the digits of the sender, whatever surrounds them.
    #[test]
    fn numbers_keep_their_spelling() {
        let rows = [
            r#"[1.10,1e3,1E3,1e+3,2e-7,-0,-0.0,123456789012345678901234567890,0.1e01]"#,
            r#"{"a":"1e3 \" 2e3","b":{"c":[5e1]},"d":[],"e":null,"f":1e2}"#,
            r#"7E2"#,
        ];
        for row in rows {
            let text = JsonText::check(row.as_bytes()).expect("fine");
            assert_eq!(exact(&text).to_string(), row);
        }
    }

    /// A sender that imitates the parser's private key gets a number, and spoils nobody's digits by it.
    #[test]
    fn an_imitated_number_is_a_number() {
        let text = JsonText::check(br#"{"x":{"$serde_json::private::Number":"12"},"y":1.10}"#).expect("fine");
        assert_eq!(exact(&text).to_string(), r#"{"x":12,"y":1.10}"#);
    }
}

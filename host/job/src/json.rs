//! JSON as an opaque, checked text: rooms pass it on without reading it, so digits and key order survive.
//!
//! Owns the one check every face applies: UTF-8, well-formed, at most [`NESTING_MAX`] levels, no duplicate keys (G1-53, G4-7).
//! It must not know what any member means.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Deepest nesting of arrays and objects, counted from the message root (G1-53).
pub const NESTING_MAX: usize = 100;
/// Longest number, in bytes of its text.
pub const NUMBER_BYTES_MAX: usize = 1024;

/// Why a text is not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at line {line} column {column}")]
pub struct JsonFault {
    /// What is wrong, in words for the sender.
    pub what: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1 (0 where the parser knows none).
    pub column: usize,
}

/// A JSON text that has passed the check.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Checks bytes that came from outside.
    pub fn check(bytes: &[u8]) -> Result<Self, JsonFault> {
        let text = std::str::from_utf8(bytes).map_err(|error| fault_at(bytes, error.valid_up_to()))?;
        check_text(text)?;
        Ok(Self(text.into()))
    }

    /// Takes a text that a serializer of this program has just written from checked values.
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Contents belong to requesters and guests; a debug line shows only how much there is.
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

/// Checks a text without keeping it.
pub fn check_text(text: &str) -> Result<(), JsonFault> {
    let mut parser = serde_json::Deserializer::from_str(text);
    Level(0).deserialize(&mut parser).and_then(|()| parser.end()).map_err(|error| JsonFault {
        what: words_of(&error),
        line: error.line(),
        column: error.column(),
    })
}

/// serde_json appends its own position to the sentence; we carry it in fields instead.
fn words_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn fault_at(bytes: &[u8], at: usize) -> JsonFault {
    let before = &bytes[..at];
    let line = 1 + before.iter().filter(|b| **b == b'\n').count();
    let column = 1 + before.iter().rev().take_while(|b| **b != b'\n').count();
    JsonFault { what: "the text is not UTF-8".into(), line, column }
}

/// A value at this depth: `Level(0)` is the message root.
struct Level(usize);

impl Level {
    fn below<E: de::Error>(&self) -> Result<usize, E> {
        if self.0 >= NESTING_MAX {
            return Err(E::custom(format_args!("nested deeper than {NESTING_MAX} levels")));
        }
        Ok(self.0 + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let below = self.below()?;
        while seq.next_element_seed(Level(below))?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        let mut below = None;
        while let Some(key) = map.next_key::<String>()? {
            // With arbitrary_precision the parser shows a number as a map of one private key. A sender may write that key too;
            // then its value has to be a number, which is what every later reader will take it for.
            if key == NUMBER_KEY && seen.is_empty() {
                return check_number::<A::Error>(&map.next_value::<String>()?);
            }
            // Under this one a later reader would parse the value as JSON text, unchecked.
            if key == RAW_KEY && seen.is_empty() {
                return Err(de::Error::custom("an object begins with a reserved key"));
            }
            let below = *match &below {
                Some(level) => level,
                None => below.insert(self.below()?),
            };
            if seen.contains(&key) {
                return Err(de::Error::custom(format_args!("the key {key:?} stands twice in one object")));
            }
            seen.insert(key);
            map.next_value_seed(Level(below))?;
        }
        // An empty object is a level too.
        self.below().map(|_: usize| ())
    }
}

/// The key under which serde_json's `arbitrary_precision` hands over a number's digits.
const NUMBER_KEY: &str = "$serde_json::private::Number";

/// The key under which serde_json's `raw_value` hands over a text.
const RAW_KEY: &str = "$serde_json::private::RawValue";

fn check_number<E: de::Error>(digits: &str) -> Result<(), E> {
    let plausible = digits.len() <= NUMBER_BYTES_MAX && digits.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if plausible && serde_json::from_str::<serde_json::Number>(digits).is_ok() {
        Ok(())
    } else {
        Err(E::custom("a number that is none, or has too many digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    /// U14: one documented limit, and a hundred thousand levels are refused without harm.
    #[test]
    fn nesting_has_one_limit() {
        for (levels, fine) in [(64, true), (100, true), (101, false), (127, false), (128, false), (100_000, false)] {
            assert_eq!(check_text(&nested(levels)).is_ok(), fine, "{levels} levels");
        }
        // A number at the deepest allowed place is not one level more.
        assert!(check_text(&format!("{}1.5{}", "[".repeat(100), "]".repeat(100))).is_ok());
    }

    #[test]
    fn faults_name_their_place() {
        let rows: [(&[u8], &str, usize); 5] = [
            (b"{\"a\":{\"$serde_json::private::RawValue\":\"[[[\"}}", "reserved key", 1),
            (b"{\"a\":1,\n\"a\":2}", "stands twice", 2),
            (b"{\"a\":\xff}", "not UTF-8", 1),
            (b"{\"a\":1} x", "trailing characters", 1),
            (b"\n\n{", "EOF", 3),
        ];
        for (bytes, words, line) in rows {
            let fault = JsonText::check(bytes).expect_err("refused");
            assert!(fault.what.contains(words), "{fault}");
            assert_eq!(fault.line, line, "{fault}");
        }
    }

    /// U13: checking changes nothing, so every digit survives.
    #[test]
    fn the_text_is_kept_to_the_byte() {
        let text = r#"{"id":2512292042121000001,"big":123456789012345678901234567890,"f":1.10,"e":1e3}"#;
        assert_eq!(JsonText::check(text.as_bytes()).expect("fine").as_str(), text);
    }
}

//! Reading one object's own members and nothing beneath them.
//!
//! Owns the scan that hands each member over as its name and its text to the byte. It checks the grammar of the whole text but
//! not its depth or its inner keys; [`job::json::check_text`] does that. Deep nesting costs it no stack.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Why a text has no members to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoObject {
    /// It is not JSON.
    NotJson(String),
    /// It is some other JSON value.
    OtherValue,
}

/// Calls `take` with each member in order.
pub(crate) fn members<'a>(text: &'a str, take: impl FnMut(Cow<'a, str>, &'a str)) -> Result<(), NoObject> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = parser.deserialize_map(Scan { take }).and_then(|()| parser.end());
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => NoObject::OtherValue,
        _ => NoObject::NotJson(error.to_string()),
    })
}

struct Scan<F> {
    take: F,
}

impl<'de, F: FnMut(Cow<'de, str>, &'de str)> Visitor<'de> for Scan<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            (self.take)(key, value.get());
        }
        Ok(())
    }
}

/// A member's name, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl<'de> Visitor<'de> for Name {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// The string a JSON text is, if it is one.
pub(crate) fn string(json: &str) -> Option<String> {
    // The quick look spares other kinds of values a failed parse.
    if json.starts_with('"') { serde_json::from_str(json).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, NoObject> {
        let mut all = Vec::new();
        members(text, |name, json| all.push((name.into_owned(), json.to_owned())))?;
        Ok(all)
    }

    #[test]
    fn members_come_in_order_and_to_the_byte() {
        let all = read("{ \"a\" : 1.10, \"\\u0062\":{\"x\": [ 1 ]}, \"a\":null }").expect("an object");
        let expected = [("a", "1.10"), ("b", "{\"x\": [ 1 ]}"), ("a", "null")];
        assert_eq!(all, expected.map(|(name, json)| (name.to_owned(), json.to_owned())));
    }

    /// U14: a hundred thousand levels cost no stack here.
    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep).expect("an object").len(), 1);
    }

    #[test]
    fn other_texts_are_told_apart() {
        assert_eq!(read("[1]"), Err(NoObject::OtherValue));
        assert_eq!(read("7"), Err(NoObject::OtherValue));
        assert!(matches!(read("{\"a\":"), Err(NoObject::NotJson(_))));
        assert!(matches!(read("{} x"), Err(NoObject::NotJson(_))));
        assert!(matches!(read(""), Err(NoObject::NotJson(_))));
    }
}

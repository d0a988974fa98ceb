//! The text of a catalog file in pieces that know where they stand: serde_json's raw values are slices of the text.
//!
//! Owns the places of values, of strings' insides, and the shape of a file. It must not know the fields of an entry.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A piece of a checked JSON text.
#[derive(Clone, Copy)]
pub(super) struct Raw<'t> {
    whole: &'t str,
    text: &'t str,
}

/// What a file holds.
pub(super) enum Shape<'t> {
    /// One entry.
    Entry(Raw<'t>),
    /// Several.
    Entries(Vec<Raw<'t>>),
    /// Nothing that could be an entry.
    Neither {
        /// Where, as a byte offset.
        at: usize,
        what: String,
        mend: &'static str,
    },
}

const SHAPES: &str = "a catalog file holds one entry, an array of entries, or {\"capabilities\": […]}";

impl<'t> Raw<'t> {
    pub(super) fn new(whole: &'t str) -> Self {
        Self { whole, text: whole.trim() }
    }

    /// Byte offset of the piece in the file.
    pub(super) fn offset(self) -> usize {
        (self.text.as_ptr() as usize).saturating_sub(self.whole.as_ptr() as usize)
    }

    /// The piece as written.
    pub(super) fn text(self) -> &'t str {
        self.text
    }

    /// The piece as a value of this type, if it is one.
    pub(super) fn value<T: serde::Deserialize<'t>>(self) -> Option<T> {
        serde_json::from_str(self.text).ok()
    }

    fn piece(self, raw: &'t RawValue) -> Self {
        Self { whole: self.whole, text: raw.get() }
    }

    /// The members of an object in order, with the place of each key.
    pub(super) fn members(self) -> Option<Vec<(String, Raw<'t>, Raw<'t>)>> {
        let mut parser = serde_json::Deserializer::from_str(self.text);
        let pairs = parser.deserialize_map(Members).ok()?;
        let member = |(key, value): (&'t RawValue, &'t RawValue)| {
            let name = serde_json::from_str(key.get()).unwrap_or_default();
            (name, self.piece(key), self.piece(value))
        };
        Some(pairs.into_iter().map(member).collect())
    }

    /// The items of an array.
    pub(super) fn items(self) -> Option<Vec<Raw<'t>>> {
        let items: Vec<&'t RawValue> = serde_json::from_str(self.text).ok()?;
        Some(items.into_iter().map(|item| self.piece(item)).collect())
    }

    /// The shape of the file.
    pub(super) fn shape(self) -> Shape<'t> {
        if let Some(items) = self.items() {
            return Shape::Entries(items);
        }
        let Some(members) = self.members() else {
            return Shape::Neither { at: self.offset(), what: "the file holds no entry".into(), mend: SHAPES };
        };
        let Some((_, _, list)) = members.iter().find(|(name, ..)| name == "capabilities") else { return Shape::Entry(self) };
        if let Some((name, key, _)) = members.iter().find(|(name, ..)| name != "capabilities") {
            return Shape::Neither { at: key.offset(), what: format!("{name} stands beside capabilities"), mend: SHAPES };
        }
        match list.items() {
            Some(items) => Shape::Entries(items),
            None => Shape::Neither { at: list.offset(), what: "capabilities is no array".into(), mend: SHAPES },
        }
    }

    /// The place in the file of a byte inside the string this piece writes. JSON writes some characters longer than they are.
    pub(super) fn offset_in_string(self, target: usize) -> usize {
        let mut decoded = 0;
        let mut at = 1;
        while decoded < target && at + 1 < self.text.len() {
            let rest = &self.text[at..];
            let (written, length) = match rest.as_bytes() {
                [b'\\', b'u', ..] => unicode_escape(rest),
                [b'\\', ..] => (2, 1),
                _ => {
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    (length, length)
                }
            };
            at += written;
            decoded += length;
        }
        self.offset() + at
    }
}

/// How long a `\u` escape, or a pair of them, is as written and as a character.
fn unicode_escape(rest: &str) -> (usize, usize) {
    let unit = |from: usize| rest.get(from..from + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    match unit(2) {
        Some(0xD800..=0xDBFF) => (12, 4),
        Some(code) => (6, char::from_u32(code).map_or(3, char::len_utf8)),
        None => (2, 1),
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// Lines of a text, counted on from the last place asked for: a file of ten thousand entries is walked once.
pub(super) struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, offset: 0, line: 1 }
    }

    /// Line and column, both from 1, of a byte offset.
    pub(super) fn at(&mut self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        if offset < self.offset {
            (self.offset, self.line) = (0, 1);
        }
        self.line += self.text.as_bytes()[self.offset..offset].iter().filter(|b| **b == b'\n').count();
        self.offset = offset;
        let before = self.text.get(..offset).unwrap_or(self.text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        (self.line, 1 + before[start..].chars().count())
    }
}

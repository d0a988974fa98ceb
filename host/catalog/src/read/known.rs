//! Entries that were read before: at a reload, only what has changed is compiled again.
//!
//! Owns the search by text and the correction of places. It must not know how an entry is built.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::entry::Entry;
use crate::fault::Place;

/// Entries of earlier readings by the hash of their text. All of them must have been read by the rules of the next reading.
#[derive(Debug, Default)]
pub struct Known<'k>(HashMap<[u8; 32], &'k Arc<Entry>>);

/// The key of an entry's text.
pub(crate) fn text_hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl<'k> Known<'k> {
    /// These entries.
    pub fn of(entries: impl IntoIterator<Item = &'k Arc<Entry>>) -> Self {
        Self(entries.into_iter().map(|entry| (entry.text_hash, entry)).collect())
    }

    /// The known entry of this text, as it stands at its place now.
    pub(super) fn take_over(&self, text: &str, file: &Arc<str>, at: impl FnOnce() -> (usize, usize)) -> Option<Arc<Entry>> {
        if self.0.is_empty() {
            return None;
        }
        let known = *self.0.get(&text_hash(text))?;
        let (line, column) = at();
        if known.place.file == *file && (known.place.line, known.place.column) == (line, column) {
            return Some(known.clone());
        }
        let mut entry = Entry::clone(known);
        // The executor is named on the same line of the entry as before; only the entry has moved.
        let down = |at: usize| at.saturating_sub(known.place.line) + line;
        let column_of = |at: &Place| {
            if at.line == known.place.line { at.column + column - known.place.column.min(at.column) } else { at.column }
        };
        entry.executor_place =
            Place { file: file.clone(), line: down(known.executor_place.line), column: column_of(&known.executor_place) };
        entry.place = Place { file: file.clone(), line, column };
        Some(Arc::new(entry))
    }
}

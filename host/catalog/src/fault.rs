//! What is wrong with a catalog, and where: a place, a sentence, and what to do about it.
//!
//! Owns the fault and the arithmetic from byte offsets to lines and columns. It must not know what a right entry looks like.

use std::fmt;
use std::sync::Arc;

/// A place in a catalog file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file, as the reader names it to people.
    pub file: Arc<str>,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Column in characters, from 1; 0 when the whole line is meant.
    pub column: usize,
}

impl Place {
    /// The file as a whole.
    pub fn whole(file: &Arc<str>) -> Self {
        Self { file: file.clone(), line: 0, column: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}", self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// One thing that is wrong. A fault spoils its entry, or its file when [`Reading::whole`](crate::Reading) says so, and nothing else
/// (G1-55).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// The entry, where the file got far enough to name it.
    pub service: Option<Arc<str>>,
    /// The field, as a dotted path from the entry, such as `limits.fuel`.
    pub field: Option<String>,
    /// What is wrong, one sentence without a full stop.
    pub what: String,
    /// What to do about it, one sentence without a full stop.
    pub mend: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(service) = &self.service {
            write!(f, "{service}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        write!(f, "{}; {}", self.what, self.mend)
    }
}

/// Line and column (in characters), both from 1, of a byte offset.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, 1 + before[start..].chars().count())
}

//! From the text of a catalog file to entries and faults (DESIGN section 4, G1-55).
//!
//! Owns the three shapes of a file and the joining of files. It must not know how the text was read.

mod build;
mod fields;
mod known;
mod raw;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use job::json::JsonText;

use crate::entry::Entry;
use crate::fault::{Fault, Place};
use crate::limits::Rules;
use build::Builder;
pub use known::Known;
use raw::{Raw, Shape};

/// Longest catalog file, in bytes.
pub const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most entries of an agent.
pub const ENTRIES_MAX: usize = 20_000;
/// Most faults kept of one file; the rest would say no more.
pub const FAULTS_MAX: usize = 1000;

/// What one catalog file gave.
#[derive(Debug)]
pub struct Reading {
    /// The file.
    pub file: Arc<str>,
    /// Its good entries, in the order they stand.
    pub entries: Vec<Arc<Entry>>,
    /// What is wrong with the others, or with the file.
    pub faults: Vec<Fault>,
    /// Whether the file as a whole could not be read: then its reader keeps all its last good entries, otherwise only those of
    /// the services the faults name (G1-55).
    pub whole: bool,
}

impl Reading {
    /// A file that could not be read at all.
    pub fn failed(file: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        let file: Arc<str> = file.into();
        let fault = Fault { place: Place::whole(&file), service: None, field: None, what: what.into(), mend: mend.into() };
        Self { file, entries: Vec::new(), faults: vec![fault], whole: true }
    }

    fn failed_at(file: &Arc<str>, line: usize, column: usize, what: String, mend: &str) -> Self {
        let place = Place { file: file.clone(), line, column };
        let fault = Fault { place, service: None, field: None, what, mend: mend.to_owned() };
        Self { file: file.clone(), entries: Vec::new(), faults: vec![fault], whole: true }
    }
}

/// Reads the text of one catalog file: an entry, an array of entries, or `{"capabilities": […]}`. One bad entry spoils no other.
pub fn read_file(file: &str, text: &[u8], rules: &Rules) -> Reading {
    reread_file(file, text, rules, &Known::default())
}

/// Reads the text of a catalog file, taking over what is known already: an entry whose text and rules are the same keeps its
/// compiled form, wherever it stands now.
pub fn reread_file(file: &str, text: &[u8], rules: &Rules, known: &Known<'_>) -> Reading {
    if text.len() > FILE_BYTES_MAX {
        let what = format!("the file is {} bytes long, the limit is {FILE_BYTES_MAX}", text.len());
        return Reading::failed(file, what, "spread its entries over several files");
    }
    let file: Arc<str> = file.into();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = match JsonText::check(text) {
        Ok(text) => text,
        Err(fault) => return Reading::failed_at(&file, fault.line, fault.column, plain(fault.what), "mend the JSON"),
    };
    let raw = Raw::new(text.as_str());
    let entries = match raw.shape() {
        Shape::Entries(entries) => entries,
        Shape::Entry(entry) => vec![entry],
        Shape::Neither { at, what, mend } => {
            let (line, column) = crate::fault::line_column(text.as_str(), at);
            return Reading::failed_at(&file, line, column, what, mend);
        }
    };
    let mut reading = Reading { file: file.clone(), entries: Vec::new(), faults: Vec::new(), whole: false };
    let mut lines = raw::Lines::new(text.as_str());
    for entry in entries {
        if let Some(entry) = known.take_over(entry.text(), &file, || lines.at(entry.offset())) {
            reading.entries.push(entry);
            continue;
        }
        match Builder::new(&file, &mut lines, rules).build(entry) {
            Ok(entry) => reading.entries.push(Arc::new(entry)),
            Err(faults) => reading.faults.extend(faults),
        }
    }
    reading.faults.truncate(FAULTS_MAX);
    reading
}

/// The JSON library's words where a person would say it otherwise.
fn plain(what: String) -> String {
    if let Some(inside) = what.strip_prefix("EOF while parsing ") {
        return format!("the file ends in the middle of {inside}");
    }
    if what.starts_with("control character") {
        return "a line break or another control character stands inside a text".into();
    }
    what
}

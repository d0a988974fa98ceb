//! Where each key was set, and every fault found so far: a check far from the file can still name the line.
//!
//! Owns the walk over the file that refuses unknown keys with the nearest known one. It must not know which values make sense.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use catalog::fault::line_column;
use catalog::nearest::nearest;
use catalog::{Fault, Place};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Kind, LATER, children, find, is_table};

/// The faults and places of a configuration.
pub(super) struct Places {
    /// What the file is called in messages; `defaults` where there is none.
    file: Arc<str>,
    set: BTreeMap<String, Place>,
    pub(super) faults: Vec<Fault>,
}

impl Places {
    pub(super) fn new(file: Option<&Path>) -> Self {
        let file = file.map_or_else(|| "defaults".into(), |path| path.display().to_string());
        Self { file: file.into(), set: BTreeMap::new(), faults: Vec::new() }
    }

    /// A fault about a key, at the place where it, or the nearest table around it, was set.
    pub(super) fn fault(&mut self, path: &str, what: impl Into<String>, mend: impl Into<String>) {
        let mut around = Some(path);
        let place = loop {
            match around {
                Some(path) => match self.set.get(path) {
                    Some(place) => break place.clone(),
                    None => around = path.rsplit_once('.').map(|(head, _)| head),
                },
                None => break Place::whole(&self.file),
            }
        };
        self.fault_at(place, &shown(path), what, mend);
    }

    pub(super) fn fault_at(&mut self, place: Place, field: &str, what: impl Into<String>, mend: impl Into<String>) {
        let field = (!field.is_empty()).then(|| field.to_owned());
        self.faults.push(Fault { place, service: None, field, what: what.into(), mend: mend.into() });
    }

    /// Notes that the environment set a key.
    pub(super) fn set_by_environment(&mut self, path: &str, name: &str) {
        self.set.insert(path.to_owned(), environment_place(name));
    }

    /// Walks the file; everything that is no known key of the right kind becomes a fault.
    pub(super) fn read(&mut self, text: &str) {
        match DeTable::parse(text) {
            Ok(table) => self.table(text, table.get_ref(), ""),
            Err(error) => {
                let (line, column) = line_column(text, error.span().map_or(0, |span| span.start));
                let place = Place { file: self.file.clone(), line, column };
                let what = error.message().lines().next().unwrap_or("the file is no TOML").to_owned();
                self.fault_at(place, "", what, "mend the TOML");
            }
        }
    }

    fn table(&mut self, text: &str, table: &DeTable<'_>, path: &str) {
        for (key, value) in table {
            let full = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
            let (line, column) = line_column(text, key.span().start);
            self.set.insert(full.clone(), Place { file: self.file.clone(), line, column });
            self.member(text, key.get_ref(), value, &full, path);
        }
    }

    fn member(&mut self, text: &str, name: &str, value: &Spanned<DeValue<'_>>, full: &str, path: &str) {
        let general = general(full);
        if LATER.contains(&general.as_str()) {
            let table = matches!(value.get_ref(), DeValue::Table(_));
            let written = if table { format!("[{general}]") } else { general };
            self.fault(full, format!("this build does not offer {written} yet"), "take it out");
        } else if general == "agent" {
            self.agents(text, value);
        } else if let Some(key) = find(&general) {
            match value.get_ref() {
                DeValue::Table(names) if key.kind == Kind::Map => self.map(text, names, full),
                value => self.kind(key.kind, name, value, full),
            }
        } else if is_table(&general) {
            match value.get_ref() {
                DeValue::Table(table) => self.table(text, table, full),
                _ => self.fault(full, format!("{name} is a table"), format!("write [{general}] and its keys below it")),
            }
        } else {
            self.unknown(name, full, path);
        }
    }

    fn kind(&mut self, kind: Kind, name: &str, value: &DeValue<'_>, full: &str) {
        if let Some(expected) = mismatch(kind, value) {
            self.fault(full, format!("{name} takes {expected}, this is {}", value.type_str()), "see amp-node config");
        }
    }

    /// A table whose names are the operator's own.
    fn map(&mut self, text: &str, names: &DeTable<'_>, path: &str) {
        for (key, value) in names {
            let full = format!("{path}.{}", key.get_ref());
            let (line, column) = line_column(text, key.span().start);
            self.set.insert(full.clone(), Place { file: self.file.clone(), line, column });
            self.kind(Kind::Text, key.get_ref(), value.get_ref(), &full);
        }
    }

    /// `[[agent]]`: each table's keys are noted under its number.
    fn agents(&mut self, text: &str, value: &Spanned<DeValue<'_>>) {
        let mut tables = Vec::new();
        if let DeValue::Array(items) = value.get_ref() {
            tables.extend(items.iter().filter_map(|item| item.get_ref().as_table().map(|table| (item.span(), table))));
            if tables.len() != items.len() {
                tables.clear();
            }
        }
        if tables.is_empty() {
            self.fault("agent", "agent is a list of tables", "write [[agent]] with two pairs of brackets for each");
        }
        for (i, (span, table)) in tables.into_iter().enumerate() {
            let (line, column) = line_column(text, span.start);
            self.set.insert(format!("agent.{i}"), Place { file: self.file.clone(), line, column });
            self.table(text, table, &format!("agent.{i}"));
        }
    }

    fn unknown(&mut self, name: &str, full: &str, path: &str) {
        let known = children(&general(path));
        let mend = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the keys here are {}", known.join(", ")),
        };
        self.fault(
            full,
            format!("there is no key {name} {}", if path.is_empty() { "here".into() } else { format!("in [{}]", shown(path)) }),
            mend,
        );
    }
}

/// The place of something an environment variable says.
pub(super) fn environment_place(name: &str) -> Place {
    Place { file: name.into(), line: 0, column: 0 }
}

/// The path without the numbers of agents, as the table of keys writes it.
fn general(path: &str) -> String {
    path.split('.').filter(|part| !part.bytes().all(|b| b.is_ascii_digit())).collect::<Vec<_>>().join(".")
}

/// The path for people: `agent.0.id` is `agent.id`, its place says which.
fn shown(path: &str) -> String {
    if path.starts_with("agent.") { general(path) } else { path.to_owned() }
}

/// What the kind takes, when the value is something else.
fn mismatch(kind: Kind, value: &DeValue<'_>) -> Option<&'static str> {
    match (kind, value) {
        (Kind::Text | Kind::Duration, DeValue::String(_)) | (Kind::Flag, DeValue::Boolean(_)) => None,
        (Kind::Whole, DeValue::Integer(number)) if !number.as_str().starts_with('-') => None,
        (Kind::List, DeValue::Array(items)) if items.iter().all(|item| item.get_ref().is_str()) => None,
        (Kind::Text, _) => Some("a text in quotes"),
        (Kind::Duration, _) => Some("a duration in quotes, such as \"20s\""),
        (Kind::Flag, _) => Some("true or false"),
        (Kind::Whole, _) => Some("a whole number"),
        (Kind::List, _) => Some("a list of texts"),
        (Kind::Map, _) => Some("names with texts in quotes"),
    }
}

//! A catalog folder made by a test.
//!
//! Owns the folder. It must not know which fields an entry has, beyond those every test writes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::node::root;

/// The guest that misbehaves as its arguments ask.
pub const MISCHIEF: &str = "mischief.wasm";

/// A folder of entries and guests, removed when dropped.
#[derive(Debug)]
pub struct Catalog {
    dir: TempDir,
}

impl Catalog {
    /// An empty folder.
    pub fn empty() -> Self {
        Self { dir: TempDir::with_prefix("house-catalog-").unwrap() }
    }

    /// The usual folder: `test.echo`, whose prompt comes back as its result, and `test.mischief`.
    pub fn usual() -> Self {
        let catalog = Self::empty();
        catalog.file(
            "usual.json",
            &json!([
                {"service": "test.echo", "description": "Answers with its prompt.", "requestSchema": {"text": "string"},
                 "prompt": "{{text}}"},
                mischief("test.mischief", json!({})),
            ]),
        );
        catalog.guest(MISCHIEF);
        catalog
    }

    /// Adds or replaces a file of JSON.
    pub fn file(&self, name: &str, value: &Value) -> &Self {
        self.text(name, &value.to_string())
    }

    /// Adds or replaces a file of any text.
    pub fn text(&self, name: &str, text: &str) -> &Self {
        fs::write(self.dir.path().join(name), text).unwrap();
        self
    }

    /// Adds a guest of the tests.
    pub fn guest(&self, name: &str) -> &Self {
        let from = guests().join(name);
        fs::copy(&from, self.dir.path().join(name)).unwrap_or_else(|error| panic!("no guest at {}: {error}", from.display()));
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// An entry for the misbehaving guest with further members.
pub fn mischief(service: &str, more: Value) -> Value {
    let mut entry = json!({"service": service, "description": "Misbehaves as asked.", "prompt": "", "executor": MISCHIEF});
    if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), more) {
        entry.extend(more);
    }
    entry
}

/// Where the guests of the tests lie: `HOUSE_GUESTS`, or those committed here.
fn guests() -> PathBuf {
    std::env::var_os("HOUSE_GUESTS").map_or_else(|| root().join("tests/house/guests"), PathBuf::from)
}

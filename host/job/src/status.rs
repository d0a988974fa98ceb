//! The status board: what is wrong now, who says so, and how to mend it. Ops shows it at /readyz.
//!
//! Owns the conditions and their severity. It must not know HTTP, nor how any room finds out.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// How bad a condition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Work goes on, something needs attention.
    Degraded,
    /// The node cannot do its work.
    Down,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// How bad.
    pub severity: Severity,
    /// What is wrong, with the place.
    pub what: String,
    /// What to do about it.
    pub mend: String,
}

/// The board. Cheap to clone; all clones are one board.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<RwLock<BTreeMap<String, Condition>>>);

impl Board {
    /// Puts up a condition under a name such as `broker.reviewer`; the newest under a name stands.
    pub fn raise(&self, name: &str, condition: Condition) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), condition);
    }

    /// Takes a condition down.
    pub fn clear(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Takes down every condition whose name starts so, except those named.
    pub fn keep_only(&self, prefix: &str, names: &[String]) {
        let mut board = self.0.write().unwrap_or_else(PoisonError::into_inner);
        board.retain(|name, _| !name.starts_with(prefix) || names.contains(name));
    }

    /// All conditions by name.
    pub fn conditions(&self) -> BTreeMap<String, Condition> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The worst severity on the board.
    pub fn worst(&self) -> Option<Severity> {
        self.conditions().values().map(|condition| condition.severity).max()
    }
}

//! What the ops door answers, as text and JSON.
//!
//! Owns the words. It must not know HTTP.

use std::collections::BTreeMap;

use job::status::{Condition, Severity};
use serde_json::json;

/// The answer to "can it do its work".
pub(crate) struct Readiness {
    /// False: it cannot, so no traffic should come.
    pub(crate) ready: bool,
    /// For people, one line a condition.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: String,
}

/// Reads the board.
pub(crate) fn readiness(conditions: &BTreeMap<String, Condition>) -> Readiness {
    let worst = conditions.values().map(|condition| condition.severity).max();
    let status = match worst {
        None => "ready",
        Some(Severity::Degraded) => "degraded",
        Some(Severity::Down) => "down",
    };
    let mut text = format!("{status}\n");
    let mut failing = Vec::new();
    for (name, Condition { severity, what, mend }) in conditions {
        let severity = match severity {
            Severity::Degraded => "degraded",
            Severity::Down => "down",
        };
        text.push_str(&format!("{severity}: {name}: {what}; {mend}\n"));
        failing.push(json!({ "name": name, "severity": severity, "what": what, "mend": mend }));
    }
    let json = json!({ "status": status, "conditions": failing }).to_string();
    Readiness { ready: worst != Some(Severity::Down), text, json }
}

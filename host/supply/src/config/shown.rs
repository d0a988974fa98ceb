//! The configuration as people see it: every key with the value in force.
//!
//! Owns the joining of the table of keys with the values. It must not know how it is laid out.

use toml::Value;

use super::keys::{KEYS, Key};
use super::places::Places;
use super::resolve;
use super::{ConfigError, Inputs};

/// A key and its value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The key. Its path names the agent where there are several: `agent.reviewer.catalog`.
    pub path: String,
    /// What the table of keys says of it.
    pub key: &'static Key,
    /// The value as the file would write it; empty where there is none. A password shows only the text it is written with.
    pub value: String,
}

/// Every key with the value in force, in the order of the file, agent by agent.
pub fn shown(inputs: &Inputs) -> Result<Vec<Shown>, ConfigError> {
    let mut places = Places::new(inputs.file.as_ref().map(|(path, _)| path.as_path()));
    let written = resolve::written(inputs, &mut places);
    let Some(file) = written.filter(|_| places.faults.is_empty()) else {
        return Err(ConfigError { faults: places.faults });
    };
    // Plain types with text keys always serialize.
    let table = Value::try_from(&file).unwrap_or_else(|_| Value::Table(toml::Table::new()));
    let agents = table.get("agent").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut all = Vec::new();
    for key in KEYS {
        let Some(rest) = key.path.strip_prefix("agent.") else {
            all.push(Shown { path: key.path.into(), key, value: value_at(&table, key.path) });
            continue;
        };
        if agents.is_empty() {
            all.push(Shown { path: key.path.into(), key, value: String::new() });
        }
        for agent in &agents {
            let id = agent.get("id").and_then(Value::as_str).unwrap_or_default();
            all.push(Shown { path: format!("agent.{id}.{rest}"), key, value: value_at(agent, rest) });
        }
    }
    Ok(all)
}

fn value_at(table: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(table, |at, part| at.get(part));
    found.map(ToString::to_string).unwrap_or_default()
}

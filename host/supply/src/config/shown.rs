//! The configuration as people see it: every key with the value in force.
//!
//! Owns the joining of the table of keys with the values. It must not know how it is laid out.

use toml::Value;

use super::keys::{KEYS, Key};
use super::places::Places;
use super::resolve;
use super::{ConfigError, Inputs};

/// The key whose value may be a secret itself.
const PASSWORD: &str = "mesh.password";

/// A key and its value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The key. Its path names the agent where there are several: `agent.reviewer.catalog`.
    pub path: String,
    /// What the table of keys says of it.
    pub key: &'static Key,
    /// The value as the file would write it; empty where there is none. A password that does not come from a variable is masked.
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
    match found.and_then(Value::as_str) {
        Some(text) if path == PASSWORD && !text.is_empty() && !text.contains("${") => "\"(masked)\"".into(),
        _ => found.map(ToString::to_string).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant 7: the table of settings may be pasted anywhere.
    #[test]
    fn a_literal_password_is_not_shown() {
        for (written, expected) in [("plain-secret", "\"(masked)\""), ("${MQTT_PASSWORD}", "\"${MQTT_PASSWORD}\""), ("", "\"\"")]
        {
            let file = format!("[mesh]\npassword = \"{written}\"\n");
            let inputs = Inputs { file: Some(("amp-node.toml".into(), file)), ..Inputs::default() };
            let all = shown(&inputs).expect("fine");
            let row = all.iter().find(|row| row.path == PASSWORD).expect("it is a key");
            assert_eq!(row.value, expected);
        }
    }
}

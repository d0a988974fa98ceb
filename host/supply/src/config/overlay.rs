//! Overrides from the environment: `AMP_MESH__BROKER` is `broker` in `[mesh]`.
//!
//! Owns the names and the reading of their values. Names without a double underscore are left alone. It must not know which
//! values make sense.

use catalog::nearest::nearest;
use toml::{Table, Value};

use super::keys::{KEYS, Kind, find};
use super::places::{Places, environment_place};

/// The start of every name that overrides a key.
const PREFIX: &str = "AMP_";

/// Puts the overrides of this environment over a file's table.
pub(super) fn overlay(table: &mut Table, environment: &[(String, String)], places: &mut Places) {
    for (name, text) in environment {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| rest.contains("__")) else { continue };
        let parts: Vec<&str> = rest.split("__").collect();
        let Some((path, kind)) = target(&parts) else {
            let known: Vec<String> = KEYS.iter().filter_map(|key| spelled(key.path)).collect();
            let mend = match nearest(name, known.iter().map(String::as_str)) {
                _ if rest.starts_with("AGENT__") => "agents are set in the file, as [[agent]]".to_owned(),
                Some(near) => format!("did you mean {near}?"),
                None => "amp-node config lists the keys".to_owned(),
            };
            places.fault_at(environment_place(name), "", "the name overrides no key", mend);
            continue;
        };
        match value(kind, text) {
            Some(value) => {
                set(table, &path, value);
                places.set_by_environment(&path.join("."), name);
            }
            None => {
                let mend = match kind {
                    Kind::Whole => "write a whole number",
                    Kind::Flag => "write true or false",
                    _ => "write texts with commas between them",
                };
                places.fault_at(environment_place(name), &path.join("."), "the value is of another kind", mend);
            }
        }
    }
}

/// The key that a name's parts mean. Below a map the last part keeps its case, since it is a name of its own.
fn target(parts: &[&str]) -> Option<(Vec<String>, Kind)> {
    let lower: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
    if lower.first().is_some_and(|first| first == "agent") {
        return None;
    }
    if let Some(key) = find(&lower.join(".")).filter(|key| key.kind != Kind::Map) {
        return Some((lower, key.kind));
    }
    let (last, head) = parts.split_last()?;
    let head: Vec<String> = head.iter().map(|part| part.to_lowercase()).collect();
    find(&head.join(".")).filter(|key| key.kind == Kind::Map && !last.is_empty())?;
    Some((head.into_iter().chain([(*last).to_owned()]).collect(), Kind::Text))
}

/// How the environment spells a key, where it can.
fn spelled(path: &str) -> Option<String> {
    (!path.starts_with("agent.") && path.contains('.')).then(|| format!("{PREFIX}{}", path.replace('.', "__").to_uppercase()))
}

fn value(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Text | Kind::Duration => Some(Value::String(text.to_owned())),
        Kind::Whole => text.trim().parse::<i64>().ok().filter(|number| *number >= 0).map(Value::Integer),
        Kind::Flag => text.trim().parse().ok().map(Value::Boolean),
        Kind::List if text.trim_start().starts_with('[') => {
            // As the file would write it.
            let table: Table = format!("list = {text}").parse().ok()?;
            table.get("list").filter(|list| list.as_array().is_some_and(|all| all.iter().all(Value::is_str))).cloned()
        }
        Kind::List => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
        }
        Kind::Map => None,
    }
}

fn set(table: &mut Table, path: &[String], value: Value) {
    let [head @ .., last] = path else { return };
    let mut at = table;
    for part in head {
        let below = at.entry(part.clone()).or_insert_with(|| Value::Table(Table::new()));
        match below {
            Value::Table(below) => at = below,
            // The file says something other than a table here, which is a fault of its own already.
            _ => return,
        }
    }
    at.insert(last.clone(), value);
}

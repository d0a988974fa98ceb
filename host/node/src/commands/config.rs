//! `amp-node config`: every key with its value, default and unit.
//!
//! Owns the two layouts. The keys are `supply`'s.

use serde_json::json;

use crate::cli;
use crate::commands::source::inputs_of;
use crate::exit::{Exit, Failure};
use crate::{Ended, say};

/// Prints the configuration.
pub(crate) fn config(args: cli::Config) -> Ended {
    let inputs = inputs_of(&args.source, None)?;
    let shown = supply::config::shown(&inputs).map_err(|error| Failure::usage(error.to_string()))?;
    if args.json {
        let rows: Vec<_> = shown
            .iter()
            .map(|row| {
                let key = row.key;
                json!({ "key": row.path, "value": row.value, "default": key.default, "unit": key.unit, "meaning": key.meaning })
            })
            .collect();
        say::data(&serde_json::Value::from(rows).to_string());
        return Ok(Exit::Success);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(["key", "value", "default", "unit", "meaning"]);
    for row in &shown {
        table.add_row([row.path.as_str(), row.value.as_str(), row.key.default, row.key.unit, row.key.meaning]);
    }
    say::data(&table.to_string());
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    /// DESIGN section 4: the README's table of keys is this build's, row by row.
    #[test]
    fn the_readme_lists_every_key() {
        let readme = include_str!("../../../../README.md");
        for key in supply::KEYS {
            let row = format!("| `{}` | {} | {} | {} |", key.path, key.default.replace('|', "\\|"), key.unit, key.meaning);
            assert!(readme.contains(&row), "the README lacks: {row}");
        }
    }

    /// G1-48: the README prints the closed table of reasons.
    #[test]
    fn the_readme_lists_every_reason() {
        let readme = include_str!("../../../../README.md");
        for reason in job::reason::Reason::ALL {
            let line = readme.lines().find(|line| line.starts_with(&format!("| {} |", reason.kind().word())));
            assert!(line.is_some_and(|line| line.contains(reason.word())), "the README lacks the reason {reason}");
        }
    }
}

//! `amp-node config`: every key with its value, default and unit.
//!
//! Owns the two layouts. The keys are `supply`'s.

use serde_json::json;

use crate::cli;
use crate::commands::source::config_of;
use crate::exit::Exit;
use crate::{Ended, say};

/// Prints the configuration.
pub(crate) fn config(args: cli::Config) -> Ended {
    let config = config_of(&args.source, None)?;
    let shown = supply::describe(&config);
    if args.json {
        let keys: Vec<_> = shown
            .iter()
            .map(|key| {
                json!({ "key": key.path, "value": key.value, "default": key.default, "unit": key.unit, "meaning": key.meaning })
            })
            .collect();
        say::data(&serde_json::Value::from(keys).to_string());
        return Ok(Exit::Success);
    }
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(["key", "value", "default", "unit", "meaning"]);
    for key in shown {
        table.add_row([key.path, key.value, key.default, key.unit, key.meaning]);
    }
    say::data(&table.to_string());
    Ok(Exit::Success)
}

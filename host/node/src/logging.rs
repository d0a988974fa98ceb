//! Log lines: to stderr, coloured for a terminal, or as JSON.
//!
//! Owns the format and the filter (`RUST_LOG`, default `info`). It must not know who logs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What is logged where `RUST_LOG` says nothing: our own news, and the warnings of libraries.
const DEFAULT_FILTER: &str = "info,rumqttc=warn,mqtt5=warn,hyper=warn,wasmtime=warn,cranelift=warn";

/// Starts logging. `json` gives one object a line. `quiet` keeps all but warnings away, for commands that talk to people.
pub(crate) fn start(json: bool, quiet: bool) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(if quiet { "warn" } else { DEFAULT_FILTER }));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        lines.json().flatten_event(true).init();
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).init();
    }
}

//! Log lines: to stderr, coloured for a terminal, or as JSON.
//!
//! Owns the format and the filter (`RUST_LOG`, default `info`). It must not know who logs.

use std::io::IsTerminal;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// What is logged where `RUST_LOG` says nothing: our own news, and the warnings of libraries.
const DEFAULT_FILTER: &str = "info,rumqttc=warn,mqtt5=warn,hyper=warn,wasmtime=warn,cranelift=warn";

/// Lines that wait for whoever reads stderr; past it lines are dropped, since no job may wait for a log.
const LINES_WAITING_MAX: usize = 20_000;

/// Writes the lines that wait when it is dropped, for a moment at the most.
#[must_use]
pub(crate) struct Flush(#[expect(dead_code, reason = "held for what its drop does")] WorkerGuard);

/// Starts logging. `json` gives one object a line. `quiet` keeps all but warnings away, for commands that talk to people. A
/// thread of its own writes the lines, so that a reader that stalls or leaves holds up nothing.
pub(crate) fn start(json: bool, quiet: bool) -> Flush {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(if quiet { "warn" } else { DEFAULT_FILTER }));
    let appender = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_WAITING_MAX);
    let (writer, guard) = appender.finish(std::io::stderr());
    // A line that cannot be written must not be complained about on the same stream: that would panic.
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    if json {
        lines.json().flatten_event(true).init();
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).init();
    }
    Flush(guard)
}

//! Talking to people and scripts: data on stdout, everything else on stderr, colour only on a terminal.
//!
//! Owns the two streams, and that a closed pipe ends the program quietly. It must not know what is said.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Failure;

/// Whether data could not be written although somebody still reads.
static LOST: AtomicBool = AtomicBool::new(false);

/// A line of data.
pub(crate) fn data(line: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush())
        // A reader that has gone wants no more.
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.store(true, Ordering::Relaxed);
        note(&format!("{} the output cannot be written: {error}", paint(Paint::Red, "error:")));
    }
}

/// Whether some data could not be written: then no command has succeeded.
pub(crate) fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// A line for people.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// A failure: what, then the next step.
pub(crate) fn failure(failure: &Failure) {
    note(&format!("{} {}", paint(Paint::Red, "error:"), failure.what));
    if let Some(mend) = &failure.mend {
        note(&format!("{}  {mend}", paint(Paint::Cyan, "next:")));
    }
}

/// A colour of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    Red,
    Green,
    Yellow,
    Cyan,
    Dim,
}

/// The word in this colour where stderr is a terminal and `NO_COLOR` is not set.
pub(crate) fn paint(paint: Paint, word: &str) -> String {
    if !std::io::stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some() {
        return word.to_owned();
    }
    let code = match paint {
        Paint::Red => 31,
        Paint::Green => 32,
        Paint::Yellow => 33,
        Paint::Cyan => 36,
        Paint::Dim => 2,
    };
    format!("\u{1b}[{code}m{word}\u{1b}[0m")
}

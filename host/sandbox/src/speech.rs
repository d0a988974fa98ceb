//! What a guest may say while it works: progress and log (`report` in `wit/`).
//!
//! Owns the bounds of that: how long and how many. It must not know who listens.

use job::executor::LogLevel;

use crate::bindings::amp::capability::report::{Host, Level};
use crate::state::State;

/// Longest milestone that is passed on, in bytes; the rest is cut.
pub(crate) const PROGRESS_BYTES_MAX: usize = 8 << 10;
/// Longest log line that is passed on, in bytes; the rest is cut.
pub(crate) const LOG_BYTES_MAX: usize = 8 << 10;
/// Milestones of one job that are passed on; later ones are dropped.
pub(crate) const PROGRESS_CALLS_MAX: u32 = 10_000;
/// Log lines of one job that are passed on; later ones are dropped.
pub(crate) const LOG_CALLS_MAX: u32 = 10_000;
/// How much one run has said.
#[derive(Debug, Default)]
pub(crate) struct Speech {
    progress_calls: u32,
    log_calls: u32,
}

impl Host for State {
    fn progress(&mut self, message: String) {
        if self.speech.progress_calls < PROGRESS_CALLS_MAX {
            self.speech.progress_calls += 1;
            self.host.progress(cut(&message, PROGRESS_BYTES_MAX));
        }
    }

    fn log(&mut self, level: Level, message: String) {
        let line = cut(&message, LOG_BYTES_MAX);
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        if level == LogLevel::Error {
            self.words.say(line.as_bytes());
            self.words.say(b"\n");
        }
        if self.speech.log_calls < LOG_CALLS_MAX {
            self.speech.log_calls += 1;
            self.host.log(level, line);
        }
    }
}

/// The longest start of a text that fits, cut between characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let rows = [
            ("abc", 3, "abc"),
            ("abcd", 3, "abc"),
            ("aé", 2, "a"),
            ("aé", 3, "aé"),
            ("日本", 5, "日"),
            ("日", 2, ""),
            ("", 0, ""),
        ];
        for (text, bytes_max, expected) in rows {
            assert_eq!(cut(text, bytes_max), expected, "{text:?} to {bytes_max}");
        }
    }
}

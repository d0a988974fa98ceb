//! Times on the wire: RFC 3339, UTC, milliseconds (G1-38).
//!
//! Owns that spelling in both directions. It must not read a clock.

use jiff::fmt::temporal::DateTimePrinter;
use job::clock::Timestamp;

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// Writes a time as `2026-08-25T20:14:09.123Z`. Times outside the years RFC 3339 can spell stand at the nearest end.
pub fn rfc3339(ts: Timestamp) -> String {
    PRINTER.timestamp_to_string(&clamped(ts))
}

/// Writes a time at the end of a text.
pub(crate) fn push_rfc3339(out: &mut String, ts: Timestamp) {
    // Writing into a String cannot fail; if it ever did, the text would be cut, which every reader notices.
    let _infallible = PRINTER.print_timestamp(&clamped(ts), out);
}

/// Reads a time with any offset and any fraction, seconds alone included.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|ts| Timestamp(ts.as_millisecond()))
}

/// Close to the end of the year 9999, the latest that four digits and every offset spell.
const LATEST_MS: i64 = 253_402_207_199_999;

fn clamped(ts: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(ts.0.clamp(0, LATEST_MS)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G1-38: milliseconds and Z out; seconds alone and offsets in.
    #[test]
    fn times_have_one_spelling_out_and_several_in() {
        assert_eq!(rfc3339(Timestamp(1_787_688_849_007)), "2026-08-25T20:14:09.007Z");
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(i64::MAX)), "9999-12-30T21:59:59.999Z");
        assert_eq!(rfc3339(Timestamp(-5)), "1970-01-01T00:00:00.000Z");
        for text in ["2026-08-25T20:14:09Z", "2026-08-25T22:14:09+02:00", "2026-08-25T20:14:09.000000Z"] {
            assert_eq!(parse_rfc3339(text), Some(Timestamp(1_787_688_849_000)), "{text}");
        }
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}

//! Durations as people write them: `20s`, `10m`, `24h`, `7d`, `500ms`, `0`.
//!
//! Owns the grammar. It must not know the keys.

use std::time::Duration;

/// Reads a duration; none when the text is none or too long to count.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit_ms: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit_ms).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let rows = [
            ("0", Some(0)),
            ("500ms", Some(500)),
            ("20s", Some(20_000)),
            ("10m", Some(600_000)),
            ("24h", Some(86_400_000)),
            ("7d", Some(604_800_000)),
            ("20", None),
            ("s", None),
            ("", None),
            ("-5s", None),
            ("1.5h", None),
            ("5 s", None),
            ("99999999999999999999d", None),
            ("999999999999999d", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected.map(Duration::from_millis), "{text}");
        }
    }
}

//! A text as its readers may see it: with percent signs or backslashes decoded, each byte with the place it came from.
//!
//! Owns the decodings under which a secret is looked for. Pure. It must not know what is secret.

/// Bytes, and for each the span of the original text that wrote it.
pub(crate) struct View {
    pub(crate) bytes: Vec<u8>,
    spans: Vec<(usize, usize)>,
}

impl View {
    /// The text as it is.
    pub(crate) fn plain(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), spans: (0..text.len()).map(|at| (at, at + 1)).collect() }
    }

    /// The part of the original text that wrote these bytes.
    pub(crate) fn origin(&self, start: usize, end: usize) -> (usize, usize) {
        (self.spans[start].0, self.spans[end - 1].1)
    }

    /// With `%41` read as `A`, in either case of digits and wherever it stands. `plus_is_space` reads forms as browsers send them.
    pub(crate) fn percent(&self, plus_is_space: bool) -> Option<Self> {
        if !(self.bytes.contains(&b'%') || plus_is_space && self.bytes.contains(&b'+')) {
            return None;
        }
        Some(self.decoded(|rest| match rest {
            [b'%', high, low, ..] => Some((vec![hex(*high)? << 4 | hex(*low)?], 3)),
            [b'+', ..] if plus_is_space => Some((vec![b' '], 1)),
            _ => None,
        }))
    }

    /// With the escapes of a JSON string read: `\n`, `\"`, `\u00e9`, pairs of surrogates.
    pub(crate) fn unescaped(&self) -> Option<Self> {
        if !self.bytes.contains(&b'\\') {
            return None;
        }
        Some(self.decoded(escape))
    }

    fn decoded(&self, step: impl Fn(&[u8]) -> Option<(Vec<u8>, usize)>) -> Self {
        let mut view = Self { bytes: Vec::with_capacity(self.bytes.len()), spans: Vec::with_capacity(self.bytes.len()) };
        let mut at = 0;
        while at < self.bytes.len() {
            let (bytes, taken) = step(&self.bytes[at..]).unwrap_or_else(|| (vec![self.bytes[at]], 1));
            let span = self.origin(at, at + taken);
            view.spans.extend(bytes.iter().map(|_| span));
            view.bytes.extend(bytes);
            at += taken;
        }
        view
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// What one escape at the start of these bytes stands for, and how long it is.
fn escape(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let plain = |byte: u8| Some((vec![byte], 2));
    match rest {
        [b'\\', b'n', ..] => plain(b'\n'),
        [b'\\', b'r', ..] => plain(b'\r'),
        [b'\\', b't', ..] => plain(b'\t'),
        [b'\\', b'b', ..] => plain(8),
        [b'\\', b'f', ..] => plain(12),
        [b'\\', b'u', ..] => {
            let first = unit(rest)?;
            let pair = rest.get(6..).and_then(unit).map(|second| [first, second]);
            if let Some(Ok(c)) =
                pair.and_then(|pair| char::decode_utf16(pair).next()).filter(|_| (0xD800..0xDC00).contains(&first))
            {
                return Some((utf8(c), 12));
            }
            char::from_u32(u32::from(first)).map(|c| (utf8(c), 6))
        }
        [b'\\', other, ..] if matches!(other, b'"' | b'\\' | b'/') => plain(*other),
        _ => None,
    }
}

fn unit(rest: &[u8]) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = rest else { return None };
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn utf8(c: char) -> Vec<u8> {
    c.encode_utf8(&mut [0; 4]).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(view: &View) -> String {
        String::from_utf8_lossy(&view.bytes).into_owned()
    }

    #[test]
    fn decodings_keep_track_of_where_bytes_came_from() {
        let source = r#"a\u00e9\n%c3%A9+\ud83d\ude00"#;
        let unescaped = View::plain(source).unescaped().expect("it has escapes");
        assert_eq!(text(&unescaped), "aé\n%c3%A9+😀");
        assert_eq!(unescaped.origin(1, 3), (1, 7), "both bytes of é come from one escape");
        let percent = unescaped.percent(true).expect("it has percent signs");
        assert_eq!(text(&percent), "aé\né 😀");
        assert_eq!(percent.origin(4, 6), (9, 15));
        assert!(View::plain("plain").unescaped().is_none() && View::plain("plain").percent(true).is_none());
    }

    #[test]
    fn broken_escapes_are_left_alone() {
        for source in ["%", "%4", "%zz", r"\", r"\u", r"\u12", r"\ud83d", r"\x41"] {
            for view in [View::plain(source).percent(false), View::plain(source).unescaped()].into_iter().flatten() {
                assert_eq!(text(&view), source);
            }
        }
    }
}

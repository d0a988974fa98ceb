//! Writing JSON text directly, so that bodies already checked are spliced in and never parsed again.
//!
//! Owns escaping and the object writer. It must not know which members a message has.

use job::clock::Timestamp;

use crate::time::push_rfc3339;

/// An object being written. Names are constants of this crate that need no escaping.
pub(crate) struct Object(String);

impl Object {
    /// Starts an object whose text will have about this many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut out = String::with_capacity(bytes);
        out.push('{');
        Self(out)
    }

    fn name(&mut self, name: &str) {
        self.comma();
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn comma(&mut self) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
    }

    /// A member that is a string.
    pub(crate) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        push_string(&mut self.0, value);
        self
    }

    /// A member that is JSON text already.
    pub(crate) fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.name(name);
        self.0.push_str(json);
        self
    }

    /// A member that is a count.
    pub(crate) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.raw(name, &value.to_string())
    }

    /// A member that is a time.
    pub(crate) fn time(&mut self, name: &str, ts: Timestamp) -> &mut Self {
        self.name(name);
        self.0.push('"');
        push_rfc3339(&mut self.0, ts);
        self.0.push('"');
        self
    }

    /// A member whose name comes from outside.
    pub(crate) fn foreign(&mut self, name: &str, json: &str) -> &mut Self {
        self.comma();
        push_string(&mut self.0, name);
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    /// The members of another object: the text between its braces.
    pub(crate) fn splice(&mut self, members: &str) -> &mut Self {
        if !members.is_empty() {
            self.comma();
            self.0.push_str(members);
        }
        self
    }

    /// The whole text.
    pub(crate) fn finish(&mut self) -> String {
        self.0.push('}');
        std::mem::take(&mut self.0)
    }
}

/// Writes a JSON string, quotes included.
pub(crate) fn push_string(out: &mut String, value: &str) {
    out.push('"');
    let mut clean_from = 0;
    for (at, byte) in value.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&value[clean_from..at]);
        clean_from = at + 1;
        if escape.is_empty() {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.push_str("\\u00");
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 0xf)]));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&value[clean_from..]);
    out.push('"');
}

/// A list of JSON texts.
pub(crate) fn list(items: impl IntoIterator<Item = String>) -> String {
    let mut out = String::from("[");
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&item);
    }
    out.push(']');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_string_reads_as_itself(value in any::<String>()) {
            let mut out = String::new();
            push_string(&mut out, &value);
            prop_assert_eq!(serde_json::from_str::<String>(&out).expect("JSON"), value);
        }
    }
}

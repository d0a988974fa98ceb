//! The fields of an entry, one by one: kinds, lengths, grammars.
//!
//! Owns what a single field may say and the sentence when it says something else. It must not know how fields depend on each
//! other.

use std::sync::Arc;

use job::json::JsonText;

use super::build::Builder;
use super::raw::Raw;
use crate::entry::Grants;
use crate::limits::LimitSet;
use crate::template::{Spelling, Text, is_variable_name};

/// Longest service name, in bytes.
const SERVICE_BYTES_MAX: usize = 128;
/// Longest description, in bytes.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 4096;
/// Longest request schema, in bytes of its text.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Longest name of a `.wasm`, in bytes.
const EXECUTOR_BYTES_MAX: usize = 255;
/// Most environment variables a grant gives.
const GRANT_ENV_MAX: usize = 64;
/// Longest value of one, in bytes as written.
const GRANT_ENV_BYTES_MAX: usize = 16 * 1024;
/// Most jobs of one entry at once that `maxConcurrent` may ask for.
const CONCURRENT_MAX: u64 = 1_000_000;

const LIMITS: [&str; 5] = ["timeoutMs", "fuel", "memoryMb", "outputKb", "maxConcurrent"];
/// Grants of later builds: an entry with one of them is refused by name and never run without it (G1-57).
const LATER_GRANTS: [&str; 3] = ["http", "dirs", "ask"];

impl<'t> Builder<'_, 't> {
    pub(super) fn text(&mut self, raw: Raw<'t>, field: &str, max: usize) -> Option<String> {
        let Some(text) = raw.value::<String>() else {
            self.fault(raw.offset(), field, format!("{field} is no text"), "write it in quotes");
            return None;
        };
        if text.len() > max {
            let what = format!("{field} is {} bytes long, the limit is {max}", text.len());
            self.fault(raw.offset(), field, what, "shorten it");
            return None;
        }
        Some(text)
    }

    pub(super) fn flag(&mut self, raw: Raw<'t>, field: &str) -> bool {
        raw.value::<bool>().unwrap_or_else(|| {
            self.fault(raw.offset(), field, format!("{field} is neither true nor false"), "write true or false without quotes");
            false
        })
    }

    pub(super) fn object(&mut self, raw: Raw<'t>, field: &str) -> Vec<(String, Raw<'t>, Raw<'t>)> {
        raw.members().unwrap_or_else(|| {
            self.fault(raw.offset(), field, format!("{field} is no object"), "write it in braces");
            Vec::new()
        })
    }

    pub(super) fn service(&mut self, raw: Raw<'t>) -> Option<Arc<str>> {
        let name = self.text(raw, "service", SERVICE_BYTES_MAX)?;
        if is_service_name(&name) {
            return Some(name.into());
        }
        let what = format!("{} is no service name", crate::template::quoted(&name));
        let mend = "write words of A-Z a-z 0-9 _ - with dots between them, such as house.paint";
        self.fault(raw.offset(), "service", what, mend);
        None
    }

    pub(super) fn request_schema(&mut self, raw: Raw<'t>) -> Option<JsonText> {
        if raw.members().is_none() {
            let mend = "write the shorthand {\"name\": \"string\"} or a JSON Schema";
            self.fault(raw.offset(), "requestSchema", "requestSchema is no object", mend);
            return None;
        }
        if raw.text().len() > SCHEMA_BYTES_MAX {
            let what = format!("requestSchema is {} bytes long, the limit is {SCHEMA_BYTES_MAX}", raw.text().len());
            self.fault(raw.offset(), "requestSchema", what, "shorten it");
            return None;
        }
        Some(JsonText::trusted(raw.text()))
    }

    pub(super) fn executor(&mut self, raw: Raw<'t>) -> Option<Arc<str>> {
        let name = self.text(raw, "executor", EXECUTOR_BYTES_MAX)?;
        match executor_fault(&name) {
            None => Some(name.into()),
            Some((what, mend)) => {
                self.fault(raw.offset(), "executor", format!("{} {what}", crate::template::quoted(&name)), mend);
                None
            }
        }
    }

    pub(super) fn spelling(&mut self, raw: Raw<'t>) -> Spelling {
        let word = raw.value::<String>();
        match word.as_deref() {
            Some("braces") => return Spelling::Braces,
            Some("angles") => return Spelling::Angles,
            _ => self.fault(
                raw.offset(),
                "placeholders",
                "placeholders is neither braces nor angles",
                "write \"braces\" or \"angles\"",
            ),
        }
        Spelling::Braces
    }

    pub(super) fn grants(&mut self, raw: Raw<'t>) -> Grants {
        let mut grants = Grants::default();
        for (name, key, value) in self.object(raw, "grants") {
            match name.as_str() {
                "env" => grants.env = self.grant_env(value),
                later if LATER_GRANTS.contains(&later) => {
                    let what = format!("this build does not offer the grant {later} yet");
                    self.fault(
                        key.offset(),
                        &format!("grants.{later}"),
                        what,
                        "take it out, or keep the entry for a build that offers it",
                    );
                }
                _ => self.unknown(key, "grants", &name, "grant", &["env", "http", "dirs", "ask"]),
            }
        }
        grants
    }

    pub(super) fn grant_env(&mut self, raw: Raw<'t>) -> Vec<(String, Text)> {
        let members = self.object(raw, "grants.env");
        if members.len() > GRANT_ENV_MAX {
            let what = format!("grants.env has {} names, the limit is {GRANT_ENV_MAX}", members.len());
            self.fault(raw.offset(), "grants.env", what, "give the guest fewer");
            return Vec::new();
        }
        let mut env = Vec::new();
        for (name, key, value) in members {
            if !is_variable_name(&name) {
                let what = format!("{} is no name of an environment variable", crate::template::quoted(&name));
                self.fault(key.offset(), "grants.env", what, "use letters, digits and _, beginning with no digit");
            } else if let Some(text) = self.text(value, &format!("grants.env.{name}"), GRANT_ENV_BYTES_MAX) {
                match Text::parse(&text) {
                    Some(text) => env.push((name, text)),
                    None => {
                        let mend = "write ${NAME}, or $${ for the characters themselves";
                        self.fault(
                            value.offset(),
                            &format!("grants.env.{name}"),
                            "${ opens a variable and no name follows",
                            mend,
                        );
                    }
                }
            }
        }
        env
    }

    pub(super) fn limits(&mut self, members: &[(String, Raw<'t>, Raw<'t>)], defaults: LimitSet) -> (LimitSet, Option<u32>) {
        let mut limits = defaults;
        let mut max_concurrent = None;
        let ceilings = self.rules.ceilings;
        for (name, key, value) in members {
            let (slot, ceiling) = match name.as_str() {
                "timeoutMs" => (Some(&mut limits.timeout_ms), ceilings.timeout_ms),
                "fuel" => (Some(&mut limits.fuel), ceilings.fuel),
                "memoryMb" => (Some(&mut limits.memory_mb), ceilings.memory_mb),
                "outputKb" => (Some(&mut limits.output_kb), ceilings.output_kb),
                "maxConcurrent" => (None, CONCURRENT_MAX),
                _ => {
                    self.unknown(*key, "limits", name, "limit", &LIMITS);
                    continue;
                }
            };
            let Some(number) = self.limit(name, *value, ceiling) else { continue };
            match slot {
                Some(slot) => *slot = number,
                None => max_concurrent = u32::try_from(number).ok(),
            }
        }
        (limits, max_concurrent)
    }

    pub(super) fn limit(&mut self, name: &str, raw: Raw<'t>, ceiling: u64) -> Option<u64> {
        let field = format!("limits.{name}");
        match raw.value::<u64>() {
            Some(0) | None => {
                self.fault(
                    raw.offset(),
                    &field,
                    format!("{name} is no whole number above 0"),
                    format!("write a number from 1 to {ceiling}"),
                );
                None
            }
            Some(number) if number > ceiling => {
                let what = format!("{name} is {number}, the ceiling is {ceiling}");
                self.fault(raw.offset(), &field, what, "lower it, or raise the ceiling in [limits.max] of amp-node.toml");
                None
            }
            Some(number) => Some(number),
        }
    }
}

/// Words of letters, digits, `_` and `-`, with single dots between them.
fn is_service_name(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    name.split('.').all(word)
}

/// What is wrong with the name of an executor. That it stays inside the folder is the reader's to enforce; a name that means to
/// leave it is refused here already (DC-06).
fn executor_fault(name: &str) -> Option<(&'static str, &'static str)> {
    let beside = "name a .wasm in the catalog folder, or leave executor out for the agent's default one";
    if name.starts_with('/') || name.contains('\\') || name.split('/').any(|part| part == "..") {
        return Some(("leads out of the catalog folder", beside));
    }
    if !name.ends_with(".wasm")
        || name.split('/').any(|part| part.is_empty() || part == "." || part.starts_with('.'))
        || name.chars().any(char::is_control)
    {
        return Some(("is no file name ending in .wasm", beside));
    }
    None
}

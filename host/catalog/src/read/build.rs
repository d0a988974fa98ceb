//! From one raw entry to a checked [`Entry`], or to everything that is wrong with it.
//!
//! Owns the entry as a whole: which fields there are and what shows only when they are seen together. It must not know the
//! other entries.

use std::sync::Arc;

use job::json::JsonText;
use sha2::{Digest, Sha256};

use super::fields::DESCRIPTION_BYTES_MAX;
use super::known::text_hash;
use super::raw::{Lines, Raw};
use crate::entry::{Entry, ExecutorRef, Grants};
use crate::fault::{Fault, Place};
use crate::limits::{LimitSet, Rules};
use crate::nearest::nearest;
use crate::schema::Schema;
use crate::template::{Spelling, Template};

const FIELDS: [&str; 11] = [
    "service",
    "description",
    "requestSchema",
    "prompt",
    "executor",
    "strict",
    "idempotent",
    "placeholders",
    "needs",
    "limits",
    "grants",
];
/// What the fields of an entry say, before they are seen together.
struct Fields<'t> {
    service: Option<Arc<str>>,
    description: Arc<str>,
    request_schema: Option<(Raw<'t>, JsonText)>,
    prompt: Option<(Raw<'t>, String)>,
    executor: Option<Arc<str>>,
    strict: bool,
    idempotent: bool,
    spelling: Spelling,
    limits: Vec<(String, Raw<'t>, Raw<'t>)>,
    grants: Option<(Raw<'t>, Grants)>,
    /// Where the executor is named.
    executor_at: usize,
    /// Whether the entry names an executor and has a prompt, right or wrong: a wrong one is not reported as absent too.
    names_executor: bool,
    has_prompt: bool,
}

/// Builds one entry.
pub(super) struct Builder<'b, 't> {
    file: &'b Arc<str>,
    lines: &'b mut Lines<'t>,
    pub(super) rules: &'b Rules,
    service: Option<Arc<str>>,
    faults: Vec<Fault>,
}

impl<'b, 't> Builder<'b, 't> {
    pub(super) fn new(file: &'b Arc<str>, lines: &'b mut Lines<'t>, rules: &'b Rules) -> Self {
        Self { file, lines, rules, service: None, faults: Vec::new() }
    }

    pub(super) fn build(mut self, raw: Raw<'t>) -> Result<Entry, Vec<Fault>> {
        let Some(members) = raw.members() else {
            self.fault(raw.offset(), "", "an entry is an object", "write {\"service\": …, \"prompt\": …}");
            return Err(self.faults);
        };
        // The name comes first, so that every other fault can say whose it is.
        let service = members.iter().find(|(name, ..)| name == "service").and_then(|(_, _, value)| self.service(*value));
        self.service.clone_from(&service);
        let mut fields = self.fields(raw.offset(), members);
        fields.service = service;
        if fields.service.is_none() && self.faults.is_empty() {
            self.fault(raw.offset(), "service", "the entry has no service", "name it, such as \"house.paint\"");
        }
        let entry = self.assemble(raw, fields);
        match entry {
            Some(entry) if self.faults.is_empty() => Ok(entry),
            _ => Err(self.faults),
        }
    }

    fn place(&mut self, offset: usize) -> Place {
        let (line, column) = self.lines.at(offset);
        Place { file: self.file.clone(), line, column }
    }

    pub(super) fn fault(&mut self, offset: usize, field: &str, what: impl Into<String>, mend: impl Into<String>) {
        let place = self.place(offset);
        let field = (!field.is_empty()).then(|| field.to_owned());
        self.faults.push(Fault { place, service: self.service.clone(), field, what: what.into(), mend: mend.into() });
    }

    pub(super) fn unknown(&mut self, key: Raw<'t>, field: &str, word: &str, kind: &str, known: &[&str]) {
        let what = format!("there is no {kind} {word}");
        let mend = match nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the {kind}s are {}", known.join(", ")),
        };
        self.fault(key.offset(), field, what, mend);
    }

    fn fields(&mut self, start: usize, members: Vec<(String, Raw<'t>, Raw<'t>)>) -> Fields<'t> {
        let mut fields = Fields {
            service: None,
            description: "".into(),
            request_schema: None,
            prompt: None,
            executor: None,
            strict: false,
            idempotent: true,
            spelling: Spelling::Braces,
            limits: Vec::new(),
            grants: None,
            executor_at: members.iter().find(|(name, ..)| name == "executor").map_or(start, |(_, _, value)| value.offset()),
            names_executor: members.iter().any(|(name, ..)| name == "executor"),
            has_prompt: members.iter().any(|(name, ..)| name == "prompt"),
        };
        for (name, key, value) in members {
            match name.as_str() {
                "service" => {}
                "description" => fields.description = self.text(value, &name, DESCRIPTION_BYTES_MAX).unwrap_or_default().into(),
                "requestSchema" => fields.request_schema = self.request_schema(value).map(|text| (value, text)),
                "prompt" => fields.prompt = self.text(value, &name, usize::MAX).map(|text| (value, text)),
                "executor" => fields.executor = self.executor(value),
                "strict" => fields.strict = self.flag(value, &name),
                "idempotent" => fields.idempotent = self.flag(value, &name),
                "placeholders" => fields.spelling = self.spelling(value),
                "needs" => self.fault(key.offset(), "needs", "this build does not offer needs yet", "take them out"),
                "limits" => fields.limits = self.object(value, &name),
                "grants" => fields.grants = Some((key, self.grants(value))),
                _ => self.unknown(key, "", &name, "field", &FIELDS),
            }
        }
        fields
    }

    fn template(&mut self, prompt: Option<(Raw<'t>, String)>, spelling: Spelling) -> Option<Template> {
        let (raw, source) = prompt.map_or((None, String::new()), |(raw, source)| (Some(raw), source));
        match (Template::compile(&source, spelling), raw) {
            (Ok(template), _) => Some(template),
            (Err(fault), raw) => {
                let offset = raw.map_or(0, |raw| raw.offset_in_string(fault.offset));
                let field = match fault.line {
                    1 => "prompt".to_owned(),
                    line => format!("prompt, line {line}, column {}", fault.column),
                };
                self.fault(offset, &field, fault.what, fault.mend);
                None
            }
        }
    }

    /// What only shows when the fields are seen together.
    fn assemble(&mut self, raw: Raw<'t>, fields: Fields<'t>) -> Option<Entry> {
        let own = fields.names_executor;
        let default = self.rules.default_executor.as_ref();
        let (defaults, default_grants) = match (own, default) {
            (true, _) => (self.rules.defaults, Grants::default()),
            (false, Some(default)) => (default.defaults, default.grants.clone()),
            (false, None) => {
                let mend = "name a .wasm as its executor, or give the agent a [agent.default_executor]";
                self.fault(raw.offset(), "executor", "the entry names no executor and the agent has no default one", mend);
                (self.rules.defaults, Grants::default())
            }
        };
        if !own && let Some((key, _)) = &fields.grants {
            let mend = "name a .wasm as its executor, or set the grants in [agent.default_executor]";
            self.fault(key.offset(), "grants", "grants need an executor of the entry's own; the default one has its own", mend);
        }
        if !own && !fields.has_prompt {
            self.fault(
                raw.offset(),
                "prompt",
                "the entry has no prompt for the default executor",
                "write one, or name a .wasm as its executor",
            );
        }
        let (limits, max_concurrent) = self.limits(&fields.limits, defaults);
        let template = self.template(fields.prompt, fields.spelling);
        let schema = if fields.strict { self.schema(raw, fields.request_schema.as_ref()) } else { None };
        let template = template?;
        let grants = fields.grants.map_or(default_grants, |(_, grants)| grants);
        let executor = fields.executor.map_or(ExecutorRef::Default, ExecutorRef::File);
        let mut variables: Vec<String> = template.variables().to_vec();
        for name in grants.variables() {
            if !variables.iter().any(|known| known == name) {
                variables.push(name.to_owned());
            }
        }
        let place = self.place(raw.offset());
        let executor_place = self.place(fields.executor_at);
        Some(Entry {
            service: fields.service?,
            description: fields.description,
            request_schema: fields.request_schema.map_or_else(JsonText::empty_object, |(_, text)| text),
            strict: fields.strict,
            idempotent: fields.idempotent,
            limits: limits.to_limits(),
            max_concurrent,
            place,
            executor_place,
            hash: self.hash(raw.text(), limits, &grants),
            text_hash: text_hash(raw.text()),
            template,
            executor,
            grants,
            variables: variables.into(),
            schema,
        })
    }

    fn schema(&mut self, entry: Raw<'t>, written: Option<&(Raw<'t>, JsonText)>) -> Option<Schema> {
        let (at, text) = match written {
            Some((raw, text)) => (raw.offset(), text.clone()),
            None => (entry.offset(), JsonText::empty_object()),
        };
        Schema::compile(&text).map_err(|fault| self.fault(at, "requestSchema", fault.what, fault.mend)).ok()
    }

    /// Equal hash, equal entry: its own text and what the deployment adds to it.
    fn hash(&self, text: &str, limits: LimitSet, grants: &Grants) -> Arc<str> {
        let mut hasher = Sha256::new();
        hasher.update(text.as_bytes());
        let default = self.rules.default_executor.as_ref().map(|default| default.guest.clone());
        hasher.update(format!("\0{limits:?}\0{default:?}\0{:?}", grants.env).as_bytes());
        let hex: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}").into()
    }
}

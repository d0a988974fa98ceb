//! Request schemas: the shorthand, JSON Schema, and the check of arguments against them (G1-8).
//!
//! Owns the expansion of the shorthand and the sentences about arguments. A schema never reaches out: remote references are
//! refused. It must not know jobs.

use std::fmt;
use std::sync::Arc;

use job::json::JsonText;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value as Json, json};

/// Most sentences about one set of arguments.
const FAULTS_MAX: usize = 8;
/// Longest sentence about an argument, in bytes.
const FAULT_BYTES_MAX: usize = 300;
/// The words of the shorthand.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "any"];
/// Members that make an object a JSON Schema and no shorthand.
const SCHEMA_WORDS: [&str; 6] = ["$schema", "$ref", "properties", "allOf", "anyOf", "oneOf"];

/// A compiled request schema. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Schema(Arc<Validator>);

/// Why a schema cannot be checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaFault {
    pub(crate) what: String,
    pub(crate) mend: String,
}

impl SchemaFault {
    fn new(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), mend: mend.into() }
    }
}

impl Schema {
    /// Compiles the schema of a strict entry: shorthand such as `{"repo": "string", "pr?": "integer"}`, or a JSON Schema.
    pub(crate) fn compile(text: &JsonText) -> Result<Self, SchemaFault> {
        let written: Json = serde_json::from_str(text.as_str()).unwrap_or_default();
        let Json::Object(members) = written else {
            return Err(SchemaFault::new(
                "the schema is no object",
                "write the shorthand {\"name\": \"string\"} or a JSON Schema",
            ));
        };
        let schema = if is_json_schema(&members) { Json::Object(members) } else { expand(&members)? };
        let compiled = jsonschema::options().with_pattern_options(PatternOptions::regex()).build(&schema);
        let compiled = compiled.map_err(|error| refusal(&error))?;
        Ok(Self(Arc::new(compiled)))
    }

    /// What is wrong with these arguments, without their values.
    pub(crate) fn check(&self, args: &JsonText) -> Vec<String> {
        let args: Json = serde_json::from_str(args.as_str()).unwrap_or_default();
        let sentence = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string().replace('/', ".");
            clipped(&format!("args{path}: {}", error.masked()))
        };
        self.0.iter_errors(&args).take(FAULTS_MAX).map(sentence).collect()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

fn refusal(error: &jsonschema::ValidationError<'_>) -> SchemaFault {
    if matches!(error.kind(), ValidationErrorKind::Referencing(_)) {
        let what = "the schema has a $ref that leads out of it or nowhere, and nothing is fetched";
        return SchemaFault::new(what, "write the definition into $defs of the same schema");
    }
    let path = error.instance_path().to_string();
    let place = if path.is_empty() { "the schema".to_owned() } else { format!("{path} of the schema") };
    SchemaFault::new(format!("{place} cannot be used: {}", clipped(&error.to_string())), "mend the JSON Schema")
}

fn clipped(text: &str) -> String {
    if text.len() <= FAULT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=FAULT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn is_json_schema(members: &Map<String, Json>) -> bool {
    SCHEMA_WORDS.iter().any(|word| members.contains_key(*word)) || members.get("type").is_some_and(|kind| kind == "object")
}

/// `{"repo": "string", "n?": "integer", "tags": "string[]", "mode": ["fast", "slow"]}` as a JSON Schema. As one it would accept
/// everything, since its words are unknown there; that is why the shorthand has to be told apart.
fn expand(members: &Map<String, Json>) -> Result<Json, SchemaFault> {
    if members.is_empty() {
        return Err(SchemaFault::new("a strict entry needs a request schema to check", "name its arguments, or take strict out"));
    }
    if let Some(Json::String(kind)) = members.get("type")
        && members.len() == 1
    {
        let what = format!("{{\"type\": \"{}\"}} can be read as a JSON Schema or as an argument called type", clipped(kind));
        let mend = "write {\"type\": \"object\", \"properties\": …} for whichever is meant";
        return Err(SchemaFault::new(what, mend));
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, value) in members {
        let name = key.strip_suffix('?').unwrap_or(key);
        let schema = shorthand(value).ok_or_else(|| {
            let what = format!("the shorthand cannot say what {name} is");
            let words = TYPES.join(", ");
            SchemaFault::new(
                what,
                format!("write one of {words}, one of them with [] for a list, or a list of texts to choose from"),
            )
        })?;
        if properties.insert(name.to_owned(), schema).is_some() {
            return Err(SchemaFault::new(format!("{name} stands twice, with and without ?"), "take one of them out"));
        }
        if name == key {
            required.push(Json::String(name.to_owned()));
        }
    }
    Ok(json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }))
}

fn shorthand(value: &Json) -> Option<Json> {
    match value {
        Json::String(word) => match word.strip_suffix("[]") {
            Some(item) => Some(json!({ "type": "array", "items": kind(item)? })),
            None => kind(word),
        },
        Json::Array(choices) if !choices.is_empty() && choices.iter().all(Json::is_string) => Some(json!({ "enum": choices })),
        _ => None,
    }
}

fn kind(word: &str) -> Option<Json> {
    match word {
        "any" => Some(json!({})),
        _ => TYPES.contains(&word).then(|| json!({ "type": word })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> JsonText {
        JsonText::check(json.as_bytes()).expect("JSON")
    }

    fn faults(schema: &str, args: &str) -> Vec<String> {
        Schema::compile(&text(schema)).expect("compiles").check(&text(args))
    }

    /// G1-8, S1-75: the shorthand checks names, kinds and choices; `?` makes an argument optional.
    #[test]
    fn the_shorthand_is_checked() {
        let schema = r#"{"repo":"string","n?":"integer","tags?":"string[]","mode?":["fast","slow"],"x?":"any"}"#;
        let rows: [(&str, &[&str]); 9] = [
            (r#"{"repo":"a","n":3,"tags":["x"],"mode":"fast","x":null}"#, &[]),
            (r#"{"repo":"a","n":123456789012345678901234567890}"#, &[]),
            (r#"{"repo":"a","n":2.0}"#, &[]),
            (r#"{}"#, &["args: \"repo\" is a required property"]),
            (r#"{"repo":5}"#, &["args.repo: value is not of type \"string\""]),
            (r#"{"repo":"a","n":1.5}"#, &["args.n: value is not of type \"integer\""]),
            (r#"{"repo":"a","mode":"no"}"#, &["args.mode: value is not one of"]),
            (r#"{"repo":"a","more":1}"#, &["'more' was unexpected"]),
            (r#"{"repo":"a","tags":["x",1]}"#, &["args.tags.1: value is not of type"]),
        ];
        for (args, expected) in rows {
            let found = faults(schema, args);
            assert_eq!(found.len(), expected.len(), "{args}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{args}: {found}");
            }
        }
        assert!(!faults(schema, r#"{"repo":["hunter2"]}"#)[0].contains("hunter2"), "values stay out");
    }

    /// A JSON Schema is taken as one.
    #[test]
    fn json_schemas_are_checked() {
        let schema = r#"{"type":"object","properties":{"pr":{"type":"integer","minimum":1}},"required":["pr"]}"#;
        assert_eq!(faults(schema, r#"{"pr":1,"more":true}"#), Vec::<String>::new());
        assert_eq!(faults(schema, r#"{"pr":0}"#).len(), 1);
        assert_eq!(faults(r#"{"allOf":[{"required":["a"]}]}"#, "{}").len(), 1);
        let many = r#"{"type":"object","required":["a","b","c","d","e","f","g","h","i","j"]}"#;
        assert_eq!(faults(many, "{}").len(), FAULTS_MAX);
    }

    /// A schema that checks nothing, reaches out, or cannot be read is refused at load.
    #[test]
    fn useless_and_hostile_schemas_are_refused() {
        let rows = [
            ("{}", "needs a request schema"),
            (r#"{"type":"string"}"#, "can be read as"),
            (r#"{"pr":"nummer"}"#, "cannot say what pr is"),
            (r#"{"pr":{"type":"number"}}"#, "cannot say what pr is"),
            (r#"{"m":[]}"#, "cannot say what m is"),
            (r#"{"a":"string","a?":"string"}"#, "stands twice"),
            (r#"{"properties":"string"}"#, "cannot be used"),
            (r#"{"type":"object","properties":{"a":{"type":"strong"}}}"#, "cannot be used"),
            (r#"{"$ref":"http://127.0.0.1:9/x.json"}"#, "leads out of it"),
            (r#"{"$ref":"file:///etc/passwd"}"#, "leads out of it"),
            (r##"{"$ref":"#/$defs/nope"}"##, "or nowhere"),
        ];
        for (schema, words) in rows {
            let fault = Schema::compile(&text(schema)).expect_err(schema);
            assert!(fault.what.contains(words), "{schema}: {fault:?}");
        }
    }

    /// References that turn in place, and patterns that explode, come to an end; references that step into the value work.
    #[test]
    fn every_check_ends() {
        for schema in [
            r##"{"$ref":"#"}"##,
            r##"{"allOf":[{"$ref":"#"}]}"##,
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}"##,
        ] {
            // A stack overflow would end the test program; whether such a schema compiles is the library's to say.
            let _ = Schema::compile(&text(schema)).map(|schema| schema.check(&text(r#"{"a":1}"#)));
        }
        let tree = r##"{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}},"n":{"type":"integer"}}}"##;
        assert_eq!(faults(tree, r#"{"kids":[{"kids":[{"n":"x"}]}]}"#).len(), 1);
        let bomb = r#"{"type":"object","properties":{"s":{"pattern":"^(a+)+$"}}}"#;
        assert_eq!(faults(bomb, &format!(r#"{{"s":"{}!"}}"#, "a".repeat(5000))).len(), 1);
    }
}

//! Catalog texts and what becomes of them.

use super::*;
use crate::entry::ExecutorRef;
use crate::limits::{DefaultExecutor, LimitSet};
use crate::{Grants, Snapshot};

fn rules() -> Rules {
    let defaults = LimitSet { timeout_ms: 60_000, fuel: 10_000_000_000, memory_mb: 64, output_kb: 512 };
    let ceilings = LimitSet { timeout_ms: 3_600_000, fuel: 1_000_000_000_000, memory_mb: 512, output_kb: 700 };
    let default_executor = Some(DefaultExecutor { guest: "prompt".into(), defaults, grants: Grants::default() });
    Rules { defaults, ceilings, default_executor }
}

fn read(text: &str) -> Reading {
    read_file("c.json", text.as_bytes(), &rules())
}

const SAMPLE: &str = r#"{ "service": "schema.review",
  "description": "Reviews a migration for lock risk.",
  "requestSchema": { "migration": "string" },
  "prompt": "Review migration {{migration}}. Flag lock risk and missing indexes." }"#;

/// S1-71, S1-03, DC-01b: the document's own sample is an entry, with the defaults of DESIGN section 4.
#[test]
fn the_documents_sample_is_an_entry() {
    let reading = read(SAMPLE);
    assert_eq!(reading.faults, []);
    let [entry] = reading.entries.as_slice() else { panic!("one entry") };
    assert_eq!(&*entry.service, "schema.review");
    assert_eq!(entry.request_schema.as_str(), r#"{ "migration": "string" }"#);
    assert_eq!(entry.executor, ExecutorRef::Default);
    assert!(entry.idempotent && !entry.strict && entry.max_concurrent.is_none());
    assert_eq!((entry.limits.timeout_ms, entry.limits.memory_bytes, entry.limits.output_bytes), (60_000, 64 << 20, 512 << 10));
    // S1-75: advisory unless strict.
    assert!(entry.check_args(&JsonText::trusted(r#"{"migration":5}"#)).is_empty());
}

/// S1-71: the three shapes of a file, with a byte order mark or without.
#[test]
fn a_file_has_three_shapes() {
    let second = SAMPLE.replace("schema.review", "b");
    for (text, count) in [
        (SAMPLE.to_owned(), 1),
        (format!("\u{feff}[{SAMPLE},{second}]"), 2),
        (format!("{{\"capabilities\":[{SAMPLE},{second}]}}"), 2),
        ("[]".to_owned(), 0),
    ] {
        let reading = read(&text);
        assert_eq!((reading.entries.len(), reading.faults.len(), reading.whole), (count, 0, false), "{text}");
    }
}

/// Everything an entry can say, taken.
#[test]
fn every_field_is_taken() {
    let text = r#"{"service":"a","prompt":"${TEAM} {{x}}","executor":"sub/a.wasm","strict":true,"requestSchema":{"x?":"any"},
        "idempotent":false,"placeholders":"braces",
        "limits":{"timeoutMs":5,"fuel":6,"memoryMb":7,"outputKb":8,"maxConcurrent":9},"grants":{"env":{"M":"${MODEL}-${TEAM}","N":"n"}}}"#;
    let reading = read(text);
    assert_eq!(reading.faults, []);
    let entry = &reading.entries[0];
    assert_eq!(entry.executor, ExecutorRef::File("sub/a.wasm".into()));
    assert_eq!(entry.variables(), ["TEAM", "MODEL"]);
    assert_eq!((entry.limits.timeout_ms, entry.limits.fuel, entry.max_concurrent), (5, 6, Some(9)));
    assert_eq!((entry.limits.memory_bytes, entry.limits.output_bytes), (7 << 20, 8 << 10));
    assert!(entry.strict && !entry.idempotent);
    assert_eq!(entry.check_args(&JsonText::trusted(r#"{"y":1}"#)).len(), 1);
}

/// G1-55, G1-57: one bad entry spoils no other; each fault names its place, entry and field, and says what to do.
#[test]
fn bad_entries_are_named_and_alone() {
    let rows: [(&str, &str, &str, &str); 26] = [
        (r#""promt":"x""#, "2:2", "there is no field promt", "did you mean prompt?"),
        (r#""prompt":5"#, "2:11", "prompt is no text", "quotes"),
        (r#""prompt":"é\n\u00e9\ud83d\ude00\t{{#if a}}""#, "2:35", "#if is never closed", "{{/if}}"),
        (r#""prompt":"a {{log x}}""#, "2:14", "no helper log", "#if"),
        (r#""strict":"yes""#, "2:11", "neither true nor false", "true or false"),
        (r#""executor":"../x.wasm""#, "2:13", "leads out of the catalog folder", "name a .wasm"),
        (r#""executor":"/x.wasm""#, "2:13", "leads out of the catalog folder", "name a .wasm"),
        (r#""executor":"a/../../x.wasm""#, "2:13", "leads out of the catalog folder", "name a .wasm"),
        (r#""executor":"prompt""#, "2:13", "no file name ending in .wasm", "leave executor out"),
        (r#""executor":"a//b.wasm""#, "2:13", "no file name ending in .wasm", "leave executor out"),
        (r#""placeholders":"dollars""#, "2:17", "neither braces nor angles", "angles"),
        (r#""needs":[{"as":"x","service":"y"}]"#, "2:2", "does not offer needs yet", "take them out"),
        (r#""grants":{"http":["https://a"]},"executor":"a.wasm""#, "2:12", "does not offer the grant http yet", "take it out"),
        (r#""grants":{"dirs":[]},"executor":"a.wasm""#, "2:12", "does not offer the grant dirs yet", "take it out"),
        (r#""grants":{"ask":["*"]},"executor":"a.wasm""#, "2:12", "does not offer the grant ask yet", "take it out"),
        (r#""grants":{"root":1},"executor":"a.wasm""#, "2:12", "there is no grant root", "env, http"),
        (r#""grants":{"env":{"1A":"x"}},"executor":"a.wasm""#, "2:19", "no name of an environment variable", "letters"),
        (r#""grants":{"env":{"A":"${"}},"executor":"a.wasm""#, "2:23", "no name follows", "$${"),
        (r#""grants":{"env":{}}"#, "2:2", "grants need an executor", "default_executor"),
        (r#""limits":{"fule":1}"#, "2:12", "there is no limit fule", "did you mean fuel?"),
        (r#""limits":{"fuel":1.5}"#, "2:19", "no whole number above 0", "1 to 1000000000000"),
        (r#""limits":{"outputKb":701}"#, "2:23", "outputKb is 701, the ceiling is 700", "[limits.max]"),
        (r#""limits":7"#, "2:11", "limits is no object", "braces"),
        (r#""requestSchema":"string""#, "2:18", "requestSchema is no object", "shorthand"),
        (r#""strict":true"#, "1:2", "needs a request schema", "take strict out"),
        (r#""strict":true,"requestSchema":{"a":"nummer"}"#, "2:32", "cannot say what a is", "integer"),
    ];
    for (member, at, what, mend) in rows {
        let prompt = if member.contains("\"prompt\"") { "" } else { r#""prompt":"{{x}}","# };
        let text = format!("[{{{prompt}\"service\":\"bad.one\",\n {member}}},\n{SAMPLE}]");
        let reading = read(&text);
        assert_eq!(reading.entries.len(), 1, "{member}: the other entry stays");
        let [fault] = reading.faults.as_slice() else { panic!("{member}: {:?}", reading.faults) };
        assert_eq!(fault.place.to_string(), format!("c.json:{at}"), "{fault}");
        assert_eq!(fault.service.as_deref(), Some("bad.one"), "{fault}");
        assert!(fault.what.contains(what) && fault.mend.contains(mend), "{fault}");
        assert!(!reading.whole);
    }
}

/// Names that are no service names, and entries without one.
#[test]
fn services_have_a_grammar() {
    for good in ["a", "schema.review", "A-1_x.b.c9"] {
        assert!(read(&SAMPLE.replace("schema.review", good)).faults.is_empty(), "{good}");
    }
    for bad in ["", ".a", "a.", "a..b", "a b", "a/b", "é", "-a", "a.+", &"x".repeat(129)] {
        let reading = read(&SAMPLE.replace("schema.review", bad));
        assert_eq!(reading.faults.len(), 1, "{bad}");
        assert_eq!(reading.faults[0].field.as_deref(), Some("service"));
    }
    assert!(read(r#"{"prompt":"x"}"#).faults[0].what.contains("has no service"));
    assert!(read("[5]").faults[0].what.contains("an entry is an object"));
}

/// G1-55, U14: a file that is no JSON fails as a whole, at its line; nesting and doubled keys included.
#[test]
fn a_broken_file_fails_as_a_whole() {
    let rows = [
        ("{\n \"a\": }".to_owned(), "c.json:2:7"),
        ("\"text\"".to_owned(), "c.json:1:1"),
        ("".to_owned(), "c.json:1:0"),
        ("{\"capabilities\":5}".to_owned(), "c.json:1:17"),
        ("{\"capabilities\":[],\n\"x\":1}".to_owned(), "c.json:2:1"),
        ("{\"service\":\"a\",\n\"service\":\"b\"}".to_owned(), "c.json:2:9"),
        ("[".repeat(100_000), "c.json:1:101"),
    ];
    for (text, place) in rows {
        let reading = read(&text);
        let head: String = text.chars().take(40).collect();
        assert!(reading.whole && reading.entries.is_empty(), "{head}");
        let place = place.strip_suffix(":0").unwrap_or(place);
        assert!(reading.faults[0].place.to_string().starts_with(place), "{head}: {}", reading.faults[0]);
    }
    assert!(read_file("c.json", &vec![b' '; FILE_BYTES_MAX + 1], &rules()).whole);
}

/// G1-56: with neither an executor nor a default one, the entry is left out and named.
#[test]
fn an_entry_needs_something_to_run_it() {
    let rules = Rules { default_executor: None, ..rules() };
    let reading = read_file("c.json", SAMPLE.as_bytes(), &rules);
    assert!(reading.entries.is_empty());
    assert!(reading.faults[0].what.contains("no executor") && reading.faults[0].service.is_some());
    let own = SAMPLE.replacen('{', r#"{"executor":"a.wasm","#, 1);
    assert!(read_file("c.json", own.as_bytes(), &rules).faults.is_empty());
}

/// Invariant 6: the default executor brings its own limits and grants.
#[test]
fn the_default_executor_brings_its_limits_and_grants() {
    let mut rules = rules();
    if let Some(default) = &mut rules.default_executor {
        default.defaults.fuel = 77;
        default.grants.env.push(("K".into(), crate::template::Text::parse("${KEY}").expect("fine")));
    }
    let entry = &read_file("c.json", SAMPLE.as_bytes(), &rules).entries[0];
    assert_eq!((entry.limits.fuel, entry.variables()), (77, ["KEY".to_owned()].as_slice()));
    let own = SAMPLE.replacen('{', r#"{"executor":"a.wasm","#, 1);
    let entry = &read_file("c.json", own.as_bytes(), &rules).entries[0];
    assert_eq!((entry.limits.fuel, entry.grants.env.len()), (10_000_000_000, 0));
}

/// Equal hash, equal entry: text and deployment both count.
#[test]
fn the_hash_changes_with_the_entry() {
    let hash = |text: &str, rules: &Rules| read_file("c.json", text.as_bytes(), rules).entries[0].hash.clone();
    let mut other = rules();
    other.default_executor.as_mut().expect("set").defaults.fuel = 5;
    assert_eq!(hash(SAMPLE, &rules()), hash(&format!("\n{SAMPLE}"), &rules()));
    assert_ne!(hash(SAMPLE, &rules()), hash(&SAMPLE.replace("Flag", "Find"), &rules()));
    assert_ne!(hash(SAMPLE, &rules()), hash(SAMPLE, &other));
}

/// A catalog of ten thousand entries in one file is read in one go, places included.
#[test]
fn ten_thousand_entries_are_read() {
    let entries: Vec<String> = (0..10_000).map(|i| SAMPLE.replace("schema.review", &format!("s.n{i}"))).collect();
    let reading = read(&format!("[{}]", entries.join(",\n")));
    assert_eq!((reading.entries.len(), reading.faults.len()), (10_000, 0));
    assert_eq!(reading.entries[9_999].place.line, 9_999 * 4 + 1);
    let live = Snapshot::empty(job::ids::AgentId::parse("a").expect("an id"));
    let merged = crate::merge(&live, &[Arc::new(reading)]);
    assert_eq!((merged.entries.len(), merged.faults.len()), (10_000, 0));
    assert_eq!(live.offers().count(), 0);
}

/// At a reload an entry whose text is the same keeps its compiled form and gets its new place; any other is built anew.
#[test]
fn known_entries_are_taken_over() {
    let executor = SAMPLE.replacen('{', "{\"executor\":\n \"a.wasm\",", 1);
    let before = read(&format!("[{executor},\n {}]", SAMPLE.replace("schema.review", "other")));
    let known = Known::of(&before.entries);
    let text = format!("[\n\n  {executor}, {}]", SAMPLE.replace("schema.review", "new"));
    let after = reread_file("c.json", text.as_bytes(), &rules(), &known);
    let anew = read(&text);
    assert_eq!(after.entries.len(), 2);
    for (entry, fresh) in after.entries.iter().zip(&anew.entries) {
        assert_eq!((&entry.hash, &entry.place, &entry.executor_place), (&fresh.hash, &fresh.place, &fresh.executor_place));
    }
    assert_eq!(after.entries[0].template.identity(), before.entries[0].template.identity());
    assert_ne!(after.entries[1].template.identity(), before.entries[1].template.identity());
}

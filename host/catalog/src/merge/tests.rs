//! Reloads as rows: what is live, what the files say then, and what is live after.

use job::BoxFuture;
use job::executor::{Guest, Host, Ran, Work};
use job::ids::AgentId;

use super::*;
use crate::limits::{DefaultExecutor, LimitSet, Rules};
use crate::read::read_file;
use crate::snapshot::Capability;

struct NoGuest;

impl Guest for NoGuest {
    fn hash(&self) -> Arc<str> {
        "sha256:0".into()
    }

    fn run(&self, _: Work, _: Arc<dyn Host>) -> BoxFuture<'static, Ran> {
        Box::pin(std::future::pending())
    }
}

fn rules() -> Rules {
    let limits = LimitSet { timeout_ms: 1000, fuel: 1_000_000, memory_mb: 64, output_kb: 64 };
    let default = DefaultExecutor { guest: "prompt".into(), defaults: limits, grants: crate::Grants::default() };
    Rules { defaults: limits, ceilings: limits, default_executor: Some(default) }
}

/// A file of entries written `service=prompt`; `!service` is a bad one, `!` a bad one without a name, `!!` spoils the file.
fn file(name: &str, entries: &[&str]) -> Arc<Reading> {
    let text = |written: &&str| match written.split_once('=') {
        Some((service, prompt)) => format!(r#"{{"service":"{service}","prompt":"{prompt}"}}"#),
        None if *written == "!" => r#"{"prompt":"x"}"#.into(),
        None if *written == "!!" => "{{{".into(),
        None => format!(r#"{{"service":"{}","prompt":"x","fuel":1}}"#, &written[1..]),
    };
    let entries: Vec<String> = entries.iter().map(text).collect();
    Arc::new(read_file(name, format!("[{}]", entries.join(",")).as_bytes(), &rules()))
}

fn snapshot(merged: Merged) -> Snapshot {
    let mut snapshot = Snapshot::empty(AgentId::parse("a").expect("an id"));
    let capability = |entry| Arc::new(Capability { entry, guest: Arc::new(NoGuest) });
    snapshot.entries = merged.entries.into_iter().map(|(service, entry)| (service, capability(entry))).collect();
    snapshot
}

fn shown(merged: &Merged) -> String {
    let prompt = |entry: &Entry| entry.template.render(&Default::default(), &args(), &args()).expect("renders").text;
    let entries = merged.entries.values().map(|entry| format!("{}:{}={}", entry.place.file, entry.service, prompt(entry)));
    entries.collect::<Vec<_>>().join(" ")
}

fn args() -> job::json::JsonText {
    job::json::JsonText::empty_object()
}

/// G1-55, DC-07, S1-16: what stays, what goes, and which of two counts.
#[test]
fn a_reload_keeps_what_is_good() {
    type Files<'a> = &'a [(&'a str, &'a [&'a str])];
    let rows: [(&str, Files<'_>, &str, usize); 14] = [
        ("nothing changed", &[("a", &["s=1", "t=2"]), ("b", &["u=3"])], "a:s=1 a:t=2 b:u=3", 0),
        ("an entry changed", &[("a", &["s=9", "t=2"]), ("b", &["u=3"])], "a:s=9 a:t=2 b:u=3", 0),
        ("an entry deleted", &[("a", &["t=2"]), ("b", &["u=3"])], "a:t=2 b:u=3", 0),
        ("a file deleted", &[("b", &["u=3"])], "b:u=3", 0),
        ("all deleted", &[], "", 0),
        ("a file spoilt", &[("a", &["!!"]), ("b", &["u=4"])], "a:s=1 a:t=2 b:u=4", 1),
        ("an entry bad", &[("a", &["!s", "t=5"]), ("b", &["u=3"])], "a:s=1 a:t=5 b:u=3", 1),
        ("a new entry bad", &[("a", &["s=1", "t=2", "!n"]), ("b", &["u=3"])], "a:s=1 a:t=2 b:u=3", 1),
        ("a bad one has no name", &[("a", &["!", "t=2"]), ("b", &["u=3"])], "a:s=1 a:t=2 b:u=3", 1),
        ("the second of two in other files", &[("0", &["s=7"]), ("a", &["s=1", "t=2"]), ("b", &["u=3"])], "a:s=1 a:t=2 b:u=3", 1),
        (
            "the live one changes beside a second",
            &[("0", &["s=7"]), ("a", &["s=8", "t=2"]), ("b", &["u=3"])],
            "a:s=8 a:t=2 b:u=3",
            1,
        ),
        (
            "the live one is bad beside a second",
            &[("0", &["s=7"]), ("a", &["!s", "t=2"]), ("b", &["u=3"])],
            "a:s=1 a:t=2 b:u=3",
            2,
        ),
        ("an entry moves to another file", &[("0", &["s=1"]), ("a", &["t=2"]), ("b", &["u=3"])], "0:s=1 a:t=2 b:u=3", 0),
        ("the live one of two in one file", &[("a", &["s=6", "s=1", "t=2"]), ("b", &["u=3"])], "a:s=1 a:t=2 b:u=3", 1),
    ];
    let first = merge(&Snapshot::empty(AgentId::parse("a").expect("an id")), &[file("a", &["s=1", "t=2"]), file("b", &["u=3"])]);
    let live = snapshot(first);
    for (what, files, expected, faults) in rows {
        let readings: Vec<Arc<Reading>> = files.iter().map(|(name, entries)| file(name, entries)).collect();
        let merged = merge(&live, &readings);
        assert_eq!(shown(&merged), expected, "{what}");
        assert_eq!(merged.faults.len(), faults, "{what}: {:?}", merged.faults);
        // Whatever happened, the same files again change nothing.
        let live = snapshot(merge(&live, &readings));
        assert_eq!(shown(&merge(&live, &readings)), expected, "{what}, again");
    }
}

/// G1-55: of a service that stands twice at the start the first stays, and the refusal names both places.
#[test]
fn a_service_stands_once() {
    let merged =
        merge(&Snapshot::empty(AgentId::parse("a").expect("an id")), &[file("c.json", &["s=1"]), file("d.json", &["s=2"])]);
    assert_eq!(shown(&merged), "c.json:s=1");
    let fault = merged.faults[0].to_string();
    assert!(fault.starts_with("d.json:1:2: s: the service stands at c.json:1:2 already"), "{fault}");
}

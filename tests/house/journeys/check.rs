//! `amp-node check`: what is wrong with a catalog or a configuration, with file, line and mend.
//!
//! Owns the doctor's answers as a person or a script sees them.

use house::catalog::Catalog;
use house::node::{command, root, run};
use serde_json::{Value, json};
use tempfile::TempDir;

fn check(args: &[&str]) -> (i32, String, String) {
    let mut all = vec!["check"];
    all.extend(args);
    let dir = TempDir::new().unwrap();
    let output = run(command(&all).current_dir(dir.path()).env("AMP_NODE__DATA_DIR", dir.path().join("data")));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// S1-71, DESIGN "check": a good catalog passes with exit code 0, in plain words and as JSON.
#[test]
fn a_good_catalog_passes() {
    let catalog = Catalog::usual();
    let (code, _, errors) = check(&[catalog.path().to_str().unwrap()]);
    assert_eq!(code, 0, "{errors}");
    let (code, out, errors) = check(&[catalog.path().to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{errors}");
    serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error} in {out:?}"));
}

/// G1-55, U19, S1-84: each fault is named with its file, its line and what to do; the exit code is 1.
#[test]
fn faults_are_named_with_file_and_line() {
    let rows = [
        ("syntax.json", "{\n  \"service\": \"a.b\",\n  \"prompt\": oops\n}", "3"),
        ("template.json", "{\n  \"service\": \"a.c\",\n  \"description\": \"x\",\n  \"prompt\": \"{{> self}}\"\n}", "4"),
        (
            "guest.json",
            "{\n  \"service\": \"a.d\",\n  \"description\": \"x\",\n  \"prompt\": \"\",\n  \"executor\": \"absent.wasm\"\n}",
            "5",
        ),
        ("field.json", "{\n  \"service\": \"a.e\",\n  \"description\": \"x\",\n  \"promt\": \"x\"\n}", "4"),
    ];
    for (name, text, line) in rows {
        let catalog = Catalog::empty();
        catalog.text(name, text);
        let (code, out, errors) = check(&[catalog.path().to_str().unwrap()]);
        let said = format!("{out}{errors}");
        assert_eq!(code, 1, "{name}: {said}");
        assert!(said.contains(&format!("{name}:{line}")), "{name}:{line} is not named in {said}");
        let (code, out, _) = check(&[catalog.path().to_str().unwrap(), "--json"]);
        assert_eq!(code, 1);
        let json: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out:?}"));
        assert!(json.to_string().contains(name), "{json}");
    }
}

/// G1-55: the same service twice is one fault that names both places.
#[test]
fn a_service_twice_names_both_places() {
    let catalog = Catalog::empty();
    for name in ["first.json", "second.json"] {
        catalog.file(name, &json!({"service": "a.b", "description": "x", "prompt": "x"}));
    }
    let (code, out, errors) = check(&[catalog.path().to_str().unwrap()]);
    let said = format!("{out}{errors}");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("first.json") && said.contains("second.json"), "{said}");
}

/// S1-84: the lint warns about an argument that looks like a credential.
#[test]
fn credentials_in_arguments_are_warned_about() {
    let catalog = Catalog::empty();
    catalog.file(
        "cred.json",
        &json!({"service": "a.b", "description": "x", "requestSchema": {"password": "string"}, "prompt": "{{password}}"}),
    );
    let (_, out, errors) = check(&[catalog.path().to_str().unwrap()]);
    let said = format!("{out}{errors}").to_lowercase();
    assert!(said.contains("password") && said.contains("cred.json"), "{said}");
}

/// S1-71, style: every catalog we ship passes, and every entry under `bad/` is refused with the message beside it.
#[test]
fn shipped_catalogs_pass_and_bad_ones_are_refused() {
    let catalogs = root().join("catalogs");
    for entry in std::fs::read_dir(&catalogs).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        if entry.file_name() == "bad" {
            continue;
        }
        let (code, out, errors) = check(&[entry.path().to_str().unwrap()]);
        assert_eq!(code, 0, "{}: {out}{errors}", entry.path().display());
    }
    let bad = catalogs.join("bad");
    let (code, out, errors) = check(&[bad.to_str().unwrap()]);
    assert_eq!(code, 1, "{out}{errors}");
    // A person reads the mend on a line of its own; the files hold both in one.
    let lines: Vec<&str> = out.lines().chain(errors.lines()).map(str::trim).collect();
    let said = lines.join("\n").replace("\nmend: ", "; ");
    // The files name no folder of this machine.
    let said = said.replace(&format!("{}/", bad.display()), "").replace(bad.to_str().unwrap(), "its folder");
    let mut seen = 0;
    for entry in std::fs::read_dir(&bad).unwrap().flatten() {
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".error.txt")) else {
            continue;
        };
        assert!(bad.join(format!("{name}.json")).is_file(), "{name}.error.txt stands alone");
        for line in std::fs::read_to_string(&path).unwrap().lines().filter(|line| !line.trim().is_empty()) {
            assert!(said.contains(line.trim()), "{name}: {line:?} is not in {said}");
        }
        seen += 1;
    }
    let files =
        std::fs::read_dir(&bad).unwrap().flatten().filter(|entry| entry.path().extension().is_some_and(|ext| ext == "json"));
    assert_eq!(seen, files.count(), "a bad entry has no message");
    assert!(seen > 0, "catalogs/bad is empty");
}

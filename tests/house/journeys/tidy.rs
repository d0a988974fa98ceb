//! Rules of the house that a compiler does not check: arrows between rooms, who may name which library, sizes, words.
//!
//! Owns reading manifests and sources as text. It starts no process and needs no broker.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use house::node::root;
use serde_json::Value;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// Which rooms a room of `host/` may depend on (DESIGN section 3). `node` may depend on all.
const ARROWS: &[(&str, &[&str])] = &[
    ("job", &[]),
    ("catalog", &["job"]),
    ("wire", &["job"]),
    ("sandbox", &["job"]),
    ("hub", &["job"]),
    ("store", &["job"]),
    ("engine", &["job", "catalog"]),
    ("supply", &["job", "catalog"]),
    ("doors", &["job", "wire"]),
];

/// Libraries that only one room may name. Rooms under `tests/` may name what they measure or drive.
const KEEPERS: &[(&str, &[&str])] = &[
    ("sandbox", &["wasmtime", "wasmtime-wasi", "wasmtime-wasi-http", "wit-component", "wit-parser"]),
    ("store", &["rusqlite", "tokio-postgres", "sqlx"]),
    ("doors", &["rumqttc", "mqtt5", "axum", "hyper", "tokio-tungstenite", "reqwest"]),
    ("node", &["clap"]),
];

/// Rooms that are pure: no runtime, no IO, no randomness.
const PURE: &[&str] = &["job", "catalog", "wire"];
const IMPURE_LIBRARIES: &[&str] = &["tokio", "tokio-util", "rand", "rustix", "cap-std", "tempfile"];

const TOP_LEVEL: &[&str] =
    &["CHANGELOG.md", "Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "catalogs", "guests", "host", "tests", "wit"];

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Every file beneath some folders with an extension, build output aside.
fn files(dirs: &[&str], extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = dirs.iter().map(|dir| root().join(dir)).collect();
    while let Some(dir) = open.pop() {
        for path in entries(&dir) {
            if path.is_dir() && !matches!(name(&path), "target" | "corpus" | "artifacts") && !name(&path).starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn manifest(path: &Path) -> toml::Table {
    fs::read_to_string(path).unwrap().parse().unwrap_or_else(|error| panic!("{}: {error}", shown(path)))
}

/// Names under one dependency table, in every target section too.
fn dependencies(manifest: &toml::Table, table: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let sections = targets.into_iter().flat_map(|targets| targets.values()).filter_map(toml::Value::as_table);
    for section in std::iter::once(manifest).chain(sections) {
        names.extend(section.get(table).and_then(toml::Value::as_table).into_iter().flat_map(|t| t.keys().cloned()));
    }
    names
}

fn fail_on(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// DESIGN section 3: a room depends only on the rooms its arrows allow; for its tests it may add the kit.
#[test]
fn rooms_depend_only_where_arrows_allow() {
    let rooms: BTreeSet<String> = entries(&root().join("host")).iter().map(|path| name(path).to_owned()).collect();
    let mut faults = Vec::new();
    for room in rooms.iter().filter(|room| *room != "node") {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| known == room) else {
            faults.push(format!("host/{room} has no line in the table of arrows"));
            continue;
        };
        let manifest = manifest(&root().join("host").join(room).join("Cargo.toml"));
        for (table, also) in [("dependencies", &[][..]), ("build-dependencies", &[][..]), ("dev-dependencies", &["kit"][..])] {
            for dependency in dependencies(&manifest, table) {
                let is_ours = rooms.contains(&dependency) || matches!(dependency.as_str(), "kit" | "house" | "bench");
                if is_ours && !allowed.contains(&dependency.as_str()) && !also.contains(&dependency.as_str()) {
                    faults.push(format!("host/{room} may not depend on {dependency} ({table})"));
                }
            }
        }
    }
    fail_on(&faults);
}

/// DESIGN section 3: wasmtime, SQL, network protocols and argv each have one keeper; job, catalog and wire have no runtime.
#[test]
fn each_library_has_one_keeper() {
    let mut faults = Vec::new();
    for path in entries(&root().join("host")) {
        let room = name(&path).to_owned();
        let manifest = manifest(&path.join("Cargo.toml"));
        let names = dependencies(&manifest, "dependencies");
        for (keeper, libraries) in KEEPERS.iter().filter(|(keeper, _)| *keeper != room) {
            for library in libraries.iter().filter(|library| names.contains(**library)) {
                faults.push(format!("host/{room} names {library}, which only host/{keeper} may"));
            }
        }
        for library in IMPURE_LIBRARIES.iter().filter(|library| PURE.contains(&room.as_str()) && names.contains(**library)) {
            faults.push(format!("host/{room} is pure and names {library}"));
        }
    }
    fail_on(&faults);
}

/// Every file is short and says first what it owns; every function fits a screen.
#[test]
fn files_and_functions_are_small_and_introduced() {
    let mut faults = Vec::new();
    for path in files(&["host", "guests", "tests"], "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() >= FILE_LINES_MAX {
            faults.push(format!("{} has {} lines", shown(&path), lines.len()));
        }
        // A fuzz target or a guest may have an inner attribute before its first line of documentation.
        let first = lines.iter().find(|line| !line.starts_with("#![") && !line.is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            faults.push(format!("{} does not open with //!", shown(&path)));
        }
        faults.extend(
            long_functions(&lines).into_iter().map(|(at, size)| format!("{}:{at} a function of {size} lines", shown(&path))),
        );
    }
    fail_on(&faults);
}

/// Functions past the limit: the line they start at and their size. A function ends at a brace as far left as it began.
fn long_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut long = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let heads = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "async fn ",
            "pub async fn ",
            "pub(crate) async fn ",
            "const fn ",
        ];
        if !heads.iter().any(|head| code.starts_with(head)) || code.ends_with(';') || code.ends_with('}') {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(size) = lines.iter().skip(at).position(|line| *line == close).filter(|size| *size >= FUNCTION_LINES_MAX) {
            long.push((at + 1, size + 1));
        }
    }
    long
}

/// No unfinished work and no leftovers are in the tree, and nothing of the machine it was made on.
#[test]
fn no_banned_words() {
    let todo = concat!("to", "do!(");
    let banned = [
        todo,
        concat!("unimple", "mented!("),
        concat!("db", "g!("),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("/wo", "rk/"),
        concat!("../sha", "red"),
    ];
    let mut faults = Vec::new();
    for extension in ["rs", "toml", "md", "json", "wit", "py", "sh"] {
        for path in files(&["host", "guests", "tests", "catalogs", "wit"], extension) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            faults.extend(banned.iter().filter(|word| text.contains(**word)).map(|word| format!("{} has {word}", shown(&path))));
            if name(&path).starts_with(concat!("ut", "il")) {
                faults.push(format!("{} has a name that says nothing", shown(&path)));
            }
        }
    }
    fail_on(&faults);
}

/// DC-10: the visible top level is exactly what the house needs.
#[test]
fn top_level_is_exact() {
    let visible = entries(root()).into_iter().map(|path| name(&path).to_owned());
    let visible: Vec<String> = visible.filter(|name| !name.starts_with('.') && name != "target").collect();
    assert_eq!(visible, TOP_LEVEL);
}

/// Source text of the program without its tests, which stand at the end of a file or in `tests.rs`.
fn program(path: &Path) -> String {
    if name(path) == "tests.rs" || path.components().any(|part| part.as_os_str() == "tests") {
        return String::new();
    }
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

/// S1-72, invariant 8: no service name of any catalog occurs in the program.
#[test]
fn no_service_name_in_the_program() {
    let mut services = BTreeSet::new();
    for path in files(&["catalogs"], "json") {
        let text = fs::read_to_string(&path).unwrap();
        collect_services(&serde_json::from_str(&text).unwrap_or_default(), &mut services);
    }
    assert!(!services.is_empty(), "no catalog names a service");
    let mut faults = Vec::new();
    for path in files(&["host"], "rs") {
        let text = program(&path);
        faults.extend(
            services
                .iter()
                .filter(|s| s.contains('.') && text.contains(s.as_str()))
                .map(|s| format!("{} names {s}", shown(&path))),
        );
    }
    fail_on(&faults);
}

fn collect_services(value: &Value, services: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_services(item, services)),
        Value::Object(members) => {
            services.extend(members.get("service").and_then(Value::as_str).map(String::from));
            members.get("capabilities").into_iter().for_each(|items| collect_services(items, services));
        }
        _ => {}
    }
}

/// Names of all test functions, by the crate they stand in.
fn tests_by_crate() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files(&["host", "tests", "guests"], "rs") {
        let relative = shown(&path);
        let Some(krate) = relative.split('/').nth(1) else { continue };
        let text = fs::read_to_string(&path).unwrap();
        let names = text.lines().filter_map(|line| {
            let line = line.trim_start();
            let rest = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn "))?;
            rest.split(['(', '<']).next().map(String::from)
        });
        all.entry(krate.to_owned()).or_default().extend(names);
    }
    all
}

/// `tests/ACCEPTANCE.md` names only tests that exist, and proves no check twice over.
#[test]
fn acceptance_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("tests/ACCEPTANCE.md")).unwrap();
    let known = tests_by_crate();
    let mut faults = Vec::new();
    let mut checks = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("| S1-") || line.starts_with("| DC-") || line.starts_with("| U")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (check, tests, state) = (cells[1], cells[2], cells[3]);
        if !checks.insert(check.to_owned()) {
            faults.push(format!("{check} stands twice"));
        }
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if state.starts_with("proved") && named.is_empty() {
            faults.push(format!("{check} is proved by nothing"));
        }
        for test in named {
            let krate = test.split("::").next().unwrap_or_default();
            let function = test.rsplit("::").next().unwrap_or_default();
            if !known.get(krate).is_some_and(|functions| functions.contains(function)) {
                faults.push(format!("{check}: there is no test {test}"));
            }
        }
    }
    assert!(checks.len() > 100, "the table lists only {} checks", checks.len());
    fail_on(&faults);
}

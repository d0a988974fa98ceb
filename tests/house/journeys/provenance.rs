//! Where everything in the binary comes from: licences, registries, a single crypto library, guests as locked.
//!
//! Owns reading the lock files. It starts no broker and asks no network.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use house::node::root;
use serde_json::Value;

/// Licences that go with Apache-2.0. A crate that offers a choice needs one of them.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "CDLA-Permissive-2.0",
];

/// Libraries that must not come in by anybody's dependency: TLS is rustls with ring (DESIGN section 7).
const BANNED: &[&str] = &["aws-lc-sys", "aws-lc-rs", "openssl", "openssl-sys", "native-tls", "anyhow-std", "rumqttd"];

fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output =
        Command::new(cargo).current_dir(root()).args(["metadata", "--format-version", "1", "--locked"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Whether one alternative of an SPDX expression is made of known licences only.
fn is_known(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain.split(" OR ").any(|choice| choice.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

/// Every dependency has a licence that goes with ours and comes from the one registry, pinned by the lock file.
#[test]
fn dependencies_have_known_licences_and_sources() {
    let mut faults = Vec::new();
    for package in packages() {
        let name = format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_known(licence) {
            faults.push(format!("{name} has the licence {licence}"));
        }
        match package["source"].as_str() {
            None | Some("registry+https://github.com/rust-lang/crates.io-index") => {}
            Some(other) => faults.push(format!("{name} comes from {other}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// No second crypto library, and nothing else that is banned, is in the lock file.
#[test]
fn nothing_banned_is_locked() {
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let names: BTreeSet<&str> = lock["package"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    let found: Vec<&&str> = BANNED.iter().filter(|name| names.contains(**name)).collect();
    assert!(found.is_empty(), "{found:?}");
    // Two versions of these would mean two engines, two runtimes or two sets of JSON rules in one binary.
    for once in ["wasmtime", "tokio", "serde_json", "rusqlite", "rumqttc"] {
        let versions = lock["package"].as_array().unwrap().iter().filter(|p| p["name"].as_str() == Some(once)).count();
        assert_eq!(versions, 1, "{once} is locked {versions} times");
    }
}

/// Every `.wasm` in the tree is the one `guests/guests.lock` names, and every one it names is there.
#[test]
fn guests_are_the_locked_ones() {
    let lock = fs::read_to_string(root().join("guests/guests.lock")).unwrap();
    let mut locked = BTreeSet::new();
    for line in lock.lines().filter(|line| !line.starts_with('#') && !line.starts_with("toolchain")) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (hash, path) = (fields[2], fields[3]);
        let sum = Command::new("sha256sum").arg(root().join(path)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&sum.stdout).split_whitespace().next(), Some(hash), "{path}");
        locked.insert(path.to_owned());
    }
    let output = Command::new("find")
        .current_dir(root())
        .args(["guests", "catalogs", "tests", "host", "-name", "*.wasm"])
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let present: BTreeSet<String> = listed.lines().filter(|path| !path.contains("/target/")).map(String::from).collect();
    // The core module of the prompt guest, for the test that a host makes components by itself; it stands in no lock line.
    locked.insert("tests/house/guests/core.wasm".to_owned());
    assert_eq!(present, locked);
}

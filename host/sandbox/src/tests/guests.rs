//! Every guest of the repository is locked, whole and tested.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{body, repository, way};
use crate::cache::hex;

/// One line of `guests/guests.lock`.
pub(super) struct Locked {
    pub(super) name: String,
    source: String,
    wasm: String,
    pub(super) place: String,
}

/// The lock file, without its comment and toolchain.
pub(super) fn locked() -> Vec<Locked> {
    let text = fs::read_to_string(repository().join("guests/guests.lock")).expect("guests/guests.lock");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("toolchain "));
    lines
        .map(|line| match line.split(' ').collect::<Vec<_>>().as_slice() {
            [name, source, wasm, place] => {
                Locked { name: (*name).into(), source: (*source).into(), wasm: (*wasm).into(), place: (*place).into() }
            }
            _ => panic!("guests.lock: {line}"),
        })
        .collect()
}

/// The folders of guests, the SDK aside.
fn folders() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(repository().join("guests"))
        .expect("guests")
        .map(|entry| entry.expect("entry"))
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().into_string().expect("name"))
        .filter(|name| name != "sdk")
        .collect();
    names.sort();
    names
}

/// The committed components are the ones that were built from the committed sources.
#[test]
fn the_lock_file_holds() {
    let locked = locked();
    assert_eq!(folders(), locked.iter().map(|line| line.name.clone()).collect::<Vec<_>>(), "run guests/build");
    for line in locked {
        assert_eq!(source_hash(&line.name), line.source, "the sources of {} changed: run guests/build and commit", line.name);
        let wasm = fs::read(repository().join(&line.place)).expect("the component");
        assert_eq!(hex(&Sha256::digest(&wasm)), line.wasm, "{} is not the one that was built: run guests/build", line.place);
    }
}

/// The hash `guests/build` makes: of the lines `sha256sum` prints for every file, in the order of their paths.
fn source_hash(name: &str) -> String {
    let root = repository();
    let mut files = vec![PathBuf::from("guests/Cargo.toml"), PathBuf::from("guests/Cargo.lock")];
    for folder in [format!("guests/{name}"), "guests/sdk".into(), "wit".into()] {
        collect(&root, Path::new(&folder), &mut files);
    }
    let mut paths: Vec<String> = files.iter().map(|path| path.to_str().expect("path").to_owned()).collect();
    paths.sort();
    let lines: String = paths
        .iter()
        .map(|path| format!("{}  {path}\n", hex(&Sha256::digest(fs::read(root.join(path)).expect("file")))))
        .collect();
    hex(&Sha256::digest(lines))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).expect("folder") {
        let path = folder.join(entry.expect("entry").file_name());
        if root.join(&path).is_dir() {
            collect(root, &path, files);
        } else if path.extension().is_none_or(|extension| extension != "wasm") {
            files.push(path);
        }
    }
}

/// The tests' own text: a guest, or a way of `mischief`, that none of them names is not tested.
const TESTS: &[&str] =
    &[include_str!("endings.rs"), include_str!("isolation.rs"), include_str!("speaking.rs"), include_str!("fairness.rs")];

#[test]
fn every_guest_has_a_test() {
    for name in folders() {
        let named = TESTS.iter().any(|text| text.contains(&format!("BENCH.{name}")));
        assert!(named, "no test runs the guest {name}");
    }
}

#[test]
fn every_way_to_misbehave_has_a_test() {
    let ways: Vec<String> = serde_json::from_str(&body(way("ways", 0, "").end())).expect("JSON");
    assert!(ways.len() > 25, "{ways:?}");
    for word in ways.iter().filter(|word| *word != "ways") {
        let named = TESTS.iter().any(|text| text.contains(&format!("\"{word}\"")) || text.contains(&format!(r#""do":"{word}""#)));
        assert!(named, "no test uses the way {word}");
    }
}

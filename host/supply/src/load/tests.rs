//! Folders and what becomes of them, with an executor that only counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use futures::FutureExt;
use job::BoxFuture;
use job::executor::{Ran, Work};

use catalog::Entry;
use job::executor::{Guest, GuestSource, PrepareError};

use super::*;
use crate::config::Config;

/// Takes every guest but those that say they are broken, and remembers what it prepared.
#[derive(Default)]
struct Counting(Mutex<Vec<String>>);

struct Named(Arc<str>);

impl Guest for Named {
    fn hash(&self) -> Arc<str> {
        self.0.clone()
    }

    fn run(&self, _: Work, _: Arc<dyn job::executor::Host>) -> BoxFuture<'static, Ran> {
        futures::future::pending().boxed()
    }
}

impl Executor for Counting {
    fn prepare(&self, source: GuestSource) -> BoxFuture<'static, Result<Arc<dyn Guest>, PrepareError>> {
        let text = String::from_utf8_lossy(&source.bytes).into_owned();
        self.0.lock().expect("unpoisoned").push(text.clone());
        let prepared: Result<Arc<dyn Guest>, PrepareError> = match text.as_str() {
            "broken" => Err(PrepareError { what: format!("the guest {} is broken", source.name), mend: "build it again".into() }),
            _ => Ok(Arc::new(Named(text.into()))),
        };
        futures::future::ready(prepared).boxed()
    }
}

fn builtins() -> Vec<Builtin> {
    vec![Builtin { name: "prompt", bytes: b"built in".as_slice().into() }]
}

fn agent_at(folder: &Path) -> Config {
    Config::for_catalog(folder.to_owned(), Vec::new()).expect("fine")
}

fn load(folder: &Path, executor: &Counting) -> Result<Snapshot, LoadError> {
    let config = agent_at(folder);
    load_agent(&config.agents[0], &config.limits, &builtins(), executor).now_or_never().expect("ready at once")
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

fn entry(service: &str, more: &str) -> String {
    format!(r#"{{"service":"{service}","prompt":"x"{more}}}"#)
}

/// DC-01, G1-56: entries, their guests and the built-in one become a snapshot in name order; equal bytes are prepared once.
#[test]
fn a_folder_becomes_a_snapshot() {
    let files = [
        ("b.json", entry("z.last", r#","executor":"one.wasm""#)),
        ("a.json", format!("[{},{}]", entry("a.first", ""), entry("m.mid", r#","executor":"two.wasm""#))),
        ("one.wasm", "same".to_owned()),
        ("two.wasm", "same".to_owned()),
        ("three.wasm", "never named, never read".to_owned()),
    ];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let executor = Counting::default();
    let snapshot = load(folder.path(), &executor).expect("loads");
    assert_eq!(snapshot.faults, []);
    let offers: Vec<String> = snapshot.offers().map(|offer| offer.service.to_string()).collect();
    assert_eq!(offers, ["a.first", "m.mid", "z.last"]);
    let guest = |service: &str| snapshot.get(service).expect("there").guest.hash().to_string();
    assert_eq!((guest("a.first"), guest("m.mid"), guest("z.last")), ("built in".into(), "same".into(), "same".into()));
    let mut prepared = executor.0.lock().expect("unpoisoned").clone();
    prepared.sort();
    assert_eq!(prepared, ["built in", "same"]);
}

/// G1-55: bad files, bad entries and guests that fail to prepare are faults of their own; the others live.
#[test]
fn one_bad_entry_spoils_no_other() {
    let files = [
        ("a.json", entry("good", "")),
        ("b.json", "{".to_owned()),
        (
            "c.json",
            format!("[{},{}]", entry("broken.guest", r#","executor":"broken.wasm""#), entry("fine", r#","executor":"ok.wasm""#)),
        ),
        ("d.json", entry("absent.guest", r#","executor":"absent.wasm""#)),
        ("e.json", entry("good", "")),
        ("broken.wasm", "broken".to_owned()),
        ("ok.wasm", "ok".to_owned()),
    ];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    fs::create_dir(folder.path().join("f.json")).expect("made");
    let snapshot = load(folder.path(), &Counting::default()).expect("loads");
    assert_eq!(snapshot.entries.keys().map(|service| &**service).collect::<Vec<_>>(), ["fine", "good"]);
    let mut faults: Vec<String> =
        snapshot.faults.iter().map(|fault| fault.to_string().replace(&folder.path().display().to_string(), "F")).collect();
    faults.sort();
    assert_eq!(
        faults,
        [
            "F/b.json:1:1: the file ends in the middle of an object; mend the JSON",
            "F/c.json:1:52: broken.guest: executor: the guest F/broken.wasm is broken; build it again",
            "F/d.json:1:51: absent.guest: executor: there is no absent.wasm in the catalog folder; put it into F",
            "F/e.json:1:1: good: the service stands at F/a.json:1:1 already, and that one stays; rename one of them or take it out",
            "F/f.json: f.json is no file; put a file of this name into the catalog folder",
        ]
    );
}

/// DC-06b: a guest behind a link that leads out is that entry's error, whatever the entry calls it.
#[test]
fn outward_links_are_the_entrys_error() {
    let top = tempfile::tempdir().expect("a folder");
    fs::write(top.path().join("out.wasm"), "outside").expect("written");
    let inner = top.path().join("agent");
    fs::create_dir(&inner).expect("made");
    std::os::unix::fs::symlink("../out.wasm", inner.join("in.wasm")).expect("linked");
    fs::write(inner.join("a.json"), entry("a", r#","executor":"in.wasm""#)).expect("written");
    let snapshot = load(&inner, &Counting::default()).expect("loads");
    assert!(snapshot.entries.is_empty());
    assert!(snapshot.faults[0].what.contains("in.wasm leads out of the catalog folder"), "{}", snapshot.faults[0]);
}

/// A folder that is missing or holds nothing ends with a sentence.
#[test]
fn empty_and_missing_folders_say_so() {
    let empty = folder(&[("notes.txt", "x"), (".a.json", "{}")]);
    let error = load(empty.path(), &Counting::default()).expect_err("empty");
    assert!(error.to_string().contains("holds no capability; put a file such as"), "{error}");
    let error = load(&empty.path().join("nope"), &Counting::default()).expect_err("missing");
    assert!(error.to_string().contains("cannot be opened: no such file or directory; make the folder"), "{error}");
}

/// G1-56: a default executor may be a `.wasm` of the folder; when it cannot be read, every entry that needs it says why.
#[test]
fn the_default_executor_may_be_a_file() {
    let folder = folder(&[("a.json", &entry("a", "")), ("mine.wasm", "mine")]);
    let toml = |guest: &str| {
        let text = format!(
            "[[agent]]\nid = \"a\"\ncatalog = \"{}\"\n[agent.default_executor]\nguest = \"{guest}\"",
            folder.path().display()
        );
        let inputs = crate::Inputs { file: Some(("amp-node.toml".into(), text)), ..Default::default() };
        let config = Config::resolve(&inputs).expect("fine");
        let loading = load_agent(&config.agents[0], &config.limits, &builtins(), &Counting::default()).now_or_never();
        loading.expect("ready at once").expect("loads")
    };
    let snapshot = toml("mine.wasm");
    assert_eq!(&*snapshot.get("a").expect("there").guest.hash(), "mine");
    let snapshot = toml("other.wasm");
    assert!(snapshot.entries.is_empty());
    let fault = &snapshot.faults[0];
    assert!(fault.what.starts_with("the agent's default executor: there is no other.wasm"), "{fault}");
}

fn catalogs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalogs")
}

fn folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(catalogs()).expect("listed").map(|entry| entry.expect("read").path()).collect();
    found.retain(|path| path.is_dir() && !path.ends_with("bad"));
    found.sort();
    found
}

/// S1-71: every catalog we ship loads without a fault.
#[test]
fn every_shipped_catalog_loads() {
    assert!(!folders().is_empty());
    for folder in folders() {
        let checked = load(&folder, &Counting::default()).expect("loads");
        assert_eq!(checked.faults, [], "{}", folder.display());
    }
}

/// U19, G1-9, G1-54 to G1-57, DC-06b: every entry in `catalogs/bad` is refused with the message that stands beside it.
#[test]
fn every_bad_entry_is_refused_with_its_message() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(catalogs().join("bad")).expect("listed").map(|entry| entry.expect("read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    assert!(files.len() > 30, "{}", files.len());
    let mut wrong = Vec::new();
    for file in files {
        // Each alone in a folder, so that nothing of one shows in another.
        let alone = tempfile::tempdir().expect("a folder");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        fs::copy(&file, alone.path().join(&name)).expect("copied");
        let checked = load(alone.path(), &Counting::default()).expect("reads");
        let refused = |entry: &Entry| entry.service.starts_with("bad.") && !name.starts_with("twice");
        assert!(!checked.entries.values().any(|capability| refused(&capability.entry)), "{name} was taken");
        let folder = format!("{}/", alone.path().display());
        let found: String = checked
            .faults
            .iter()
            .map(|fault| format!("{fault}\n").replace(&folder, "").replace(folder.trim_end_matches('/'), "its folder"))
            .collect();
        let expected = fs::read_to_string(file.with_extension("error.txt")).unwrap_or_default();
        if found != expected {
            wrong.push(format!("--- {name}, expected:\n{expected}--- found:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

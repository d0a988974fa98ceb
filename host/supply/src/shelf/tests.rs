//! A folder that changes under a shelf, with an executor that only counts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use job::BoxFuture;
use job::executor::{Host, Ran, Work};

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

    fn run(&self, _: Work, _: Arc<dyn Host>) -> BoxFuture<'static, Ran> {
        futures::future::pending().boxed()
    }
}

impl Executor for Counting {
    fn prepare(&self, source: GuestSource) -> BoxFuture<'static, Result<Arc<dyn Guest>, PrepareError>> {
        let text = String::from_utf8_lossy(&source.bytes).into_owned();
        self.0.lock().expect("unpoisoned").push(text.clone());
        let prepared: Result<Arc<dyn Guest>, PrepareError> = match text.starts_with("broken") {
            true => Err(PrepareError { what: "it is broken".into(), mend: "build it again".into() }),
            false => Ok(Arc::new(Named(text.into()))),
        };
        futures::future::ready(prepared).boxed()
    }
}

struct Rig {
    folder: tempfile::TempDir,
    shelf: Shelf,
    executor: Counting,
}

impl Rig {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config::for_catalog(folder.path().to_owned(), Vec::new()).expect("fine");
        let builtins = [Builtin { name: "prompt", bytes: b"built in".as_slice().into() }];
        let shelf = Shelf::new(&config.agents[0], &config.limits, &builtins);
        let mut rig = Self { folder, shelf, executor: Counting::default() };
        files.iter().for_each(|(name, text)| rig.write(name, text));
        rig.look();
        rig
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// Looks, and says what changed, with the folder's name and hashes of entries taken out.
    fn look(&mut self) -> Vec<String> {
        let changes = match self.shelf.gather() {
            Ok(gathered) => self.shelf.settle(gathered, &self.executor).now_or_never().expect("ready at once"),
            Err(error) => self.shelf.unreadable(&error),
        };
        let folder = self.folder.path().display().to_string();
        changes.iter().map(|change| plain(&change.to_string().replace(&folder, "F"))).collect()
    }

    fn live(&self) -> String {
        let shown = |(service, capability): (&Arc<str>, &Arc<Capability>)| format!("{service}={}", capability.guest.hash());
        self.shelf.live().entries.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    fn prepared(&self) -> Vec<String> {
        std::mem::take(&mut *self.executor.0.lock().expect("unpoisoned"))
    }
}

/// Hashes of entries are twelve hexadecimal digits; what they are is not the point here.
fn plain(line: &str) -> String {
    let is_hash = |word: &str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let word = |word: &str| match word.trim_end_matches(',') {
        bare if is_hash(bare) => word.replace(bare, "#"),
        _ => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn entry(service: &str, prompt: &str, executor: &str) -> String {
    format!(r#"{{"service":"{service}","prompt":"{prompt}","executor":"{executor}"}}"#)
}

/// DC-07, G1-55: each change is one line of what, old and new; a look that finds nothing says nothing and prepares nothing.
#[test]
fn changes_are_told_once() {
    let mut rig = Rig::new(&[("a.json", &entry("a", "1", "one.wasm")), ("one.wasm", "one")]);
    assert_eq!((rig.live().as_str(), rig.prepared()), ("a=one", vec!["one".to_owned()]));
    assert_eq!(rig.look(), [""; 0]);
    rig.write("a.json", &entry("a", "2", "one.wasm"));
    assert_eq!(rig.look(), ["a changed, entry # -> #"]);
    rig.write("one.wasm", "uno");
    assert_eq!(rig.look(), ["a changed, guest one -> uno"]);
    assert_eq!((rig.live().as_str(), rig.prepared()), ("a=uno", vec!["uno".to_owned()]));
    rig.write("b.json", &entry("b", "1", "one.wasm"));
    assert_eq!(rig.look(), ["b added, entry # guest uno"]);
    fs::remove_file(rig.path("a.json")).expect("removed");
    assert_eq!(rig.look(), ["a removed, was entry # guest uno"]);
    assert_eq!((rig.look(), rig.prepared()), (vec![], vec![]), "nothing is prepared twice");
}

/// G1-55: a guest that fails to compile, or is gone, is a bad entry: the last good version stays, guest and all, and says so once.
#[test]
fn a_bad_guest_keeps_the_last_good_version() {
    let mut rig = Rig::new(&[("a.json", &entry("a", "1", "one.wasm")), ("one.wasm", "one")]);
    rig.write("one.wasm", "broken");
    assert_eq!(rig.look(), ["rejected, keeping entry # guest one: F/a.json:1:40: a: executor: it is broken; build it again"]);
    assert_eq!((rig.live().as_str(), rig.look()), ("a=one", vec![]));
    // The entry changes as well: still no version of it is good.
    rig.write("a.json", &entry("a", "22", "one.wasm"));
    assert_eq!(rig.look().len(), 1);
    assert_eq!(rig.live(), "a=one");
    fs::remove_file(rig.path("one.wasm")).expect("removed");
    let told = rig.look();
    assert!(
        told[0].contains("there is no one.wasm in the catalog folder") && told[0].starts_with("rejected, keeping entry"),
        "{told:?}"
    );
    rig.write("one.wasm", "new");
    assert_eq!(rig.look(), ["a changed, entry # -> #, guest one -> new"]);
    rig.write("one.wasm", "broken");
    assert_eq!(rig.look().len(), 1);
    rig.write("one.wasm", "new");
    assert_eq!(rig.look(), ["fine again: F/a.json:1:41"], "back at what was live");
}

/// G1-55, U28: half a file, no JSON, a bad entry: what is told and what stays.
#[test]
fn bad_files_keep_what_was_good() {
    let mut rig = Rig::new(&[("a.json", &entry("a", "1", "one.wasm")), ("one.wasm", "one")]);
    rig.write("a.json", &entry("a", "2", "one.wasm")[..20]);
    let told = rig.look();
    assert!(told[0].starts_with("rejected, keeping its last good entry: F/a.json:1:"), "{told:?}");
    assert_eq!((rig.live().as_str(), told.len()), ("a=one", 1));
    rig.write("a.json", r#"{"service":"a","prompt":"x","executor":"one.wasm","fuel":1}"#);
    let told = rig.look();
    assert!(told[0].starts_with("rejected, keeping entry # guest one: F/a.json:1:51: a:"), "{told:?}");
    rig.write("n.json", r#"{"service":"n"}"#);
    let told = rig.look();
    assert!(told[0].starts_with("rejected, left out: F/n.json:1:1: n: prompt"), "{told:?}");
    assert_eq!(rig.shelf.live().faults.len(), 2);
}

/// U28: the folder itself goes and comes back, or is another one: what was live stays meanwhile.
#[test]
fn the_folder_may_be_replaced() {
    let mut rig = Rig::new(&[("a.json", &entry("a", "1", "one.wasm")), ("one.wasm", "one")]);
    let (path, aside) = (rig.folder.path().to_owned(), rig.folder.path().with_extension("aside"));
    fs::rename(&path, &aside).expect("moved");
    let told = rig.look();
    assert!(told[0].starts_with("rejected, keeping its last good entry: F: the catalog folder F cannot be opened"), "{told:?}");
    assert_eq!((rig.live().as_str(), rig.look()), ("a=one", vec![]));
    fs::create_dir(&path).expect("made");
    rig.write("b.json", &entry("b", "1", "two.wasm"));
    rig.write("two.wasm", "two");
    rig.look();
    assert_eq!(rig.live(), "b=two");
    fs::remove_dir_all(&aside).expect("removed");
}

/// DC-06b, U28: the swap of a mounted configuration map is seen, and a link that leads out later is that entry's error.
#[test]
fn swapped_links_are_followed_within_the_folder() {
    let rig = Rig::new(&[]);
    for (version, guest) in [("..v1", "one"), ("..v2", "two")] {
        fs::create_dir(rig.path(version)).expect("made");
        fs::write(rig.path(version).join("a.json"), entry("a", guest, "a.wasm")).expect("written");
        fs::write(rig.path(version).join("a.wasm"), guest).expect("written");
    }
    let mut rig = rig;
    symlink("..v1", rig.path("..data")).expect("linked");
    symlink("..data/a.json", rig.path("a.json")).expect("linked");
    symlink("..data/a.wasm", rig.path("a.wasm")).expect("linked");
    rig.look();
    assert_eq!(rig.live(), "a=one");
    symlink("..v2", rig.path("..next")).expect("linked");
    fs::rename(rig.path("..next"), rig.path("..data")).expect("swapped");
    assert_eq!(rig.look(), ["a changed, entry # -> #, guest one -> two"]);
    let out = tempfile::tempdir().expect("a folder");
    fs::write(out.path().join("a.wasm"), "outside").expect("written");
    fs::remove_file(rig.path("a.wasm")).expect("removed");
    symlink(out.path().join("a.wasm"), rig.path("a.wasm")).expect("linked");
    let told = rig.look();
    assert!(told[0].contains("a.wasm leads out of the catalog folder") && told.len() == 1, "{told:?}");
    assert_eq!(rig.live(), "a=two");
}

/// Sets the times of a file back, as tools that unpack do.
fn set_back(path: &Path, age: Duration) {
    let then = SystemTime::now() - age;
    fs::File::options().write(true).open(path).expect("opened").set_modified(then).expect("set");
}

/// Contents decide, not times: the same length and the same time of writing hide nothing.
#[test]
fn times_hide_no_change() {
    let mut rig = Rig::new(&[("a.json", &entry("a", "1", "one.wasm")), ("one.wasm", "one")]);
    let age = Duration::from_secs(100);
    let then = SystemTime::now() - age;
    let stamp = |path: &Path| fs::File::options().write(true).open(path).expect("opened").set_modified(then).expect("set");
    set_back(&rig.path("a.json"), age);
    stamp(&rig.path("a.json"));
    assert_eq!(rig.look(), [""; 0]);
    rig.write("a.json", &entry("a", "2", "one.wasm"));
    stamp(&rig.path("a.json"));
    assert_eq!(rig.look(), ["a changed, entry # -> #"]);
    rig.write("a.json", &entry("a", "2", "one.wasm"));
    assert_eq!(rig.look(), [""; 0], "written again, the same");
}

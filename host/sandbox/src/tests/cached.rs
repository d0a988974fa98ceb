//! Compiled code: kept, found again, and never trusted when something is wrong with it.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use job::executor::{Executor, Guest};

use super::{BENCH, body, guest_source, order, settings};
use crate::Sandbox;

/// A sandbox that has just started on this folder.
fn started(folder: &Path) -> Sandbox {
    let mut settings = settings(folder);
    settings.max_live = 2;
    Sandbox::new(&settings).expect("sandbox")
}

fn ready(sandbox: &Sandbox) -> Arc<dyn Guest> {
    BENCH.runtime.block_on(sandbox.prepare(guest_source("prompt"))).expect("ready")
}

/// The one file of the cache.
fn file_in(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// When it was written: a compiler writes the file anew, a hit only touches it. The inode tells them apart.
fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).expect("there").ino()
}

fn works(guest: &Arc<dyn Guest>) {
    let mut order = order("{}");
    order.prompt = "hello".into();
    assert_eq!(body(order.run(guest).end), r#"{"prompt":"hello"}"#);
}

/// The same bytes are prepared once: in this process the same guest, in the next from the file.
#[test]
fn compiled_code_is_found_again() {
    let home = tempfile::tempdir().expect("temporary folder");
    let folder = home.path().join("compiled");
    let sandbox = started(&folder);
    let first = ready(&sandbox);
    let written = inode(&file_in(&folder));
    assert!(Arc::ptr_eq(&first, &ready(&sandbox)), "known already");
    assert_eq!(file_in(&folder).metadata().expect("there").permissions().mode() & 0o777, 0o600);
    drop(sandbox);
    // A hit is a use: the file counts as new again.
    File::open(file_in(&folder)).expect("open").set_modified(SystemTime::UNIX_EPOCH).expect("aged");
    let again = ready(&started(&folder));
    assert_eq!(inode(&file_in(&folder)), written, "compiled again");
    assert!(file_in(&folder).metadata().expect("there").modified().expect("time") > SystemTime::UNIX_EPOCH);
    assert_eq!(again.hash(), first.hash());
    works(&again);
    works(&first);
}

/// Whatever is wrong with a file, it is a miss: the guest is compiled again and works.
#[test]
fn a_damaged_file_is_a_miss() {
    let home = tempfile::tempdir().expect("temporary folder");
    let folder = home.path().join("compiled");
    drop(ready(&started(&folder)));
    let path = file_in(&folder);
    let whole = fs::read(&path).expect("read");
    let flip = |at: usize| {
        let mut file = OpenOptions::new().write(true).open(&path).expect("open");
        file.seek(SeekFrom::Start(at as u64)).expect("seek");
        file.write_all(&[!whole[at]]).expect("write");
    };
    type Damage<'a> = Box<dyn Fn() + 'a>;
    let damages: Vec<(&str, Damage<'_>)> = vec![
        ("empty", Box::new(|| fs::write(&path, b"").expect("write"))),
        ("short", Box::new(|| fs::write(&path, &whole[..whole.len() / 2]).expect("write"))),
        ("other content", Box::new(|| fs::write(&path, vec![7; 100_000]).expect("write"))),
        ("first byte", Box::new(|| flip(0))),
        ("a byte of the code", Box::new(|| flip(whole.len() / 2))),
        ("last byte", Box::new(|| flip(whole.len() - 1))),
        ("open to others", Box::new(|| fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("chmod"))),
        ("a folder", Box::new(|| fs::remove_file(&path).and_then(|()| fs::create_dir(&path)).expect("folder"))),
    ];
    for (what, damage) in damages {
        damage();
        let guest = ready(&started(&folder));
        works(&guest);
        if what == "a folder" {
            // Nothing can be written there, and the guest works all the same.
            fs::remove_dir(&path).expect("removed");
            continue;
        }
        assert_eq!(fs::read(&path).expect("read"), whole, "after {what}");
    }
}

/// Two callers with the same new bytes get one compilation and one guest.
#[test]
fn the_same_bytes_are_compiled_once() {
    let home = tempfile::tempdir().expect("temporary folder");
    let sandbox = started(&home.path().join("compiled"));
    let both = async { tokio::join!(sandbox.prepare(guest_source("prompt")), sandbox.prepare(guest_source("prompt"))) };
    let (one, other) = BENCH.runtime.block_on(both);
    assert!(Arc::ptr_eq(&one.expect("ready"), &other.expect("ready")));
}

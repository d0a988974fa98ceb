//! A catalog folder, and nothing outside of it (DC-06b).
//!
//! Owns the listing of catalog files and the reading of them and of the `.wasm` they name, all through one handle of the
//! folder: no path, absolute name or symlink leads out. It must not know what a file says.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt};

/// Most catalog files of a folder.
pub const FILES_MAX: usize = 20_000;
/// Largest `.wasm`, in bytes.
pub const WASM_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long ago a file must have changed before its stamp is believed, in nanoseconds: within one tick of a coarse file clock two
/// writes may leave the same times.
const STAMP_AGE_NS: i128 = 2_000_000_000;

/// Which file it was and when it was written: while it is the same, so are the bytes. Times alone would not do, since tools set
/// them back; nobody can set the time of the last change of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Stamp {
    /// The stamp of a file, unless it has changed so lately that a later write may leave the same one.
    fn of(metadata: &Metadata) -> Option<Self> {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let stamp = Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| i128::try_from(now.as_nanos()).ok())?;
        (now - stamp.changed_ns > STAMP_AGE_NS).then_some(stamp)
    }
}

/// A file as it was read: its bytes, none when its stamp is the one known already.
pub struct Fresh {
    /// The bytes, none when they are as before.
    pub bytes: Option<Arc<[u8]>>,
    /// The stamp to know it by; none when it changed too lately to be known by one.
    pub stamp: Option<Stamp>,
}

/// Why a folder or a file in it cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct FolderError {
    /// What is wrong, one sentence without a full stop.
    pub what: String,
    /// What to do about it, one sentence without a full stop.
    pub mend: String,
}

impl FolderError {
    fn new(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), mend: mend.into() }
    }
}

/// An open catalog folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    dir: Dir,
}

impl Folder {
    /// Opens a folder.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(|error| {
            let mend = match error.kind() {
                io::ErrorKind::NotFound => "make the folder, or name another one",
                io::ErrorKind::NotADirectory => "name the folder the file lies in",
                io::ErrorKind::PermissionDenied => "let this user read it",
                _ => "see whether the folder can be read",
            };
            FolderError::new(format!("the catalog folder {} cannot be opened: {}", path.display(), plain(&error)), mend)
        })?;
        Ok(Self { path: path.to_owned(), dir })
    }

    /// Where the folder is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How a file of the folder is named to people.
    pub fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// The names of its catalog files, `*.json` without the ones that begin with a dot, sorted.
    pub fn catalog_files(&self) -> Result<Vec<String>, FolderError> {
        let unreadable = |error: io::Error| {
            let what = format!("the catalog folder {} cannot be listed: {}", self.path.display(), plain(&error));
            FolderError::new(what, "let this user read it")
        };
        let mut names = Vec::new();
        for entry in self.dir.entries().map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".json") || name.starts_with('.') {
                continue;
            }
            if names.len() == FILES_MAX {
                let what = format!("the catalog folder {} holds more than {FILES_MAX} files", self.path.display());
                return Err(FolderError::new(what, "put several entries into one file"));
            }
            names.push(name);
        }
        names.sort();
        Ok(names)
    }

    /// Which folder it is, wherever its path leads later.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.dir.dir_metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Reads a file of the folder of at most `max` bytes.
    pub fn read(&self, name: &str, max: u64) -> Result<Arc<[u8]>, FolderError> {
        Ok(self.reread(name, max, None)?.bytes.unwrap_or_default())
    }

    /// Reads a file of at most `max` bytes, unless it is the one that is known by this stamp.
    pub fn reread(&self, name: &str, max: u64, known: Option<&Stamp>) -> Result<Fresh, FolderError> {
        let fail = |error: io::Error| self.unreadable(name, &error);
        // A pipe would make us wait for its writer, so the kind is looked at before the file is opened.
        let metadata = self.dir.metadata(name).map_err(fail)?;
        if !metadata.is_file() {
            return Err(FolderError::new(format!("{name} is no file"), "put a file of this name into the catalog folder"));
        }
        let stamp = Stamp::of(&metadata);
        if stamp.is_some() && stamp.as_ref() == known {
            return Ok(Fresh { bytes: None, stamp });
        }
        let mut bytes = Vec::new();
        let file = self.dir.open(name).map_err(fail)?;
        file.take(max + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > max {
            return Err(FolderError::new(format!("{name} is larger than the limit of {max} bytes"), "make it smaller"));
        }
        Ok(Fresh { bytes: Some(bytes.into()), stamp })
    }

    fn unreadable(&self, name: &str, error: &io::Error) -> FolderError {
        match error.kind() {
            io::ErrorKind::NotFound => FolderError::new(
                format!("there is no {name} in the catalog folder"),
                format!("put it into {}", self.path.display()),
            ),
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                FolderError::new(format!("{name} leads out of the catalog folder"), "put the file itself into the folder")
            }
            _ => FolderError::new(format!("{name} cannot be read: {}", plain(error)), "let this user read it"),
        }
    }
}

/// The system's words without its numbers.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// DC-06b: nothing outside of the folder is read, whatever the name or the link says; links that stay inside work.
    #[test]
    fn nothing_leads_out_of_the_folder() {
        let top = tempfile::tempdir().expect("a folder");
        let path = top.path().join("agent");
        fs::create_dir_all(path.join("sub")).expect("made");
        fs::write(top.path().join("out.wasm"), "outside").expect("written");
        fs::write(path.join("in.wasm"), "inside").expect("written");
        symlink("../out.wasm", path.join("up.wasm")).expect("linked");
        symlink(top.path().join("out.wasm"), path.join("abs.wasm")).expect("linked");
        symlink("..", path.join("parent")).expect("linked");
        symlink("in.wasm", path.join("same.wasm")).expect("linked");
        symlink("loop.wasm", path.join("loop.wasm")).expect("linked");
        let folder = Folder::open(&path).expect("opened");
        for outward in ["../out.wasm", "up.wasm", "abs.wasm", "parent/out.wasm", "sub/../../out.wasm"] {
            let error = folder.read(outward, 100).expect_err(outward);
            assert!(error.what.contains("leads out of the catalog folder"), "{outward}: {error}");
        }
        let absolute = top.path().join("out.wasm").display().to_string();
        assert!(folder.read(&absolute, 100).is_err(), "absolute");
        assert!(folder.read("loop.wasm", 100).is_err(), "loop");
        assert_eq!(&*folder.read("in.wasm", 100).expect("read"), b"inside");
        assert_eq!(&*folder.read("same.wasm", 100).expect("read"), b"inside");
    }

    /// DC-06b: the way mounted configuration maps swap their content stays inside and works, through one handle.
    #[test]
    fn a_swapped_data_link_works() {
        let top = tempfile::tempdir().expect("a folder");
        for (version, text) in [("..v1", "one"), ("..v2", "two")] {
            fs::create_dir(top.path().join(version)).expect("made");
            fs::write(top.path().join(version).join("a.json"), text).expect("written");
        }
        symlink("..v1", top.path().join("..data")).expect("linked");
        symlink("..data/a.json", top.path().join("a.json")).expect("linked");
        let folder = Folder::open(top.path()).expect("opened");
        assert_eq!(folder.catalog_files().expect("listed"), ["a.json"]);
        assert_eq!(&*folder.read("a.json", 100).expect("read"), b"one");
        symlink("..v2", top.path().join("..next")).expect("linked");
        fs::rename(top.path().join("..next"), top.path().join("..data")).expect("swapped");
        assert_eq!(&*folder.read("a.json", 100).expect("read"), b"two");
    }

    /// Only `*.json` counts, dotfiles do not, the order is by name; what is no file, too large or missing says so.
    #[test]
    fn files_are_listed_and_bounded() {
        let top = tempfile::tempdir().expect("a folder");
        for name in ["b.json", "a.json", ".hidden.json", "c.txt", "d.json.swp"] {
            fs::write(top.path().join(name), "123456").expect("written");
        }
        fs::create_dir(top.path().join("z.json")).expect("made");
        let folder = Folder::open(top.path()).expect("opened");
        assert_eq!(folder.catalog_files().expect("listed"), ["a.json", "b.json", "z.json"]);
        assert_eq!(folder.read("a.json", 6).expect("read").len(), 6);
        assert!(folder.read("a.json", 5).expect_err("too large").what.contains("limit of 5 bytes"));
        assert!(folder.read("z.json", 5).expect_err("a folder").what.contains("is no file"));
        assert!(folder.read("n.json", 5).expect_err("missing").what.contains("there is no n.json"));
        let missing = Folder::open(&top.path().join("nope")).expect_err("missing");
        assert!(missing.what.contains("cannot be opened: no such file"), "{missing}");
        assert!(Folder::open(&top.path().join("a.json")).is_err(), "a file is no folder");
    }
}

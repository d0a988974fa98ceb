//! The folder of compiled code: private to this user, keyed by content and compiler, never trusted further than that.
//!
//! Owns the folder's checks, the file layout (code, then the SHA-256 of it), and the bound on its size. Whatever goes wrong
//! with a file is a miss, because its guest can be compiled again. It must not know what a guest is good for.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compiled;

/// The version whose code is in the cache. wasmtime itself compares only the major number; a test holds this to `Cargo.lock`.
const WASMTIME_VERSION: &str = "48.0.8";
/// Most compiled code that is kept, in bytes; the files that were unused for longest go first.
const CACHE_BYTES_MAX: u64 = 2 << 30;
/// Bytes of the digest at the end of a file.
const DIGEST_BYTES: u64 = 32;
/// How much of a file is read at a time, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Rights that nobody but the owner may have on the folder.
const FOREIGN_RIGHTS: u32 = 0o077;
/// Rights that nobody but the owner may have on a file.
const FOREIGN_WRITES: u32 = 0o022;

/// Why the folder of compiled code cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be made or opened.
    #[error("the folder of compiled code, {path}, cannot be opened: {why}")]
    Closed {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// It belongs to somebody else.
    #[error("the folder of compiled code, {path}, belongs to user {owner} and not to user {us}, who runs this: delete it")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this.
        us: u32,
    },
    /// Others may write to it, so its code might not be ours.
    #[error("the folder of compiled code, {path}, has mode {mode:04o} and must be private (0700): delete it, it is made anew")]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// The name of a guest's compiled code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The key of these bytes, compiled by this engine.
    pub(crate) fn new(engine: &Engine, content: &[u8; 32]) -> Self {
        let mut settings = StableHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut settings);
        let settings: [u8; 32] = settings.0.finalize().into();
        Self(format!("{}-{WASMTIME_VERSION}-{}.cwasm", hex(content), hex(&settings[..8])))
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The standard library's hasher may change with the toolchain; this one does not.
struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        digest[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// The open folder.
pub(crate) struct Cache {
    dir: Dir,
    us: u32,
    bytes_max: u64,
    temporaries: AtomicU64,
}

impl Cache {
    /// Opens the folder, making it if there is none, and checks that it is ours alone.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        let closed = |why| CacheError::Closed { path: path.to_owned(), why };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(closed)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(closed(error)),
            _ => {}
        }
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(closed)?;
        let about = dir.dir_metadata().map_err(closed)?;
        let us = rustix::process::geteuid().as_raw();
        if about.uid() != us {
            return Err(CacheError::Foreign { path: path.to_owned(), owner: about.uid(), us });
        }
        if about.mode() & FOREIGN_RIGHTS != 0 {
            return Err(CacheError::Open { path: path.to_owned(), mode: about.mode() & 0o7777 });
        }
        Ok(Self { dir, us, bytes_max: CACHE_BYTES_MAX, temporaries: AtomicU64::new(0) })
    }

    /// The compiled code, if there is any and it is whole.
    pub(crate) fn load(&self, engine: &Engine, key: &Key) -> Option<Component> {
        let file = match self.dir.open(&key.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return missed(key, &error),
        };
        match self.check(&file) {
            Ok(true) => {}
            Ok(false) => return missed(key, &"it is damaged or not ours"),
            Err(error) => return missed(key, &error),
        }
        match compiled::map(engine, &file) {
            Ok(component) => {
                // The newest use decides what is kept. A file system that keeps no times loses only that.
                let _ = file.into_std().set_modified(SystemTime::now());
                Some(component)
            }
            Err(error) => missed(key, &format!("{error:#}")),
        }
    }

    /// Whether the file is ours and ends with the digest of the rest.
    fn check(&self, file: &File) -> io::Result<bool> {
        let about = file.metadata()?;
        let ours = about.is_file() && about.uid() == self.us && about.mode() & FOREIGN_WRITES == 0;
        let Some(code_bytes) = about.len().checked_sub(DIGEST_BYTES).filter(|_| ours) else {
            return Ok(false);
        };
        let mut digest = Sha256::new();
        let mut code = file.take(code_bytes);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match code.read(&mut chunk)? {
                0 => break,
                read => digest.update(&chunk[..read]),
            }
        }
        let mut written = [0; DIGEST_BYTES as usize];
        let mut file = file;
        file.read_exact(&mut written)?;
        Ok(written == <[u8; 32]>::from(digest.finalize()))
    }

    /// Keeps compiled code: a temporary file, flushed to the disk, then renamed, so that a reader sees all of it or none.
    pub(crate) fn save(&self, key: &Key, code: &[u8]) -> io::Result<()> {
        let temporary = format!(".tmp-{}-{}", std::process::id(), self.temporaries.fetch_add(1, Ordering::Relaxed));
        let written = self.write(&temporary, code).and_then(|()| self.dir.rename(&temporary, &self.dir, &key.0));
        if written.is_err() {
            // What cannot be removed now is removed when the folder grows too large.
            let _ = self.dir.remove_file(&temporary);
        }
        written?;
        self.shrink()
    }

    fn write(&self, name: &str, code: &[u8]) -> io::Result<()> {
        let mut file = self.dir.open_with(name, OpenOptions::new().write(true).create(true).truncate(true).mode(0o600))?;
        file.write_all(code)?;
        file.write_all(&Sha256::digest(code))?;
        file.sync_all()
    }

    /// Removes what was unused for longest until the rest fits.
    fn shrink(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in self.dir.entries()? {
            let entry = entry?;
            // A file that another process has just removed is no concern.
            if let Ok(about) = entry.metadata()
                && about.is_file()
            {
                files.push((modified(&about), about.len(), entry.file_name()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, name) in &files[..files.len().saturating_sub(1)] {
            if total <= self.bytes_max {
                break;
            }
            if self.dir.remove_file(name).is_ok() {
                total -= bytes;
            }
        }
        Ok(())
    }
}

fn modified(about: &Metadata) -> (i64, i64) {
    (about.mtime(), about.mtime_nsec())
}

fn missed(key: &Key, why: &dyn std::fmt::Display) -> Option<Component> {
    tracing::warn!(file = %key.0, "compiled code is not used and made anew: {why}");
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_version_in_the_key_is_the_one_in_the_lock_file() {
        let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).expect("Cargo.lock");
        assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"")), "set WASMTIME_VERSION");
    }

    /// DC-06c: the folder is made private, and refused when it is not.
    #[test]
    fn only_a_private_folder_is_used() {
        let home = tempfile::tempdir().expect("temporary folder");
        let path = home.path().join("deep/compiled");
        Cache::open(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
            let error = Cache::open(&path).map(|_| ()).expect_err("refused");
            assert!(matches!(error, CacheError::Open { .. }), "{error}");
            assert!(error.to_string().contains("0700"), "{error}");
        }
        fs::remove_dir(&path).expect("removed");
        fs::write(&path, b"a file").expect("written");
        assert!(matches!(Cache::open(&path), Err(CacheError::Closed { .. })));
    }

    /// The folder cannot grow without bound: the file unused for longest goes first, the newest stays.
    #[test]
    fn the_folder_stays_within_its_bound() {
        let home = tempfile::tempdir().expect("temporary folder");
        let mut cache = Cache::open(&home.path().join("compiled")).expect("made");
        cache.bytes_max = 250;
        for (name, age) in [("a", 30), ("b", 10), ("c", 20)] {
            cache.save(&Key(name.into()), &[7; 50]).expect("saved");
            let file = cache.dir.open(name).expect("there").into_std();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).expect("aged");
        }
        cache.save(&Key("d".into()), &[7; 50]).expect("saved");
        let mut left: Vec<_> = cache.dir.entries().expect("list").map(|entry| entry.expect("entry").file_name()).collect();
        left.sort();
        assert_eq!(left, ["b", "c", "d"].map(std::ffi::OsString::from));
    }
}

//! Opening the journal's file: folder, lock, modes, settings of the connection, schema version.
//!
//! Owns what must hold before the first call, and the sentences that tell why it does not. It must not know calls.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use job::lifecycle::{Illegal, State, Step};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::desk::Books;
use crate::fault::Fault;
use crate::rows::state_code;
use crate::schema::{APPLICATION_ID, TABLES, VERSION};

/// Mode of the folder when it is made here.
const FOLDER_MODE: u32 = 0o700;
/// Mode of every file of the journal.
const FILE_MODE: u32 = 0o600;
/// Statements kept ready; the calls together have fewer.
const STATEMENTS_MAX: usize = 64;
/// Memory for pages of the database, in KiB.
const CACHE_KIB: i64 = 32 * 1024;
/// The log is worked into the database when it holds this many pages (4 KiB each).
const CHECKPOINT_PAGES: i64 = 1000;
/// A log that grew beyond this, in bytes, is cut back afterwards.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// A file up to this size is checked whole at each start, in bytes; a larger one would delay the start.
const CHECKED_BYTES_MAX: i64 = 32 * 1024 * 1024;

/// Most pages SQLite can count.
const PAGES_MAX: i64 = 0xffff_fffe;

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// A loss of power: each commit is on the disk before it is answered.
    #[default]
    Full,
    /// A crash of the process: each commit is with the operating system before it is answered. A loss of power may damage
    /// the file; a clean close makes it safe.
    Os,
}

/// Settings of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// What a commit survives (`journal.sync`).
    pub sync: Sync,
    /// Most bytes the database file may take; beyond it calls answer [`job::store::StoreError::Full`] as on a full disk. None:
    /// the disk is the limit.
    pub file_bytes_max: Option<u64>,
}

/// Why the journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, has it open.
    #[error("{path} is in use by another amp-node; stop that one first, or give this one a data_dir of its own")]
    Held {
        /// The journal.
        path: PathBuf,
    },
    /// A newer program wrote it.
    #[error(
        "{path} was written by a newer amp-node (schema {found}, this one knows up to {known}); run that version, or start \
             with a fresh data_dir"
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// It is no journal, or a damaged one.
    #[error("{path} is not a sound journal: {what}; restore it from a copy, or move it away to start with an empty one")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file system said no.
    #[error("{what} {path}: {source}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What could not be done.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The database said no.
    #[error("could not open {path}: {source}")]
    Sql {
        /// The journal.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
}

/// An open journal.
pub(crate) struct Opened {
    pub(crate) db: Connection,
    pub(crate) books: Books,
    pub(crate) lock: File,
}

/// Opens the journal at this path.
pub(crate) fn open(path: &Path, settings: Settings) -> Result<Opened, OpenError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        made.map_err(|source| OpenError::File { path: folder.into(), what: "could not make the folder", source })?;
    }
    let lock = lock(path)?;
    // Made before SQLite sees it, so that it never exists with a wider mode; the log takes the mode of its database.
    private_file(path)?;
    let (db, books) = connect(path, settings).map_err(|fault| explain(path, fault))?;
    Ok(Opened { db, books, lock })
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = private_file(Path::new(&name))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Held { path: path.into() }),
        Err(TryLockError::Error(source)) => Err(OpenError::File { path: name.into(), what: "could not lock", source }),
    }
}

fn private_file(path: &Path) -> Result<File, OpenError> {
    let failed = |what| move |source| OpenError::File { path: path.into(), what, source };
    let opened = OpenOptions::new().read(true).append(true).create(true).mode(FILE_MODE).open(path);
    let file = opened.map_err(failed("could not open"))?;
    let mode = file.metadata().map_err(failed("could not look at"))?.permissions().mode();
    if mode & 0o077 != 0 {
        file.set_permissions(PermissionsExt::from_mode(FILE_MODE)).map_err(failed("could not make private"))?;
    }
    Ok(file)
}

/// What stands between a file and an open journal.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Step(#[from] Illegal),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("schema {0}")]
    Newer(i64),
    #[error("{0}")]
    Damaged(String),
}

fn explain(path: &Path, refusal: Refusal) -> OpenError {
    let path = path.to_owned();
    match refusal {
        Refusal::Newer(found) => OpenError::Newer { path, found, known: VERSION },
        Refusal::Sql(source) | Refusal::Fault(Fault::Sql(source)) => match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Damaged { path, what: source.to_string() },
            _ => OpenError::Sql { path, source },
        },
        Refusal::Damaged(_) | Refusal::Step(_) | Refusal::Fault(Fault::Illegal(_) | Fault::Row(_)) => {
            OpenError::Damaged { path, what: refusal.to_string() }
        }
    }
}

fn connect(path: &Path, settings: Settings) -> Result<(Connection, Books), Refusal> {
    let mut db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // The lock file has settled that nobody else is here; then SQLite needs neither file locks nor shared memory.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let version = check_version(&db)?;
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Refusal::Damaged(format!("it stays in journal mode {mode}")));
    }
    db.pragma_update(
        None,
        "synchronous",
        match settings.sync {
            Sync::Full => "FULL",
            // Ordering the log before the database costs a sync at each checkpoint, and only a loss of power needs it.
            Sync::Os => "OFF",
        },
    )?;
    limit_file(&db, settings.file_bytes_max)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    db.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    if version == 0 {
        let tx = db.transaction()?;
        tx.execute_batch(TABLES)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", VERSION)?;
        tx.commit()?;
    }
    check_content(&db)?;
    recover(&db)?;
    let books = Books::read(&db)?;
    Ok((db, books))
}

/// SQLite counts in pages, and refuses a limit below what the file has already, which is as full as it gets.
fn limit_file(db: &Connection, bytes_max: Option<u64>) -> Result<(), Refusal> {
    let Some(bytes_max) = bytes_max else { return Ok(()) };
    let page_bytes: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages_max = (i64::try_from(bytes_max).unwrap_or(i64::MAX) / page_bytes).clamp(1, PAGES_MAX);
    db.pragma_update_and_check(None, "max_page_count", pages_max, |_| Ok(()))?;
    Ok(())
}

/// The schema version; 0 is an empty file.
fn check_version(db: &Connection) -> Result<i64, Refusal> {
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let owner: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (owner, version) {
        (0, 0) if tables == 0 => Ok(0),
        (APPLICATION_ID, found) if found > VERSION => Err(Refusal::Newer(found)),
        (APPLICATION_ID, found) if found >= 1 => Ok(found),
        _ => Err(Refusal::Damaged("it is the database of another program".into())),
    }
}

fn check_content(db: &Connection) -> Result<(), Refusal> {
    let pages: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page_bytes: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
    if pages * page_bytes > CHECKED_BYTES_MAX {
        return Ok(());
    }
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Refusal::Damaged(verdict)) }
}

/// Whatever ran when the last process ended goes back to be run again, by the same table as live work.
fn recover(db: &Connection) -> Result<(), Refusal> {
    let waiting = State::Started.next(Step::Requeue)?;
    let codes = [state_code(waiting)?, state_code(State::Started)?];
    db.execute("UPDATE jobs SET state = ?1 WHERE ended IS NULL AND state = ?2", codes)?;
    Ok(())
}

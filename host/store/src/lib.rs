//! The cellar of the house: the journal and its outbox, on SQLite.
//!
//! Owns the database file, its schema, the one writer thread and the grouping of calls into commits. It must not know the
//! engine, a door or a guest: it implements the ports of `job::store` and decides only by the rules of `job`.
//!
//! Read in this order: `journal` (the ports), `queue` (how calls wait), `writer` (how they are committed and answered),
//! `desk` and its parts `admission`, `ending`, `recall` (what each call does to the tables), `rows` and `schema` (the tables).

mod admission;
mod desk;
mod ending;
mod fault;
mod journal;
mod open;
mod queue;
mod recall;
mod rows;
mod schema;
mod writer;

pub use journal::SqliteJournal;
pub use open::{OpenError, Settings, Sync};
pub use queue::CALLS_WAITING_MAX;

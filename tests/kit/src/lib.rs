//! The kit: what tests of every room share, so that no test needs a disk, a broker, a sandbox or a sleep.
//!
//! Owns the fake clock, the memory journal with its crashes, the recording courier, the scripted executor, and the
//! conformance suite every journal must pass. It must not know SQL, sockets or WebAssembly, and no product room depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test helper fails its test by panicking")]

mod clock;
mod courier;
mod executor;
mod journal;
pub mod samples;
mod suite;
mod variables;

pub use clock::FakeClock;
pub use courier::{RecordingCourier, Told};
pub use executor::{Act, RecordedWork, ScriptedExecutor, ScriptedGuest};
pub use journal::{CrashMode, MemoryJournal, STEPS_PER_CALL};
pub use suite::{Subject, journal_suite, outbox_suite};
pub use variables::FixedVariables;

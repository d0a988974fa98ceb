//! The kiln of the house: the executor port on wasmtime. One fresh instance a job, with limits that hold whatever the guest does.
//!
//! Owns the engine and its pool, the cache of compiled code, the host side of `wit/`, and the classification of how a run
//! ended. It must not know a catalog, a door, a journal, or what any service does.
//!
//! Read in this order: [`Sandbox`] (`sandbox.rs`) prepares guests (`prepare.rs`, `convert.rs`, `cache.rs`, `compiled.rs`); a
//! ready guest runs jobs (`run.rs`), giving way to others (`turns.rs`), in a store whose state (`state.rs`) holds the limiter (`limiter.rs`), what the guest may
//! say (`speech.rs`, `words.rs`) and what it may ask (`outward.rs`); `end.rs` tells how it ended.

mod bindings;
mod cache;
mod compiled;
mod convert;
mod end;
mod limiter;
mod outward;
mod places;
mod pool;
mod prepare;
mod run;
mod runtime;
mod sandbox;
mod speech;
mod state;
#[cfg(test)]
mod tests;
mod turns;
mod words;

pub use crate::cache::CacheError;
pub use crate::convert::{NotWasm, to_component};
pub use crate::places::PlacesError;
pub use crate::runtime::guest_runtime;
pub use crate::sandbox::{Sandbox, SandboxError};

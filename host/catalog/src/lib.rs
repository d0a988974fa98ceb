//! The library of the house: capabilities as data. Text in, values out.
//!
//! Owns the catalog entry, its limits and grants, request schemas, `${NAME}` variables, and the two-pass rendering of prompts.
//! It must not know a file system, an environment, a clock, a runtime, or any protocol; who reads the files is `supply`.
//!
//! Read in this order: [`entry`], [`read`], [`template`], [`schema`], [`snapshot`],
//! [`merge`].

pub mod entry;
pub mod fault;
pub mod limits;
pub mod merge;
pub mod nearest;
pub mod read;
pub mod schema;
pub mod snapshot;
pub mod template;

pub use entry::{Entry, ExecutorRef, Grants};
pub use fault::{Fault, Place};
pub use limits::{LimitSet, Rules};
pub use merge::{Merged, merge};
pub use read::{Known, Reading, read_file, reread_file};
pub use snapshot::{Capability, Offer, Snapshot};
pub use template::{RenderError, Rendered, Template, Values};

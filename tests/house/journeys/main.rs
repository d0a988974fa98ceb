//! The house test: the real node over a real broker, driven by clients that are not ours.
//!
//! Owns one module a journey. Each test's doc line names the checks it proves. It must not know any crate of the node.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking with what it saw")]

mod backlog;
mod bad_input;
mod cancel;
mod capture;
mod catalogs;
mod chaos;
mod check;
mod cli;
mod crash;
mod duplicates;
mod endings;
mod flags;
mod harness;
mod hostile;
mod job;
mod link;
mod offline;
mod ops;
mod owners;
mod provenance;
mod refusals;
mod registry;
mod reload;
mod stop;
mod tidy;
mod variables;

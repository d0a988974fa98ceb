//! Helpers of the house tests: a real broker, the real node, clients that are not ours, and a network that can be cut.
//!
//! Owns processes, ports, temporary folders and waiting. It must not know any crate of the node: what it starts is the
//! binary, and what it reads is what any outsider can read.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these helpers belong to tests, and a test fails by panicking with what it saw"
)]

pub mod audit;
pub mod broker;
pub mod catalog;
pub mod client;
pub mod config;
pub mod http;
pub mod lab;
pub mod node;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod stub;

use std::time::Duration;

/// How long a test waits for something that must happen. Generous, since two cores run everything at once.
pub const WAIT: Duration = Duration::from_secs(45);

/// Pause between two looks at something that sends no event, such as a log file.
pub const LOOK: Duration = Duration::from_millis(10);

/// Looks until `look` sees something, and fails the test naming `what` when it never does.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = std::time::Instant::now() + WAIT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(std::time::Instant::now() < end, "waited {WAIT:?} in vain for {what}");
        std::thread::sleep(LOOK);
    }
}

//! A clock that stands still until a test turns it.
//!
//! Owns nothing but the time it shows. It must not know the real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use job::clock::{Clock, Timestamp};

/// A wall clock under a test's control; clones show the same time.
#[derive(Debug, Clone)]
pub struct FakeClock(Arc<AtomicI64>);

impl FakeClock {
    /// A clock that shows this many milliseconds since 1970.
    pub fn at(ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(ms)))
    }

    /// Shows this time from now on, earlier or later than before.
    pub fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    /// Moves by this many milliseconds, backwards if negative.
    pub fn jump(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    /// A clock at 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(1_767_225_600_000)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

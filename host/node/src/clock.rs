//! The wall clock of this machine, behind the clock port.
//!
//! Owns the one place where the program reads the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use job::clock::{Clock, Timestamp};

/// The system's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 shows 1970; stamps of a job rise all the same.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

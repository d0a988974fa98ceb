//! The clock port: rooms that need the time of day ask for it here, so that tests can turn it.
//!
//! Owns the timestamp and the rule that a job's stamps only rise (G1-38). It must not read a clock itself.

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This time and `ms` milliseconds more.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// The time of day. Durations are never measured with it, since it may jump.
pub trait Clock: Send + Sync + 'static {
    /// Now, by the wall clock.
    fn now(&self) -> Timestamp;
}

/// Stamps the messages of one job: each stamp is at least 1 ms later than the one before, whatever the clock does (G1-38).
#[derive(Debug)]
pub struct Stamps {
    last: Timestamp,
}

impl Stamps {
    /// Starts after `floor`, the latest stamp that this job may already have shown (before a restart, say).
    pub fn after(floor: Timestamp) -> Self {
        Self { last: floor }
    }

    /// The next stamp, `now` where that is later than every stamp before.
    pub fn next(&mut self, now: Timestamp) -> Timestamp {
        self.last = now.max(self.last.plus_ms(1));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-33 rests on it: stamps rise even while the clock stands still or jumps back (G1-38).
    #[test]
    fn stamps_rise_through_clock_jumps() {
        let mut stamps = Stamps::after(Timestamp(0));
        let shown: Vec<i64> = [100, 100, 40, 200, 150].into_iter().map(|now| stamps.next(Timestamp(now)).0).collect();
        assert_eq!(shown, [100, 101, 102, 200, 201]);
    }
}

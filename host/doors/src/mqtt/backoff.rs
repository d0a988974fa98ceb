//! How long to wait before trying again: doubling, with a limit and some chance, so that many nodes do not come back at once.
//!
//! Owns that arithmetic. It must not know what is tried.

use std::time::Duration;

/// A wait that doubles from `first` to `most`.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts at `first`.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// The next wait: between the half of the plain one and the whole.
    pub(crate) fn wait(&mut self) -> Duration {
        let plain = self.next;
        self.next = (plain * 2).min(self.most);
        plain.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Starts over.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        for plain_ms in [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let wait_ms = backoff.wait().as_millis();
            assert!((plain_ms / 2..=plain_ms).contains(&wait_ms), "{wait_ms} of {plain_ms}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(200));
    }
}

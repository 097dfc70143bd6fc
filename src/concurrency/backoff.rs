//! Pauses between attempts. Each pause is twice as long as the previous pause, up to a limit.

use std::time::Duration;

/// Counts failures in a row and returns the pause before the next attempt.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts without failures.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Records a failure and returns the pause after it.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.after(self.failures)
    }

    /// The pause after `failures` failures in a row. 0 has the same pause as 1.
    pub fn after(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }

    /// Resets the number of failures, so that the pause after the next failure is the shortest.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

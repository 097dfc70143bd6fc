//! Pauses between attempts, each twice as long as the one before, up to a limit.

use std::time::Duration;

/// The pauses after failures.
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

    /// The pause after this number of failures in a row, which is at least one.
    pub fn after(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }

    /// Starts with the first pause again.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

//! How long a story waits for an expected event. On an emulated processor a story takes ten times as long or more, so
//! [`patient`] and [`Looks`] multiply times by `DOCKBRIDGE_WORLD_PATIENCE`.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::stated::stated;

/// The time `usual`, multiplied for slow machines.
pub(crate) fn patient(usual: Duration) -> Duration {
    usual * *FACTOR
}

/// Whether the machine is so slow that a story should do less.
pub(crate) fn is_slow() -> bool {
    *FACTOR > 1
}

/// Repeats a check until it succeeds or the time is over: `while looks.again().await { … }`.
#[derive(Debug)]
pub(crate) struct Looks {
    deadline: Instant,
    pause: Duration,
    first: bool,
    late: bool,
}

impl Looks {
    /// For an event that must happen. The time limit only ends a test that would wait forever.
    pub(crate) fn every(pause: Duration) -> Self {
        Self::within(LIMIT, pause)
    }

    /// Repeats the check during the time `usual`, multiplied for slow machines, with a pause between two checks.
    pub(crate) fn within(usual: Duration, pause: Duration) -> Self {
        Self { deadline: Instant::now() + patient(usual), pause, first: true, late: false }
    }

    /// Whether to check once more. The last check begins after the deadline.
    pub(crate) async fn again(&mut self) -> bool {
        if self.late {
            return false;
        }
        if !std::mem::take(&mut self.first) {
            sleep(self.pause).await;
        }
        self.late = Instant::now() > self.deadline;
        true
    }
}

const LIMIT: Duration = Duration::from_secs(120);
static FACTOR: LazyLock<u32> = LazyLock::new(|| stated("DOCKBRIDGE_WORLD_PATIENCE").unwrap_or(1));

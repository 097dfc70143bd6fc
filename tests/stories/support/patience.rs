//! How long a story waits for what will come. On an emulated processor everything takes ten times
//! as long or more, so every wait is multiplied by `DOCKBRIDGE_WORLD_PATIENCE`.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::stated::stated;

/// `usual`, lengthened for slow machines.
pub(crate) fn patient(usual: Duration) -> Duration {
    usual * *FACTOR
}

/// Whether the machine is slow enough for a story to do less.
pub(crate) fn is_slow() -> bool {
    *FACTOR > 1
}

/// Looks at something until it is as wanted: `while looks.again().await { … }`.
#[derive(Debug)]
pub(crate) struct Looks {
    deadline: Instant,
    pause: Duration,
    first: bool,
    late: bool,
}

impl Looks {
    /// For as long as `usual`, lengthened, with a pause between two looks.
    pub(crate) fn within(usual: Duration, pause: Duration) -> Self {
        Self { deadline: Instant::now() + patient(usual), pause, first: true, late: false }
    }

    /// Whether to look once more; the last look begins after the deadline.
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

static FACTOR: LazyLock<u32> = LazyLock::new(|| stated("DOCKBRIDGE_WORLD_PATIENCE").unwrap_or(1));
